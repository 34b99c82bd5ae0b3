"""Pictures that a browser took of pages, as people see them: in the history, among hits, before and after."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import webmill as api
from tests.serve.browser import NewTab, Origins, needs_browser, serving
from tests.serve.test_pages_browser import LOOKS, Watched, keep_picture, problems
from webmill.testing import Answer, ExpectedPage, HttpReply, ReceivedRequest, TestWeb

pytestmark = needs_browser

HOST = "seen.mill.localhost"
URL = f"http://{HOST}/"
COLOURS = ("#2266aa", "#aa3322")
PAGE = """<!doctype html><html lang=en><title>The ferry</title><body style="margin:0;font:20px sans-serif">
<header style="background:#eee;padding:20px"><h1>The ferry</h1></header><p style="padding:0 20px">It leaves at {}.</p>
<div style="height:300px;width:400px;margin:20px;background:{}"></div></body></html>"""

# In the box, and beside it: of one reading.
PIXELS = """() => {
  const all = document.querySelector('canvas').getContext('2d').getImageData(0, 0, 1280, 1024).data;
  return [[200, 300], [1000, 800]].map(([x, y]) => all.slice(4 * (1280 * y + x), 4 * (1280 * y + x) + 4).join());
}"""


class FerryHost:
    """A page that changes, and names its picture's colour."""

    version = 0

    def pages(self, version: int) -> list[ExpectedPage]:
        return []

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path != "/":
            return HttpReply(status=404, body=b"none")
        return HttpReply(body=PAGE.format(("nine", "noon")[self.version], COLOURS[self.version]).encode())


@pytest.fixture(scope="module", autouse=True)
def pictured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page that was captured twice, each time published: before Playwright is there, which allows no other loop."""
    root = tmp_path_factory.mktemp("pictured") / "ferry"
    host = FerryHost()
    with TestWeb(hosts=1, sites={HOST: host}) as web:
        for host.version in (0, 1):
            time.sleep(1.1)  # captures and versions are told apart by their seconds
            report = api.save(
                root, URL, contact="me@example.org", allow_private=True, resolve={HOST: web.resolve[HOST]},
                delay=0.0, browser="always",
            )  # fmt: skip
            assert report.page.status == 200
            api.run(root, stages=["index", "extract", "publish", "search"])
    return root


@pytest.fixture(scope="module")
def ferry(pictured: Path) -> Iterator[Origins]:
    with serving(pictured) as origins:
        yield origins


def shown(watched: Watched, selector: str) -> list[bool]:
    """Tell which pictures are there, and not only named."""
    watched.page.wait_for_load_state("networkidle")
    return [
        bool(each.evaluate("(img) => img.complete && img.naturalWidth > 0"))
        for each in watched.page.query_selector_all(selector)
    ]


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_pictures_are_shown_in_history_and_hits(new_tab: NewTab, ferry: Origins, scheme: str, width: int) -> None:
    watched = Watched(new_tab(width=width, color_scheme=scheme), ferry.address)
    for path, count in ((f"/history?url={URL}", 2), ("/search?q=ferry", 1)):
        watched.go(path)
        assert shown(watched, ".thumbnail img") == [True] * count
        watched.check()
        assert problems(watched.page) == [], path
        keep_picture(watched.page, f"pictures{path.partition('?')[0].replace('/', '-')}-{scheme}-{width}")
    with watched.page.expect_navigation():
        watched.page.locator(".thumbnail").first.click()
    assert watched.page.evaluate("document.images[0].naturalWidth") >= 1000


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_the_difference_of_two_pictures_is_marked(new_tab: NewTab, ferry: Origins, scheme: str, width: int) -> None:
    watched = Watched(new_tab(width=width, color_scheme=scheme), ferry.address)
    watched.go(f"/history?url={URL}")
    watched.page.get_by_role("button", name="Compare these two").click()
    watched.page.get_by_text("% of the picture differs").wait_for()
    assert shown(watched, ".pictures img") == [True, True]
    share = int(watched.page.locator(".pictures figcaption").last.inner_text().split()[0])
    assert 5 <= share <= 15  # 400 x 300 of 1280 x 1024, and a word
    changed, same = watched.page.evaluate(PIXELS)
    assert same == "255,255,255,255" != changed
    watched.check()
    assert problems(watched.page) == []
    keep_picture(watched.page, f"pictures-compare-{scheme}-{width}")


def test_versions_of_a_page_are_shown_with_their_pictures(new_tab: NewTab, ferry: Origins) -> None:
    watched = Watched(new_tab(), ferry.address)
    watched.go("/versions/diff")
    watched.page.get_by_role("link", name="only this").click()
    watched.page.get_by_text("% of the picture differs").wait_for()
    assert shown(watched, ".pictures img") == [True, True]
    watched.check()


def test_without_scripts_both_pictures_are_there(new_tab: NewTab, ferry: Origins) -> None:
    watched = Watched(new_tab(java_script_enabled=False), ferry.address)
    watched.go(f"/history?url={URL}")
    watched.page.get_by_role("button", name="Compare these two").click()
    assert watched.page.locator(".pictures img").count() == 2
    assert not watched.page.locator("canvas").is_visible()
