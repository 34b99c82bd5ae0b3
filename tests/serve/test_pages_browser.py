"""Pages in a real browser: light and dark, desk and phone, with and without scripts.

WEBMILL_TEST_SCREENSHOTS=DIR keeps a picture of every page, to be looked at.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.pipeline.crawling import Growing, Setup, crawl_until
from tests.serve.browser import NewTab, Origins, Tab, needs_browser, serving
from tests.serve.sample_collection import SCRIPT
from webmill.testing import TestWeb

pytestmark = needs_browser

PAGES = (
    "/",
    "/versions/diff",
    "/versions/diff?view=side",
    "/crawl",
    "/crawl/reports",
    "/tasks",
    "/problems",
    "/tasks/drop?queue=publish&id=job-1",
    "/settings",
    "/nowhere",
)
PICTURES = os.environ.get("WEBMILL_TEST_SCREENSHOTS")
LOOKS = [
    pytest.param("light", 1280, id="light-1280"),
    pytest.param("dark", 360, id="dark-360"),
    pytest.param("dark", 1280, id="dark-1280", marks=pytest.mark.soak),
    pytest.param("light", 360, id="light-360", marks=pytest.mark.soak),
]
HOST = "growing.names.test"


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origins]:
    """A collection with nothing in it yet, served."""
    with serving(tmp_path_factory.mktemp("nothing")) as origins:
        yield origins


@pytest.fixture
def own(tmp_path: Path, sample_root: Path) -> Iterator[Origins]:
    """A town of the test's own, to press buttons in."""
    with serving(Path(shutil.copytree(sample_root, tmp_path / "town"))) as origins:
        yield origins


class Watched:
    """A tab in which nothing may go wrong: every message of the browser is kept, CSP violations among them."""

    def __init__(self, tab: Tab, origin: str) -> None:
        self.tab, self.page, self.origin = tab, tab.page, origin
        self.printed: list[str] = []
        self.page.on("console", lambda message: self.printed.append(message.text))

    def go(self, path: str) -> None:
        self.page.goto(self.origin + path)

    def check(self) -> None:
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.page.viewport_size["width"]  # type: ignore[index]
        assert "owned" not in self.page.title()
        assert [line for line in self.printed if "404" not in line] == self.tab.errors == []
        assert all(asked.startswith(self.origin) for asked in self.tab.asked)


def problems(page: Any) -> list[str]:
    """What axe finds that keeps people out."""
    found = cast("list[dict[str, Any]]", Axe().run(page).response["violations"])
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found if each["impact"] in ("serious", "critical")
    ]


def keep_picture(page: Any, name: str) -> None:
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_every_page_fits_breaks_no_rule_and_is_open_to_all(
    new_tab: NewTab, origins: Origins, nothing: Origins, scheme: str, width: int
) -> None:
    collections = {"town": origins}
    if scheme == "light" or PICTURES:  # axe takes a second a page
        collections["nothing"] = nothing
    for name, served in collections.items():
        watched = Watched(new_tab(width=width, color_scheme=scheme), served.address)
        for path in PAGES:
            watched.go(path)
            watched.check()
            assert problems(watched.page) == [], path
            keep_picture(watched.page, f"{name}{path.partition('?')[0].replace('/', '-')}-{scheme}-{width}")


@pytest.mark.parametrize(("scheme", "width"), LOOKS[:2])
def test_two_captures_are_chosen_and_compared(new_tab: NewTab, origins: Origins, scheme: str, width: int) -> None:
    watched = Watched(new_tab(width=width, color_scheme=scheme), origins.address)
    watched.go("/history?url=https://town.example/&period=2023")
    assert problems(watched.page) == []
    keep_picture(watched.page, f"town-history-{scheme}-{width}")
    watched.page.get_by_role("radio", name="Compare from 2023-04-01 12:05:00").check()
    watched.page.get_by_role("button", name="Compare these two").click()
    watched.page.get_by_text("The same text: it is the same capture.").wait_for()
    watched.go("/history/compare?url=https://town.example/&old=20220310080000&new=20230401120000")
    watched.page.get_by_role("link", name="Side by side").click()
    watched.page.locator(".sides ins", has_text="noon").wait_for()
    watched.check()
    assert problems(watched.page) == []
    keep_picture(watched.page, f"town-compare-{scheme}-{width}")


def test_a_failed_task_is_retried_with_scripts_off(new_tab: NewTab, own: Origins) -> None:
    watched = Watched(new_tab(java_script_enabled=False), own.address)
    watched.go("/")
    watched.page.get_by_role("navigation").get_by_role("link", name="Tasks").click()
    assert SCRIPT in watched.page.get_by_role("row", name="job-1").inner_text()
    watched.page.get_by_role("button", name="Retry job-1").click()
    assert watched.page.get_by_role("status").inner_text() == "1 task queued for retry."
    assert watched.page.get_by_role("row", name="job-1").count() == 0


def test_a_failed_task_is_dropped_by_keyboard(new_tab: NewTab, own: Origins) -> None:
    watched = Watched(new_tab(), own.address)
    watched.go("/tasks")
    watched.page.keyboard.press("Tab")
    assert watched.page.evaluate("document.activeElement.textContent") == "Skip to content"
    watched.page.get_by_role("link", name="Drop job-1").focus()
    watched.page.keyboard.press("Enter")
    watched.page.get_by_role("button", name="Drop it").focus()
    watched.page.keyboard.press("Enter")
    assert watched.page.get_by_role("status").inner_text() == "1 task dropped."
    watched.check()


def test_a_plot_is_read_as_a_table_and_a_slash_goes_to_the_search(new_tab: NewTab, origins: Origins) -> None:
    watched = Watched(new_tab(java_script_enabled=True), origins.address)
    watched.go("/")
    figure = watched.page.locator("figure.chart").first
    assert not figure.get_by_role("table").is_visible()
    figure.get_by_text("As a table").click()
    assert figure.get_by_role("row", name="2024-04").is_visible()
    watched.page.keyboard.press("/")
    assert watched.page.evaluate("document.activeElement.id") == "q"
    watched.check()


def test_a_crawl_is_watched_while_it_runs_and_held_still(new_tab: NewTab, tmp_path: Path) -> None:
    root = tmp_path / "crawled"
    root.mkdir()
    enough = threading.Event()
    with TestWeb(hosts=0, sites={HOST: Growing()}) as web, serving(root) as served:
        setup = Setup(seeds=(f"http://{HOST}/",), resolve=dict(web.resolve), delay=0.05)
        crawl = threading.Thread(target=crawl_until, args=(root, setup, lambda _: enough.is_set()))
        crawl.start()
        try:
            watched = Watched(new_tab(), served.address)
            _watch(watched)
        finally:
            enough.set()
            crawl.join()
        watched.page.get_by_text("The last run was stopped.").wait_for()
        watched.check()


def _watch(watched: Watched) -> None:
    def pages() -> int:
        return int(watched.page.locator(".figures dd").first.inner_text().replace(",", ""))

    def is_running() -> bool:
        watched.go("/crawl")
        return watched.page.get_by_text("running", exact=True).count() > 0

    watched.tab.wait_until(is_running, "the crawl to begin")
    loads = len([asked for asked in watched.tab.asked if "/static/" in asked])
    seen = pages()
    watched.tab.wait_until(lambda: pages() > seen, "more pages, without a click")
    watched.page.locator("svg.spark").wait_for()
    keep_picture(watched.page, "running-crawl-light-1280")
    assert problems(watched.page) == []
    assert len([asked for asked in watched.tab.asked if "/static/" in asked]) == loads  # the same page all the time
    watched.page.get_by_role("button", name="Stop updating").click()
    watched.page.get_by_role("button", name="Go on updating").click()
    seen = pages()
    watched.tab.wait_until(lambda: pages() > seen, "more pages, after the page was left alone")
    watched.page.get_by_role("button", name="Pause the crawl").click()
    watched.page.get_by_text("paused", exact=True).wait_for()
    assert problems(watched.page) == []
    keep_picture(watched.page, "paused-crawl-light-1280")
    seen = pages()
    watched.page.get_by_role("button", name="Let the crawl go on").click()
    watched.tab.wait_until(lambda: pages() > seen, "more pages, after the pause")
    watched.go("/")
    watched.page.get_by_role("heading", name="The first crawl is running").wait_for()
    assert problems(watched.page) == []
    keep_picture(watched.page, "first-crawl-light-1280")
    watched.go("/crawl")
