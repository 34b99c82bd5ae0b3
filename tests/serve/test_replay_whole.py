"""A crawl with requisites in a real browser: its pages are as they were, and nobody else is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.pipeline.crawling import NAME, Setup, crawl_here
from tests.serve.browser import DEADLINE, NewTab, Origins, Tab, needs_browser, serving
from webmill.cli.main import webmill
from webmill.crawl.options import CrawlRules
from webmill.testing import TestWeb
from webmill.testing.features.page_resources import CDN, HOST

pytestmark = needs_browser
expect.set_options(timeout=DEADLINE)
LOADED = "images => images.every(image => image.complete)"
WIDTH = "image => image.naturalWidth"
BEHIND = ("wall.png", "deep.png", "head.png", "styled.png", "mill.woff2")  # named by styles alone


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origins]:
    root = tmp_path_factory.mktemp("gallery") / "collection"
    make(root)
    with serving(root) as origins:
        yield origins


def make(root: Path) -> None:
    with TestWeb(hosts=1) as web:
        rules = CrawlRules(scope="host", page_resources=True)
        crawl_here(root, Setup(seeds=(f"http://{HOST}/whole",), resolve=dict(web.resolve), rules=rules))
    webmill(["-q", "index", str(root), "--name", NAME], standalone_mode=False)


def test_a_page_is_as_it_was_with_pictures_styles_scripts_and_frames(new_tab: NewTab, gallery: Origins) -> None:
    tab = new_tab()
    answers: dict[str, int] = {}
    tab.page.on("response", lambda response: answers.update({response.url: response.status}))
    tab.page.goto(f"{gallery.address}/web/2/http://{HOST}/whole", wait_until="networkidle")
    inner = tab.page.frame_locator("#page")
    expect(inner.locator("body")).to_have_css("color", "rgb(1, 2, 3)")  # the depot's sheet
    expect(inner.locator("#styled")).to_have_css("outline-style", "solid")  # the sheet that it imports
    expect(inner.locator("h1").first).to_have_css("margin-top", "0px")  # the page's own
    await_pictures(tab, inner.locator("img"))
    for name in ("one", "two", "depot", "moved"):
        assert inner.locator(f"#{name}").evaluate(WIDTH) == 8, name
    assert inner.locator("#closed").evaluate(WIDTH) == 0  # robots.txt forbids it
    assert inner.locator("body").evaluate("() => window.mill") == "grinds"
    for frame in range(2):
        framed = inner.frame_locator(f"iframe >> nth={frame}")
        expect(framed.locator("h1")).to_have_text("A frame")
        await_pictures(tab, framed.locator("img"))
        assert framed.locator("img").evaluate(WIDTH) == 8
    for name in BEHIND:
        tab.wait_until(lambda name=name: any(name in url for url in answers), name)  # type: ignore[misc]
    archived = [url for url in tab.asked if url.startswith(gallery.replay)]
    missing = [url.rpartition("http://")[2] for url in archived if answers.get(url, 404) >= 400]
    assert missing == [f"{CDN}/closed/secret.png"]
    assert tab.errors == []


def await_pictures(tab: Tab, pictures: Locator) -> None:
    tab.wait_until(lambda: pictures.evaluate_all(LOADED), "all pictures")
