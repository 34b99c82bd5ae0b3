"""Steps that remove what is there more than once: equal texts, equal addresses, near-duplicates, repeated lines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
import numpy as np

from webmill.curate.arrow import import_arrow
from webmill.curate.characters import Array
from webmill.curate.dedup.minhash import signatures
from webmill.curate.filters.repetition import keys_of, paragraphs_of
from webmill.curate.steps import CurateBatch, CurateStep, Limit, host_of
from webmill.curate.text_batch import Spans, TextBatch
from webmill.errors import Misconfigured

Keep = Literal["longest", "earliest", "first"]
Passes: TypeAlias = Iterable[tuple[Array, Array]]
HOST = "host"


class DuplicateStep(CurateStep, frozen=True, kw_only=True):
    """Of documents with the same key one is kept: the longest, the earliest, or the first in the order of files; one
    of `prefer_hosts` before all others. `against` are earlier corpora, whose documents win."""

    keep: Keep = "longest"
    prefer_hosts: tuple[str, ...] = ()
    against: tuple[str, ...] = ()

    is_global: ClassVar = True
    paths: ClassVar = ("against",)

    def key_columns(self) -> Sequence[str]:
        """Return the columns with keys: documents that have one of them in common belong together."""
        return ("key",)

    def valid_column(self) -> str:
        """Return the column that is 0 for documents without a key."""
        return "valid"


class ExactDuplicates(DuplicateStep, frozen=True, kw_only=True, tag="exact"):
    """Documents with the same text."""

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        keys = [_hash64(text.encode("utf-8", "surrogatepass")) for text in batch.text.texts]
        return {"key": np.array(keys, np.uint64), "valid": np.ones(batch.size, np.int8)}


class UrlDuplicates(DuplicateStep, frozen=True, kw_only=True, tag="url"):
    """Documents with the same canonical URL: the SURT key, by which an index has them as one."""

    keep: Keep = "earliest"

    def columns(self) -> tuple[str, ...]:
        return ("urlkey", "url")

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        pairs = zip(batch.columns["urlkey"], batch.columns["url"], strict=True)
        names = [urlkey or url or "" for urlkey, url in pairs]
        keys = [_hash64(name.encode("utf-8", "surrogatepass")) for name in names]
        return {"key": np.array(keys, np.uint64), "valid": np.array([bool(name) for name in names], np.int8)}


class NearDuplicates(DuplicateStep, frozen=True, kw_only=True, tag="minhash"):
    """Documents that share most n-grams of words: MinHash, LSH by bands, sets of all that are connected.

    `verify` is the least Jaccard index of two documents that a band connects, estimated from their signatures."""

    ngram: int = 5
    bands: int = 14
    rows: int = 8
    verify: float | None = None

    measured: ClassVar = ("ngram", "bands", "rows")

    def __post_init__(self) -> None:
        if not (1 <= self.rows <= 8 and 1 <= self.bands <= 256 and 1 <= self.ngram <= 100):
            raise Misconfigured("minhash takes 1 to 8 rows, 1 to 256 bands and 1 to 100 words (ngram)")

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        bands, counts = signatures(batch.text, ngram=self.ngram, bands=self.bands, rows=self.rows)
        columns = {name: np.ascontiguousarray(bands[:, number]) for number, name in enumerate(self.key_columns())}
        return {"valid": counts, **columns}

    def key_columns(self) -> Sequence[str]:
        return [f"band_{number:02d}" for number in range(self.bands)]


def _hash64(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


# --- lines and paragraphs ---


class RepeatedParts(CurateStep, frozen=True, kw_only=True):
    """Lines or paragraphs that several documents have, and that go from some of them. A document of which more than
    `max_removed` (of its characters) goes is removed. Shorter parts than `min_chars` are left alone."""

    min_chars: int = 20
    max_removed: float | None = 0.8

    measured: ClassVar = ("min_chars",)
    is_global: ClassVar = True

    def parts_of(self, text: TextBatch) -> Spans:
        raise NotImplementedError

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        """Return the hashes and lengths of the parts of each text; the hash is 0 where a part is too short."""
        arrow, _ = import_arrow()
        text = batch.text
        parts = text.stripped(self.parts_of(text))
        found = self.part_hashes(text, parts, batch.columns)
        hashes = np.where(parts.lengths >= self.min_chars, found | np.uint64(1), np.uint64(0))
        offsets = np.concatenate(([0], np.cumsum(text.per_document(parts.documents)))).astype(np.int32)
        return {
            "hashes": arrow.ListArray.from_arrays(offsets, arrow.array(hashes)),
            "lengths": arrow.ListArray.from_arrays(offsets, arrow.array(parts.lengths.astype(np.uint32))),
        }

    def part_hashes(self, text: TextBatch, parts: Spans, columns: Mapping[str, Sequence[Any]]) -> Array:  # noqa: ARG002
        """Return by what parts are known to be the same."""
        return text.hashes(parts)

    def mark(self, passes: Passes, bounds: Array, marks: Array, pages: Callable[[], Array]) -> None:
        """Mark the parts that go. `passes` give hashes and numbers of parts; those of document n are `bounds[n]` to
        `bounds[n + 1]`; `pages()` says how many documents the host of each has."""
        raise NotImplementedError

    def parts_at(self, text: str, numbers: Sequence[int]) -> set[str]:
        """Return what the parts of these numbers say."""
        parts = self._pieces(text)
        return {parts[number].strip() for number in numbers}

    def without_parts(self, text: str, removed: Collection[str]) -> str:
        """Return a text without the parts that say this."""
        return self.separator().join(part for part in self._pieces(text) if part.strip() not in removed)

    def _pieces(self, text: str) -> list[str]:
        batch = TextBatch([text])
        parts = self.parts_of(batch)
        pairs = zip(parts.starts.tolist(), parts.ends.tolist(), strict=True)
        return [batch.text_of(start, end) for start, end in pairs]

    def separator(self) -> str:
        return "\n"

    def limits(self) -> list[Limit]:
        return [Limit("mostly_repeated", "removed", most=self.max_removed)]


class PartsInSeveral(RepeatedParts, frozen=True, kw_only=True):
    """Parts in more than `max_documents` documents: they stay in the first of them only."""

    max_documents: int = 1

    def mark(self, passes: Passes, bounds: Array, marks: Array, pages: Callable[[], Array]) -> None:  # noqa: ARG002
        for group in repeated_groups(passes, bounds):
            repeated = (group.documents[group.numbers] > self.max_documents) & ~group.is_first
            marks[group.places[repeated]] = True


class RepeatedLines(PartsInSeveral, frozen=True, kw_only=True, tag="repeated-lines"):
    """Lines that are in several documents."""

    def parts_of(self, text: TextBatch) -> Spans:
        return text.lines


class RepeatedParagraphs(PartsInSeveral, frozen=True, kw_only=True, tag="repeated-paragraphs"):
    """Paragraphs, with empty lines between them, that are in several documents."""

    def parts_of(self, text: TextBatch) -> Spans:
        return paragraphs_of(text)

    def separator(self) -> str:
        return "\n\n"


class SiteBoilerplate(RepeatedParts, frozen=True, kw_only=True, tag="site-boilerplate"):
    """Lines that many pages of one host have: menus, notices, footers, which the extractor left in. They go from all of
    them if they are in at least `min_pages` pages, and in at least `min_share` of those of their host. A document of
    which more than `max_removed` (of its characters) goes is removed."""

    min_pages: int = 5
    min_share: float = 0.2
    min_chars: int = 2
    max_removed: float | None = 0.95

    def columns(self) -> tuple[str, ...]:
        return ("url",)

    def parts_of(self, text: TextBatch) -> Spans:
        return text.lines

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        return {**super().measure(batch), HOST: _host_hashes(batch.columns["url"])}

    def part_hashes(self, text: TextBatch, parts: Spans, columns: Mapping[str, Sequence[Any]]) -> Array:
        """Return hashes that are equal only on one host."""
        return keys_of(text.hashes(parts), _host_hashes(columns["url"])[parts.documents])

    def mark(self, passes: Passes, bounds: Array, marks: Array, pages: Callable[[], Array]) -> None:
        of_host = pages()
        for group in repeated_groups(passes, bounds):
            least = np.maximum(self.min_pages, np.ceil(of_host[group.firsts] * self.min_share))
            marks[group.places[(group.documents >= least)[group.numbers]]] = True


def _host_hashes(urls: Sequence[str]) -> Array:
    return np.array([_hash64(host_of(url).encode("utf-8", "surrogatepass")) for url in urls], np.uint64)


class RepeatedGroups(msgspec.Struct, frozen=True):
    """Occurrences of parts, those of the same hash together: a group. `documents` says how many each group is in,
    `firsts` the first of them."""

    places: Array  # of each occurrence
    numbers: Array  # the group of each
    is_first: Array  # it is in the first document of its group
    documents: Array
    firsts: Array


def repeated_groups(passes: Passes, bounds: Array) -> Iterator[RepeatedGroups]:
    """Yield the occurrences of each pass, by what they say. Those of document n are `bounds[n]` to `bounds[n + 1]`."""
    for hashes, places in passes:
        order = np.argsort(hashes, kind="stable")
        ordered, places = hashes[order], places[order]
        owners = np.searchsorted(bounds, places, side="right") - 1
        new_hash = np.concatenate(([True], ordered[1:] != ordered[:-1]))
        new_owner = new_hash | np.concatenate(([True], owners[1:] != owners[:-1]))
        numbers = np.cumsum(new_hash) - 1
        firsts = owners[np.flatnonzero(new_hash)]
        documents = np.bincount(numbers, new_owner)
        yield RepeatedGroups(places, numbers, owners == firsts[numbers], documents, firsts)
