"""What to do about a page that did not come: ask again later, or leave it.

    decide_failure("connect_timeout", attempts=1, random=0.5)      # Retry(45.0)
    decide_answer(503, attempts=4, random=0.5)                     # GiveUp("status_503")

| what happened | asked in all |
|---|---|
| no answer of DNS, no connection, no TLS handshake, silence, a reset, a torn head | 4 times |
| the name does not exist (`dns_notfound`), the connection was refused | 2 times |
| what should have been HTTP/2 (`http2_error`, `too_many_frames`): then by HTTP/1.1 | 2 times |
| this machine had no file descriptor left, its proxy or source address failed | 16 times: it is not the page's fault |
| 408, 425, 429, 500, 502, 503, 504, 520 to 527, 529 | 4 times |
| an answer cut by a disconnect or by slowness | 2 times; then what came is kept |
| all else: certificates, bad framing, blocked addresses, other statuses, a cut at the size limit | once |

Waits grow fourfold, with jitter: 30 to 60 s, 2 to 4 min, 8 to 16 min, at most 6 h; never less than `Retry-After`.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TypeAlias

import msgspec

DAY = 86400.0

_OFTEN_NAMES = (
    "dns_failed dns_timeout connect_timeout connect_failed tls_timeout timeout reset no_response truncated_head"
)
_SELDOM_NAMES = "dns_notfound connect_refused http2_error too_many_frames"
_OFTEN, _SELDOM = frozenset(_OFTEN_NAMES.split()), frozenset(_SELDOM_NAMES.split())
_OWN_FAULT = frozenset({"too_many_files", "source_address", "proxy_failed"})
_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 529, *range(520, 528)})
TORN = frozenset({"disconnect", "time"})  # WARC's words for why an answer is not whole
_SECONDS = re.compile(r"-?[0-9]+(?:\.[0-9]*)?")
_LONGEST_VALUE = 400


class Retry(msgspec.Struct, frozen=True):
    delay: float  # seconds from now


class GiveUp(msgspec.Struct, frozen=True):
    reason: str


RetryDecision: TypeAlias = Retry | GiveUp


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often a URL is tried, the first attempt included, and how long to wait between, in seconds."""

    attempts: int = 4
    seldom: int = 2
    own_fault: int = 16
    first_wait: float = 60.0
    longest_wait: float = 6 * 3600.0
    longest_retry_after: float = DAY

    def wait(self, attempts: int, *, random: float) -> float:
        """Return half of the ceiling to all of it: many URLs that failed together do not come back together."""
        ceiling = min(self.longest_wait, self.first_wait * 4.0 ** min(max(attempts, 1) - 1, 30))
        return ceiling * (0.5 + 0.5 * random)


DEFAULT_POLICY = RetryPolicy()


def decide_failure(reason: str, attempts: int, *, random: float, policy: RetryPolicy = DEFAULT_POLICY) -> RetryDecision:
    """Decide about a request without a response. `attempts` counts this one; `random` is from 0 to 1."""
    if attempts < _attempts_for(reason, policy):
        return Retry(policy.wait(attempts, random=random))
    return GiveUp(reason)


def decide_answer(
    status: int,
    attempts: int,
    *,
    random: float,
    truncated: str | None = None,
    retry_after: float | None = None,
    policy: RetryPolicy = DEFAULT_POLICY,
) -> RetryDecision | None:
    """Decide about a response: None when it stands as it is. GiveUp: it is kept, but it is not what was hoped for."""
    if status in _STATUSES:
        if attempts >= policy.attempts:
            return GiveUp(f"status_{status}")
        asked_for = min(max(0.0, retry_after or 0.0), policy.longest_retry_after)  # in this order NaN is 0
        return Retry(max(asked_for, policy.wait(attempts, random=random)))
    if truncated in TORN:
        if attempts < min(policy.seldom, policy.attempts):
            return Retry(policy.wait(attempts, random=random))
        return GiveUp(f"truncated_{truncated}")
    return None


def retry_after(value: str | None, now: float, *, longest: float = DAY) -> float | None:
    """Seconds to wait by a `Retry-After` field, from 0 to `longest`; None when it says nothing that can be read.

    It holds seconds or a date (RFC 9110, 10.2.3). Servers also send the past, fractions and ten years.
    """
    text = (value or "").strip()[:_LONGEST_VALUE]
    if _SECONDS.fullmatch(text):
        return min(max(float(text), 0.0), longest)
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:  # `-0000`: in UTC, but not said where
            date = date.replace(tzinfo=UTC)
        return min(max(date.timestamp() - now, 0.0), longest)
    except (ValueError, TypeError, IndexError, OverflowError):  # what the parser raises for nonsense of all kinds
        return None


def _attempts_for(reason: str, policy: RetryPolicy) -> int:
    if reason in _OWN_FAULT:
        return policy.own_fault
    if reason in _OFTEN:
        return policy.attempts
    return min(policy.seldom, policy.attempts) if reason in _SELDOM else 1
