"""/versions: which there are, what is in one, and what changed between any two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.serve.published_items import assert_harmless, publish
from tests.serve.sample_collection import SCRIPT
from webmill.infra.storage.local import LocalStorage
from webmill.publish import history
from webmill.publish.diff import CHANGES, diff_indexes
from webmill.publish.manifest import read_version_index
from webmill.serve.api import differences, text_diff
from webmill.serve.api.text_diff import compare_texts

FIRST = {f"notice/{number:03d}": {"title": f"Notice {number}", "text": f"Text {number}"} for number in range(150)}
SECOND = {
    **{id_: content for id_, content in FIRST.items() if not id_.endswith("7")},
    **{f"notice/{number:03d}": {"title": f"Notice {number}", "text": "Other"} for number in range(0, 150, 10)},
    **{f"notice/{number:03d}": {**FIRST["notice/003"], "campus": "Seoul"} for number in (3,)},
    **{f"new/{number}": {"title": SCRIPT, "text": f"A {SCRIPT}", "url": "javascript:alert(1)"} for number in range(5)},
}
LINES = "\n".join(f"line {number}" for number in range(100))
TEXTS = {
    "text/zh": ("图书馆在暑假期间提前关门。", "图书馆在寒假期间提前关门。"),
    "text/lines": (LINES, LINES.replace("line 50\n", "line fifty\n")),
    "text/large": ("a " * 150_000, "b " * 150_000),
    "text/huge": ("a" * (5 << 20), "b"),
    "text/script": (f"before {SCRIPT}", f"after {SCRIPT}"),
}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("board")
    for contents, at in ((FIRST, 0), (SECOND, 1), (FIRST, 0)):
        publish(root, {**contents, **{id_: {"title": id_, "text": both[at]} for id_, both in TEXTS.items()}})
    return root


@pytest.fixture
def board_client(board: Path, client_of: Callable[[Path], TestClient]) -> Iterator[TestClient]:
    with client_of(board) as client:
        yield client


def names(client: TestClient) -> list[str]:
    return [version["version"] for version in client.get("/api/versions").json()["versions"]]


# --- which there are ---


def test_versions_are_listed_with_what_they_changed(client: TestClient) -> None:
    old, new = names(client)
    page = assert_harmless(client.get("/versions").text)
    assert page.text.index(new) < page.text.index(old)
    assert "2 versions kept" in page.text
    assert {f"/versions/{new}", f"/versions/diff?from={old}&to={new}"} <= set(page.links)
    listed = client.get("/api/versions").json()["versions"]
    assert [version["live"] for version in listed] == [False, True]
    assert listed[0]["until"] == listed[1]["published_at"]


def test_a_version_shows_its_numbers_sources_and_files(client: TestClient, sample_root: Path) -> None:
    new = names(client)[-1]
    page = assert_harmless(client.get(f"/versions/{new}").text)
    assert "7 fresh, 0 stale" in page.text
    files = [link for link in page.links if link.startswith("/snapshots/")]
    assert f"/snapshots/{new}/_manifest.json" in files
    assert all((sample_root / link.lstrip("/")).is_file() for link in files)


@pytest.mark.parametrize(("name", "status"), [("00000009-00000000", 404), ("nothing", 400), ("..%2f..%2fetc", 404)])
def test_a_version_that_is_not_there(client: TestClient, name: str, status: int) -> None:
    assert client.get(f"/versions/{name}").status_code == status


def test_where_nothing_is_published_the_page_names_the_command(
    tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    with client_of(tmp_path) as client:
        assert "webmill publish documents" in assert_harmless(client.get("/versions").text).text
        assert client.get("/versions/diff").status_code == 404


# --- what changed ---


def test_without_names_the_live_version_is_compared_with_the_one_before(client: TestClient) -> None:
    page = client.get("/versions/diff").text
    assert "The ferry leaves at <del>nine</del><ins>noon</ins>." in page
    assert "<ins>Die Bücherei schließt im Sommer früher.</ins>" in page
    assert "<del>This page will be removed.</del>" in page
    assert "All 3 Added 1 Changed 1 Removed 1" in assert_harmless(page).text
    answer = client.get("/api/versions/diff").json()
    assert [answer["from"], answer["to"]] == names(client)
    assert len(answer["differences"]) == 3


def test_the_other_way_round_what_was_added_is_removed(client: TestClient) -> None:
    old, new = names(client)
    page = client.get(f"/versions/diff?from={new}&to={old}").text
    assert "The ferry leaves at <del>noon</del><ins>nine</ins>." in page
    assert "<del>Die Bücherei schließt im Sommer früher.</del>" in page


@pytest.mark.parametrize("change", ["", *CHANGES])
def test_pages_of_a_diff_are_the_whole_diff(
    board: Path, board_client: TestClient, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(differences, "MOST_ITEMS", 40)  # items that one page may cost: some pages have nothing
    old, new, _ = names(board_client)
    storage = LocalStorage(board)
    indexes = [read_version_index(storage, history.find_version(storage, name)) for name in (old, new)]
    expected = [(one.change, one.id) for one in diff_indexes(storage, *indexes) if change in ("", one.change)]
    found: list[tuple[str, str]] = []
    after: str | None = ""
    while after is not None:
        asked = {"from": old, "to": new, "limit": "7", "after": after, "change": change}
        answer = board_client.get("/api/versions/diff", params=asked).json()
        found += [(one["change"], one["id"]) for one in answer["differences"]]
        after = answer["after"]
    assert found == expected
    assert expected


def test_counts_are_told_of_neighbours_and_of_versions_far_apart(board_client: TestClient) -> None:
    first, second, third = names(board_client)
    near = board_client.get("/api/versions/diff", params={"from": first, "to": second}).json()["counts"]
    assert near == {"added": 5, "changed": 20, "relabelled": 1, "removed": 15}
    back = board_client.get("/api/versions/diff", params={"from": third, "to": second}).json()["counts"]
    assert back == near
    none = board_client.get("/api/versions/diff", params={"from": first, "to": third}).json()
    assert set(none["counts"].values()) == {0}
    assert none["differences"] == []


def test_counts_that_would_take_too_long_are_left_out(
    board_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(differences, "MOST_ITEMS", 40)
    first, second, _ = names(board_client)
    answer = board_client.get("/api/versions/diff", params={"from": second, "to": first}).json()
    assert answer["counts"] is None
    assert board_client.get(f"/versions/diff?from={second}&to={first}").status_code == 200


def test_a_long_diff_leads_to_its_next_page(board_client: TestClient) -> None:
    first, second, _ = names(board_client)
    page = assert_harmless(board_client.get(f"/versions/diff?from={first}&to={second}").text)
    (following,) = [link for link in page.links if "after=" in link]
    assert SCRIPT in page.text
    assert "First page" in assert_harmless(board_client.get(following).text).text


@pytest.mark.parametrize(
    ("id_", "seen"),
    [
        ("text/zh", "图书馆在<del>暑</del><ins>寒</ins>假期间提前关门。"),
        ("text/lines", "line <del>50"),
        ("text/large", "Too large to compare; both versions are shown."),
        ("text/huge", "too large to compare"),
        ("text/script", "<del>before </del><ins>after </ins>&lt;script&gt;"),
        ("notice/003", "campus"),
        ("new/1", "<ins>A &lt;script&gt;"),
        ("notice/001", "No changes"),
        ("nothing", "No changes"),
    ],
)
def test_what_changed_in_one_document(board_client: TestClient, id_: str, seen: str) -> None:
    old, new, _ = names(board_client)
    page = board_client.get("/versions/diff", params={"from": old, "to": new, "id": id_})
    assert page.status_code == 200
    assert seen in page.text
    assert_harmless(page.text)
    if id_ == "text/lines":
        assert "unchanged lines" in page.text


@pytest.mark.parametrize(
    ("asked", "status"),
    [("from=x&to=y", 400), ("from=00000009-00000000", 404), ("change=nonsense", 400), ("after=%00", 200)],
)
def test_versions_that_cannot_be_compared(client: TestClient, asked: str, status: int) -> None:
    assert client.get(f"/versions/diff?{asked}").status_code == status


# --- texts ---

TEXT = st.text("ab \n図書館", max_size=40)


@given(old=TEXT, new=TEXT)
@settings(deadline=None, max_examples=200)
def test_pieces_make_up_both_texts(old: str, new: str) -> None:
    pieces = text_diff.merge_neighbours(
        [*text_diff._lines(old.splitlines(keepends=True), new.splitlines(keepends=True))]
    )
    assert "".join(piece.text for piece in pieces if piece.kind != "new") == old
    assert "".join(piece.text for piece in pieces if piece.kind != "gone") == new


@given(old=TEXT, new=TEXT)
@settings(deadline=None, max_examples=200)
def test_texts_that_differ_have_a_difference(old: str, new: str) -> None:
    pieces = compare_texts(old, new)
    assert pieces is not None
    assert (old != new) == any(piece.kind in ("gone", "new") for piece in pieces)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a " * 1_400, "a b " * 700),
        (
            "\n".join("ab"[number % 2] for number in range(1_400)),
            "\n".join("abc"[number % 3] for number in range(1_400)),
        ),
        (" ".join(str(number * 7919 % 1_499) for number in range(1_400)), " ".join(map(str, range(1_400)))),
    ],
    ids=["repeated words", "repeated lines", "words in another order"],
)
def test_texts_made_to_be_slow_are_compared(old: str, new: str) -> None:
    assert compare_texts(old, new)


def test_texts_with_too_many_lines_are_not() -> None:
    assert compare_texts("a\n" * 2_000, "b\n" * 2_000) is None
