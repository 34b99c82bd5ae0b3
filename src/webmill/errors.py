"""The errors that webmill raises on purpose, named by what the caller can do about them.

    WebmillError
    ├── BadInput        the bytes are invalid: skip or quarantine them, with location and reason
    ├── NotFound        it does not exist: continue without it
    ├── Conflict        someone else was first, or the lease has expired: re-read, then decide
    ├── Unavailable     it may work later: retry with backoff (`retry_after` if the server said so)
    └── Misconfigured   only the operator can help: the message says how to fix it
        └── WrongUse    the arguments do not go together: call it differently

Any other exception that escapes is a bug.
"""

from __future__ import annotations


class WebmillError(Exception):
    """The base class of all errors of webmill; catch it only at the outermost edge."""


class BadInput(WebmillError):
    """Input from outside is invalid.

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
    """Return the error again after pickling, which does not keep keyword-only arguments by itself."""
    return BadInput(message, reason=reason, source=source, offset=offset)


class NotFound(WebmillError):
    """The thing asked for does not exist."""


class Conflict(WebmillError):
    """The state is not what the caller believed: a lost race, a stale etag, an expired lease."""


class Unavailable(WebmillError):
    """A failure that may pass. `retry_after` is in seconds, if the server stated it."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_unavailable, (str(self), self.retry_after)


def _rebuild_unavailable(message: str, retry_after: float | None) -> Unavailable:
    return Unavailable(message, retry_after=retry_after)


class Misconfigured(WebmillError):
    """A wrong setting, a missing extra or an unsuitable machine. The message says how to fix it."""


class WrongUse(Misconfigured):
    """The arguments do not go together, or one is missing. Nothing was started."""
