"""From the overview to a retried task, as a person goes; and every page on the way looked at.

WEBMILL_TEST_SCREENSHOTS=DIR keeps a picture of every page.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.serve.browser import DEADLINE, NewTab, Origins, needs_browser, serving
from tests.serve.published_items import publish, update_search
from tests.serve.sample_collection import SCRIPT
from tests.serve.test_pages_browser import Watched, keep_picture, problems

pytestmark = needs_browser
expect.set_options(timeout=DEADLINE)

WORD = "도서관"
PAGES = {
    "search": f"/search?q={WORD}",
    "search-all": "/search",
    "search-filtered": "/search?q=town&language=eng&since=2020-01-01",
    "search-nothing": "/search?q=zeppelin&site=town.example",
    "search-meant": "/search?q=ferrry",
    "documents": "/documents",
    "documents-part": "/documents?prefix=town.example&facet=language%3Deng",
    "document": "/documents/item?id=example,town)/",
    "document-hostile": "/documents/item?id=example,town)/hostile",
    "versions": "/versions",
    "diff": "/versions/diff",
    "diff-one": "/versions/diff?id=example,town)/",
    "history": "/history?url=https://town.example/clock",
    "history-years": "/history?url=https://town.example/&period=2023",
    "history-none": "/history?url=https://town.example/nowhere",
    "addresses": "/history?url=town.example/*",
    "hosts": "/history",
}
FEW = ("search-filtered", "document-hostile", "diff", "history")
LOOKS = [pytest.param(scheme, width, id=f"{scheme}-{width}") for scheme in ("light", "dark") for width in (1280, 360)]
EMPTY = {"search": "/search", "documents": "/documents", "versions": "/versions", "history": "/history"}


@pytest.fixture
def own(tmp_path: Path, sample_root: Path) -> Iterator[Origins]:
    """A town of the test's own, to press buttons in."""
    with serving(Path(shutil.copytree(sample_root, tmp_path / "town"))) as origins:
        yield origins


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origins]:
    with serving(tmp_path_factory.mktemp("nothing")) as origins:
        yield origins


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_from_the_overview_to_a_retried_task(new_tab: NewTab, own: Origins, scripts: bool) -> None:
    tab = new_tab(java_script_enabled=scripts)
    page = tab.page
    printed: list[str] = []
    page.on("console", lambda message: printed.append(message.text))
    page.goto(own.address)
    find(page)
    look_at_the_archived_page(page)
    compare_versions(page)
    retry_a_task(page)
    assert printed == tab.errors == []
    assert all(asked.startswith((own.address, own.replay)) for asked in tab.asked)


def find(page: Page) -> None:
    """Overview, search, a hit."""
    page.get_by_role("searchbox").fill(WORD)
    page.get_by_role("button", name="Search").click()
    expect(page.locator("mark")).to_have_text([WORD])
    page.get_by_role("link", name="공지사항").click()
    expect(page.frame_locator("iframe").locator("p").first).to_contain_text(WORD)
    page.go_back()
    page.get_by_role("link", name="Text version").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("공지사항")
    expect(page.locator(".prose")).to_contain_text(WORD)
    assert page.locator(".prose").get_attribute("lang") == "ko"


def look_at_the_archived_page(page: Page) -> None:
    """The capture, replay, history."""
    page.get_by_role("link", name="Archived page").click()
    expect(page.frame_locator("iframe").locator("p").first).to_contain_text(WORD)
    page.get_by_role("link", name="All captures").click()
    expect(page.get_by_text("1 capture.", exact=False).first).to_be_visible()
    page.get_by_role("link", name="4 April 2024: 1 capture").click()
    expect(page.get_by_role("heading", name="4 April 2024")).to_be_visible()
    page.get_by_role("link", name="2024-04-04 10:00:00 UTC", exact=True).click()
    expect(page.frame_locator("iframe").locator("p").first).to_contain_text(WORD)
    page.go_back()


def compare_versions(page: Page) -> None:
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Versions").click()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What changed")
    changed = page.get_by_role("article").filter(has_text="The ferry leaves")
    expect(changed.locator("del")).to_have_text("nine")
    expect(changed.locator("ins")).to_have_text("noon")
    page.get_by_role("link", name="Removed").click()
    expect(page.get_by_role("article")).to_have_count(1)


def retry_a_task(page: Page) -> None:
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Tasks").click()
    expect(page.get_by_role("row", name="job-1")).to_contain_text(SCRIPT)
    page.get_by_role("button", name="Retry job-1").click()
    expect(page.get_by_role("status")).to_have_text("1 task queued for retry.")


class Looked(Watched):
    """The hostile page is named as it is titled: its script would have named it otherwise."""

    def look(self, name: str) -> None:
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.page.evaluate("innerWidth")
        assert self.page.title() != "owned"
        assert self.printed == self.tab.errors == []
        assert all(asked.startswith(self.origin) for asked in self.tab.asked)
        assert problems(self.page) == [], name
        keep_picture(self.page, name)


def test_pages_on_the_way_fit_a_phone_break_no_rule_and_are_open_to_all(new_tab: NewTab, origins: Origins) -> None:
    looked = Looked(new_tab(width=360, color_scheme="dark"), origins.address)
    for name in FEW:
        looked.go(PAGES[name])
        looked.look(name)


@pytest.mark.soak
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_every_page_fits_breaks_no_rule_and_is_open_to_all(
    new_tab: NewTab, origins: Origins, nothing: Origins, scheme: str, width: int
) -> None:
    for place, served, pages in (("town", origins, PAGES), ("nothing", nothing, EMPTY)):
        looked = Looked(new_tab(width=width, color_scheme=scheme), served.address)
        for name, path in pages.items():
            looked.go(path)
            looked.look(f"{place}-{name}-{scheme}-{width}")
        if served is origins:
            looked.go("/versions")
            looked.page.get_by_role("table").get_by_role("link").first.click()
            expect(looked.page.get_by_role("heading", name="Files")).to_be_visible()
            looked.look(f"town-version-{scheme}-{width}")


def test_what_strangers_publish_does_nothing(new_tab: NewTab, tmp_path: Path) -> None:
    end = "\"'><img src=x onerror=alert(1)><script>alert(1)</script>"
    hostile = {
        "title": end,
        "text": f"harbour {end}",
        "campus": end,
        "language": end,
        "url": f"javascript:alert(1)//{end}",
    }
    publish(tmp_path, {f"a{end}": {"title": "before", "text": "harbour"}})
    publish(tmp_path, {f"a{end}": hostile, f"b{end}": {**hostile, "url": f"https://board.example/{end}"}})
    update_search(tmp_path)
    with serving(tmp_path) as served:
        watched = Watched(new_tab(), served.address)
        watched.page.on("dialog", lambda dialog: watched.printed.append(f"a dialog: {dialog.message}"))
        for path in ("/search?q=harbour", "/documents", "/versions/diff"):
            watched.go(path)
            assert end in watched.page.locator("main").inner_text()
            watched.check()
        watched.page.get_by_role("article").get_by_role("link").first.click()
        assert end in watched.page.locator(".prose").inner_text()
        watched.check()


CARDS = {name: PAGES[name] for name in ("documents", "history", "versions", "diff")} | {
    "overview": "/",
    "reports": "/crawl/reports",
    "crawl": "/crawl",
    "tasks": "/tasks",
    "settings": "/settings",
}


def test_no_table_is_cut_on_a_phone(new_tab: NewTab, origins: Origins) -> None:
    """What does not fit beside each other stands below each other: nobody sees that a table goes on to the right."""
    watched = Watched(new_tab(width=360), origins.address)
    for name, path in CARDS.items():
        watched.go(path)
        assert tables_that_are_cut(watched.page) == [], name
        keep_picture(watched.page, f"phone-{name}")
    watched.go("/versions")
    watched.page.get_by_role("table").get_by_role("link").first.click()
    assert tables_that_are_cut(watched.page) == []


def tables_that_are_cut(page: Page) -> list[str]:
    cut = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.innerText)"
    texts: list[str] = page.locator(".scroll").evaluate_all(cut)
    return texts


def test_a_search_is_typed_narrowed_down_and_left_by_keyboard(new_tab: NewTab, origins: Origins) -> None:
    watched = Watched(new_tab(), origins.address)
    watched.go("/search")
    watched.page.get_by_role("combobox", name="Search terms").focus()
    watched.page.keyboard.type("town")
    watched.page.keyboard.press("Enter")
    choice = watched.page.get_by_role("complementary").get_by_role("link", name="English")
    choice.focus()
    watched.page.keyboard.press("Enter")
    chip = watched.page.get_by_role("link", name="Language: English")
    expect(chip).to_be_visible()
    chip.focus()
    watched.page.keyboard.press("Enter")
    expect(chip).to_have_count(0)
    watched.check()
