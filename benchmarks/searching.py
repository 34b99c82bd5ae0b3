"""Indexing multilingual documents and asking for them: the embedded engine beside raw tantivy (the same library: words
only, and with pairs of characters; no cursor, no ids to replace), SQLite FTS5 (words only) and Meilisearch as it comes.

Latency is by the clock, of one process, the 95th of 100 queries of each kind; behind it the CPU time of engines that
run in this process, which says more on a machine that others use. `BENCH_DOCUMENTS` sets the number of documents
(200,000). Meilisearch runs where `make .venv-search/.ready` has brought it.
"""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import msgspec
import tantivy
from tests.services.base import CannotStart, Running
from tests.services.meilisearch import start as start_meilisearch

from benchmarks.frame import Contestant, race
from webmill.infra.json_http import JsonServer
from webmill.infra.retry import BackoffPolicy
from webmill.search.address import SearchAddress
from webmill.search.base import IndexedDocument, SearchRequest
from webmill.search.embedded.engine import EmbeddedEngine
from webmill.search.meilisearch.server import MeilisearchTask, connect, wait_for
from webmill.search.query import parse
from webmill.search.segmentation import bigrams

DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "200000"))
BATCH = 2000
WORDS = 20_000  # of each language, the nth used 1/n times as often as the first
PARTS = 300  # of Korean, Japanese and Chinese texts that must be found


class Language:
    """`text` makes about 1.5 KB."""

    def __init__(self, code: str, letters: str, *, shortest: int, longest: int, ends: list[str], between: str) -> None:
        dice = random.Random(code)
        self.code, self._ends, self._between = code, ends, between
        self.words = ["".join(dice.choices(letters, k=dice.randint(shortest, longest))) for _ in range(WORDS)]
        self._weights = [*accumulate(1 / rank for rank in range(1, WORDS + 1))]

    def text(self, dice: random.Random, count: int) -> str:
        chosen = dice.choices(self.words, cum_weights=self._weights, k=count)
        ends = dice.choices(self._ends, k=count)
        return "".join(f"{word}{end}{self._between}" for word, end in zip(chosen, ends, strict=True))


def characters(first: int, count: int, step: int = 1) -> str:
    return "".join(chr(first + step * number) for number in range(count))


HANGUL, KANJI, HAN = characters(0xAC00, 400, 28), characters(0x4E00, 1500), characters(0x4E00, 3000)
LANGUAGES = [  # and how many words a text has
    (Language("eng", "abcdefghijklmnoprstuvwy", shortest=3, longest=9, ends=["", "", "", "s", "."], between=" "), 220),
    (Language("kor", HANGUL, shortest=2, longest=4, ends=["", "은", "을", "에"], between=" "), 130),
    (Language("jpn", KANJI, shortest=1, longest=3, ends=["の", "を", "は、", "した。"], between=""), 150),
    (Language("zho", HAN, shortest=1, longest=3, ends=["", "", "", "，"], between=""), 250),
]


def write_documents(file: Path) -> None:
    """A quarter in each language. Every thousandth has a word of its own in its title."""
    dice = random.Random(1)
    with file.open("wb") as out:
        for number in range(DOCUMENTS):
            language, count = LANGUAGES[number % len(LANGUAGES)]
            title = language.text(dice, 6) + (f" needle{number // 1000}" if number % 1000 == 0 else "")
            document = IndexedDocument(
                id=f"d{number}",
                hash="h",
                version="v",
                title=title,
                text=language.text(dice, count),
                language=language.code,
                date=datetime.fromtimestamp(number + 1, UTC),
                url=f"https://www.example{number % 100}.org/{number}",
            )
            data = msgspec.msgpack.encode(document)
            out.write(len(data).to_bytes(4) + data)


def documents(file: Path) -> Iterator[IndexedDocument]:
    decode = msgspec.msgpack.Decoder(IndexedDocument).decode
    with file.open("rb") as source:
        while size := source.read(4):
            yield decode(source.read(int.from_bytes(size)))


def batches(file: Path) -> Iterator[list[IndexedDocument]]:
    every = documents(file)
    while batch := [*islice(every, BATCH)]:
        yield batch


# --- indexing ---


def index_ours(file: Path, folder: Path) -> int:
    with closing(EmbeddedEngine(folder)) as engine:
        for batch in batches(file):
            engine.apply(batch, (), cursor=None)
        engine.apply((), (), cursor="v")
        return engine.count()


def index_raw(file: Path, folder: Path, *, with_pairs: bool) -> int:
    folder.mkdir()
    builder = tantivy.SchemaBuilder()
    for name in ("title", "text", "url"):
        builder.add_text_field(name, stored=True)
    for name in ("title_pairs", "text_pairs") if with_pairs else ():
        builder.add_text_field(name, tokenizer_name="whitespace")
    index = tantivy.Index(builder.build(), path=str(folder))
    writer = index.writer(128 << 20, 1)
    for batch in batches(file):
        for each in batch:
            fields = {"title": [each.title], "text": [each.text], "url": [each.url]}
            if with_pairs:
                fields |= {"title_pairs": [bigrams(each.title)], "text_pairs": [bigrams(each.text)]}
            writer.add_document(tantivy.Document(**fields))
        writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return int(index.searcher().num_docs)


def index_fts5(file: Path, folder: Path) -> int:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "fts.sqlite")) as database:
        database.execute("CREATE VIRTUAL TABLE page USING fts5(title, text, url)")
        for batch in batches(file):
            rows = [(each.title, each.text, each.url) for each in batch]
            with database:
                database.executemany("INSERT INTO page VALUES (?, ?, ?)", rows)
        return int(database.execute("SELECT count(*) FROM page").fetchone()[0])


def index_meilisearch(file: Path, folder: Path) -> int:
    """Its CPU time counts once it has ended; for the queries it is started again."""
    folder.mkdir()
    running = start_meilisearch(folder)
    with closing(server(running)) as asked:
        for batch in batches(file):
            rows = [{"id": each.id, "title": each.title, "text": each.text, "url": each.url} for each in batch]
            lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
            wait_for(
                asked, asked.ask("POST", "/indexes/pages/documents", lines, answer=MeilisearchTask), name="Meilisearch"
            )
        count = asked.ask("GET", "/indexes/pages/stats", answer=dict[str, Any])["numberOfDocuments"]
    running.stop()
    return int(count)


def server(running: Running) -> JsonServer:
    address = SearchAddress.of(f"{running.url}/pages", port=7700)
    return connect(address).with_patience(BackoffPolicy(attempts=1))


# --- asking ---


def queries() -> dict[str, list[str]]:
    """Common words are among the 500 most used, of which each is in many documents."""
    dice = random.Random(2)
    english, korean, japanese, chinese = (language.words for language, _ in LANGUAGES)
    return {
        "a common word": dice.choices(english[:500], k=100),
        "any word": dice.choices(english, k=100),
        "two words": [" ".join(dice.choices(english[:2000], k=2)) for _ in range(100)],
        "a rare word": [f"needle{dice.randrange(max(1, DOCUMENTS // 1000))}" for _ in range(100)],
        "a Korean word": dice.choices(korean[:2000], k=100),
        "two Korean words": [" ".join(dice.choices(korean[:2000], k=2)) for _ in range(100)],
        "a Japanese word": dice.choices([word for word in japanese if len(word) > 1][:2000], k=100),
        "a Chinese word": dice.choices([word for word in chinese if len(word) > 1][:2000], k=100),
        "beginning*": [f"{word[:4]}*" for word in dice.choices(english, k=100)],
    }


Ask = Callable[[str], object]


def ask_raw(folder: Path) -> Ask:
    """With the title and the text of ten hits, as the others give them."""
    index = tantivy.Index.open(str(folder))
    searcher = index.searcher()

    def ask(text: str) -> object:
        words = " ".join(f"+{word}" for word in text.replace("*", "").split())
        found = searcher.search(index.parse_query(words, ["title", "text"]), limit=10)
        return [searcher.doc(address)["text"] for _, address in found.hits]

    return ask


def ask_fts5(database: sqlite3.Connection) -> Ask:
    wanted = "SELECT title, snippet(page, 1, '', '', '…', 20) FROM page WHERE page MATCH ? ORDER BY rank LIMIT 10"
    count = "SELECT count(*) FROM page WHERE page MATCH ?"

    def ask(text: str) -> object:
        words = " ".join(f'"{word.rstrip("*")}"' + "*" * word.endswith("*") for word in text.split())
        return database.execute(wanted, (words,)).fetchall(), database.execute(count, (words,)).fetchone()

    return ask


def ask_meilisearch(asked: JsonServer) -> Ask:
    options = {"limit": 10, "attributesToCrop": ["text"], "attributesToHighlight": ["text"]}
    return lambda text: asked.ask(
        "POST", "/indexes/pages/search", {"q": text.replace("*", ""), "matchingStrategy": "all", **options}, answer=dict
    )


def p95(ask: Ask, texts: list[str], *, inside: bool) -> str:
    for text in texts[:10]:
        ask(text)
    clock, cpu = [], []
    for text in texts:
        began, spent = time.perf_counter(), time.process_time()
        ask(text)
        clock.append(time.perf_counter() - began)
        cpu.append(time.process_time() - spent)
    times = (sorted(each)[int(len(each) * 0.95)] * 1000 for each in ((clock, cpu) if inside else (clock,)))
    return " / ".join(f"{each:.1f}" for each in times)


def missed_parts(file: Path, engine: EmbeddedEngine) -> tuple[int, int]:
    """Parts of runs of Korean, Japanese and Chinese: how many documents that hold one are not found by it, of how many.

    All documents are read: nothing but the text says which hold a part.
    """
    dice = random.Random(3)
    chosen: list[str] = []
    every = max(1, DOCUMENTS // PARTS)
    for number, document in enumerate(documents(file)):
        if document.language != "eng" and number % every == dice.randrange(4) % every and len(chosen) < PARTS:
            run = max(document.text.replace("，", " ").replace("、", " ").replace("。", " ").split(), key=len)
            start = dice.randrange(max(1, len(run) - 3))
            chosen.append(run[start : start + dice.randint(2, 4)])
    holding: dict[str, set[str]] = {part: set() for part in chosen}
    for document in documents(file):
        if document.language != "eng":
            for part, ids in holding.items():
                if part in document.text or part in document.title:
                    ids.add(document.id)
    return sum(missed(engine, part, ids) for part, ids in holding.items()), sum(map(len, holding.values()))


def missed(engine: EmbeddedEngine, part: str, ids: set[str]) -> int:
    """By id, or where they are many by their number: nothing is found that does not hold it."""
    query = parse(f'"{part}"')
    if len(ids) > 1000:
        return max(0, len(ids) - engine.search(SearchRequest(query=query, limit=1)).total)
    pages = (engine.search(SearchRequest(query=query, limit=100, offset=at)).hits for at in range(0, len(ids), 100))
    return len(ids - {hit.id for page in pages for hit in page})


def ask_all(folder: Path, stack: ExitStack) -> EmbeddedEngine:
    engine = stack.enter_context(closing(EmbeddedEngine(folder / "ours")))
    database = stack.enter_context(closing(sqlite3.connect(folder / "fts" / "fts.sqlite")))
    asks: dict[str, Ask] = {
        "webmill": lambda text: engine.search(SearchRequest(query=parse(text))),
        "tantivy, words only": ask_raw(folder / "raw"),
        "SQLite FTS5": ask_fts5(database),
    }
    if (folder / "meilisearch").is_dir():
        running = start_meilisearch(folder / "meilisearch")
        stack.callback(running.stop)
        asks["Meilisearch"] = ask_meilisearch(stack.enter_context(closing(server(running))))
    print("\n## Ask: p95, ms by the clock / of CPU\n\n| | " + " | ".join(asks) + " |\n|---|" + "---:|" * len(asks))
    for name, texts in queries().items():
        found = (p95(ask, texts, inside=name_of != "Meilisearch") for name_of, ask in asks.items())
        print(f"| {name} | " + " | ".join(found) + " |")
    return engine


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="webmill-bench-") as root, ExitStack() as stack:
        folder = Path(root)
        file = folder / "documents"
        write_documents(file)
        contestants: dict[str, Contestant] = {
            "webmill": lambda: index_ours(file, folder / "ours"),
            "tantivy, words only": lambda: index_raw(file, folder / "raw", with_pairs=False),
            "tantivy, words and pairs": lambda: index_raw(file, folder / "raw_pairs", with_pairs=True),
            "SQLite FTS5, words only": lambda: index_fts5(file, folder / "fts"),
        }
        try:
            with tempfile.TemporaryDirectory() as probe:
                start_meilisearch(Path(probe)).stop()
            contestants["Meilisearch"] = lambda: index_meilisearch(file, folder / "meilisearch")
        except CannotStart as error:
            print(f"\nwithout Meilisearch: {error}")
        results = race(f"Index {DOCUMENTS:,} documents in four languages", contestants, unit="documents", rounds=1)
        for name in ("tantivy, words only", "tantivy, words and pairs"):
            print(f"\nwebmill indexes at {results[name].cpu / results['webmill'].cpu:.0%} of the speed of {name}")

        engine = ask_all(folder, stack)
        lost, held = missed_parts(file, engine)
        print(f"\nDocuments with one of {PARTS} parts of CJK runs: {held:,}; missed: {lost}\n")
        for name in ("ours", "raw", "raw_pairs", "fts", "meilisearch"):
            size = sum(each.stat().st_size for each in (folder / name).rglob("*") if each.is_file())
            print(f"{name}: {size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
