"""Every error webmill raises on purpose, named by what the caller can do about it.

    WebmillError
    ├── BadInput        the bytes are wrong: skip or quarantine them, with where and why
    ├── NotFound        it is not there: go on without it
    ├── Conflict        somebody else was first, or your lease is over: re-read, then decide
    ├── Unavailable     it may work later: retry with backoff (`retry_after` when the server said)
    └── Misconfigured   nothing will help but the operator: the message says how to repair it
        └── WrongUse    what was asked for does not go together: ask for something else

Anything else that escapes is a bug of ours.
"""

from __future__ import annotations


class WebmillError(Exception):
    """The root; catch it only at the outermost edge."""


class BadInput(WebmillError):
    """Bytes from outside do not mean what they should.

    `reason` is a short code from a fixed set (it becomes a metric label); the message is for people.
    """

    def __init__(self, message: str, *, reason: str, source: str | None = None, offset: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.source = source
        self.offset = offset

    def __str__(self) -> str:
        where = self.source or ""
        if self.offset is not None:
            where += f" at byte {self.offset}" if where else f"byte {self.offset}"
        return f"{where}: {self.message} [{self.reason}]" if where else f"{self.message} [{self.reason}]"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_bad_input, (self.message, self.reason, self.source, self.offset)


def _rebuild_bad_input(message: str, reason: str, source: str | None, offset: int | None) -> BadInput:
    """Keyword-only arguments do not survive pickling between processes by themselves."""
    return BadInput(message, reason=reason, source=source, offset=offset)


class NotFound(WebmillError):
    """The thing asked for does not exist."""


class Conflict(WebmillError):
    """The state is not what the caller believed: a lost race, a stale etag, a lease that is over."""


class Unavailable(WebmillError):
    """A failure that may pass. `retry_after` is in seconds, when the other side told us."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_unavailable, (str(self), self.retry_after)


def _rebuild_unavailable(message: str, retry_after: float | None) -> Unavailable:
    return Unavailable(message, retry_after=retry_after)


class Misconfigured(WebmillError):
    """A setting, a missing extra or a machine that cannot keep a promise. The message names the repair."""


class WrongUse(Misconfigured):
    """The arguments do not go together, or one is missing. Nothing was begun."""
