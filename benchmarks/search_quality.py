"""How well searches answer people's questions: nDCG@10 on judged collections, by words, by meaning and by both, beside
plain tantivy (its own words, any of them) and Meilisearch as it comes.

`BENCH_JUDGED` names the folder of the collections (`judged.py`), `BENCH_MODELS` folders of sentence models, with colons
between them; `BENCH_QUERIES` how many queries of each collection are asked (150, the first). Nothing is chosen on these
collections but the weight of the meaning (`hybrid.MEANING_WEIGHT`) and the bounds of `model.is_known`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import tantivy
from tests.services.base import CannotStart, Running
from tests.services.meilisearch import start as start_meilisearch

from benchmarks.judged import JudgedCollection, ndcg, read_collections
from webmill.infra.retry import BackoffPolicy
from webmill.search.address import SearchAddress
from webmill.search.base import SEARCH_MODES, IndexedDocument, SearchMode, SearchRequest
from webmill.search.embedded.engine import EmbeddedEngine
from webmill.search.meaning.engine import MeaningEngine
from webmill.search.meaning.model import SentenceModel, open_model
from webmill.search.meilisearch.server import MeilisearchTask, connect, wait_for
from webmill.search.query import parse
from webmill.search.segmentation import split_words

QUERIES = int(os.environ.get("BENCH_QUERIES", "150"))
Find = Callable[[str], list[str]]


def main() -> None:
    folder = os.environ.get("BENCH_JUDGED")
    models = [Path(each) for each in os.environ.get("BENCH_MODELS", "").split(":") if each]
    if not folder or not models:
        print("\nSet BENCH_JUDGED and BENCH_MODELS: see benchmarks/judged.py.")
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as place, meilisearch(Path(place)) as server:
        for path in models:
            compare(Path(folder), path, Path(place), server)


def compare(judged: Path, path: Path, place: Path, server: Running | None) -> None:
    print(f"\n## nDCG@10, meaning by {path.name}\n")
    rivals = ["plain tantivy", *(["Meilisearch"] if server else [])]
    names = [*(f"webmill, {mode}" for mode in SEARCH_MODES), *rivals]
    print("| collection | documents | queries | " + " | ".join(names) + " | both / plain tantivy |")
    print("|---|---:|---:|" + "---:|" * (len(names) + 1))
    model = open_model(path, threads=2)
    for number, collection in enumerate(read_collections(judged)):
        own = place / f"{path.name}-{number}"
        scores = [*ours(collection, model, own), measure(collection, plain_tantivy(collection))]
        if server:
            scores.append(measure(collection, by_meilisearch(collection, server)))
        share = scores[SEARCH_MODES.index("both")] / scores[len(SEARCH_MODES)]
        count = min(QUERIES, len(collection.queries))
        cells = " | ".join(f"{score:.3f}" for score in scores)
        print(f"| {collection.name} | {len(collection.documents):,} | {count} | {cells} | {share:.2f} |", flush=True)


def measure(collection: JudgedCollection, find: Find) -> float:
    asked = [*islice(collection.queries.items(), QUERIES)]
    return sum(ndcg(find(text), collection.judged[key]) for key, text in asked) / len(asked)


def documents(collection: JudgedCollection) -> Iterator[IndexedDocument]:
    for id_, (title, text) in collection.documents.items():
        yield IndexedDocument(
            id=id_, hash=f"{collection.name} {id_}", version="v", title=title, text=text, language=collection.language
        )


def ours(collection: JudgedCollection, model: SentenceModel, place: Path) -> Iterator[float]:
    with closing(MeaningEngine(EmbeddedEngine(place / "index"), folder=place / "vectors", model=model)) as engine:
        engine.apply(documents(collection), (), cursor="v")
    with closing(MeaningEngine(EmbeddedEngine(place / "index"), folder=place / "vectors", model=model)) as engine:
        for mode in SEARCH_MODES:
            yield measure(collection, lambda text, mode=mode: ask(engine, text, mode))  # type: ignore[misc]


def ask(engine: MeaningEngine, text: str, mode: SearchMode) -> list[str]:
    return [hit.id for hit in engine.search(SearchRequest(query=parse(text), mode=mode)).hits]


def plain_tantivy(collection: JudgedCollection) -> Find:
    builder = tantivy.SchemaBuilder()
    for name in ("title", "text"):
        builder.add_text_field(name)
    builder.add_text_field("id", stored=True, tokenizer_name="raw")
    index = tantivy.Index(builder.build())
    writer = index.writer(64 << 20, 1)
    for id_, (title, text) in collection.documents.items():
        writer.add_document(tantivy.Document(title=[title], text=[text], id=[id_]))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def find(text: str) -> list[str]:
        query = index.parse_query(" ".join(split_words(text)) or "a", ["title", "text"])
        return [searcher.doc(address)["id"][0] for _, address in searcher.search(query, limit=10).hits]

    return find


@contextmanager
def meilisearch(place: Path) -> Iterator[Running | None]:
    folder = place / "meilisearch"
    folder.mkdir()
    try:
        running = start_meilisearch(folder)
    except CannotStart as missing:
        print(f"\n{missing}")
        yield None
        return
    try:
        yield running
    finally:
        running.stop()


def by_meilisearch(collection: JudgedCollection, running: Running) -> Find:
    address = SearchAddress.of(f"{running.url}/{collection.name}", port=7700)
    server = connect(address).with_patience(BackoffPolicy(attempts=3))
    found = [
        {"id": f"d{number}", "title": title, "text": text}
        for number, (title, text) in enumerate(collection.documents.values())
    ]
    ids = {f"d{number}": id_ for number, id_ in enumerate(collection.documents)}
    path = f"/indexes/{address.index}"
    wait_for(server, server.ask("POST", f"{path}/documents?primaryKey=id", found, answer=MeilisearchTask), name="x")

    def find(text: str) -> list[str]:
        hits = server.ask("POST", f"{path}/search", {"q": text, "limit": 10}, answer=dict[str, Any])["hits"]
        return [ids[hit["id"]] for hit in hits]

    return find


if __name__ == "__main__":
    main()
