"""What a server says about being asked at all, apart from what it says to one request.

Errors of the tree cannot tell "you ask too fast" from "I am down", nor "you are blocked" from "your address is wrong";
whoever paces requests must. These two are raised in their parents' places and caught as them by everybody else.
"""

from __future__ import annotations

from typing import Literal

from webmill.errors import Misconfigured, Unavailable, WebmillError

# How a request ended, for the pace of the next ones. "lost": nobody knows, it was given up on our side.
Answer = Literal["ok", "slow_down", "refused", "failed", "lost"]


class SlowDown(Unavailable):
    """Fewer requests, please: status 429, or 503, which is how S3 and Common Crawl push back."""


class Refused(Misconfigured):
    """Not you: status 403. Asking on makes it worse."""


def answer_of(error: BaseException) -> Answer:
    """What an error of a read says about its server. "Not there" and "another by now" are good answers."""
    match error:
        case SlowDown():
            return "slow_down"
        case Refused():
            return "refused"
        case Unavailable():
            return "failed"
        case WebmillError():
            return "ok"
    return "lost"
