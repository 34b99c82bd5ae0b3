"""What comes of every odd answer, as the table in `webmill.crawl.fetch` has it (N07 to N12, N16)."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.unit.crawl.fetch.conftest import Run
from tests.unit.crawl.fetch.fetching import PATIENT, failed, fetched, fetching, get
from webmill.crawl.fetch import FAILURES, MAX_PARTIAL, FetchedResponse, FetchFailure, FetchLimits
from webmill.formats.warc.digest import compute
from webmill.testing import TestWeb
from webmill.testing.features.framing import BODY, WHOLE

HEAD = len(WHOLE) - len(BODY)

# path, flaws, what is kept of the body
ODD = [
    ("/no-length", (), BODY),
    ("/chunked", (), BODY),
    ("/length-and-chunked", ("length_and_chunked",), BODY),
    ("/same-lengths", ("repeated_length",), BODY),
    ("/list-length", ("repeated_length",), BODY),
    ("/long-body", ("excess_bytes",), BODY[:-10]),
    ("/chunk-bad-size", ("bad_chunk",), b""),
    ("/chunk-huge-size", ("bad_chunk",), b""),
    ("/chunk-negative-size", ("bad_chunk",), b""),
    ("/chunk-long-line", ("bad_chunk",), b""),
    ("/chunked-unknown", ("odd_transfer_encoding", "unknown_coding"), BODY),
    ("/chunk-lf", ("lf_only",), BODY),
    ("/lf-only", ("lf_only",), BODY),
    ("/bare-cr", ("bare_cr",), BODY),
    ("/folded", ("obs_fold",), BODY),
    ("/nul", ("nul",), BODY),
    ("/raw-bytes", (), BODY),
    ("/no-colon", ("bad_line",), BODY),
    ("/space-before-colon", ("odd_name",), BODY),
    ("/http2-line", ("no_reason", "odd_version"), BODY),
    ("/no-reason", ("no_reason",), BODY),
    ("/blank-first", ("leading_blank",), BODY),
    ("/body-on-204", ("body_not_allowed", "excess_bytes"), b""),
    ("/body-on-304", ("excess_bytes",), b""),
    ("/two-answers", ("excess_bytes",), BODY),
]
SENSELESS = [
    ("/two-lengths", "conflicting_length"),
    ("/negative-length", "bad_length"),
    ("/plus-length", "bad_length"),
    ("/word-length", "bad_length"),
    ("/huge-length", "bad_length"),
    ("/http09", "no_start_line"),
    ("/icy", "no_start_line"),
    ("/junk", "no_start_line"),
    ("/status-99999", "bad_status"),
    ("/status-0", "bad_status"),
    ("/status-word", "bad_status"),
    ("/101", "unexpected_upgrade"),
    ("/no-end-of-head", "truncated_head"),
    ("/nothing", "no_response"),
]


def test_odd_answers_are_kept_with_their_flaws(web: TestWeb, run: Run) -> None:
    outcomes = run(_get_all(web, [f"http://broken.harvest.test{path}" for path, _, _ in ODD]))
    for (path, flaws, body), outcome in zip(ODD, outcomes, strict=True):
        answer = fetched(outcome)
        assert (path, set(answer.flaws), answer.payload) == (path, set(flaws), body)
        assert answer.exchange.response.startswith(answer.head.raw)
        assert answer.exchange.truncated == ("unspecified" if "bad_chunk" in flaws else None)


def test_senseless_answers_fail_and_what_came_is_kept(web: TestWeb, run: Run) -> None:
    outcomes = run(_get_all(web, [f"http://broken.harvest.test{path}" for path, _ in SENSELESS]))
    for (path, reason), outcome in zip(SENSELESS, outcomes, strict=True):
        failure = failed(outcome)
        assert (path, failure.reason, failure.sent) == (path, reason, True)
        assert bool(failure.partial) == (path != "/nothing")
        assert failure.reason in FAILURES


@pytest.mark.parametrize("how", ["rst", "fin"])
def test_a_connection_may_end_after_any_byte(web: TestWeb, run: Run, how: str) -> None:
    if how == "rst" and sys.platform != "linux":
        pytest.skip("other systems throw away what came before a reset")
    counts = range(len(WHOLE) + 1)
    outcomes = run(_get_all(web, [f"http://broken.harvest.test/{how}/{count}" for count in counts]))
    for count, outcome in zip(counts, outcomes, strict=True):
        if count < HEAD:
            failure = failed(outcome)
            reasons = {"rst": "reset", "fin": "truncated_head" if count else "no_response"}
            assert (count, failure.reason, failure.partial) == (count, reasons[how], WHOLE[:count])
        else:
            answer = fetched(outcome)
            assert (count, answer.exchange.response) == (count, WHOLE[:count])
            assert answer.exchange.truncated == ("disconnect" if count < len(WHOLE) else None)
    web.log.settle()
    asked = [visit for visit in web.log.visits(host="broken.harvest.test") if visit.path.startswith(f"/{how}/")]
    assert {visit.sent for visit in asked} == set(counts)


def test_an_answer_cut_short_is_kept_as_truncated(web: TestWeb, run: Run) -> None:
    paths = ["/short-body", "/chunk-cut", "/chunk-no-last"]
    for outcome in run(_get_all(web, [f"http://broken.harvest.test{path}" for path in paths])):
        answer = fetched(outcome)
        assert (answer.exchange.truncated, answer.flaws) == ("disconnect", ("truncated",))
        assert BODY.startswith(answer.payload)
        assert answer.payload


def test_endless_bodies_end_at_the_limit(web: TestWeb, run: Run) -> None:
    limits = FetchLimits(body=100_000)
    for path in ("/endless", "/endless-chunks"):
        (outcome,) = run(_get_all(web, [f"http://slow.harvest.test{path}"], limits=limits))
        answer = fetched(outcome)
        assert answer.exchange.truncated == "length"
        assert len(answer.exchange.response) - len(answer.head.raw) == 100_000


def test_a_body_exactly_as_long_as_the_limit_is_whole(web: TestWeb, run: Run) -> None:
    whole, cut = (
        fetched(run(_get_all(web, ["http://files.mill.example/file.bin"], limits=FetchLimits(body=size)))[0])
        for size in (102_400, 102_399)
    )
    assert (whole.exchange.truncated, len(whole.payload)) == (None, 102_400)
    assert (cut.exchange.truncated, len(cut.payload)) == ("length", 102_399)


def test_endless_heads_end_at_the_limit(web: TestWeb, run: Run) -> None:
    paths = ["/endless-head", "/endless-100", "/big-field", "/many-fields"]
    for outcome in run(_get_all(web, [f"http://slow.harvest.test{path}" for path in paths])):
        failure = failed(outcome)
        assert failure.reason == "header_limit"
        assert 0 < len(failure.partial) <= MAX_PARTIAL


def test_slow_answers_are_given_up_and_kept_as_far_as_they_came(web: TestWeb, run: Run) -> None:
    heads = ["/silent", "/header", "/drip-head"]
    bodies = ["/stall", "/body", "/drip"]
    limits = FetchLimits(total=60, connect=60, window=3, rate=1000)
    outcomes = run(_get_all(web, [f"http://slow.harvest.test{path}" for path in heads + bodies], limits=limits))
    for outcome in outcomes[:3]:
        assert failed(outcome).reason == "timeout"
    for outcome in outcomes[3:]:
        answer = fetched(outcome)
        assert answer.exchange.truncated == "time"
        assert answer.payload


def test_one_deadline_ends_what_is_fast_enough_but_has_no_end(web: TestWeb, run: Run) -> None:
    limits = FetchLimits(total=3, window=60, rate=1)
    urls = ["http://slow.harvest.test/drip", "http://slow.harvest.test/drip-head"]
    body, head = run(_get_all(web, urls, limits=limits))
    assert fetched(body).exchange.truncated == "time"
    assert failed(head).reason == "timeout"
    assert "3 s" in failed(head).message


def test_interim_answers_are_left_out(web: TestWeb, run: Run) -> None:
    (outcome,) = run(_get_all(web, ["http://slow.harvest.test/103"]))
    answer = fetched(outcome)
    assert answer.head.status == 200
    assert answer.exchange.response.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("path", ["gzip", "x-gzip", "deflate", "deflate-raw", "br", "zstd", "gzip-twice", "gzip-br"])
def test_codings_are_undone_and_the_wire_bytes_stay(web: TestWeb, path: str) -> None:
    urls = [f"http://packed.grain.example/{path}", "http://packed.grain.example/identity"]
    packed, plain = (fetched(outcome) for outcome in asyncio.run(_get_all(web, urls)))
    assert packed.payload == plain.payload
    assert packed.flaws == ()
    assert len(packed.exchange.response) < len(plain.exchange.response)


@pytest.mark.parametrize(
    "path", ["bomb-gzip", "bomb-deflate", "bomb-br", "bomb-zstd", "bomb-twice", "ten-codings", "zstd-window"]
)
def test_bombs_are_kept_as_sent_and_decoded_within_limits(web: TestWeb, path: str) -> None:
    (outcome,) = asyncio.run(_get_all(web, [f"http://packed.grain.example/{path}"]))
    answer = fetched(outcome)
    assert answer.flaws == ("decode_limit",)
    assert len(answer.payload) <= max(1 << 20, 200 * len(answer.exchange.response))
    assert int(answer.head.headers.get("content-length") or 0) == len(answer.exchange.response) - len(answer.head.raw)


@pytest.mark.parametrize(
    ("path", "flaw"),
    [
        ("gzip-lie", "not_as_labelled"),
        ("br-lie", "not_as_labelled"),
        ("unknown", "unknown_coding"),
        ("gzip-cut", "truncated"),
        ("gzip-crc", "corrupt"),
        ("gzip-tail", "trailing_bytes"),
    ],
)
def test_a_coding_that_lies_or_breaks_is_a_flaw(web: TestWeb, path: str, flaw: str) -> None:
    (outcome,) = asyncio.run(_get_all(web, [f"http://packed.grain.example/{path}"]))
    assert fetched(outcome).flaws == (flaw,)


def test_a_redirect_is_an_answer_and_is_not_followed(web: TestWeb, run: Run) -> None:
    paths = ["301", "to-private", "to-metadata", "to-file", "to-loopback"]
    outcomes = run(_get_all(web, [f"http://moved.mill.example/{path}" for path in paths]))
    assert [fetched(outcome).head.status for outcome in outcomes] == [301, 302, 302, 302, 302]
    web.log.settle()
    assert "/target" not in {visit.path for visit in web.log.visits(host="moved.mill.example")}


def test_every_page_of_a_proper_host_comes_as_it_is(web: TestWeb, run: Run) -> None:
    pages = list(web.pages())
    for page, outcome in zip(pages, run(_get_all(web, [page.url for page in pages])), strict=True):
        answer = fetched(outcome)
        assert (answer.head.status, len(answer.payload), answer.flaws) == (page.status, page.length, ())
        assert compute(answer.payload) == page.digest


async def _get_all(
    web: TestWeb, urls: list[str], *, limits: FetchLimits = PATIENT
) -> list[FetchedResponse | FetchFailure]:
    async with fetching(web.resolve, limits=limits) as fetcher:
        return await asyncio.gather(*(get(fetcher, url) for url in urls))
