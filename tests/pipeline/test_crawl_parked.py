"""A crawl of a trap ends, tells what it left, and fetches it when a person says so; a kill does not begin it afresh."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked, Setup, crawl_here, crawl_until, seen_by, visits
from tests.unit.cli.command import webmill
from webmill.crawl.options import CrawlRules, RevisitSchedule
from webmill.crawl.yields.yield_store import PARKED
from webmill.pipeline.problems import collect_problems
from webmill.testing import Answer, HttpReply, ReceivedRequest, TestWeb

HOST = "calendar.mill.example"
PATTERN = f"{HOST}/days/{{n}}"
RULES = CrawlRules(scope="host", trap_budget=20, domain_trap_budget=60)


class Diary(Linked):
    """Days without an end and without an event, and ten pages with a text of their own."""

    last = 10**9

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/robots.txt":
            return super().answer(request)
        day = int(request.path.rpartition("/")[2] or 0) if request.path.startswith("/days/") else 0
        links = [f"/days/{each}" for each in range(day + 1, day + 4) if each <= self.last]
        links += [f"/pages/{letter}" for letter in "abcdefghij"]
        text = request.path[7:] * 100 if request.path.startswith("/pages/") else "There is no event on this day."
        anchors = "".join(f'<li><a href="{href}">more</a></li>' for href in links)
        return HttpReply(body=f"<html><body><p>{text}</p><ul>{anchors}</ul></body></html>".encode())


def setup_of(web: TestWeb, **more: object) -> Setup:
    return Setup(seeds=(f"http://{HOST}/",), resolve=dict(web.resolve), rules=RULES, parks=True, **more)  # type: ignore[arg-type]


def days_in(web: TestWeb) -> list[str]:
    return [each.path for each in seen_by(web.log.visits()) if each.path.startswith("/days/")]


def run(*arguments: str) -> str:
    ended = webmill(*arguments)
    assert ended.code == 0, ended.err
    return ended.out.decode() + ended.err


def test_a_trap_is_parked_told_explained_and_released(memory_folder: Path) -> None:
    root, diary = memory_folder / "collection", Diary(0)
    with TestWeb(hosts=1, sites={HOST: diary}) as web:
        report = crawl_here(root, setup_of(web))
        assert report.end == "finished"
        assert len(days_in(web)) <= 40
        known = visits(root)
        assert {f"http://{HOST}/pages/{letter}" for letter in "abcdefghij"} <= known.keys()
        parked = [url for url, visit in known.items() if visit.error == f"{PARKED}: {PATTERN}"]
        assert parked
        assert report.total.refused[PARKED] == len(parked)

        [group] = [each for each in collect_problems(root).groups if each.cause == PARKED]
        assert (group.count, group.severity) == (len(parked), "warning")
        assert group.examples[0].subject == PATTERN
        assert "frontier release" in group.command
        assert PATTERN in run("frontier", "parked", str(root))
        assert "gave nothing new" in run("frontier", "why", str(root), parked[0])

        before, diary.last = len(days_in(web)), 200
        assert f"{len(parked)} URL" in run("frontier", "release", str(root), PATTERN)
        crawl_here(root, setup_of(web))
        assert len(set(days_in(web))) == 200 > before
        assert not [each for each in collect_problems(root).groups if each.cause == PARKED]


def test_a_crawl_that_begins_again_does_not_begin_the_trap_again(memory_folder: Path) -> None:
    root = memory_folder / "collection"
    with TestWeb(hosts=1, sites={HOST: Diary(0)}) as web:
        for most in (8, 16, 24):
            crawl_until(root, setup_of(web), lambda progress, most=most: progress.pages >= most)  # type: ignore[misc]
        report = crawl_here(root, setup_of(web))
        assert report.end == "finished"
        assert len(days_in(web)) <= 60


def test_pages_that_are_watched_and_do_not_change_are_no_trap(memory_folder: Path) -> None:
    root = memory_folder / "collection"
    watching = RevisitSchedule.watching(0.001)
    diary = Diary(0)
    diary.last = 5
    with TestWeb(hosts=1, sites={HOST: diary}) as web:
        for _ in range(8):
            crawl_here(root, setup_of(web, revisits=watching))
        assert len(days_in(web)) >= 5 * 7
        assert not [url for url, visit in visits(root).items() if visit.error]


@pytest.mark.parametrize("budget", [0, 20])
def test_the_budget_is_a_setting(memory_folder: Path, budget: int) -> None:
    diary = Diary(0)
    diary.last = 100
    rules = CrawlRules(scope="host", trap_budget=budget, domain_trap_budget=0)
    with TestWeb(hosts=1, sites={HOST: diary}) as web:
        setup = Setup(seeds=(f"http://{HOST}/",), resolve=dict(web.resolve), rules=rules, parks=True)
        crawl_here(memory_folder / "collection", setup)
        assert (len(set(days_in(web))) == 100) == (budget == 0)
