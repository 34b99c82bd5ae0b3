"""The small parts of a crawl, each for itself."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from webmill.crawl.backends import open_inbox
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.page.url_joining import redirect_target
from webmill.crawl.progress import SLOWEST, CrawlProgress, HostTimings, sum_progress
from webmill.crawl.scheduler.budgets import SqliteDomainBudget
from webmill.crawl.scheduler.capture_archiver import ArchivedPayloads
from webmill.crawl.scheduler.inbox import LINKS_PER_MESSAGE, ShardMessages
from webmill.crawl.visit.captures import archived_original
from webmill.crawl.visit.last_visit import conditions, is_whole_page, next_validators
from webmill.crawl.visit.page_reader import is_html
from webmill.errors import BadInput
from webmill.formats.http import ResponseHead
from webmill.formats.warc.record_headers import OriginalCapture
from webmill.infra.clock import Anchor
from webmill.infra.host_schedule.fixed_delays import Reservation, ReservationUpdate
from webmill.infra.host_schedule.sqlite_schedule import SqliteHostSchedule
from webmill.model import Exchange, Headers, Link

DAY = 86400.0
SOME_DAY = "Mon, 01 Jan 2024 00:00:00 GMT"
Pairs = tuple[tuple[str, str], ...]


def reservation(now: float, **delays: float) -> Reservation:
    return Reservation(now=now, window=10.0, delays=delays)


def test_a_key_is_booked_once_and_free_when_the_booking_is_corrected(tmp_path: Path) -> None:
    schedule = SqliteHostSchedule(tmp_path / "gates.sqlite")
    clock = schedule.clock(None)
    assert schedule.reserve({1: reservation(100.0, a=5.0), 2: reservation(100.0, a=5.0)}, now=100.0, longest=DAY) == {
        2: 105.0
    }
    schedule.update([{"a": ReservationUpdate(115.0, 107.0)}], clock=clock)
    assert schedule.reserve({3: reservation(106.0, a=5.0)}, now=106.0, longest=DAY)
    assert schedule.reserve({4: reservation(107.0, a=5.0)}, now=107.0, longest=DAY) == {}
    schedule.update(
        [{"a": ReservationUpdate(115.0, 107.0)}], clock=clock
    )  # late news of the first do not free the second's time
    assert schedule.reserve({5: reservation(110.0, a=5.0)}, now=110.0, longest=DAY)
    schedule.close()


def test_those_who_wait_for_a_key_come_one_by_one(tmp_path: Path) -> None:
    schedule = SqliteHostSchedule(tmp_path / "gates.sqlite")
    waits = schedule.reserve({number: reservation(100.0, a=1.0) for number in range(5)}, now=100.0, longest=DAY)
    assert waits == {1: 101.0, 2: 102.0, 3: 103.0, 4: 104.0}
    schedule.close()


def test_a_time_that_a_clock_left_behind_is_not_waited_for(tmp_path: Path) -> None:
    schedule = SqliteHostSchedule(tmp_path / "gates.sqlite")
    schedule.reserve({1: reservation(100.0 + 2 * DAY, a=1.0)}, now=100.0 + 2 * DAY, longest=DAY)
    assert schedule.reserve({2: reservation(100.0, a=1.0)}, now=100.0, longest=DAY) == {}
    schedule.close()


def test_all_processes_have_one_clock_and_none_goes_back(tmp_path: Path) -> None:
    one, other = SqliteHostSchedule(tmp_path / "gates.sqlite"), SqliteHostSchedule(tmp_path / "gates.sqlite")
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
    sender, reader = ShardMessages(boxes, 0, open_inbox=open_inbox), ShardMessages(boxes, 1, open_inbox=open_inbox)
    links = [Link(f"http://a.test/{number}", 3, 4) for number in range(LINKS_PER_MESSAGE + 5)]
    assert reader.is_empty()
    sender.send(1, links)
    assert not reader.is_empty()
    assert reader.receive_links() == links
    assert reader.receive_links() == links
    reader.close()  # killed, as it were
    again = ShardMessages(boxes, 1, open_inbox=open_inbox)
    assert again.receive_links() == links
    again.acknowledge()
    assert again.is_empty()
    assert again.receive_links() == []
    again.close()
    sender.close()


def test_a_letter_of_the_longest_urls_fits(tmp_path: Path) -> None:
    boxes = [tmp_path / "0.sqlite", tmp_path / "1.sqlite"]
    sender = ShardMessages(boxes, 0, open_inbox=open_inbox)
    sender.send(1, [Link(f"http://a.test/{number:01900}") for number in range(LINKS_PER_MESSAGE)])
    sender.close()


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x91" * 10_000, msgspec.msgpack.encode([Link("http://a.test/?x")]).replace(b"x", b"\xff")]
)
def test_what_is_no_letter_is_bad_input(body: bytes, tmp_path: Path) -> None:
    inbox = open_inbox(tmp_path / "0.sqlite")
    inbox.publish([body])
    inbox.close()
    reader = ShardMessages([tmp_path / "0.sqlite"], 0, open_inbox=open_inbox)
    with pytest.raises(BadInput, match="bad_letter"):
        reader.receive_links()
    reader.close()


def test_the_first_record_of_a_payload_stays(tmp_path: Path) -> None:
    payloads = ArchivedPayloads(tmp_path / "payloads.sqlite")
    date = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    one, two = (OriginalCapture(record_id=f"<urn:uuid:{name}>", uri=f"http://{name}/", date=date) for name in "ab")
    payloads.add([("sha1:X", one)])
    payloads.add([("sha1:X", two), ("sha1:Y", two)])
    payloads.add([])
    assert payloads.find({"sha1:X", "sha1:Y", "sha1:Z"}) == {"sha1:X": one, "sha1:Y": two}
    assert payloads.find([]) == {}
    payloads.close()


def test_a_quota_counts_over_restarts(tmp_path: Path) -> None:
    budget = SqliteDomainBudget(tmp_path / "quota.sqlite", limit=5)
    budget.spend(Counter({"a.test": 3, "b.test": 1}))
    budget.close()
    budget = SqliteDomainBudget(tmp_path / "quota.sqlite", limit=5)
    budget.spend(Counter({"a.test": 4}))
    assert budget.remaining(["a.test", "b.test", "c.test"]) == {"a.test": 0, "b.test": 4, "c.test": 5}
    budget.close()
    with_none = SqliteDomainBudget(tmp_path / "quota.sqlite", limit=None)
    assert with_none.remaining(["a.test"]) is None
    with_none.close()


def test_shards_add_up() -> None:
    one = CrawlProgress(shard=0, pages=3, bytes=10, errors={"timeout": 1}, is_idle=True, slowest=[("a", 1.0)])
    two = CrawlProgress(shard=1, pages=4, errors={"timeout": 2, "reset": 1}, write_error="full", slowest=[("b", 2.0)])
    total = sum_progress([one, two])
    assert (total.pages, total.bytes, total.is_idle, total.write_error) == (7, 10, False, "full")
    assert total.errors == {"timeout": 3, "reset": 1}
    assert total.slowest == [("b", 2.0), ("a", 1.0)]


def test_the_slowest_hosts_are_few_and_the_memory_for_them_is_bounded() -> None:
    hosts = HostTimings(most=10)
    for number in range(100):
        hosts.add(f"h{number}", float(number))
    assert hosts.slowest() == [(f"h{number}", float(number)) for number in range(99, 99 - SLOWEST, -1)]


def test_a_revisit_names_the_record_that_has_the_payload() -> None:
    last = LastVisit(
        url="http://a.test/", time=5.0, status=304, record_id="<x>", record_time=3.0, record_url="http://b.test/"
    )
    assert archived_original(last) == OriginalCapture(
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
    assert next_validators(answer, LastVisit(url="u", time=0.0)) == {"etag": etag, "modified": modified}
    assert is_whole_page(answer)
    assert not is_whole_page(fetched(headers, truncated="disconnect"))
    assert not is_whole_page(fetched(headers, status=302))


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
    moved = {place: fetched((("Location", place),), status=302).head for place in ("/m\xc3\xbchle", "http://[bad/")}
    assert redirect_target("http://a.test/x", moved["/m\xc3\xbchle"]) == "http://a.test/m%C3%BChle"
    assert redirect_target("http://a.test/x", moved["http://[bad/"]) == ""
    assert redirect_target("http://a.test/x", fetched((), status=302).head) is None
    assert redirect_target("http://a.test/x", fetched((("Location", "/y"),)).head) is None


def test_a_late_update_does_not_shorten_what_another_has_reserved(tmp_path: Path) -> None:
    """Of a process that was paused past its reservation and then extended it, beside that of another."""
    with closing(SqliteHostSchedule(tmp_path / "hosts.sqlite")) as schedule:
        clock = schedule.clock(None)
        now = clock()
        other = Reservation(now=now, window=30.0, delays={"host:a": 30.0})
        assert schedule.reserve({1: other}, now=now, longest=1000.0) == {}
        extended = now + 100.0
        schedule.update([{"host:a": ReservationUpdate(now - 5.0, extended)}], clock=clock)
        schedule.update([{"host:a": ReservationUpdate(extended, now - 50.0)}], clock=clock)
        assert schedule.reserve({2: other}, now=now + 59.0, longest=1000.0)
