"""The layout "uring": lists of notices in the form that clients of the uRing crawler read, beside our own indexes.

    index/all.json             [{"id", "title", "date", "link", "department_name", …, "content_hash"}], the newest first
    index/campus/Seoul.json    the same for each value of a facet
    index/all/2.json           the second page of a list of more than 1,000 items or 8 MiB
    index/pages.json           {"index/all.json": {"count": 1700, "pages": ["index/all.json", "index/all/2.json"]}}

Nothing of ours reads them: they are made of the items, which are in `items/`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import msgspec

from webmill.infra.batches import batches
from webmill.publish.facets import FacetValue
from webmill.publish.manifest import ITEM_FOLDERS
from webmill.publish.rows import Row, SortedRows
from webmill.publish.types import PublishedItem, Scalar, encode

FOLDER = "index/"
PAGES = f"{FOLDER}pages.json"
PAGE_BYTES = 8 << 20
_NUMBER = struct.Struct(">I")
_NAMES = {"department": "department_name", "board": "board_name"}  # facets whose name differs; the others are the same
_INVERTED = bytes(255 - byte for byte in range(256))


class PageList(msgspec.Struct, frozen=True):
    """A list as `index/pages.json` names it."""

    count: int
    pages: list[str]


def write_uring_index(
    rows: Iterable[Row], values: Mapping[str, list[FacetValue]], *, folder: Path, page: int
) -> Iterator[tuple[str, bytes]]:
    """Yield (key, bytes) of every file; `page` is the number of items on one. `folder` is for temporary files."""
    numbers = {(facet, one.value): number for number, (facet, one) in enumerate(_pairs(values), start=1)}
    keys = [f"{FOLDER}all.json", *(_key_of(one) for _, one in _pairs(values))]
    lists: dict[str, PageList] = {}
    sorted_rows = _sort_by_list(rows, numbers, folder=folder)
    for number, group in groupby(sorted_rows, key=lambda row: row[0][: _NUMBER.size]):
        key, count, names = keys[_NUMBER.unpack(number)[0]], 0, []
        lines_of_list = (line for _, line in group)
        for at, lines in enumerate(batches(lines_of_list, len, count=page, size=PAGE_BYTES), start=1):
            names.append(key if at == 1 else f"{key.removesuffix('.json')}/{at}.json")
            count += len(lines)
            yield names[-1], b"[\n" + b",\n".join(lines) + b"\n]\n"
        lists[key] = PageList(count, names)
    if not lists:
        lists[keys[0]] = PageList(0, keys[:1])
        yield keys[0], b"[]\n"
    yield PAGES, encode(lists)


def _pairs(values: Mapping[str, list[FacetValue]]) -> Iterator[tuple[str, FacetValue]]:
    return ((facet, one) for facet, found in values.items() for one in found)


def _key_of(value: FacetValue) -> str:
    return FOLDER + value.key.removeprefix(ITEM_FOLDERS["uring"])


def _sort_by_list(rows: Iterable[Row], numbers: Mapping[tuple[str, str], int], *, folder: Path) -> SortedRows:
    """Return a row for each item and list that it is in: by list, then the newest first, then by id."""
    found = SortedRows(folder, "uring")
    for id_, line in rows:
        item = msgspec.json.decode(line, type=PublishedItem)
        listed, place = encode(uring_item(item)), _newest_first(item) + id_
        found.add(_NUMBER.pack(0) + place, listed)
        for facet in item.facets.items():
            if facet in numbers:
                found.add(_NUMBER.pack(numbers[facet]) + place, listed)
    return found


def _newest_first(item: PublishedItem) -> bytes:
    """Return a key that sorts later dates first, and items without a date last."""
    return str(item.metadata.get("date") or "")[:32].encode(errors="replace").translate(_INVERTED) + b"\xff"


def uring_item(item: PublishedItem) -> dict[str, Scalar]:
    """Return an item under the names of the uRing crawler; what is empty is left out, except its title."""
    shown: dict[str, Scalar] = {_NAMES.get(facet, facet): value for facet, value in item.facets.items()}
    metadata = {**item.metadata, "link": item.metadata.get("url")}
    shown |= {name: metadata[name] for name in ("date", "link", "author", "pinned") if metadata.get(name)}
    if item.stale_since:
        shown["stale_since"] = item.stale_since.isoformat()
    return {**shown, "id": item.id, "title": metadata.get("title") or "", "content_hash": item.hash}
