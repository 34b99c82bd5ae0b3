"""What a search costs in CPU time of this process, at 200,000 documents or as many as asked for: queries of
one, three and ten words, and with a filter that few documents pass, by words, by meaning and by both.

Vectors are random, of 256 dimensions, two passages a document: how long a comparison takes does not depend on what they
mean. Beside ours, the same vectors compared by others: NumPy in one multiplication of floats, usearch's exact search,
and, with `BENCH_GRAPH`, its graph (HNSW), which takes minutes to build. `BENCH_DOCUMENTS` sets the number of documents.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy
from msgspec.structs import replace

from benchmarks.searching import DOCUMENTS, LANGUAGES, batches, write_documents
from webmill.search.base import IndexedDocument, SearchFilters, SearchRequest
from webmill.search.embedded.engine import EmbeddedEngine
from webmill.search.fields import content_of
from webmill.search.meaning.engine import MeaningEngine
from webmill.search.meaning.model import Vectors, normalized
from webmill.search.meaning.passages import Passage
from webmill.search.meaning.scan import PassageScores
from webmill.search.meaning.vector_store import VectorReader, VectorWriter
from webmill.search.query import parse

DIMENSIONS, PASSAGES = 256, 2
QUERIES = 60
NEAREST = 100


class RandomModel:
    """A model whose vectors mean nothing, and take no time."""

    fingerprint, dimensions = "random", DIMENSIONS

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return random_vectors(len(texts), seed=hash(tuple(texts)) & 0xFFFFFF)

    embed_documents = embed_queries

    def knows(self, text: str) -> bool:
        return bool(text)


def random_vectors(count: int, *, seed: int) -> Vectors:
    return normalized(numpy.random.default_rng(seed).normal(size=(count, DIMENSIONS)).astype(numpy.float32))


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
        place = Path(folder)
        write_documents(place / "documents")
        index(place)
        compare_queries(place)
        compare_scans(place / "vectors")


def index(place: Path) -> None:
    with closing(EmbeddedEngine(place / "index")) as engine:
        for number, batch in enumerate(batches(place / "documents")):
            named = [with_hash(each, f"{number}-{at}") for at, each in enumerate(batch)]
            engine.apply(named, (), cursor=None)
        with closing(VectorWriter(place / "vectors", dimensions=DIMENSIONS)) as writer:
            for number, batch in enumerate(batches(place / "documents")):
                vectors = random_vectors(PASSAGES * len(batch), seed=number)
                rows = []
                for at in range(len(batch)):
                    key = bytes.fromhex(content_of(f"{number}-{at}"))
                    own = vectors[PASSAGES * at : PASSAGES * (at + 1)]
                    rows.append((key, [Passage(500 * part, 500) for part in range(PASSAGES)], own))
                writer.append(rows)
            engine.apply((), (), cursor=f"v|{writer.note.id}")


def with_hash(document: IndexedDocument, hash_: str) -> IndexedDocument:
    return replace(document, hash=hash_)


def kinds() -> dict[str, Callable[[random.Random], tuple[str, SearchFilters]]]:
    english = LANGUAGES[0][0].words

    def words(dice: random.Random, count: int) -> str:
        return " ".join(english[min(int(dice.paretovariate(0.5)), 5000)] for _ in range(count))

    few = SearchFilters(sites=["www.example1.org"])
    return {
        "one word": lambda dice: (words(dice, 1), SearchFilters()),
        "three words": lambda dice: (words(dice, 3), SearchFilters()),
        "a question of ten words": lambda dice: (words(dice, 10), SearchFilters()),
        "three words, one site of a hundred": lambda dice: (words(dice, 3), few),
    }


def compare_queries(place: Path) -> None:
    print(f"\n## {DOCUMENTS:,} documents, {PASSAGES * DOCUMENTS:,} passages: CPU time of a search, p50 / p95\n")
    print("| query | words | meaning | both |\n|---|---:|---:|---:|")
    with closing(
        MeaningEngine(EmbeddedEngine(place / "index"), folder=place / "vectors", model=RandomModel())
    ) as engine:
        for name, make in kinds().items():
            cells = []
            for mode in ("words", "meaning", "both"):
                dice, times = random.Random(name), []
                for _ in range(QUERIES):
                    text, filters = make(dice)
                    before = time.process_time()
                    engine.search(
                        SearchRequest(query=parse(text), filters=filters, mode=mode, facets=("language", "site"))  # type: ignore[arg-type]
                    )
                    times.append(1000 * (time.process_time() - before))
                times.sort()
                cells.append(f"{times[len(times) // 2]:.0f} / {times[int(0.95 * len(times))]:.0f} ms")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def compare_scans(folder: Path) -> None:
    reader = VectorReader(folder)
    queries = random_vectors(10, seed=99)
    rows = numpy.concatenate([each["vector"] for each in reader.files])
    floats = numpy.concatenate([each["vector"] * each["scale"][:, None] for each in reader.files]).astype(numpy.float32)
    exact = [set(numpy.argsort(-(floats @ query))[:NEAREST].tolist()) for query in queries]
    print(f"\n## The nearest {NEAREST} of {len(rows):,} vectors\n")
    print("| | CPU ms | found of the nearest | bytes |\n|---|---:|---:|---:|")

    def show(name: str, find: Callable[[Vectors], Sequence[int]], size: int) -> None:
        find(queries[0])
        before = time.process_time()
        found = [set(map(int, find(query))) for query in queries]
        cost = 1000 * (time.process_time() - before) / len(queries)
        recall = sum(len(one & other) for one, other in zip(found, exact, strict=True)) / len(queries) / NEAREST
        print(f"| {name} | {cost:.1f} | {recall:.1%} | {size:,} |", flush=True)

    def ours(query: Vectors) -> Sequence[int]:
        scores = PassageScores(reader, query)
        return numpy.argpartition(-scores._scores, NEAREST)[:NEAREST].tolist()  # type: ignore[no-any-return]

    show("ours: integers, converted block by block", ours, rows.nbytes)
    show(
        "NumPy, floats", lambda query: numpy.argpartition(-(floats @ query), NEAREST)[:NEAREST].tolist(), floats.nbytes
    )
    try:
        from usearch.index import Index, search
    except ImportError:
        return
    scale = 127 / numpy.abs(queries).max(axis=1, keepdims=True)
    small = {query.tobytes(): numpy.rint(query * one).astype("i1") for query, one in zip(queries, scale, strict=True)}
    show(
        "usearch, exact, integers",
        lambda query: search(rows, small[query.tobytes()], NEAREST, "cos", exact=True, threads=1).keys,
        rows.nbytes,
    )
    if not os.environ.get("BENCH_GRAPH"):
        return
    before = time.process_time()
    graph = Index(ndim=DIMENSIONS, metric="cos", dtype="i8")
    graph.add(numpy.arange(len(floats)), floats, threads=1)
    name = f"usearch, graph, built in {time.process_time() - before:.0f} s of CPU"
    show(name, lambda query: graph.search(query, NEAREST).keys, graph.serialized_length)


if __name__ == "__main__":
    main()
