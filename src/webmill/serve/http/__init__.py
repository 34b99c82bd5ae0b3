"""HTTP itself: connections with limits, error responses, codings, conditional and range requests."""
