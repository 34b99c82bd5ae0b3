"""`index/FACET/VALUE.json`: the items again, in one file for each value of a configured facet."""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import msgspec

from webmill.errors import Misconfigured
from webmill.publish.keys import sha256
from webmill.publish.rows import Row, SortedRows
from webmill.publish.shards import write_index

MOST_VALUES = 10_000  # each is a file of every version
_FACET = re.compile("[a-z][a-z0-9_-]{0,49}")
_UNSAFE = re.compile(r'[%/\\:*?"<>|]|^\.')  # for some file system or some URL
_LONGEST = 180  # bytes; with its ending, far from any limit
_NUMBER = struct.Struct(">I")


class FacetValue(msgspec.Struct, frozen=True):
    """A value of a facet as `meta/facets.json` lists it; `key` is relative to the version's folder."""

    value: str
    count: int
    key: str


class ItemFacets(msgspec.Struct, gc=False):
    """The part of a `PublishedItem` that decides in which files it is: nothing else is decoded."""

    facets: dict[str, str] = {}


_faceted = msgspec.json.Decoder(ItemFacets)


def check_facets(facets: Iterable[str]) -> None:
    for facet in facets:
        if not _FACET.fullmatch(facet) or facet == "all":
            raise Misconfigured(f"{facet!r} cannot be the name of a facet; use lower-case letters, digits, '-' and '_'")


def list_values(counts: Mapping[str, Mapping[str, int]], *, folder: str) -> dict[str, list[FacetValue]]:
    """Return every value of every facet with the key of its file in this folder of the version."""
    named: dict[str, list[FacetValue]] = {}
    for facet, values in counts.items():
        if len(values) > MOST_VALUES:
            raise Misconfigured(
                f"the facet {facet!r} has {len(values)} values, more than {MOST_VALUES}: choose another facet"
            )
        names = file_names(sorted(values))
        named[facet] = [
            FacetValue(value, values[value], f"{folder}{facet}/{name}.json") for value, name in names.items()
        ]
    return named


def file_names(values: Iterable[str]) -> dict[str, str]:
    """Return a file name for each value; they differ also where case does not count."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for value in values:
        name = _name(value)
        if _folded(name) in taken:
            name = f"{name}~{sha256(value.encode())[:12]}"
        taken.add(_folded(name))
        names[value] = name
    return names


def _name(value: str) -> str:
    name = _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", value)
    name = "".join(letter if letter.isprintable() else f"%{ord(letter):02X}" for letter in name) or "%"
    if len(name.encode()) <= _LONGEST:
        return name
    return name.encode()[: _LONGEST - 20].decode(errors="ignore") + "~" + sha256(value.encode())[:12]


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def write_facets(
    rows: Iterable[Row],
    values: Mapping[str, list[FacetValue]],
    *,
    put: Callable[[bytes], str],
    folder: Path,
    inline: int,
) -> Iterator[tuple[str, bytes]]:
    """Yield (key, bytes) of each file. Rows are sorted by file first, so that one is in memory at a time."""
    keys = [value.key for found in values.values() for value in found]
    numbers = {(facet, value.value): None for facet, found in values.items() for value in found}
    order = {pair: _NUMBER.pack(number) for number, pair in enumerate(numbers)}
    by_file = SortedRows(folder, "facets")
    for key, line in rows:
        facets = _faceted.decode(line).facets
        for facet in values:
            if facet in facets:
                by_file.add(order[facet, facets[facet]] + key, line)
    for number, group in groupby(by_file, key=lambda row: row[0][: _NUMBER.size]):
        without_number = ((key[_NUMBER.size :], line) for key, line in group)
        yield keys[_NUMBER.unpack(number)[0]], write_index(without_number, put=put, inline=inline)
