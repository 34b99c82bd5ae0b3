"""Steps that remove what is there more than once: equal texts, equal addresses, near-duplicates, repeated lines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from webmill.curate.arrow import import_arrow
from webmill.curate.characters import Array
from webmill.curate.dedup.minhash import signatures
from webmill.curate.filters.repetition import paragraphs_of
from webmill.curate.steps import CurateBatch, CurateStep, Limit
from webmill.curate.text_batch import Spans, TextBatch
from webmill.errors import Misconfigured

Keep = Literal["longest", "earliest", "first"]


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
    """Lines or paragraphs in more than `max_documents` documents: they stay in the first of them only, and a document
    of which more than `max_removed` (of its characters) goes is removed. Shorter parts than `min_chars` are left
    alone."""

    max_documents: int = 1
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
        hashes = np.where(parts.lengths >= self.min_chars, text.hashes(parts) | np.uint64(1), np.uint64(0))
        offsets = np.concatenate(([0], np.cumsum(text.per_document(parts.documents)))).astype(np.int32)
        return {
            "hashes": arrow.ListArray.from_arrays(offsets, arrow.array(hashes)),
            "lengths": arrow.ListArray.from_arrays(offsets, arrow.array(parts.lengths.astype(np.uint32))),
        }

    def without_parts(self, text: str, removed: Sequence[int]) -> str:
        """Return a text without its parts of these numbers."""
        batch = TextBatch([text])
        parts = self.parts_of(batch)
        gone = set(removed)
        pieces = [
            batch.joined[start:end]
            for number, (start, end) in enumerate(zip(parts.starts.tolist(), parts.ends.tolist(), strict=True))
            if number not in gone
        ]
        return self.separator().join(pieces)

    def separator(self) -> str:
        return "\n"

    def limits(self) -> list[Limit]:
        return [Limit("mostly_repeated", "removed", most=self.max_removed)]


class RepeatedLines(RepeatedParts, frozen=True, kw_only=True, tag="repeated-lines"):
    """Lines that are in several documents."""

    def parts_of(self, text: TextBatch) -> Spans:
        return text.lines


class RepeatedParagraphs(RepeatedParts, frozen=True, kw_only=True, tag="repeated-paragraphs"):
    """Paragraphs, with empty lines between them, that are in several documents."""

    def parts_of(self, text: TextBatch) -> Spans:
        return paragraphs_of(text)

    def separator(self) -> str:
        return "\n\n"


def marked_repeats(passes: Iterator[tuple[Array, Array]], bounds: Array, marks: Array, *, most: int) -> None:
    """Mark the occurrences of what is in more than `most` documents, but not those in the first document.

    `passes` give hashes and numbers of occurrences; those of document n are `bounds[n]` to `bounds[n + 1]`.
    """
    for hashes, places in passes:
        order = np.argsort(hashes, kind="stable")
        ordered, places = hashes[order], places[order]
        owners = np.searchsorted(bounds, places, side="right") - 1
        new_hash = np.concatenate(([True], ordered[1:] != ordered[:-1]))
        new_owner = new_hash | np.concatenate(([True], owners[1:] != owners[:-1]))
        groups = np.cumsum(new_hash) - 1
        counts = np.bincount(groups, new_owner)
        firsts = owners[np.flatnonzero(new_hash)]
        repeated = (counts[groups] > most) & (owners != firsts[groups])
        marks[places[repeated]] = True
