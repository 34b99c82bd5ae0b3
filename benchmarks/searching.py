"""Indexing multilingual documents and asking for them: the embedded engine beside raw tantivy (the same library, words
only: no pairs of characters, no cursor, no ids to replace) and SQLite FTS5.

Latency is by the clock, of one process, the 95th of 100 queries of each kind. `BENCH_DOCUMENTS` sets the number of
documents (50,000; 200,000 for the figures in the documentation).
"""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import tantivy

from benchmarks.frame import race
from webmill.search.base import Document, Request
from webmill.search.embedded import EmbeddedEngine
from webmill.search.query import parse

DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "50000"))
BATCH = 2000
HANGUL = [chr(0xAC00 + 28 * number) for number in range(300)]
HAN = [chr(0x4E00 + number) for number in range(2000)]
LATIN = [
    f"{a}{b}{c}" for a in ("ba", "ke", "lo", "mi", "ru") for b in ("n", "st", "ra", "ler", "vo") for c in range(400)
]


def documents() -> Iterator[Document]:
    """A third each: words, Korean, Chinese; about 1.5 KB. Every thousandth has a word of its own."""
    dice = random.Random(1)
    for number in range(DOCUMENTS):
        language = ("eng", "kor", "zho")[number % 3]
        if language == "eng":
            text = " ".join(dice.choices(LATIN, k=250))
        elif language == "kor":
            text = " ".join("".join(dice.choices(HANGUL, k=dice.randint(2, 5))) for _ in range(120))
        else:
            text = "，".join("".join(dice.choices(HAN, k=12)) for _ in range(40))
        title = f"{text[:40]} needle{number // 1000}" if number % 1000 == 0 else text[:40]
        yield Document(
            id=f"d{number}", hash="h", version="v", title=title, text=text, language=language, date=number + 1
        )


def batches() -> Iterator[list[Document]]:
    batch: list[Document] = []
    for document in documents():
        batch.append(document)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def index_ours(folder: Path) -> int:
    with closing(EmbeddedEngine(folder)) as engine:
        for batch in batches():
            engine.apply(batch, (), cursor=None)
        engine.apply((), (), cursor="v")
        return engine.count()


def index_raw(folder: Path) -> int:
    folder.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("title", stored=True)
    builder.add_text_field("text", stored=True)
    index = tantivy.Index(builder.build(), path=str(folder))
    writer = index.writer(128 << 20, 1)
    for batch in batches():
        for document in batch:
            writer.add_document(tantivy.Document(title=[document.title], text=[document.text]))
        writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return int(index.searcher().num_docs)


def index_fts5(folder: Path) -> int:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "fts.sqlite")) as database:
        database.execute("CREATE VIRTUAL TABLE page USING fts5(title, text)")
        for batch in batches():
            with database:
                database.executemany("INSERT INTO page VALUES (?, ?)", [(each.title, each.text) for each in batch])
        return int(database.execute("SELECT count(*) FROM page").fetchone()[0])


def queries() -> dict[str, list[str]]:
    dice = random.Random(2)
    return {
        "one word": dice.choices(LATIN, k=100),
        "two words": [" ".join(dice.choices(LATIN, k=2)) for _ in range(100)],
        "a rare word": [f"needle{dice.randrange(max(1, DOCUMENTS // 1000))}" for _ in range(100)],
        "two Korean characters": ["".join(dice.choices(HANGUL, k=2)) for _ in range(100)],
        "two Chinese characters": ["".join(dice.choices(HAN, k=2)) for _ in range(100)],
        "beginning*": [f"{word[:4]}*" for word in dice.choices(LATIN, k=100)],
    }


def ask_ours(engine: EmbeddedEngine, text: str) -> int:
    return engine.search(Request(query=parse(text))).total


def p95(ask: Callable[[str], object], texts: list[str]) -> float:
    times = []
    for text in texts:
        started = time.perf_counter()
        ask(text)
        times.append(time.perf_counter() - started)
    return sorted(times)[int(len(times) * 0.95)] * 1000


def check_recall(engine: EmbeddedEngine) -> tuple[int, int]:
    """Parts of Korean and Chinese texts: how many of 300 are found by asking for them."""
    dice = random.Random(3)
    found = tried = 0
    for number, document in enumerate(documents()):
        if document.language == "eng" or dice.random() > 600 / DOCUMENTS:
            continue
        run = dice.choice([run for run in document.text.replace("，", " ").split() if len(run) > 1])
        start = dice.randrange(len(run) - 1)
        part = run[start : start + dice.randint(2, 4)]
        tried += 1
        with_it = engine.search(Request(query=parse(f'"{part}"'), limit=1)).total
        found += with_it > 0 and any(
            hit.id == document.id
            for offset in range(0, with_it, 100)
            for hit in engine.search(Request(query=parse(f'"{part}"'), limit=100, offset=offset)).hits
        )
        if tried == 300 or number > DOCUMENTS:
            break
    return found, tried


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="webmill-bench-") as root:
        folder = Path(root)
        race(
            f"Index {DOCUMENTS:,} documents in three languages",
            {
                "webmill": lambda: index_ours(folder / "ours"),
                "tantivy, words only": lambda: index_raw(folder / "raw"),
                "SQLite FTS5, words only": lambda: index_fts5(folder / "fts"),
            },
            unit="documents",
            rounds=1,
        )
        with closing(EmbeddedEngine(folder / "ours")) as engine:
            print("\n| query | p95, ms |\n|---|---:|")
            for name, texts in queries().items():
                p95(lambda text: ask_ours(engine, text), texts[:10])
                print(f"| {name} | {p95(lambda text: ask_ours(engine, text), texts):.1f} |")
            found, tried = check_recall(engine)
            print(f"\nparts of Korean and Chinese words found: {found} of {tried}")
        for name in ("ours", "raw", "fts"):
            size = sum(file.stat().st_size for file in (folder / name).rglob("*") if file.is_file())
            print(f"{name}: {size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
