"""What changed by text, on the overview and on the page of two versions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from tests.serve.published_items import assert_harmless, publish
from tests.serve.sample_collection import SCRIPT
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.status_file import StatusFile
from webmill.serve.api import recorded_changes
from webmill.serve.api.text_diff import compare_sides

LINES = "\n".join(f"Line {number} of the timetable" for number in range(20))
HARBOUR = "A long line about the harbour, which nobody else has.\nAnd one more of the same kind."
OLD = {
    "com,ferry)/": {"title": "The ferry", "text": f"It leaves at nine.\n{LINES}\nVisitors: 7"},
    "com,ferry)/gone": {"title": "Winter", "text": "There is no ferry in winter."},
    "com,ferry)/news": {"title": "News", "text": HARBOUR},
    "com,ferry)/quiet": {"title": "Quiet", "text": "Nothing is new.\nVisitors: 7"},
}
NEW = {
    "com,ferry)/": {"title": "The ferry", "text": f"It leaves at noon.\nTwice.\n{LINES}\nVisitors: 8"},
    "com,ferry)/hostile": {"title": SCRIPT, "text": f"{SCRIPT} again"},
    "com,ferry)/moved": {"title": "News", "text": HARBOUR},
    "com,ferry)/quiet": {"title": "Quiet", "text": "Nothing is new.\nVisitors: 8"},
}
SITE = "https://ferry.com/"


@pytest.fixture(scope="module")
def ferry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ferry")
    for pages in (OLD, NEW):
        publish(root, {id_: {**page, "url": SITE + id_.partition("/")[2]} for id_, page in pages.items()})
    return root


@pytest.fixture
def client(ferry: Path, client_of: Callable[[Path], TestClient]) -> Iterator[TestClient]:
    with client_of(ferry) as client:
        yield client


def listed(client: TestClient, query: str = "") -> list[str]:
    """The rows of the list on top: kind, title, address, share."""
    page = LexborHTMLParser(client.get(f"/versions/diff{query}").text)
    rows = page.css("[aria-labelledby=changed-pages] tbody tr")
    return [" ".join(row.text(separator=" ").split()) for row in rows]


def test_what_changed_for_a_reader_is_listed_on_top(client: TestClient) -> None:
    assert listed(client) == [
        f"Changed The ferry {SITE} 1 %",
        f"Removed Winter {SITE}gone",
        f"Added {SCRIPT} {SITE}hostile",
        f"Moved News {SITE}news → {SITE}moved",
    ]
    page = client.get("/versions/diff").text
    assert_harmless(page)
    assert "1 page with unimportant changes (clocks, counters, what rules ignore) is left out." in page
    assert page.count('id="change-') == 4


def test_all_differences_are_a_click_away(client: TestClient) -> None:
    page = assert_harmless(client.get("/versions/diff").text)
    (everything,) = (link for link in page.links if "all=1" in link and "view=" not in link and "change=" not in link)
    rows = listed(client, everything.removeprefix("/versions/diff"))
    assert any("Quiet" in row for row in rows)
    assert len(rows) == 6  # the page that moved is removed and added


def test_kinds_and_parts_of_the_list(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [row.split()[0] for row in listed(client, "?change=moved")] == []  # one alone needs no list
    assert "Moved" in LexborHTMLParser(client.get("/versions/diff?change=moved").text).css("article")[0].text()
    assert "No changes." in client.get("/versions/diff?change=relabelled").text
    monkeypatch.setattr(recorded_changes.find_changes, "__kwdefaults__", {"kind": "", "after": "", "limit": 3})
    page = assert_harmless(client.get("/versions/diff").text)
    (following,) = (link for link in page.links if "after=" in link)
    rest = LexborHTMLParser(client.get(following).text)
    assert [card.css("h2")[0].text(strip=True) for card in rest.css("article")] == ["MovedNews"]


def test_two_texts_side_by_side_are_aligned_by_lines_and_words(client: TestClient) -> None:
    page = LexborHTMLParser(client.get("/versions/diff?view=side").text)
    rows = page.css("#change-1 .sides tbody tr")
    assert [cell.html for cell in rows[0].css("td")] == [
        '<td class="old-line">It leaves at <del>nine</del>.</td>',
        '<td class="new-line">It leaves at <ins>noon</ins>.</td>',
    ]
    assert [cell.attributes["class"] for cell in rows[1].css("td")] == ["no-line", "new-line"]
    assert any("unchanged lines" in row.text() for row in rows)
    assert "full" in str(page.css("main")[0].attributes["class"])


def test_a_page_that_moved_is_compared_with_itself(client: TestClient) -> None:
    page = assert_harmless(client.get("/versions/diff").text)
    (alone,) = {link for link in page.links if "moved_to=" in link}
    seen = client.get(alone)
    assert seen.status_code == 200
    assert f"{SITE}news" in seen.text
    assert f"{SITE}moved" in seen.text
    assert "Moved" in seen.text


# --- the overview ---


def overview(client: TestClient) -> str:
    (card,) = LexborHTMLParser(client.get("/").text).css("[aria-labelledby=lately]")
    return " ".join(card.text(separator=" ").split())


def test_the_overview_opens_with_what_changed_lately(client: TestClient) -> None:
    page = client.get("/").text
    assert_harmless(page)
    assert page.index("What changed lately") < page.index('class="figures"')
    seen = overview(client)
    assert "1 added, 1 changed, 1 removed, 1 moved" in seen
    assert f"News {SITE}news → {SITE}moved" in seen
    assert "It leaves at nine. It leaves at noon." in seen
    assert "Quiet" not in seen


@pytest.mark.parametrize(
    ("due", "said"),
    [
        (None, "To look again: webmill run"),
        (7300.0, "The next look at a page is due in 2 hours; webmill run"),
        (-60.0, "Pages are due to be looked at again: webmill run"),
    ],
)
def test_a_first_version_says_when_the_next_look_is_due(
    tmp_path: Path, client_of: Callable[[Path], TestClient], due: float | None, said: str
) -> None:
    publish(tmp_path, OLD)
    seen = CrawlProgress(shard=-1, revisit_due=None if due is None else time.time() + due)
    (tmp_path / "frontier").mkdir()
    StatusFile(tmp_path / "frontier", name="ferry", started=0.0, clock=time.time).write(seen, end="finished")
    with client_of(tmp_path) as client:
        assert f"changes are told from the second version on. {said}" in overview(client)


def test_versions_without_changes_say_since_when(tmp_path: Path, client_of: Callable[[Path], TestClient]) -> None:
    publish(tmp_path, OLD)
    publish(tmp_path, OLD)
    with client_of(tmp_path) as client:
        assert "No page has changed since" in overview(client)


# --- texts ---

TEXT = st.text("ab \n図書館", max_size=60)


@given(old=TEXT, new=TEXT)
def test_each_column_is_its_text(old: str, new: str) -> None:
    rows = compare_sides(old, new) or []
    left_out = any(row.left_out for row in rows)
    for text, side in ((old, "old"), (new, "new")):
        lines = ["".join(piece.text for piece in getattr(row, side)) for row in rows if getattr(row, side) is not None]
        assert left_out or lines == text.splitlines()
    if old == new:
        assert all(row.is_same or row.left_out for row in rows)
