"""How busy a process of the server is, and how strict it therefore is with clients that ask often.

When the event loop is late, everybody waits for everybody. Then the rate that one client may ask at shrinks, to a tenth
at most: people who read notice nothing, since they ask every few seconds; who asks fifty times a second does.
"""

from __future__ import annotations

LATE = 0.1  # seconds of lag that a client notices
STRICTER, MILDER = 1.5, 0.95  # factors, ten times a second: strict within a second, mild again within five
STRICTEST = 10.0


class ServerLoad:
    """The load of this process. `strictness` is 1 while the server is not busy."""

    def __init__(self) -> None:
        self.strictness = 1.0

    def observe(self, lag: float) -> None:
        """Take note of how late the event loop was, in seconds."""
        changed = self.strictness * (STRICTER if lag > LATE else MILDER)
        self.strictness = min(STRICTEST, max(1.0, changed))
