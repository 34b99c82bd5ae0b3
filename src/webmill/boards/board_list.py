"""Board lists: which boards there are, where, and how their pages are read (docs/reference/board-list.md).

Two forms of JSON are read, and both become a flat list of boards:

    [{"campus": …, "colleges": [{"name": …, "departments": [{"id", "name", "url", "boards": [{"id", "url", …}]}]}],
      "departments": […]}]
    {"sources": [{"source": "site/board", "url": …, "facets": {…}, "selectors": {…}}]}

The identity of a board is its path in the list (`source`): dozens of departments call theirs "notice". A board that
cannot be used is left out and reported, with its path in the JSON; the others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TypeAlias

import msgspec
from msgspec import Struct

from webmill.errors import BadInput
from webmill.formats.url.normalise import normalise

MAX_TEXT = 2000  # characters of any value
MAX_BOARDS = 100_000
MAX_LIST_PROBLEMS = 10_000

Json: TypeAlias = object  # as decoded, before anything is known of it
Object: TypeAlias = dict[str, object]

# Words in a board's name that tell what it is about, in the order in which they are tried.
CATEGORIES = (
    ("학사", "academic"),
    ("장학", "scholarship"),
    ("채용", "recruitment"),
    ("취업", "recruitment"),
    ("행사", "event"),
    ("안내", "event"),
    ("일반", "general"),
)
ANY_CATEGORY = "other"


class Selectors(Struct, frozen=True, omit_defaults=True):
    """CSS. What is empty comes from the pattern of the board's CMS. Lines are alternatives, tried in turn.

    `link` to `pinned` are looked for in an item.
    """

    item: str = ""  # one row of a listing
    link: str = ""
    title: str = ""
    date: str = ""
    author: str = ""
    category: str = ""
    pinned: str = ""  # matches the item, or something in it, when it is pinned
    next: str = ""  # the link to the next page of a listing
    body: str = ""  # on the page of a notice
    attachment: str = ""  # there, the links to files
    link_attribute: str = ""  # of the link; `href` when empty


class Board(Struct, frozen=True, kw_only=True, omit_defaults=True):
    source: str  # its identity: campus/college/department/board
    board: str  # what its department calls it; not unique
    url: str
    name: str = ""
    facets: dict[str, str] = {}
    selectors: Selectors = Selectors()
    cms: str = ""  # empty: recognised by its pages


class BoardListProblem(Struct, frozen=True):
    """A fault of a board list. `path` is where in the JSON: `$[0].colleges[2].departments[1].boards[0].url`.

    `reason` is one of not_an_object, not_a_list, missing, not_text, too_long, bad_url, bad_selector, unknown_key,
    duplicate, same_url, too_many.
    """

    path: str
    reason: str
    message: str
    source: str = ""  # of the board, if known
    is_dropped: bool = True  # the board is not among `boards`


class BoardList(Struct, frozen=True):
    boards: tuple[Board, ...]
    problems: tuple[BoardListProblem, ...] = ()


def accept_selector(css: str) -> str:  # noqa: ARG001
    """Accept every selector."""
    return ""


def read_board_list(
    data: bytes, *, source: str = "", selector_error: Callable[[str], str] = accept_selector
) -> BoardList:
    """Parse a board list. BadInput when no board of it can be used. `source` names the file in messages.

    `selector_error` returns what is wrong with a selector, or nothing (`boards.listing.selector_error`).
    """
    try:
        root: Json = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"not JSON: {error}", reason="bad_board_list", source=source or None) from error
    reader = _BoardListReader(selector_error)
    reader.read(root)
    if not reader.boards:
        first = next(iter(reader.problems), None)
        why = f": {first.path}: {first.message}" if first else ""
        raise BadInput(f"no usable board{why}", reason="bad_board_list", source=source or None)
    return BoardList(tuple(reader.boards.values()), tuple(reader.problems))


class _BoardPath(Struct, frozen=True):
    """The path to a board: names for people, and parts of the identity."""

    names: dict[str, str] = {}
    parts: tuple[str, ...] = ()

    def inside(self, facet: str, name: str, *, part: str = "") -> _BoardPath:
        return _BoardPath({**self.names, facet: name}, (*self.parts, part or name))


class _BadValue(Exception):
    """A value of a board that cannot be used."""

    def __init__(self, path: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.path, self.reason, self.message = path, reason, message


class _BoardListReader:
    def __init__(self, selector_error: Callable[[str], str]) -> None:
        self._selector_error = selector_error
        self.boards: dict[str, Board] = {}  # by source
        self.problems: list[BoardListProblem] = []
        self._urls: dict[str, str] = {}  # url -> the first source that has it

    def read(self, root: Json) -> None:
        if isinstance(root, dict):
            for path, one in self._objects(root.get("sources"), "$.sources"):
                self._add(path, one, _BoardPath(_facets(one)))
            return
        for path, campus in self._objects(root, "$"):
            place = _BoardPath().inside("campus", _label(campus, "campus"))
            for at, college in self._objects(campus.get("colleges", []), f"{path}.colleges"):
                inside = place.inside("college", _label(college, "name"))
                self._departments(college, at, inside)
            self._departments(campus, path, place)

    def _departments(self, above: Object, path: str, place: _BoardPath) -> None:
        for at, department in self._objects(above.get("departments") or [], f"{path}.departments"):
            name, id_ = _label(department, "name"), _label(department, "id")
            inside = place.inside("department", name or id_, part=id_ or name)
            for where, board in self._objects(department.get("boards") or [], f"{at}.boards"):
                self._add(where, board, inside)

    def _objects(self, value: Json, path: str) -> Iterator[tuple[str, Object]]:
        if not isinstance(value, list):
            self._report(path, "not_a_list", f"a list is expected here, not {_type_name(value)}")
            return
        for index, one in enumerate(value):
            if isinstance(one, dict):
                yield f"{path}[{index}]", one
            else:
                self._report(f"{path}[{index}]", "not_an_object", f"an object is expected here, not {_type_name(one)}")

    def _add(self, path: str, one: Object, place: _BoardPath) -> None:
        source = ""
        try:
            source = _source_of(one, path, place)
            board = self._board(one, path, place, source)
        except _BadValue as bad:
            self._report(bad.path, bad.reason, bad.message, source=source)
            return
        if len(self.boards) >= MAX_BOARDS:
            self._report(path, "too_many", f"more than {MAX_BOARDS} boards", source=source)
        elif unique := self._unique(board, path):
            self.boards[unique.source] = unique

    def _board(self, one: Object, path: str, place: _BoardPath, source: str) -> Board:
        name, id_ = _text(one, "name", path), _board_id(one)
        facets = {key: value for key, value in place.names.items() if value}
        if place.parts:
            facets |= {"board": name or id_, "category": _category_of(name or id_)}
        return Board(
            source=source,
            board=id_,
            url=_url(one, path),
            name=name or id_,
            facets=facets,
            selectors=self._selectors(one, path, source),
            cms=_text(one, "cms", path),
        )

    def _selectors(self, one: Object, path: str, source: str) -> Selectors:
        """Return the selectors, given together as `selectors` or singly as `row_selector`, `title_selector`…"""
        given = one.get("selectors", {})
        if not isinstance(given, dict):
            raise _BadValue(
                f"{path}.selectors", "not_an_object", f"an object is expected here, not {_type_name(given)}"
            )
        found: dict[str, str] = {}
        for key, at, holder in (*((key, f"{path}.selectors", given) for key in given), *_single_selectors(one, path)):
            field = _FIELDS.get(key)
            if field is None:
                self._report(f"{at}.{key}", "unknown_key", "unknown selector", source=source, is_dropped=False)
            elif text := _text(holder, key, at):
                self._check(text, field, f"{at}.{key}")
                found[field] = text
        return Selectors(**found)

    def _check(self, text: str, field: str, path: str) -> None:
        if field != "link_attribute" and (error := self._selector_error(text)):
            raise _BadValue(path, "bad_selector", f"{text[:200]!r}: {error}")

    def _unique(self, board: Board, path: str) -> Board | None:
        """Return the board with a unique identity. One that repeats another is dropped; with another URL, renamed."""
        there = self.boards.get(board.source)
        if there and there.url == board.url:
            self._report(path, "duplicate", f"repeats the board {board.source}", source=board.source)
            return None
        if there:
            other = f"{board.source}~{sha256(board.url.encode()).hexdigest()[:8]}"
            message = f"a second board {board.source}; it is named {other}"
            self._report(path, "duplicate", message, source=other, is_dropped=other in self.boards)
            return None if other in self.boards else msgspec.structs.replace(board, source=other)
        first = self._urls.setdefault(board.url, board.source)
        if first != board.source:
            message = f"the same URL as {first}: its notices will be published twice"
            self._report(path, "same_url", message, source=board.source, is_dropped=False)
        return board

    def _report(self, path: str, reason: str, message: str, *, source: str = "", is_dropped: bool = True) -> None:
        if len(self.problems) < MAX_LIST_PROBLEMS:
            self.problems.append(BoardListProblem(path, reason, message, source, is_dropped))


# --- values ---

_FIELDS = {name: name for name in Selectors.__struct_fields__} | {
    "row_selector": "item",
    "attr_name": "link_attribute",
    **{f"{name}_selector": name for name in Selectors.__struct_fields__},
}


def _single_selectors(one: Object, path: str) -> Iterator[tuple[str, str, Object]]:
    for key in one:
        if key.endswith("_selector") or key == "attr_name":
            yield key, path, one


def _source_of(one: Object, path: str, place: _BoardPath) -> str:
    if not place.parts:
        source = _text(one, "source", path)
        if not source:
            raise _BadValue(f"{path}.source", "missing", "a source needs a name")
        return source
    if not _board_id(one):
        raise _BadValue(f"{path}.id", "missing", "a board needs an id or a name")
    return "/".join(_escaped(part) for part in (*place.parts, _board_id(one)) if part)


def _board_id(one: Object) -> str:
    return _label(one, "id") or _label(one, "board") or _label(one, "name") or _label(one, "source")


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


def _facets(one: Object) -> dict[str, str]:
    facets = one.get("facets")
    if not isinstance(facets, dict):
        return {}
    return {str(key): _label(facets, key) for key in facets if _label(facets, key)}


def _label(one: Object, key: str) -> str:
    """Return a name or a number as text; empty if it is neither."""
    value = one.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return " ".join(str(value)[:MAX_TEXT].split())


def _text(one: Object, key: str, path: str) -> str:
    value = one.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _BadValue(f"{path}.{key}", "not_text", f"text is expected here, not {_type_name(value)}")
    if len(value) > MAX_TEXT:
        raise _BadValue(f"{path}.{key}", "too_long", f"{len(value)} characters, at most {MAX_TEXT}")
    return value.strip()


def _url(one: Object, path: str) -> str:
    url = _text(one, "url", path)
    if not url:
        raise _BadValue(f"{path}.url", "missing", "a board needs a URL")
    try:
        return normalise(url)
    except BadInput as error:
        raise _BadValue(f"{path}.url", "bad_url", error.message) from error


def _category_of(name: str) -> str:
    return next((category for word, category in CATEGORIES if word in name), ANY_CATEGORY)


def _type_name(value: Json) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")
