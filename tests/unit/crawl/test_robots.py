"""What a crawler does about robots.txt: statuses, ages, retries, delays, and what pages say of themselves."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from webmill.crawl.fetch.types import FetchedResponse, FetchFailure
from webmill.crawl.frontier.base import RobotsEntry
from webmill.crawl.politeness.robots import (
    DAY,
    Directives,
    ParsedFiles,
    RobotsPolicy,
    RobotsVerdict,
    decide,
    expires_after,
    left_alone_until,
    make_entry,
    robots_directives,
)
from webmill.formats.http.head import parse_response_head
from webmill.formats.site.robots import MAX_BODY
from webmill.model import Exchange, Headers

ORIGIN = "https://example.com"
FORBID = b"User-agent: *\nDisallow: /closed\nCrawl-delay: 5\nSitemap: /s.xml\n"
NOW = 1_000_000.0


def fetched(
    status: int, body: bytes = FORBID, *, fields: str = "", truncated: str | None = None, flaws: tuple[str, ...] = ()
) -> FetchedResponse:
    raw = f"HTTP/1.1 {status} x\r\n{fields}\r\n".encode()
    head = parse_response_head(raw)
    exchange = Exchange(
        url=f"{ORIGIN}/robots.txt",
        date=datetime(2024, 1, 1, tzinfo=UTC),
        seconds=0.1,
        ip="192.0.2.1",
        request=b"",
        response=raw + body,
        truncated=truncated,
    )
    return FetchedResponse(exchange, head, body, flaws)


FAILED = FetchFailure(f"{ORIGIN}/robots.txt", "connect_timeout", "", sent=False)


def judged(answer: FetchedResponse | FetchFailure, *, policy: RobotsPolicy = RobotsPolicy()) -> RobotsVerdict:  # noqa: B008 - frozen
    return decide(make_entry(ORIGIN, answer, now=NOW, policy=policy), now=NOW, policy=policy)


# --- statuses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 203, 299])
def test_rules_of_a_success_are_obeyed(status: int) -> None:
    verdict = judged(fetched(status))
    assert (verdict.state, verdict.allows("/closed"), verdict.allows("/open")) == ("rules", False, True)
    assert (verdict.crawl_delay, verdict.sitemaps, verdict.too_slow, verdict.cut) == (5.0, ("/s.xml",), False, False)


@pytest.mark.parametrize("status", [301, 302, 308, 400, 401, 403, 404, 410, 451, 499])
def test_without_a_file_all_is_allowed_whatever_the_answer_holds(status: int) -> None:
    verdict = judged(fetched(status))
    assert (verdict.state, verdict.allows("/closed"), verdict.crawl_delay) == ("unavailable", True, None)


@pytest.mark.parametrize("status", [429, 500, 503, 599, 600, 999, 100])
def test_a_server_that_fails_is_left_alone(status: int) -> None:
    entry = RobotsEntry(origin=ORIGIN, fetched=NOW, expires=NOW + 60, status=status, body=b"User-agent: *\nAllow: /\n")
    verdict = decide(entry, now=NOW)
    assert (verdict.state, verdict.allows("/")) == ("unreachable", False)


def test_no_answer_is_unreachable() -> None:
    assert judged(FAILED).state == "unreachable"


@pytest.mark.parametrize(
    ("truncated", "flaws"),
    [("disconnect", ()), ("time", ()), ("length", ())]
    + [(None, (flaw,)) for flaw in ("decode_limit", "corrupt", "truncated", "bad_chunk")],
)
def test_half_a_file_is_no_file(truncated: str | None, flaws: tuple[str, ...]) -> None:
    assert judged(fetched(200, truncated=truncated, flaws=flaws)).state == "unreachable"
    whole = judged(fetched(200, FORBID.ljust(MAX_BODY + 1, b"\n"), truncated=truncated, flaws=flaws))
    assert (whole.state, whole.allows("/closed"), whole.cut) == ("rules", False, True)
    assert judged(fetched(404, truncated=truncated, flaws=flaws)).state == "unavailable"


def test_a_harmless_flaw_spoils_nothing() -> None:
    assert judged(fetched(200, flaws=("trailing_bytes", "tls_unverified"))).state == "rules"


def test_a_long_file_is_kept_no_longer_than_it_is_read() -> None:
    entry = make_entry(ORIGIN, fetched(200, FORBID.ljust(3 * MAX_BODY, b"\n")), now=NOW)
    assert len(entry.body) == MAX_BODY + 1
    assert decide(entry, now=NOW).cut


def test_what_no_rules_are_read_from_is_not_kept() -> None:
    assert make_entry(ORIGIN, fetched(404), now=NOW).body == b""


def test_a_verdict_of_nothing_allows_everything() -> None:
    assert RobotsVerdict().allows("/anything")


# --- failing for long -------------------------------------------------------------------------------------------------


def test_a_file_that_fails_is_asked_for_ever_more_seldom_and_given_up_after_30_days() -> None:
    entry, now, waits = make_entry(ORIGIN, fetched(503), now=NOW), NOW, []
    while decide(entry, now=now).state == "unreachable":
        assert entry.failing_since == NOW
        waits.append(entry.expires - now)
        now = entry.expires
        entry = make_entry(ORIGIN, FAILED if len(waits) % 2 else fetched(500), now=now, before=entry)
    assert waits[:5] == [60.0, 60.0, 120.0, 240.0, 480.0]
    assert max(waits) == 6 * 3600
    assert 30 * DAY <= now - NOW < 30.5 * DAY
    assert decide(entry, now=now) == RobotsVerdict()


def test_an_answer_ends_the_count_of_failures() -> None:
    failing = make_entry(ORIGIN, FAILED, now=NOW)
    good = make_entry(ORIGIN, fetched(200), now=NOW + 60, before=failing)
    assert (good.failing_since, good.expires) == (0.0, NOW + 60 + DAY)
    again = make_entry(ORIGIN, fetched(500), now=NOW + DAY, before=good)
    assert (again.failing_since, again.expires) == (NOW + DAY, NOW + DAY + 60)


def test_an_entry_that_does_not_say_since_when_it_fails_counts_from_its_time() -> None:
    entry = RobotsEntry(origin=ORIGIN, fetched=NOW, expires=NOW)
    assert decide(entry, now=NOW + 30 * DAY - 1).state == "unreachable"
    assert decide(entry, now=NOW + 30 * DAY).state == "unavailable"
    assert make_entry(ORIGIN, FAILED, now=NOW + 99, before=entry).failing_since == NOW


# --- ages -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("control", "seconds"),
    [
        ("", DAY),
        ("max-age=3600", 3600.0),
        ("public, Max-Age = 3600, must-revalidate", 3600.0),
        ('max-age="3600"', 3600.0),
        ("max-age=31536000", DAY),
        ("max-age=999999999999", DAY),
        ("max-age=0", 600.0),
        ("no-cache", 600.0),
        ("private, no-store, max-age=5000", 600.0),
        ("max-age=-1", DAY),
        ("max-age=soon", DAY),
        ("x-max-age=5000", DAY),
        ("s-maxage=5000", DAY),
    ],
)
@pytest.mark.parametrize("status", [200, 302, 404])
def test_a_copy_is_good_for_a_day_or_less(control: str, seconds: float, status: int) -> None:
    headers = Headers([("Cache-Control", control)] if control else [])
    assert expires_after(status, headers) == seconds


def test_an_entry_knows_when_it_is_over() -> None:
    entry = make_entry(ORIGIN, fetched(200, fields="Cache-Control: max-age=700\r\n"), now=NOW)
    assert (entry.fetched, entry.expires, entry.status) == (NOW, NOW + 700, 200)


# --- delays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "kept", "too_slow"),
    [("0", 0.0, False), ("60", 60.0, False), ("61", 60.0, True), ("1e308", 60.0, True), ("-5", None, False)],
)
def test_a_delay_is_kept_up_to_a_limit(asked: str, kept: float | None, too_slow: bool) -> None:
    verdict = judged(fetched(200, f"User-agent: *\nCrawl-delay: {asked}\n".encode()))
    assert (verdict.crawl_delay, verdict.too_slow) == (kept, too_slow)


def test_limit_and_agent_are_settings() -> None:
    body = b"User-agent: other\nCrawl-delay: 300\nDisallow: /\n"
    verdict = judged(fetched(200, body), policy=RobotsPolicy(agent="other", max_delay=100.0))
    assert (verdict.crawl_delay, verdict.too_slow, verdict.allows("/")) == (100.0, True, False)
    assert judged(fetched(200, body)).allows("/")


# --- parsed files -----------------------------------------------------------------------------------------------------


def entry_of(origin: str, body: bytes = FORBID) -> RobotsEntry:
    return RobotsEntry(origin=origin, fetched=NOW, expires=NOW + DAY, status=200, body=body)


def test_a_body_is_parsed_once_and_a_new_one_replaces_it() -> None:
    files = ParsedFiles()
    first = decide(entry_of("a"), now=NOW, files=files)
    assert decide(entry_of("a"), now=NOW, files=files).rules is first.rules
    assert decide(entry_of("b"), now=NOW, files=files).rules is not first.rules
    changed = decide(entry_of("a", b"User-agent: *\nDisallow: /other\n"), now=NOW, files=files)
    assert [changed.allows(path) for path in ("/closed", "/other")] == [True, False]
    assert len(files) == 2


def test_parsed_files_are_bounded_and_the_least_used_goes_first() -> None:
    files = ParsedFiles(most_bytes=3 * (len(FORBID) + 1024))
    kept = {origin: decide(entry_of(origin), now=NOW, files=files).rules for origin in "abc"}
    decide(entry_of("a"), now=NOW, files=files)
    decide(entry_of("d"), now=NOW, files=files)
    assert len(files) == 3
    assert decide(entry_of("a"), now=NOW, files=files).rules is kept["a"]
    assert decide(entry_of("b"), now=NOW, files=files).rules is not kept["b"]
    for number in range(100):
        decide(entry_of("a", FORBID + b"#" * number), now=NOW, files=files)
    assert 1 <= len(files) <= 3


def test_a_file_beyond_the_limit_is_parsed_and_not_kept() -> None:
    files = ParsedFiles(most_bytes=100)
    assert not decide(entry_of("a"), now=NOW, files=files).allows("/closed")
    assert len(files) == 0


# --- pages that speak for themselves ----------------------------------------------------------------------------------

BOTH = Directives(nofollow=True, noindex=True)


@pytest.mark.parametrize(
    ("tags", "meta", "expected"),
    [
        ([], "", Directives()),
        (["noarchive, index, follow"], "all", Directives()),
        (["NoFollow"], "", Directives(nofollow=True)),
        ([], "noindex", Directives(noindex=True)),
        ([], "noindex nofollow", BOTH),
        (["none"], "", BOTH),
        (["noindex"], "nofollow", BOTH),
        (["noindex", "nofollow"], "", BOTH),
        (["webmill: nofollow"], "", Directives(nofollow=True)),
        (["WebMill : none"], "", BOTH),
        (["googlebot: nofollow, noindex"], "", Directives()),
        (["googlebot: nofollow, webmill: noindex"], "", Directives(noindex=True)),
        (["noindex, googlebot: nofollow"], "", Directives(noindex=True)),
        (["*: nofollow"], "robots: noindex", BOTH),
        (["max-snippet: 20, nofollow"], "", Directives(nofollow=True)),
        (["unavailable_after: Sat, 25 Jun 2010 15:00:00 PST, nofollow"], "", Directives(nofollow=True)),
        (["nofollowing, xnone"], "no-index", Directives()),
        ([], "revisit-after: 7 days, nofollow", Directives(nofollow=True)),
        (["max-image-preview: none"], "max-image-preview: none", Directives()),
        ([], "webmill: nofollow", Directives(nofollow=True)),
        ([",,: ,", ":", "\xff"], ":", Directives()),
    ],
)
def test_pages_may_forbid_to_follow_and_to_index(tags: list[str], meta: str, expected: Directives) -> None:
    assert robots_directives(Headers([("x-robots-tag", tag) for tag in tags]), meta) == expected


def test_directives_are_for_the_agent_that_asks() -> None:
    headers = Headers([("X-Robots-Tag", "other: nofollow")])
    assert robots_directives(headers, agent="Other").nofollow


def test_a_server_that_names_a_time_is_not_asked_for_its_robots_txt_before() -> None:
    for status in (429, 503):
        entry = make_entry(ORIGIN, fetched(status, b"", fields="Retry-After: 3600\r\n"), now=1000.0)
        assert entry.expires == 1000.0 + 3600


def test_what_a_server_asks_for_is_told_from_our_own_patience() -> None:
    entry = None
    for now in (1000.0, 1060.0, 4000.0, 90_000.0):
        for answer in (FAILED, fetched(503, b""), fetched(503, b"", fields="Retry-After: 5\r\n")):
            entry = make_entry(ORIGIN, answer, now=now, before=entry)
            assert left_alone_until(entry) == 0.0
    asked = make_entry(ORIGIN, fetched(503, b"", fields="Retry-After: 86400\r\n"), now=90_001.0, before=entry)
    assert left_alone_until(asked) == 90_001.0 + 86_400.0
    assert left_alone_until(make_entry(ORIGIN, fetched(200), now=1000.0)) == 0.0
