"""A busy server is stricter with those who ask often, and forgives when it is not busy any more."""

from __future__ import annotations

from webmill.serve.guard.rate_limit import RateLimiter, RateTable
from webmill.serve.processes.server_load import LATE, STRICTEST, ServerLoad


def admitted(limiter: RateLimiter, count: int, *, strictness: float) -> int:
    return sum(not limiter.seconds_to_wait("192.0.2.1", 100.0, strictness=strictness) for _ in range(count))


def test_a_late_event_loop_makes_it_strict_and_a_punctual_one_mild_again() -> None:
    load = ServerLoad()
    load.observe(LATE / 2)
    assert load.strictness == 1
    for _ in range(20):
        load.observe(2 * LATE)
    assert load.strictness == STRICTEST
    for _ in range(100):
        load.observe(0.0)
    assert load.strictness == 1


def test_a_strict_server_admits_fewer_requests_of_one_client_but_always_some() -> None:
    def limiter() -> RateLimiter:
        return RateLimiter(50.0, 200, buckets=RateTable(), name="own", secret=b"secret")

    assert admitted(limiter(), 500, strictness=1.0) == 200
    assert 10 <= admitted(limiter(), 500, strictness=STRICTEST) <= 20
