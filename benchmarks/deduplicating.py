"""Near-duplicates: signatures and clusters beside datasketch, gaoya and datatrove, at 5-grams, 14 bands of 8 rows.

Made texts with near copies, of words and of characters (CJK); a whole run of `webmill curate`; what one more per cent
of documents costs; and ten million signatures in bounded memory.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.curating import run_rival
from benchmarks.curating_texts import SHARES, Planted, planted_texts, score
from webmill.curate.attributes import AttributeStore, DocumentPart
from webmill.curate.dedup.clusters import UnionFind, connected, equal_pairs, key_passes
from webmill.curate.dedup.minhash import signatures
from webmill.curate.dedup.steps import NearDuplicates
from webmill.curate.measuring import BASE, small_batches
from webmill.curate.mixing import CorpusMix
from webmill.curate.recipe import recipe_of_steps
from webmill.curate.text_batch import TextBatch
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.sinks import parquet as rows_as_parquet
from webmill.infra.sinks.base import SinkRow
from webmill.model import Document
from webmill.pipeline.curate.run import curate_documents
from webmill.pipeline.progress import progress_to

WORDS, CHARS, SAMPLED = 15_000, 3_000, 200
PART = 1500  # documents of a file
MANY = 10_000_000
STEP = NearDuplicates()
RECIPE = recipe_of_steps([{"use": "minhash"}])


def main() -> None:
    for unit, count in (("words", WORDS), ("chars", CHARS)):
        race(planted_texts(count, count // 5, spaced=unit == "words"), unit)
    with tempfile.TemporaryDirectory() as folder:
        end_to_end(Path(folder))
        many(Path(folder))


def race(planted: Planted, unit: str) -> None:
    size = len(planted.texts)
    what = "words" if unit == "words" else "Chinese characters"
    print(f"\n## Near-duplicates: {size:,} documents of {what}, {size // 5:,} of them near copies\n")
    heads = " | ".join(f"{share:.0%}" for share in SHARES)
    print(f"| | documents/s of CPU | times our CPU | found at {heads} changed | false merges |")
    print("|---|---:|---:|" + "---:|" * len(SHARES) + "---:|")
    clusters, signed, cpu = our_clusters(planted.texts)
    row(f"webmill (signatures alone: {size / signed:,.0f})", size, cpu, cpu, *score(planted, clusters))
    for tool in ("gaoya", "datasketch"):
        if answer := run_rival(tool, planted.texts, unit):
            row(tool, size, answer["cpu"], cpu, *score(planted, answer["clusters"]))
    if unit == "words" and (answer := run_rival("datatrove-minhash", planted.texts[:SAMPLED])):
        ratio = answer["cpu"] / SAMPLED / (cpu / size)
        print(
            f"| datatrove, signatures alone | {SAMPLED / answer['cpu']:,.0f} | {ratio:.1f} |" + " |" * (len(SHARES) + 1)
        )


def row(name: str, size: int, cpu: float, ours: float, recall: dict[float, float], false: int) -> None:
    found = " | ".join(f"{recall[share]:.3f}" for share in SHARES)
    print(f"| {name} | {size / cpu:,.0f} | {cpu / ours:.2f} | {found} | {false} |")


def our_clusters(texts: Sequence[str]) -> tuple[list[int], float, float]:
    """Return the cluster of each text, and the CPU seconds of the signatures and of all."""
    TextBatch(["warm up é"]).words.starts  # noqa: B018 - tables that are made once
    begin = time.process_time()
    pieces = [
        signatures(TextBatch(columns["text"]), ngram=STEP.ngram, bands=STEP.bands, rows=STEP.rows)[0]
        for columns in small_batches([{"text": list(texts)}])
    ]
    matrix = np.concatenate(pieces)
    signed = time.process_time() - begin
    sets, alive = UnionFind(len(texts)), np.ones(len(texts), bool)
    for band in range(STEP.bands):
        for keys, members in key_passes(lambda _, band=band: matrix[:, band], [0, len(texts)], alive):  # type: ignore[misc]
            ones, others, _leaders = equal_pairs(keys, members)
            sets.join(ones, others)
    clusters = np.arange(len(texts))
    members, roots = connected(sets, alive)
    clusters[members] = roots
    return clusters.tolist(), signed, time.process_time() - begin


# --- whole runs ---


def end_to_end(folder: Path) -> None:
    texts = planted_texts(WORDS, WORDS // 5).texts
    root = folder / "corpus"
    (root / "documents").mkdir(parents=True)
    more, first = WORDS // 100, WORDS - WORDS // 100
    for number, place in enumerate(range(0, first, PART)):
        write_part(root, number, texts[place : min(place + PART, first)])
    whole = run_seconds(root)
    write_part(root, first, texts[first:])
    again = run_seconds(root)
    print("\n## `webmill curate run` with near-duplicates, from Parquet to decisions\n")
    print("| | documents | documents/s of CPU | share of the whole |\n|---|---:|---:|---:|")
    print(f"| from scratch | {first:,} | {first / whole:,.0f} | 1.00 |")
    print(f"| one more per cent | {more:,} | | {again / whole:.3f} |")


def write_part(root: Path, number: int, texts: Sequence[str]) -> None:
    documents = [
        Document(
            id=f"{number}-{place}",
            url=f"https://example.org/{number}/{place}",
            text=text,
            outcome="ok",
            date=datetime(2026, 1, 1, tzinfo=UTC),
        )
        for place, text in enumerate(texts)
    ]
    rows = [SinkRow(value=one, line=b"") for one in documents]
    (root / "documents" / f"part-{number:05}.parquet").write_bytes(
        rows_as_parquet.encode(rows, kind=Document, compression="zstd")
    )


def run_seconds(root: Path) -> float:
    begin = time.process_time()
    curate_documents(root, RECIPE, executor=InlineExecutor(), progress=progress_to(None), documents=str(root))
    return time.process_time() - begin


# --- ten million ---


def many(folder: Path) -> None:
    """Cluster ten million signatures in a process of its own, which says what memory it took."""
    subprocess.run([sys.executable, "-m", "benchmarks.deduplicating", str(folder / "many")], check=True)


def cluster_many(folder: Path, *, parts: int = 20) -> None:
    """Make attributes of documents, one per cent of which repeat others, and mix them."""
    store = AttributeStore(folder)
    named = [DocumentPart(f"part-{number:05}.parquet", "") for number in range(parts)]
    random = np.random.Generator(np.random.PCG64(1))
    each = MANY // parts
    copied: np.ndarray[tuple[int, ...], np.dtype[np.uint64]] = random.integers(
        0, 1 << 63, (each // 100, STEP.bands), np.uint64
    )
    for part in named:
        bands = random.integers(0, 1 << 63, (each, STEP.bands), np.uint64)
        bands[: len(copied)] = copied
        columns = {name: bands[:, number] for number, name in enumerate(STEP.key_columns())}
        store.write(RECIPE.key_of(0), part, {"valid": np.ones(each, np.int64), **columns})
        base = {
            "chars": np.full(each, 1000),
            "date": np.zeros(each, np.int64),
            "id_hash": random.integers(0, 1 << 63, each, np.uint64),
        }
        store.write(BASE, part, {**base, "flaw": np.zeros(each, np.int8), "host": ["example.org"] * each})
    del bands, columns, base
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    verdicts = CorpusMix(RECIPE, store, named, work=folder).run()
    seconds = time.process_time() - begin
    kept = int(np.count_nonzero(verdicts.alive))
    assert kept == MANY - (parts - 1) * len(copied), kept
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"\n## {MANY:,} signatures clustered by one process\n")
    print("| CPU seconds | signatures/s | peak memory (before) | duplicates found |\n|---:|---:|---:|---:|")
    print(
        f"| {seconds:.0f} | {MANY / seconds:,.0f} | {after / 1024:,.0f} MB ({before / 1024:,.0f}) | {MANY - kept:,} |"
    )


if __name__ == "__main__":
    cluster_many(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
