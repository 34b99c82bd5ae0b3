"""By meaning, and by both, every engine holds what it promises by words: the query language, filters, facets, pages,
snippets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.contracts.search_benches import KINDS, bench_of
from tests.contracts.test_search import document, ids
from tests.sentence_models import write_encoder, write_static_model
from webmill.search.base import (
    MAX_HITS,
    SEARCH_MODES,
    IndexedDocument,
    SearchAnswer,
    SearchFilters,
    SearchMode,
    SearchRequest,
)
from webmill.search.embedded.engine import EmbeddedEngine
from webmill.search.meaning.engine import MeaningEngine
from webmill.search.meaning.model import open_model
from webmill.search.query import parse

TEXTS = {
    "flood": "The river rose after days of rain and the overflow reached the town.",
    "wet": "Water everywhere: a flood came with the rain.",
    "cats": "A kitten sleeps. Every feline likes to purr.",
    "pets": "The cat and another cat.",
    "cars": "An automobile with a new engine.",
    "bank": "The bank lost money, the stock fell.",
    "river-bank": "The bank of the river.",
    "kor": "고양이 한 마리가 있다.",
}
MANY = 400


@pytest.fixture(scope="module", params=KINDS)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeaningEngine]:
    folder = tmp_path_factory.mktemp("meaning")
    model = open_model(write_static_model(folder / "model"))
    with ExitStack() as stack:
        bench = stack.enter_context(closing(bench_of(request.param, request, folder)))
        with closing(MeaningEngine(bench.open("meaning"), folder=folder / "vectors", model=model)) as writing:
            writing.clear()
            writing.apply(list(_documents()), [], cursor="v1")
        yield MeaningEngine(bench.open("meaning"), folder=folder / "vectors", model=model)


def _documents() -> Iterator[IndexedDocument]:
    for number, (id_, text) in enumerate(TEXTS.items()):
        language = "kor" if id_ == "kor" else "eng"
        facets = {"half": "first" if number < 4 else "second"}
        yield document(id_, text, title=f"About {id_}", language=language, facets=facets)
    for number in range(MANY):  # they say nothing of what is searched for
        yield document(f"doctor{number}", f"doctor {number} of the hospital", facets={"half": "none"})


def find(engine: MeaningEngine, text: str, mode: SearchMode, **more: object) -> SearchAnswer:
    return engine.search(SearchRequest(query=parse(text), mode=mode, **more))  # type: ignore[arg-type]


def found(engine: MeaningEngine, text: str, mode: SearchMode, **more: object) -> list[str]:
    return [hit.id for hit in find(engine, text, mode, **more).hits]


def test_a_meaning_is_found_without_its_words(engine: MeaningEngine) -> None:
    assert ids(engine, "vehicle") == []
    assert set(found(engine, "vehicle", "meaning")[:1]) == {"cars"}
    assert set(found(engine, "cats", "meaning")[:2]) == {"cats", "pets"}
    assert found(engine, "猫", "meaning")[0] == "kor"
    assert found(engine, "RIVERS FLOOD", "meaning")[0] in {"flood", "wet"}


def test_both_has_the_documents_with_the_words_and_those_with_the_meaning(engine: MeaningEngine) -> None:
    answer = find(engine, "flood", "both")
    matched = {hit.id: hit.matched for hit in answer.hits}
    assert {hit.id for hit in answer.hits[:2]} == {"wet", "flood"}
    assert (matched["wet"], matched["flood"]) == ("both", "both")  # its id is a word of its title
    assert find(engine, "vehicle", "both").hits[0].matched == "meaning"


@pytest.mark.parametrize("mode", ["meaning", "both"])
def test_what_a_query_demands_holds_in_every_mode(engine: MeaningEngine, mode: SearchMode) -> None:
    without_stock = found(engine, "money -stock", mode, limit=MAX_HITS)
    assert without_stock
    assert "bank" not in without_stock
    assert set(found(engine, 'flood "bank of the river"', mode)) == {"river-bank"}
    assert set(found(engine, "flood title:cars", mode)) == {"cars"}
    assert set(found(engine, "flood site:wet.example.org", mode)) == {"wet"}
    assert set(found(engine, "flood lang:ko", mode)) == {"kor"}
    assert set(found(engine, "engine autom*", mode)) == {"cars"}
    assert found(engine, "flood site:nowhere.example", mode) == []


@pytest.mark.parametrize("mode", ["meaning", "both"])
def test_filters_and_facets_hold_in_every_mode(engine: MeaningEngine, mode: SearchMode) -> None:
    first = SearchFilters(facets={"half": ["first"]})
    answer = find(engine, "flood", mode, filters=first, facets=("half", "language"))
    assert {hit.id for hit in answer.hits} == {"flood", "wet", "cats", "pets"}
    assert answer.total == 4
    assert {(each.value, each.count) for each in answer.facets["half"]} == {("first", 4)}
    assert {(each.value, each.count) for each in answer.facets["language"]} == {("eng", 4)}
    assert set(found(engine, "flood", mode, filters=SearchFilters(languages=["ko"]))) == {"kor"}


@pytest.mark.parametrize("mode", ["meaning", "both"])
def test_pages_have_every_document_once(engine: MeaningEngine, mode: SearchMode) -> None:
    total = find(engine, "doctor", mode).total
    pages = [found(engine, "doctor", mode, offset=offset, limit=30) for offset in range(0, total, 30)]
    every = [id_ for page in pages for id_ in page]
    assert len(every) == len(set(every))
    if mode == "both":
        assert total >= MANY
        assert {f"doctor{number}" for number in range(MANY)} <= set(every)


def test_nothing_is_lost_among_many_that_do_not_hold(engine: MeaningEngine) -> None:
    """The nearest do not hold what is demanded; what does is far away."""
    assert set(found(engine, "doctor -hospital", "meaning", limit=MAX_HITS)) == set(TEXTS)


@pytest.mark.parametrize("mode", SEARCH_MODES)
def test_a_hit_has_its_passage(engine: MeaningEngine, mode: SearchMode) -> None:
    hit = find(engine, "flood", mode).hits[0]
    assert hit.snippet.text in TEXTS[hit.id]
    assert [hit.snippet.text[a:b].lower() for a, b in hit.snippet.marks] in (["flood"], [])
    wet = next(hit for hit in find(engine, "flood", mode).hits if hit.id == "wet")
    assert [wet.snippet.text[a:b] for a, b in wet.snippet.marks] == ["flood"]


def test_without_words_everything_is_found(engine: MeaningEngine) -> None:
    assert find(engine, "", "both").total == len(TEXTS) + MANY
    assert set(found(engine, "site:wet.example.org", "meaning")) == {"wet"}


def test_a_hit_of_a_long_document_shows_the_passage_that_is_near(tmp_path: Path) -> None:
    filler = "Something else is said here, at length. " * 100
    for model in (write_static_model(tmp_path / "static"), write_encoder(tmp_path / "encoder")):
        engine = MeaningEngine(
            EmbeddedEngine(tmp_path / f"{model.name}-index"), folder=tmp_path / "vectors", model=open_model(model)
        )
        with closing(engine):
            engine.apply([document("long", f"{filler}The kitten purrs. {filler}")], [], cursor="v1")
            hit = find(engine, "cats", "meaning").hits[0]
        assert "kitten" in hit.snippet.text
