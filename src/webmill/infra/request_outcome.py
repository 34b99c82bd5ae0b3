"""How requests to a server end, as far as it concerns the rate of the next ones.

Errors of the tree cannot tell "you ask too fast" from "I am down", nor "you are blocked" from "your address is wrong";
whoever paces requests must. These two are raised in their parents' places and caught as them by everybody else.
"""

from __future__ import annotations

from typing import Literal

from webmill.errors import Misconfigured, Unavailable, WebmillError

# "lost": nobody knows, it was given up on our side.
RequestOutcome = Literal["ok", "slow_down", "refused", "failed", "lost"]


class SlowDown(Unavailable):
    """The server asks for fewer requests: status 429, or 503, which is how S3 and Common Crawl push back."""


class AccessRefused(Misconfigured):
    """The server refuses us: status 403. Asking on makes it worse."""


def outcome_of(error: BaseException) -> RequestOutcome:
    """Return what an error of a read says about its server. "Not there" and "another by now" are good answers."""
    match error:
        case SlowDown():
            return "slow_down"
        case AccessRefused():
            return "refused"
        case Unavailable():
            return "failed"
        case WebmillError():
            return "ok"
    return "lost"
