"""Site maps: what boards there are, and what is told of those that cannot be used."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.boards.board_list import Board, BoardList, read_board_list
from webmill.boards.listing import selector_error
from webmill.errors import BadInput

URL = "http://cs.uni.example/board"


def read(value: object) -> BoardList:
    return read_board_list(json.dumps(value).encode(), source="siteMap.json", selector_error=selector_error)


def department(id_: str, *boards: dict[str, object], name: str = "") -> dict[str, object]:
    return {"id": id_, "name": name or id_.upper(), "url": "http://cs.uni.example/", "boards": list(boards)}


def board(id_: str = "notice", **fields: object) -> dict[str, object]:
    return {"id": id_, "name": "학사공지", "url": URL, **fields}


def campus(*departments: dict[str, object], colleges: tuple[dict[str, object], ...] = ()) -> list[dict[str, object]]:
    return [{"campus": "신촌", "colleges": list(colleges), "departments": list(departments)}]


def test_a_board_has_its_place_as_identity_and_as_facets() -> None:
    colleges = ({"name": "공과대학", "departments": [department("cs", board(), name="컴퓨터과학과")]},)
    found = read(campus(department("math", board()), colleges=colleges))
    assert [one.source for one in found.boards] == ["신촌/공과대학/cs/notice", "신촌/math/notice"]
    assert found.boards[0].facets == {
        "campus": "신촌",
        "college": "공과대학",
        "department": "컴퓨터과학과",
        "board": "학사공지",
        "category": "academic",
    }
    assert "college" not in found.boards[1].facets
    assert [one.reason for one in found.problems] == ["same_url"]


def test_the_reference_names_of_selectors_are_understood() -> None:
    given_ = {
        "row_selector": "tr:has(a)",
        "title_selector": "a.t",
        "date_selector": "td:nth-last-child(1)",
        "author_selector": ".w",
        "body_selector": "#b",
        "link_selector": "a",
        "attr_name": "data-href",
    }
    found = read(campus(department("cs", board(**given_)))).boards[0].selectors
    assert (found.item, found.title, found.date, found.author) == ("tr:has(a)", "a.t", "td:nth-last-child(1)", ".w")
    assert (found.body, found.link, found.link_attribute, found.next) == ("#b", "a", "data-href", "")


def test_forty_five_departments_may_share_a_board_id() -> None:
    found = read(campus(*(department(f"d{n}", board(url=f"{URL}/{n}")) for n in range(45))))
    assert len({one.source for one in found.boards}) == 45
    assert {one.board for one in found.boards} == {"notice"}
    assert not found.problems


def test_names_with_slashes_make_no_other_boards_identity() -> None:
    found = read(campus(department("a/b", board("c")), department("a", board("b/c", url=f"{URL}/2"))))
    assert [one.source for one in found.boards] == ["신촌/a%2Fb/c", "신촌/a/b%2Fc"]


def test_a_flat_list_needs_a_source_and_an_address() -> None:
    found = read(
        {
            "sources": [
                {"source": "ministry/press", "url": URL, "facets": {"kind": "press", "year": 2024}, "cms": "gnuboard"},
                {"source": "ministry/law", "url": f"{URL}/2", "selectors": {"item": "li", "next": "a.next"}},
                {"url": URL},
                {"source": "nowhere"},
            ]
        }
    )
    assert found.boards[0] == Board(
        source="ministry/press",
        board="ministry/press",
        url=URL,
        name="ministry/press",
        facets={"kind": "press", "year": "2024"},
        cms="gnuboard",
    )
    assert (found.boards[1].selectors.item, found.boards[1].selectors.next) == ("li", "a.next")
    reported = [(one.path, one.reason, one.source, one.is_dropped) for one in found.problems]
    assert reported == [("$.sources[2].source", "missing", "", True), ("$.sources[3].url", "missing", "nowhere", True)]


@pytest.mark.parametrize(
    ("wrong", "path", "reason"),
    [
        ({"url": "ftp://x.example/"}, ".url", "bad_url"),
        ({"url": "not a url"}, ".url", "bad_url"),
        ({"url": "http://x.example/" + "a" * 3000}, ".url", "too_long"),
        ({"url": 5}, ".url", "not_text"),
        ({"url": None}, ".url", "missing"),
        ({"row_selector": "tr[["}, ".row_selector", "bad_selector"),
        ({"date_selector": ["td"]}, ".date_selector", "not_text"),
        ({"selectors": {"item": "a:nope"}}, ".selectors.item", "bad_selector"),
        ({"selectors": []}, ".selectors", "not_an_object"),
        ({"id": "", "name": ""}, ".id", "missing"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_board_that_cannot_be_used_is_told_with_its_path_and_the_others_stay(
    wrong: dict[str, object], path: str, reason: str
) -> None:
    found = read(campus(department("cs", board("fine"), board(**wrong))))
    assert [one.board for one in found.boards] == ["fine"]
    reported = [(one.path, one.reason, one.is_dropped) for one in found.problems]
    assert reported == [(f"$[0].departments[0].boards[1]{path}", reason, True)]
    if reason != "missing" or path == ".url":
        assert found.problems[0].source == "신촌/cs/notice"  # so that what it had can be kept


def test_an_unknown_selector_is_told_and_does_no_harm() -> None:
    found = read(campus(department("cs", board(selectors={"titel": "a"}, sumary_selector="p"))))
    assert [(one.reason, one.is_dropped) for one in found.problems] == [("unknown_key", False)] * 2
    assert len(found.boards) == 1


def test_the_same_board_twice_is_there_once_and_another_of_its_name_gets_its_own() -> None:
    found = read(campus(department("cs", board(), board(), board(url=f"{URL}/2"), board(url=f"{URL}/2"))))
    first, second = found.boards
    assert first.source == "신촌/cs/notice"
    assert second.source.startswith("신촌/cs/notice~")
    assert second.url == f"{URL}/2"
    assert [(one.reason, one.is_dropped) for one in found.problems] == [
        ("duplicate", True),
        ("duplicate", False),
        ("duplicate", True),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b"5",
        b"null",
        b'[{"campus": "x"}]',
        b"[[[[",
        b"\xff\xfe",
        b'{"sources": [{}]}',
        b"[" * 100_000,
    ],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_no_board_list_is_refused_with_its_name(data: bytes) -> None:
    with pytest.raises(BadInput, match=r"siteMap\.json") as caught:
        read_board_list(data, source="siteMap.json")
    assert caught.value.reason == "bad_board_list"


KEYS = "campus colleges departments boards sources id name url selectors source facets"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.just(URL),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inside, max_size=5),
    max_leaves=20,
)


@given(value=JSON)
@settings(deadline=None, max_examples=200)
def test_any_json_is_a_board_list_or_refused(value: object) -> None:
    try:
        found = read_board_list(json.dumps(value).encode(), selector_error=selector_error)
    except BadInput:
        return
    assert len({one.source for one in found.boards}) == len(found.boards) > 0
