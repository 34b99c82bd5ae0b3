"""The small parts of a crawl, each for itself."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from webmill.crawl.backends import open_letter_box
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.politeness.host_schedule import Booking, Gates, Kept
from webmill.crawl.progress import SLOWEST, Hosts, Snapshot, added
from webmill.crawl.scheduler.archived_payloads import Payloads
from webmill.crawl.scheduler.domain_budget import SqliteQuota
from webmill.crawl.scheduler.inbox import LINKS, Mail
from webmill.crawl.visit.page_reader import conditions, is_html, original_of, redirected
from webmill.crawl.visit.url_visit import is_whole, validators
from webmill.errors import BadInput
from webmill.formats.http import ResponseHead
from webmill.formats.warc.record_headers import OriginalCapture
from webmill.infra.clock import Anchor
from webmill.model import Exchange, Headers, Link

DAY = 86400.0
SOME_DAY = "Mon, 01 Jan 2024 00:00:00 GMT"
Pairs = tuple[tuple[str, str], ...]


def booking(now: float, **waits: float) -> Booking:
    return Booking(now=now, window=10.0, waits=waits)


def test_a_key_is_booked_once_and_free_when_the_booking_is_corrected(tmp_path: Path) -> None:
    gates = Gates(tmp_path / "gates.sqlite")
    clock = gates.clock(None)
    assert gates.book({1: booking(100.0, a=5.0), 2: booking(100.0, a=5.0)}, now=100.0, longest=DAY) == {2: 105.0}
    gates.correct([{"a": Kept(115.0, 107.0)}], clock=clock)
    assert gates.book({3: booking(106.0, a=5.0)}, now=106.0, longest=DAY)
    assert gates.book({4: booking(107.0, a=5.0)}, now=107.0, longest=DAY) == {}
    gates.correct([{"a": Kept(115.0, 107.0)}], clock=clock)  # late news of the first do not free the second's time
    assert gates.book({5: booking(110.0, a=5.0)}, now=110.0, longest=DAY)
    gates.close()


def test_those_who_wait_for_a_key_come_one_by_one(tmp_path: Path) -> None:
    gates = Gates(tmp_path / "gates.sqlite")
    waits = gates.book({number: booking(100.0, a=1.0) for number in range(5)}, now=100.0, longest=DAY)
    assert waits == {1: 101.0, 2: 102.0, 3: 103.0, 4: 104.0}
    gates.close()


def test_a_time_that_a_clock_left_behind_is_not_waited_for(tmp_path: Path) -> None:
    gates = Gates(tmp_path / "gates.sqlite")
    gates.book({1: booking(100.0 + 2 * DAY, a=1.0)}, now=100.0 + 2 * DAY, longest=DAY)
    assert gates.book({2: booking(100.0, a=1.0)}, now=100.0, longest=DAY) == {}
    gates.close()


def test_all_processes_have_one_clock_and_none_goes_back(tmp_path: Path) -> None:
    one, other = Gates(tmp_path / "gates.sqlite"), Gates(tmp_path / "gates.sqlite")
    first = one.clock(None)
    assert abs(other.clock(None)() - first()) < 0.5
    boot = first.anchor()
    ahead = Anchor(boot.now + 1000, boot.since_boot, boot.boot)
    assert other.clock(ahead)() >= first() + 999
    assert one.clock(None)() >= first() + 999
    one.close()
    other.close()


def test_letters_arrive_until_they_are_settled(tmp_path: Path) -> None:
    boxes = [tmp_path / "0.sqlite", tmp_path / "1.sqlite"]
    sender, reader = Mail(boxes, 0, open_box=open_letter_box), Mail(boxes, 1, open_box=open_letter_box)
    links = [Link(f"http://a.test/{number}", 3, 4) for number in range(LINKS + 5)]
    assert reader.is_empty()
    sender.send(1, links)
    assert not reader.is_empty()
    assert reader.receive() == links
    assert reader.receive() == links
    reader.close()  # killed, as it were
    again = Mail(boxes, 1, open_box=open_letter_box)
    assert again.receive() == links
    again.settle()
    assert again.is_empty()
    assert again.receive() == []
    again.close()
    sender.close()


def test_a_letter_of_the_longest_urls_fits(tmp_path: Path) -> None:
    boxes = [tmp_path / "0.sqlite", tmp_path / "1.sqlite"]
    sender = Mail(boxes, 0, open_box=open_letter_box)
    sender.send(1, [Link(f"http://a.test/{number:01900}") for number in range(LINKS)])
    sender.close()


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x91" * 10_000, msgspec.msgpack.encode([Link("http://a.test/?x")]).replace(b"x", b"\xff")]
)
def test_what_is_no_letter_is_bad_input(body: bytes, tmp_path: Path) -> None:
    box = open_letter_box(tmp_path / "0.sqlite")
    box.post([body])
    box.close()
    reader = Mail([tmp_path / "0.sqlite"], 0, open_box=open_letter_box)
    with pytest.raises(BadInput, match="bad_letter"):
        reader.receive()
    reader.close()


def test_the_first_record_of_a_payload_stays(tmp_path: Path) -> None:
    payloads = Payloads(tmp_path / "payloads.sqlite")
    date = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    one, two = (OriginalCapture(record_id=f"<urn:uuid:{name}>", uri=f"http://{name}/", date=date) for name in "ab")
    payloads.add([("sha1:X", one)])
    payloads.add([("sha1:X", two), ("sha1:Y", two)])
    payloads.add([])
    assert payloads.find({"sha1:X", "sha1:Y", "sha1:Z"}) == {"sha1:X": one, "sha1:Y": two}
    assert payloads.find([]) == {}
    payloads.close()


def test_a_quota_counts_over_restarts(tmp_path: Path) -> None:
    quota = SqliteQuota(tmp_path / "quota.sqlite", limit=5)
    quota.count(Counter({"a.test": 3, "b.test": 1}))
    quota.close()
    quota = SqliteQuota(tmp_path / "quota.sqlite", limit=5)
    quota.count(Counter({"a.test": 4}))
    assert quota.left(["a.test", "b.test", "c.test"]) == {"a.test": 0, "b.test": 4, "c.test": 5}
    quota.close()
    with_none = SqliteQuota(tmp_path / "quota.sqlite", limit=None)
    assert with_none.left(["a.test"]) is None
    with_none.close()


def test_shards_add_up() -> None:
    one = Snapshot(shard=0, pages=3, bytes=10, errors={"timeout": 1}, is_idle=True, slowest=[("a", 1.0)])
    two = Snapshot(shard=1, pages=4, errors={"timeout": 2, "reset": 1}, trouble="full", slowest=[("b", 2.0)])
    total = added([one, two])
    assert (total.pages, total.bytes, total.is_idle, total.trouble) == (7, 10, False, "full")
    assert total.errors == {"timeout": 3, "reset": 1}
    assert total.slowest == [("b", 2.0), ("a", 1.0)]


def test_the_slowest_hosts_are_few_and_the_memory_for_them_is_bounded() -> None:
    hosts = Hosts(most=10)
    for number in range(100):
        hosts.note(f"h{number}", float(number))
    assert hosts.slowest() == [(f"h{number}", float(number)) for number in range(99, 99 - SLOWEST, -1)]


def test_a_revisit_names_the_record_that_has_the_payload() -> None:
    last = LastVisit(
        url="http://a.test/", time=5.0, status=304, record_id="<x>", record_time=3.0, record_url="http://b.test/"
    )
    assert original_of(last) == OriginalCapture(
        record_id="<x>", uri="http://b.test/", date=datetime.fromtimestamp(3.0, UTC)
    )


def test_conditions_are_only_sent_where_there_is_something_to_compare_with() -> None:
    assert conditions(None) == ()
    assert conditions(LastVisit(url="u", time=0.0, status=200, etag='"1"')) == ()  # no record
    assert (
        conditions(LastVisit(url="u", time=0.0, status=200, record_id="<x>")) == ()
    )  # of half a page, or of a redirect
    both = LastVisit(url="u", time=0.0, status=503, record_id="<x>", etag='"1"', modified=SOME_DAY)
    assert conditions(both) == (("If-None-Match", '"1"'),)
    assert conditions(msgspec.structs.replace(both, etag="")) == (("If-Modified-Since", SOME_DAY),)


@pytest.mark.parametrize(
    ("headers", "etag", "modified"),
    [
        ((("ETag", '"1"'), ("Last-Modified", SOME_DAY)), '"1"', SOME_DAY),
        ((), "", "Tue, 02 Jan 2024 03:04:05 GMT"),  # when it was asked
        ((("ETag", '"' + 500 * "e" + '"'), ("Last-Modified", 101 * "x")), "", "Tue, 02 Jan 2024 03:04:05 GMT"),
    ],
)
def test_what_is_too_long_to_be_named_is_no_validator(headers: Pairs, etag: str, modified: str) -> None:
    answer = fetched(headers)
    assert validators(answer, LastVisit(url="u", time=0.0)) == {"etag": etag, "modified": modified}
    assert is_whole(answer)
    assert not is_whole(fetched(headers, truncated="disconnect"))
    assert not is_whole(fetched(headers, status=302))


def fetched(headers: Pairs, *, status: int = 200, truncated: str | None = None) -> FetchedResponse:
    head = ResponseHead(version="HTTP/1.1", status=status, reason="", headers=Headers(headers), raw=b"", flaws=())
    date = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    exchange = Exchange(
        url="http://a.test/", date=date, seconds=0.1, ip="", request=b"", response=b"", truncated=truncated
    )
    return FetchedResponse(exchange, head, b"", ())


def test_html_is_what_says_so_or_looks_so() -> None:
    assert is_html("text/html; charset=x", b"")
    assert is_html(None, b"<!doctype html><HTML>")
    assert not is_html("text/plain", b"<html>")
    assert not is_html(None, b"%PDF")


def test_a_location_is_utf_8_whatever_http_says() -> None:
    assert redirected("http://a.test/x", "/m\xc3\xbchle") == ["http://a.test/m%C3%BChle"]
    assert redirected("http://a.test/x", "http://[bad/") == []
