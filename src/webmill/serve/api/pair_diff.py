"""What changed in one item, field by field."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.pipeline.publish.documents import FIRST_SEEN
from webmill.publish.types import PublishedItem
from webmill.serve.api.differences import ItemPair
from webmill.serve.api.documents import content_of
from webmill.serve.api.published import PublishedVersions
from webmill.serve.api.text_diff import DiffPiece, DiffRow, compare_sides, compare_texts

DiffView: TypeAlias = Literal["inline", "side"]
VIEWS: tuple[DiffView, ...] = ("inline", "side")
ON_A_PAGE = 200_000  # characters compared for a list of items
SHOWN = 20_000  # characters shown of texts too large to compare
BEGINNING = 400  # characters shown of an added or removed text


TOO_MANY = "not compared here, to keep the page short"


class FieldDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The change of one field: `pieces` in a line of text, or `rows` of two columns. Neither if it is too large to
    compare; `old` and `new` are then the beginnings."""

    name: str
    pieces: list[DiffPiece] | None = None
    rows: list[DiffRow] | None = None
    old: str = ""
    new: str = ""


class PairDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The changed fields of an item. `problem`: why they cannot be shown."""

    pair: ItemPair
    fields: list[FieldDiff] = []
    problem: str = ""


def diff_field(name: str, old: str, new: str, *, view: DiffView) -> FieldDiff:
    """Compare two values of a field."""
    if view == "side" and (rows := compare_sides(old, new)) is not None:
        return FieldDiff(name=name, rows=rows)
    if view == "inline" and (pieces := compare_texts(old, new)) is not None:
        return FieldDiff(name=name, pieces=pieces)
    return _beginnings(name, old, new)


def _beginnings(name: str, old: str, new: str) -> FieldDiff:
    return FieldDiff(name=name, old=old[:SHOWN], new=new[:SHOWN])


class PairComparer:
    """Compares items; all together may cost `budget` characters."""

    def __init__(self, published: PublishedVersions, *, budget: int, view: DiffView = "inline") -> None:
        self._published = published
        self._budget = budget
        self._view = view

    def compare(self, pair: ItemPair) -> PairDiff:
        if self._budget <= 0:
            return PairDiff(pair=pair, problem=TOO_MANY)
        try:
            old, new = (self._values(item) for item in (pair.old, pair.new))
        except NotFound:
            return PairDiff(pair=pair, problem="its content no longer exists")
        except BadInput as error:
            return PairDiff(pair=pair, problem=f"its content cannot be read: {error.message}")
        if old is None or new is None:
            return PairDiff(pair=pair, problem="too large to compare")
        if not (pair.old and pair.new):
            old, new = _beginning(old), _beginning(new)
        names = [name for name in _in_order(old, new) if old.get(name, "") != new.get(name, "")]
        return PairDiff(pair=pair, fields=[self._field(name, old.get(name, ""), new.get(name, "")) for name in names])

    def _field(self, name: str, old: str, new: str) -> FieldDiff:
        is_affordable = len(old) + len(new) <= self._budget
        self._budget -= len(old) + len(new)
        return diff_field(name, old, new, view=self._view) if is_affordable else _beginnings(name, old, new)

    def _values(self, item: PublishedItem | None) -> dict[str, str] | None:
        """Return content, facets and metadata by name, as text; None if the content is too large.

        Where a page was first seen changes with its content, so it is left out.
        """
        if item is None:
            return {}
        content = content_of(self._published, item)
        if content is None:
            return None
        metadata = {name: value for name, value in item.metadata.items() if name not in FIRST_SEEN}
        beside = {**metadata, **item.facets, "source": item.source}
        return {name: _text(value) for name, value in {**beside, **content}.items()}


def _beginning(values: dict[str, str]) -> dict[str, str]:
    """Return the beginning of the text of an added or removed item."""
    text = values.get("text", "")
    return {"text": text[:BEGINNING] + " …" * (len(text) > BEGINNING)} if text else {}


def _in_order(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return the field names, title and text first."""
    first = {"title": 0, "text": 1}
    return sorted(old.keys() | new.keys(), key=lambda name: (first.get(name, 2), name))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
