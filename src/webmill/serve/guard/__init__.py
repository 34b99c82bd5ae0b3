"""What every request passes: host, origin, token, rate limit, and the log of it."""
