"""What is asked again, how often, and when."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from webmill.crawl.fetch import FAILURES
from webmill.crawl.politeness.retries import DAY, GiveUp, Retry, RetryPolicy, decide_answer, decide_failure, retry_after

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


def attempts_in_all(reason: str) -> int:
    attempts = 1
    while isinstance(decide_failure(reason, attempts, random=0.5), Retry):
        attempts += 1
    return attempts


@pytest.mark.parametrize(
    ("reason", "attempts"),
    [
        *((reason, 4) for reason in ("dns_timeout", "dns_failed", "connect_timeout", "connect_failed", "tls_timeout")),
        *((reason, 4) for reason in ("timeout", "reset", "no_response", "truncated_head")),
        *((reason, 2) for reason in ("dns_notfound", "connect_refused", "http2_error")),
        *(
            (reason, 1)
            for reason in ("tls_expired", "tls_host", "blocked_address", "bad_url", "bad_length", "scheme", "?")
        ),
        *((reason, 16) for reason in ("too_many_files", "proxy_failed", "source_address")),
    ],
)
def test_how_often_a_failure_is_asked_again(reason: str, attempts: int) -> None:
    assert attempts_in_all(reason) == attempts
    assert decide_failure(reason, attempts, random=0.5) == GiveUp(reason)


def test_every_failure_that_is_asked_again_is_one_of_the_fetchers() -> None:
    again = {reason for reason in FAILURES if attempts_in_all(reason) > 1}
    assert len(again) == 16
    assert {reason.partition("_")[0] for reason in again} == {
        *("dns", "connect", "tls", "timeout", "reset", "no", "truncated", "too", "proxy", "source", "http2"),
    }


def test_waits_grow_fourfold_with_jitter_up_to_a_limit() -> None:
    policy = RetryPolicy(attempts=100)
    for random in (0.0, 0.5, 1.0):
        waits = [decide_failure("reset", attempts, random=random, policy=policy) for attempts in range(1, 99)]
        delays = [wait.delay for wait in waits if isinstance(wait, Retry)]
        assert delays[:3] == [60 * (0.5 + random / 2), 240 * (0.5 + random / 2), 960 * (0.5 + random / 2)]
        assert delays == sorted(delays)
        assert delays[-1] == 6 * 3600 * (0.5 + random / 2)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 520, 527, 529])
def test_statuses_that_may_pass_are_asked_again(status: int) -> None:
    assert decide_answer(status, 1, random=0.0) == Retry(30.0)
    assert decide_answer(status, 3, random=0.0) == Retry(480.0)
    assert decide_answer(status, 4, random=0.0) == GiveUp(f"status_{status}")


@pytest.mark.parametrize("status", [200, 206, 301, 304, 400, 401, 403, 404, 410, 451, 501, 505, 511, 599, 0, 999])
def test_other_statuses_stand(status: int) -> None:
    assert decide_answer(status, 1, random=0.5) is None


@pytest.mark.parametrize(
    ("asked_for", "delay"), [(None, 30.0), (0.0, 30.0), (-5.0, 30.0), (100.0, 100.0), (1e9, DAY), (math.nan, 30.0)]
)
def test_what_the_server_asks_for_is_a_floor(asked_for: float | None, delay: float) -> None:
    assert decide_answer(503, 1, random=0.0, retry_after=asked_for) == Retry(delay)


@pytest.mark.parametrize("truncated", ["disconnect", "time"])
def test_a_torn_answer_is_asked_for_once_more_and_then_kept(truncated: str) -> None:
    assert isinstance(decide_answer(200, 1, random=0.0, truncated=truncated), Retry)
    assert decide_answer(200, 2, random=0.0, truncated=truncated) == GiveUp(f"truncated_{truncated}")


def test_an_answer_cut_at_the_size_limit_stands() -> None:
    assert decide_answer(200, 1, random=0.0, truncated="length") is None


def test_one_attempt_means_one() -> None:
    policy = RetryPolicy(attempts=1)
    assert decide_failure("dns_notfound", 1, random=0.0, policy=policy) == GiveUp("dns_notfound")
    assert decide_answer(503, 1, random=0.0, policy=policy) == GiveUp("status_503")
    assert decide_answer(200, 1, random=0.0, truncated="time", policy=policy) == GiveUp("truncated_time")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 120 ", 120.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("-10", 0.0),
        ("315360000", DAY),
        ("9" * 399, DAY),
        ("9" * 10_000, DAY),
        ("Tue, 14 Nov 2023 22:15:20 GMT", 120.0),
        ("Tue, 14 Nov 2023 22:15:20 -0000", 120.0),
        ("Tuesday, 14-Nov-23 22:15:20 GMT", 120.0),
        ("Tue Nov 14 22:15:20 2023", 120.0),
        ("Tue, 14 Nov 2023 00:00:00 GMT", 0.0),
        ("Tue, 14 Nov 2033 00:00:00 GMT", DAY),
        ("Tue, 14 Nov 99999 00:00:00 GMT", None),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
        *(
            (text, None)
            for text in ("", "soon", "nan", "inf", "1e9", "0x10", "10 s", "١٢", "Tue, 99 Nov 2023", ",", "\0")
        ),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_within_bounds(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(
    st.one_of(st.text(max_size=60), st.from_regex(r"[A-Z][a-z]{2}, \d{1,9} [A-Z][a-z]{2} \d{1,9} \d\d?:\d+:\d+ .{0,9}"))
)
@settings(deadline=None, max_examples=examples(500))
def test_no_retry_after_hurts(value: str) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or 0 <= seconds <= DAY
