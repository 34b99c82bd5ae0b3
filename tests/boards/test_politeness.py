"""How boards are asked: by robots.txt, at the times of their hosts, by as many readers as there are."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import msgspec
import pytest

from tests.boards.readers import (
    Pages,
    asked,
    board,
    known,
    options,
    read_all,
    scratch,
    site,
    university_boards,
)
from tests.pipeline.crawl_manners import check_manners, keep_journal
from tests.pipeline.crawling import most_at_once, seen_by
from webmill.boards.reader import BoardReader
from webmill.boards.types import BoardResult
from webmill.collection import PublishFolders
from webmill.infra.host_schedule.fixed_delays import ReservationUpdate
from webmill.infra.host_schedule.sqlite_schedule import SqliteHostSchedule
from webmill.testing import HttpReply, ScriptedReply, TestWeb, Wait
from webmill.testing.exchange import TEXT, format_head
from webmill.testing.features import university

DELAY = 0.2


def slow(page: HttpReply) -> ScriptedReply:
    return ScriptedReply(steps=(Wait(20), format_head(page, close=True) + page.body))


def read_by(readers: list[BoardReader], names: list[str]) -> list[BoardResult]:
    """Every board by every reader, all at once."""
    boards = [board(f"http://{name}/list", source=name) for name in names]
    with ThreadPoolExecutor(len(readers) * len(boards)) as threads:
        tasks = [threads.submit(reader.read, one) for reader in readers for one in boards]
        return [task.result() for task in tasks]


def test_two_readers_never_ask_a_host_at_once_nor_before_its_delay() -> None:
    hosts = {"a.uni.test": site(1), "b.uni.test": site(2, list=slow(HttpReply(body=b"<table></table>")))}
    with scratch() as root, TestWeb(hosts=0, sites=hosts) as web:
        keep_journal(root)
        given = options(root, web, delay=DELAY)
        with BoardReader(given) as one, BoardReader(given) as other:
            readings = read_by([one, other], [*hosts])
        assert web.log.settle(seconds=60)
        seen = seen_by(visit for visit in web.log if visit.host in hosts)
        check_manners(root, seen, host=DELAY)
    assert not any(reading.failed for reading in readings)
    assert most_at_once(seen) == 1


def test_hosts_of_one_address_share_its_delay() -> None:
    hosts = {f"d{number}.uni.test": site(1) for number in range(3)}
    with scratch() as root, TestWeb(hosts=0, sites=hosts, addresses=("127.0.0.2",)) as web:
        keep_journal(root)
        with BoardReader(options(root, web, delay=DELAY)) as reader:
            readings = read_by([reader], [*hosts])
        assert web.log.settle(seconds=60)
        check_manners(root, seen_by(visit for visit in web.log if visit.host in hosts), host=DELAY, address=DELAY)
    assert [len(reading.items) for reading in readings] == [1, 1, 1]


def test_a_crawl_delay_is_kept() -> None:
    rules = HttpReply(body=b"User-agent: *\nCrawl-delay: 0.3\n", media_type=TEXT)
    with scratch() as root, TestWeb(hosts=0, sites={"a.uni.test": site(2, 1, robots=rules)}) as web:
        with BoardReader(options(root, web, delay=0.01)) as reader:
            reader.read(board("http://a.uni.test/nothing"))  # from now on it knows the rules
            assert web.log.settle(seconds=60)
            before = len(web.log)
            keep_journal(root)
            assert len(reader.read(board("http://a.uni.test/list")).items) == 2
        assert web.log.settle(seconds=60)
        seen = seen_by(web.log.visits()[before:])
        assert len(seen) == 3
        check_manners(root, seen, host=0.3)


def robots(rules: bytes, *, status: int = 200) -> Pages:
    return site(1, robots=HttpReply(status=status, body=rules, media_type=TEXT))


@pytest.mark.parametrize(
    ("pages", "paths", "message", "retryable"),
    [
        (robots(b"User-agent: *\nDisallow: /\n"), [], "forbidden by robots.txt", False),
        (robots(b"User-agent: webmill\nDisallow: /list\n"), [], "forbidden by robots.txt", False),
        (robots(b"User-agent: *\nDisallow: /view\n"), ["/list"], "forbidden by robots.txt", False),
        (robots(b"", status=500), [], "its robots.txt cannot be fetched", True),
        (robots(b"User-agent: *\nDisallow: /\n", status=404), ["/list", "/view-1?seq=1"], "", False),
        (robots(b"User-agent: other\nDisallow: /\n"), ["/list", "/view-1?seq=1"], "", False),
    ],
    ids=["all", "the listing", "bodies", "unreachable", "none", "for others"],
)
def test_robots_txt_is_obeyed(pages: Pages, paths: list[str], message: str, retryable: bool) -> None:
    with scratch() as root, TestWeb(hosts=0, sites={"a.uni.test": pages}) as web:
        with BoardReader(options(root, web)) as reader:
            reading = reader.read(board("http://a.uni.test/list"))
        assert asked(web, "a.uni.test") == ["/robots.txt", *paths]
    assert reading.failed == (not paths)
    assert [(one.message, one.retryable) for one in reading.problems] == ([(message, retryable)] if message else [])


def test_robots_txt_is_asked_for_once_for_all_boards_and_readers() -> None:
    with scratch() as root, TestWeb(hosts=0, sites={"a.uni.test": site(1)}) as web:
        with BoardReader(options(root, web)) as reader:
            read_by([reader], ["a.uni.test"] * 4)
        with BoardReader(options(root, web)) as reader:
            read_by([reader], ["a.uni.test"])
        assert Counter(asked(web, "a.uni.test"))["/robots.txt"] == 1


def test_a_redirect_is_asked_at_the_time_of_its_host_if_robots_txt_allows() -> None:
    to = HttpReply(status=302, headers=(("Location", "http://b.uni.test/list"),))
    forbidden = robots(b"User-agent: *\nDisallow: /list\n")
    sites = {"a.uni.test": site(list=to), "b.uni.test": forbidden}
    with scratch() as root, TestWeb(hosts=0, sites=sites) as web:
        with BoardReader(options(root, web)) as reader:
            reading = reader.read(board("http://a.uni.test/list"))
        assert asked(web, "b.uni.test") == ["/robots.txt"]
    assert [one.message for one in reading.problems] == ["forbidden by robots.txt"]


def test_a_robots_txt_may_be_elsewhere() -> None:
    there = HttpReply(status=301, headers=(("Location", "http://b.uni.test/rules"),))
    rules = HttpReply(body=b"User-agent: *\nDisallow: /view\n", media_type=TEXT)
    sites = {"a.uni.test": site(1, robots=there), "b.uni.test": Pages(rules=rules)}
    with scratch() as root, TestWeb(hosts=0, sites=sites) as web:
        with BoardReader(options(root, web)) as reader:
            reading = reader.read(board("http://a.uni.test/list"))
        assert asked(web, "a.uni.test") == ["/robots.txt", "/list"]
        assert asked(web, "b.uni.test") == ["/rules"]
    assert [one.message for one in reading.problems] == ["forbidden by robots.txt"]


def test_a_host_that_a_crawl_of_the_same_folder_has_asked_is_not_asked_before_its_time() -> None:
    with scratch() as root, TestWeb(hosts=0, sites={"a.uni.test": site(1)}) as web:
        crawled = PublishFolders(root).gates
        assert crawled == root / "frontier" / "gates.sqlite"  # where crawls book theirs
        with closing(SqliteHostSchedule(crawled)) as gates:
            clock = gates.clock(None)
            gates.update([{"host:a.uni.test": ReservationUpdate(0.0, clock() + 3600)}], clock=clock)
        given = options(root, web, seconds=5.0)
        with BoardReader(msgspec.structs.replace(given, gates=crawled)) as reader:
            reading = reader.read(board("http://a.uni.test/list"))
        assert asked(web, "a.uni.test") == []
    assert (reading.failed, reading.retryable) == (True, True)


# --- a whole university ---


def truth(version: int) -> dict[str, tuple[str, str, str, str]]:
    """What can be had, by id: title, date, author, text."""
    return {
        f"{one.source}/{notice.number}": (notice.title, notice.date.isoformat(), notice.author, notice.text)
        for one in university.boards()
        if not one.is_broken(version) and one.number not in university.FORBIDDEN
        for notice in university.notices(one, version)
    }


def found(readings: dict[str, BoardResult]) -> dict[str, tuple[object, ...]]:
    return {
        item.id: tuple(item.content[key] for key in ("title", "date", "author", "text")) if item.content else ()
        for reading in readings.values()
        for item in reading.items
    }


def broken(version: int) -> set[str]:
    return {one.source for one in university.boards() if one.is_broken(version) or one.number in university.FORBIDDEN}


def pages_of_listings(version: int) -> int:
    """Requests: a board that answers 500 is asked twice."""
    there = [one for one in university.boards() if one.number not in university.FORBIDDEN]
    two = [
        one for one in there if one.is_broken(version) or len(university.notices(one, version)) > university.PER_PAGE
    ]
    return len(there) + len(two)


def requests(web: TestWeb) -> int:
    assert web.log.settle(seconds=60)
    return sum(1 for visit in web.log if visit.path != "/robots.txt")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_250_boards_are_read_as_they_are_and_a_second_time_only_what_has_changed() -> None:
    boards = university_boards()
    assert len(boards) == 250
    with scratch() as root, TestWeb(hosts=0, pace=0.01) as web:
        keep_journal(root)
        with BoardReader(options(root, web, delay=0.005, pages=2)) as reader:
            first = read_all(reader, boards)
            assert found(first) == truth(1)
            assert {source for source, reading in first.items() if reading.failed} == broken(1)
            many = requests(web)

            past = {id_: one for reading in first.values() for id_, one in known(reading).items()}
            again = read_all(reader, boards, past)
            assert found(again) == truth(1)
            assert sum(reading.counts.get("bodies_asked", 0) for reading in again.values()) == 0
            assert requests(web) - many == pages_of_listings(1)
            assert sum(reading.not_modified for reading in again.values()) > 100

            web.advance()
            later = read_all(reader, boards, past)
            assert found(later) == truth(2)
            assert {source for source, reading in later.items() if reading.failed} == broken(2)
            assert sum(reading.counts.get("bodies_asked", 0) for reading in later.values()) == 5
            assert not any(reading.beyond or reading.kept for reading in later.values())
        seen = seen_by(visit for visit in web.log if visit.host in university.HOSTS)
        check_manners(root, seen, host=0.005)
        assert most_at_once(seen) == 1
    differing = {id_ for id_ in found(first).keys() & found(later).keys() if found(first)[id_] != found(later)[id_]}
    sources = university.boards()
    assert differing == {f"{sources[of].source}/{number}" for of, number in university.CHANGED}
    closed = [one for one in seen if one.path.startswith(university.CLOSED)]
    assert not closed


def test_the_university_tells_its_boards_apart() -> None:
    """Its own truth: 250 boards, four names for them, none like another."""
    boards = university_boards()
    assert (len(boards), len({one.board for one in boards}), len({one.source for one in boards})) == (250, 4, 250)
    assert len({one.facets["department"] for one in boards}) == university.DEPARTMENTS
    assert {one.source for one in boards} == {one.source for one in university.boards()}
    before, after = truth(1), truth(3)
    gone = {id_.rpartition("/")[0] for id_ in before.keys() - after.keys()} - broken(2)
    assert len(gone) == len(university.REMOVED)
    assert len(after.keys() - before.keys()) == len(university.ADDED)
    assert len(truth(4)) < 0.7 * len(after)
