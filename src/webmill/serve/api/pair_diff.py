"""What changed in one item, field by field."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.pipeline.publish.documents import FIRST_SEEN
from webmill.publish.types import PublishedItem
from webmill.serve.api.differences import ItemPair
from webmill.serve.api.documents import content_of
from webmill.serve.api.published import PublishedVersions
from webmill.serve.api.text_diff import DiffPiece, compare_texts

ON_A_PAGE = 200_000  # characters that are compared for one page of many items
SHOWN = 20_000  # characters of each of two texts that are too large to be compared
BEGINNING = 400  # characters of what was added or removed


class FieldDiff(msgspec.Struct, frozen=True, kw_only=True):
    """`pieces` is None when both texts are too large to be compared: then `old` and `new` are their beginnings."""

    name: str
    pieces: list[DiffPiece] | None
    old: str = ""
    new: str = ""


class PairDiff(msgspec.Struct, frozen=True, kw_only=True):
    """`problem`: why there is nothing to see."""

    pair: ItemPair
    fields: list[FieldDiff] = []
    problem: str = ""


class PairComparer:
    """Of the items of one page: `budget` is what all of them may cost together, in characters."""

    def __init__(self, published: PublishedVersions, *, budget: int) -> None:
        self._published = published
        self._budget = budget

    def compare(self, pair: ItemPair) -> PairDiff:
        if self._budget <= 0:
            return PairDiff(pair=pair, problem="more on a page of its own")
        try:
            old, new = (self._values(item) for item in (pair.old, pair.new))
        except NotFound:
            return PairDiff(pair=pair, problem="its content is gone")
        except BadInput as error:
            return PairDiff(pair=pair, problem=f"its content cannot be read: {error.message}")
        if old is None or new is None:
            return PairDiff(pair=pair, problem="too large to be compared")
        if not (pair.old and pair.new):
            old, new = _beginning(old), _beginning(new)
        names = [name for name in _in_order(old, new) if old.get(name, "") != new.get(name, "")]
        return PairDiff(pair=pair, fields=[self._field(name, old.get(name, ""), new.get(name, "")) for name in names])

    def _field(self, name: str, old: str, new: str) -> FieldDiff:
        is_affordable = len(old) + len(new) <= self._budget
        self._budget -= len(old) + len(new)
        pieces = compare_texts(old, new) if is_affordable else None
        if pieces is None:
            return FieldDiff(name=name, pieces=None, old=old[:SHOWN], new=new[:SHOWN])
        return FieldDiff(name=name, pieces=pieces)

    def _values(self, item: PublishedItem | None) -> dict[str, str] | None:
        """Content, facets and metadata by their names, as text. None: the content is too large.

        Where a page was first seen changes with its content, and says nothing more.
        """
        if item is None:
            return {}
        content = content_of(self._published, item)
        if content is None:
            return None
        said = {name: value for name, value in item.metadata.items() if name not in FIRST_SEEN}
        beside = {**said, **item.facets, "source": item.source}
        return {name: _text(value) for name, value in {**beside, **content}.items()}


def _beginning(values: dict[str, str]) -> dict[str, str]:
    """Enough to know what was added or removed."""
    text = values.get("text", "")
    return {"text": text[:BEGINNING] + " …" * (len(text) > BEGINNING)} if text else {}


def _in_order(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """What people look at first."""
    first = {"title": 0, "text": 1}
    return sorted(old.keys() | new.keys(), key=lambda name: (first.get(name, 2), name))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
