"""Which documents came, changed and went between two versions of a data set: a Parquet file for each, by URL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from webmill.curate.arrow import encode_table, import_arrow
from webmill.curate.characters import Array
from webmill.curate.text_batch import Spans, TextBatch
from webmill.infra import atomic

ROWS = 4096


def write_changes(folder: Path, before: Sequence[Path], after: Sequence[Path]) -> dict[str, int]:
    """Write added.parquet, changed.parquet and removed.parquet; return how many URLs each has.

    In memory are two hashes for each document, of its URL and of its text; a URL with several documents has changed
    when one of their texts has.
    """
    old, new = _fingerprints(before), _fingerprints(after)
    place = np.minimum(np.searchsorted(old[0], new[0]), max(len(old[0]) - 1, 0))
    known = old[0][place] == new[0] if len(old[0]) else np.zeros(len(new[0]), bool)
    changed = new[0][known & (new[1] != (old[1][place] if len(old[0]) else new[1]))]
    wanted = {
        "added": (after, new[0][~known]),
        "changed": (after, changed),
        "removed": (before, _missing(old[0], new[0])),
    }
    for name, (shards, hashes) in wanted.items():
        atomic.write_bytes(folder / f"{name}.parquet", encode_table(_rows_of(shards, hashes)))
    return {name: len(hashes) for name, (_, hashes) in wanted.items()}


def _missing(old: Array, new: Array) -> Array:
    return np.setdiff1d(old, new, assume_unique=True)


def _fingerprints(shards: Sequence[Path]) -> tuple[Array, Array]:
    """Return the hashes of all URLs, in order, and for each the sum of the hashes of its texts."""
    urls, texts = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for batch in _batches(shards, ["url", "text"]):
        urls.append(_hashes(batch.column("url")))
        texts.append(_hashes(batch.column("text")))
    joined = np.concatenate(urls)
    order = np.argsort(joined, kind="stable")
    known, first = np.unique(joined[order], return_index=True)
    sums = np.add.reduceat(np.concatenate(texts)[order], first) if len(known) else np.zeros(0, np.uint64)
    return known, sums


def _rows_of(shards: Sequence[Path], hashes: Array) -> dict[str, Any]:
    """Return id and URL of the documents whose URLs have these hashes, the first of each."""
    arrow, _ = import_arrow()
    ids: list[str] = []
    urls: list[str] = []
    open_ = set(hashes.tolist())
    for batch in _batches(shards, ["id", "url"]) if open_ else ():
        keys = _hashes(batch.column("url")).tolist()
        for row, key in enumerate(keys):
            if key in open_:
                open_.remove(key)
                ids.append(batch.column("id")[row].as_py())
                urls.append(batch.column("url")[row].as_py())
    return {"id": arrow.array(ids, arrow.string()), "url": arrow.array(urls, arrow.string())}


def _batches(shards: Sequence[Path], columns: Sequence[str]) -> Iterator[Any]:
    _, parquet = import_arrow()
    for shard in shards:
        yield from parquet.ParquetFile(shard).iter_batches(batch_size=ROWS, columns=list(columns))


def _hashes(column: Any) -> Array:
    texts = [text or "" for text in column.to_pylist()]
    batch = TextBatch(texts)
    return batch.hashes(Spans(batch.starts, batch.ends, batch.starts))
