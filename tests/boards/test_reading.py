"""Reading a board: what is asked for, what is read, and what becomes of everything that goes wrong."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.boards.readers import (
    CHILD,
    HOST,
    BoardSites,
    Pages,
    asked,
    board,
    known,
    options,
    rows,
    scratch,
    site,
    tagged,
    text,
)
from webmill.boards.board_list import Selectors
from webmill.boards.reader import BoardReader
from webmill.boards.types import KnownNotice, ReaderOptions, board_manners
from webmill.errors import Misconfigured
from webmill.testing import Answer, Cut, HttpReply, ReceivedRequest, ScriptedReply, TestWeb, Wait

PACKED = (("Content-Encoding", "gzip"),)
LIST, VIEWS = "/list", ["/view-2?seq=2", "/view-1?seq=1"]


@pytest.fixture(scope="module")
def board_sites() -> Iterator[BoardSites]:
    with scratch() as root, ExitStack() as stack:
        yield BoardSites(root, stack)


def test_a_notice_is_its_row_and_its_body(board_sites: BoardSites) -> None:
    attached = HttpReply(body="<main>본문</main><a download href='/f.hwp?sid=3'>서식.hwp</a>".encode())
    stand = board_sites.place(site(5, view_5=attached))
    reading = stand.read(facets={"campus": "신촌"})
    (notice,) = reading.items
    assert notice.id == "uni/cs/notice/5"
    assert notice.facets == {"campus": "신촌"}
    assert notice.metadata == {"title": "글 5", "date": "2024-05-05", "url": f"http://{stand.host}/view-5?seq=5"}
    assert notice.content == {
        "title": "글 5",
        "date": "2024-05-05",
        "author": "",
        "category": "",
        "url": f"http://{stand.host}/view-5?seq=5",
        "text": "본문",
        "attachments": [{"name": "서식.hwp", "url": f"http://{stand.host}/f.hwp"}],
    }
    assert not reading.problems
    assert not reading.failed


# --- asking only for what may have changed ---


def test_the_second_reading_asks_for_the_listing_alone_and_parses_nothing(board_sites: BoardSites) -> None:
    pages = site(2, 1)
    stand = board_sites.place(pages)
    first = stand.read()
    assert stand.asked() == ["/robots.txt", LIST, *VIEWS]
    second = stand.read()
    assert stand.asked()[4:] == [LIST]
    assert pages.conditions == [LIST]
    assert second.items == first.items
    assert (first.not_modified, second.not_modified) == (False, True)
    assert (first.counts["parsed"], second.counts.get("parsed", 0)) == (3, 0)


def test_a_body_is_asked_for_again_when_its_row_has_changed(board_sites: BoardSites) -> None:
    pages = site(2, 1)
    stand = board_sites.place(pages)
    before = stand.read()
    pages.pages_by_path["/list"] = rows(3, 2, 1)
    pages.pages_by_path["/view-3"] = text("새로운 본문")
    after = stand.read()
    assert stand.asked()[4:] == [LIST, "/view-3?seq=3"]
    pages.pages_by_path["/list"] = rows(3, 2, 1, date="2024.06.{:02}")
    last = stand.read()
    assert stand.asked()[6:] == [LIST, "/view-3?seq=3", *VIEWS]
    assert after.items[1:] == before.items
    assert pages.conditions == [LIST, LIST]  # where something has changed a server that says "no" is not believed
    assert [one.metadata["date"] for one in last.items] == ["2024-06-03", "2024-06-02", "2024-06-01"]


def test_a_body_that_is_too_old_is_asked_for_again_though_its_row_is_the_same(board_sites: BoardSites) -> None:
    pages = site(1)
    stand = board_sites.place(pages, body_age=0.0)
    first = stand.read()
    same = stand.read()
    assert pages.conditions == ["/view-1?seq=1"]
    assert same.counts["bodies_not_modified"] == 1
    pages.pages_by_path["/view-1"] = text("heimlich geändert")
    changed = stand.read()
    assert stand.asked()[1:] == [LIST, "/view-1?seq=1"] * 3
    assert first.items[0].content == same.items[0].content
    assert changed.items[0].content is not None
    assert changed.items[0].content["text"] == "heimlich geändert"
    assert not same.not_modified


def test_a_machine_that_remembers_nothing_leaves_bodies_to_what_is_known() -> None:
    pages = site(2, 1)
    with scratch() as root, TestWeb(hosts=0, sites={HOST: pages}) as web:
        with BoardReader(options(root, web)) as reader:
            first = reader.read(board())
        (root / "cache.sqlite").unlink()
        with BoardReader(options(root, web)) as reader:
            second = reader.read(board(), known=known(first))
        assert asked(web)[4:] == ["/robots.txt", LIST]
    assert [one.content for one in second.items] == [None, None]
    assert [one.hash for one in second.items] == [f"hash of {one.id}" for one in first.items]
    assert [one.metadata for one in second.items] == [one.metadata for one in first.items]


def test_a_listing_that_is_said_not_to_change_is_not_believed_for_ever(board_sites: BoardSites) -> None:
    def frozen(request: ReceivedRequest) -> Answer:
        return HttpReply(status=304) if "if-none-match" in request.headers else tagged(rows(next(numbers)))

    numbers = count(1)
    stand = board_sites.place(Pages(list=frozen, **{f"view-{n}": text(str(n)) for n in (1, 2)}), body_age=0.0)
    assert [stand.read().items[0].id[-1] for _ in range(2)] == ["1", "2"]


def test_readers_of_one_machine_share_what_they_remember() -> None:
    with scratch() as root, TestWeb(hosts=0, sites={HOST: site(2, 1)}) as web:
        with BoardReader(options(root, web)) as one, BoardReader(options(root, web)) as other:
            first, second = one.read(board()), other.read(board())
        assert asked(web) == ["/robots.txt", LIST, *VIEWS, LIST]
    assert first.items == second.items


def test_other_selectors_read_the_same_page_anew(board_sites: BoardSites) -> None:
    stand = board_sites.place(site(2, 1))
    assert len(stand.read().items) == 2
    assert len(stand.read(selectors=Selectors(item="tr:nth-child(2)")).items) == 1


def test_a_date_that_drifts_stays_as_it_was_first_seen(board_sites: BoardSites) -> None:
    stand = board_sites.place(site(1, list=rows(1, date="3시간 전")))
    first = stand.read(past={"uni/cs/notice/1": KnownNotice(date="2023-12-24")})
    assert first.items[0].metadata["date"] == "2023-12-24"
    second = stand.read()
    assert stand.asked().count("/view-1?seq=1") == 1
    assert second.items == first.items


# --- pages of a listing ---


def paged(**more: Answer) -> Pages:
    pages: dict[str, Answer] = {
        "list": rows(6, 5, more="list?page=2"),
        "list?page=2": rows(4, 3, more="list?page=3"),
        "list?page=3": rows(2, 1, more="list?page=2"),  # round and round
        **more,
    }
    return site(6, 5, 4, 3, 2, 1, **pages)


@pytest.mark.parametrize(("pages", "numbers"), [(1, "65"), (2, "6543"), (9, "654321")])
def test_as_many_pages_are_read_as_wished_and_each_once(board_sites: BoardSites, pages: int, numbers: str) -> None:
    stand = board_sites.place(paged(), pages=pages)
    reading = stand.read()
    assert sum(path.startswith(LIST) for path in stand.asked()) == (len(numbers) // 2)
    assert [one.id[-1] for one in reading.items] == list(numbers)


def test_what_is_further_down_than_was_read_is_not_removed_and_what_is_missing_is(board_sites: BoardSites) -> None:
    past = {f"uni/cs/notice/{n}": KnownNotice(date=f"2024-05-0{n}") for n in (1, 2, 3, 4, 5, 7)}
    stand = board_sites.place(paged(), pages=2)
    reading = stand.read(past=past)
    assert sorted(reading.beyond) == ["uni/cs/notice/1", "uni/cs/notice/2"]
    assert not reading.kept


def test_of_one_day_the_lower_number_is_further_down(board_sites: BoardSites) -> None:
    past = {f"uni/cs/notice/{n}": KnownNotice(date="2024-05-01") for n in (3, 7)}
    stand = board_sites.place(site(6, 5, list=rows(6, 5, date="2024.05.01", more="list?page=2")))
    assert stand.read(past=past).beyond == ("uni/cs/notice/3",)


def test_when_a_later_page_fails_what_may_be_on_it_is_kept(board_sites: BoardSites) -> None:
    past = {f"uni/cs/notice/{n}": KnownNotice(date=f"2024-05-0{n}") for n in (1, 4, 5)}
    stand = board_sites.place(paged(**{"list?page=2": HttpReply(status=500)}), pages=2)
    reading = stand.read(past=past)
    assert not reading.failed
    assert [one.id[-1] for one in reading.items] == ["6", "5"]
    assert sorted(reading.kept) == ["uni/cs/notice/1", "uni/cs/notice/4"]
    assert [(one.stage, one.message, one.retryable) for one in reading.problems] == [("board_list", "status 500", True)]


# --- boards that fail ---


def short(_: ReceivedRequest) -> Answer:
    return ScriptedReply(
        steps=(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 900\r\n\r\n<table>", Cut.FIN)
    )


@pytest.mark.parametrize(
    ("answer", "message", "retryable"),
    [
        (HttpReply(status=500), "status 500", True),
        (HttpReply(status=404), "status 404", False),
        (HttpReply(status=403), "status 403", False),
        (HttpReply(status=304), "not modified", False),
        (HttpReply(status=301, headers=(("Location", "/list"),)), "more than 5 redirects", False),
        (HttpReply(status=301), "a redirect to nowhere", False),
        (HttpReply(body=b"%PDF", media_type="application/pdf"), "not a page but application/pdf", False),
        (HttpReply(body=b"x" * 200_000), "the response was cut (length)", False),
        (short, "the response was cut (disconnect)", True),
        (ScriptedReply(status=0, steps=(Cut.RST,)), "reset", True),
        (HttpReply(body=gzip.compress(bytes(9999))[:-9], headers=PACKED), "the response is damaged", False),
    ],
    ids=["500", "404", "403", "304", "loop", "nowhere", "pdf", "large", "short", "reset", "junk"],
)
def test_a_listing_that_cannot_be_had_fails_its_board_with_the_reason(
    board_sites: BoardSites, answer: Answer, message: str, retryable: bool
) -> None:
    stand = board_sites.place(site(1, list=answer), body=100_000, attempts=1)
    reading = stand.read(past={"uni/cs/notice/1": KnownNotice()})
    assert (reading.failed, reading.items, reading.kept) == (True, (), ())
    (problem,) = reading.problems
    assert message in problem.message
    assert (problem.stage, problem.source, problem.url) == ("board_list", "uni/cs/notice", f"http://{stand.host}/list")
    assert (problem.retryable, reading.retryable) == (retryable, retryable)


def test_a_listing_that_fails_once_is_asked_for_a_second_time(board_sites: BoardSites) -> None:
    times = count()
    stand = board_sites.place(site(1, list=lambda _: rows(1) if next(times) else HttpReply(status=503)))
    reading = stand.read()
    assert not reading.failed
    assert len(reading.items) == 1


def test_a_server_that_wants_to_be_left_alone_is(board_sites: BoardSites) -> None:
    busy = HttpReply(status=429, headers=(("Retry-After", "3600"),))
    stand = board_sites.place(site(1, list=busy), attempts=5)
    reading = stand.read()
    assert stand.asked() == ["/robots.txt", LIST]
    assert reading.failed
    assert reading.retryable


def test_a_board_has_so_much_time_and_no_more(board_sites: BoardSites) -> None:
    slow = ScriptedReply(steps=(Wait(4), b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n"))
    stand = board_sites.place(site(2, 1, view_2=slow), seconds=0.0)
    reading = stand.read()
    assert reading.failed
    assert stand.asked() in ([], ["/robots.txt"])
    assert "no time left" in reading.problems[0].message


def test_private_addresses_are_not_connected_to_unless_told(board_sites: BoardSites) -> None:
    stand = board_sites.place(site(1), allow_private=False)
    reading = stand.read()
    assert stand.asked() == []
    assert reading.failed
    assert "blocked_address" in reading.problems[0].message or "blocked_port" in reading.problems[0].message


def test_a_selector_that_is_none_fails_its_own_board_only(board_sites: BoardSites) -> None:
    stand = board_sites.place(site(1))
    bad = stand.read(selectors=Selectors(item="tr[["))
    good = stand.read()
    assert bad.failed
    assert "bad_selector" in bad.problems[0].message
    assert not good.failed


def test_where_nothing_looks_like_a_notice_any_more_the_board_has_failed(board_sites: BoardSites) -> None:
    stand = board_sites.place(site(list=text("neu gestaltet")))
    fresh, lost = stand.read(), stand.read(past={"uni/cs/notice/1": KnownNotice()})
    assert (fresh.failed, fresh.problems[0].stage) == (False, "selector")
    assert lost.failed
    assert "where 1 were known" in lost.problems[0].message


def test_a_board_that_says_it_is_empty_is_empty(board_sites: BoardSites) -> None:
    none = HttpReply(body="<div id=bo_list><table><tbody><tr><td>게시물이 없습니다.</table></div>".encode())
    stand = board_sites.place(site(list=none))
    reading = stand.read(past={"uni/cs/notice/1": KnownNotice()})
    assert (reading.failed, reading.items, reading.problems, reading.kept) == (False, (), (), ())


# --- bodies that fail ---


def test_a_body_that_may_come_later_leaves_what_is_known(board_sites: BoardSites) -> None:
    stand = board_sites.place(site(2, 1, view_2=HttpReply(status=500), view_1=HttpReply(status=500)), attempts=1)
    reading = stand.read(past={"uni/cs/notice/1": KnownNotice()})
    assert (reading.items, reading.kept) == ((), ("uni/cs/notice/1",))
    reported = [(one.stage, one.item, one.retryable) for one in reading.problems]
    assert reported == [("notice_detail", f"uni/cs/notice/{n}", True) for n in (2, 1)]


def test_a_body_that_is_gone_takes_its_notice_along(board_sites: BoardSites) -> None:
    stand = board_sites.place(site(2, 1, view_2=HttpReply(status=410)))
    reading = stand.read(past={"uni/cs/notice/2": KnownNotice()})
    assert [one.id for one in reading.items] == ["uni/cs/notice/1"]
    assert not reading.kept
    assert not reading.problems[0].retryable


def test_a_body_that_is_not_for_us_leaves_a_notice_without_a_text_and_is_not_asked_for_all_the_time(
    board_sites: BoardSites,
) -> None:
    stand = board_sites.place(site(1, view_1=HttpReply(status=403)))
    readings = [stand.read(), stand.read()]
    assert stand.asked().count("/view-1?seq=1") == 1
    for reading in readings:
        assert reading.items[0].content is not None
        assert reading.items[0].content["text"] == ""
        assert [(one.message, one.retryable) for one in reading.problems] == [("status 403", False)]


def test_bodies_without_a_body_are_told_once(board_sites: BoardSites) -> None:
    stand = board_sites.place(site(2, 1))
    reading = stand.read(selectors=Selectors(body="#nowhere"))
    assert len(reading.items) == 2
    assert [(one.stage, one.message[:26]) for one in reading.problems] == [("selector", "no body was found on 2 pag")]


def test_only_so_many_bodies_are_asked_for_and_the_rest_comes_later(board_sites: BoardSites) -> None:
    stand = board_sites.place(site(3, 2, 1), bodies=2)
    first = stand.read()
    assert [one.id[-1] for one in first.items] == ["3", "2"]
    assert [one.item for one in first.problems] == ["uni/cs/notice/1"]
    assert [one.id[-1] for one in stand.read().items] == ["3", "2", "1"]


# --- hostile pages ---


def test_a_page_that_freezes_the_parser_is_a_problem_and_the_next_board_is_read(board_sites: BoardSites) -> None:
    bomb, child = HttpReply(body=b"<div>" * 200_000), CHILD._replace(cpu=1)
    frozen = board_sites.place(site(list=bomb), child=child).read()
    reading = board_sites.place(site(1, view_1=bomb), child=child).read()
    assert frozen.failed
    assert "parse_limit" in frozen.problems[0].message
    assert reading.items[0].content is not None
    assert reading.items[0].content["text"] == ""
    assert "parse_limit" in reading.problems[0].message


# --- the door ---


def test_a_reading_that_is_under_way_when_the_reader_closes_has_failed() -> None:
    arrived = threading.Event()

    def silent(_: ReceivedRequest) -> Answer:
        arrived.set()
        return ScriptedReply(steps=(Wait(100_000),))

    with scratch() as root, TestWeb(hosts=0, sites={HOST: site(list=silent)}) as web:
        reader = BoardReader(options(root, web))
        readings = []
        thread = threading.Thread(target=lambda: readings.append(reader.read(board())))
        thread.start()
        assert arrived.wait(60)
        reader.close()
        thread.join(60)
        assert not thread.is_alive()
        assert reader.read(board()).failed
        reader.close()  # a second time
    assert readings[0].failed
    assert readings[0].retryable


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../etc/passwd", ""])
def test_a_time_zone_that_there_is_not_is_refused(zone: str, tmp_path: Path) -> None:
    given = ReaderOptions(politeness=board_manners("x"), gates=tmp_path / "gates.sqlite", zone=zone)
    with pytest.raises(Misconfigured, match="time zone"):
        BoardReader(given)


def test_what_is_told_of_one_board_is_bounded(board_sites: BoardSites) -> None:
    reading = board_sites.place(
        Pages(list=rows(*range(1, 61)), **{f"view-{n}": HttpReply(status=403) for n in range(1, 61)})
    ).read()
    assert len(reading.problems) == 51
    assert reading.problems[-1].message.startswith("and ")


def test_an_etag_that_is_too_long_to_be_kept_is_not_sent_back_in_part(board_sites: BoardSites) -> None:
    pages = site(1, list=HttpReply(body=rows(1).body, etag=f'"{"x" * 600}"'))
    stand = board_sites.place(pages)
    first = stand.read()
    assert not stand.read(past=known(first)).failed
    assert pages.conditions == []
