"""What every search engine promises: documents by their ids, a cursor that is never ahead, answers that make sense."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contracts.search_benches import KINDS, Bench, bench_of
from webmill.model import CaptureRef
from webmill.search.base import (
    MAX_HITS,
    TEXT_KEPT,
    IndexedDocument,
    SearchAnswer,
    SearchEngine,
    SearchFilters,
    SearchRequest,
    key_of,
)
from webmill.search.embedded.engine import EmbeddedEngine
from webmill.search.query import parse

DAY = 86_400
WEST = {"campus": "west"}
MISSES_WRONG_FIRST_LETTERS = {"meilisearch"}  # one there counts as two: fewer words are similar
QUERIES = 60  # that are tried on two engines at once


CAPTURED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def day(number: int) -> datetime:
    return datetime.fromtimestamp(number * DAY, UTC)


def document(id_: str, text: str = "", *, title: str = "", **more: object) -> IndexedDocument:
    values = {"hash": f"h{id_}", "version": "1", "url": f"https://www.{id_}.example.org/{id_}", **more}
    return IndexedDocument(id=id_, text=text, title=title, **values)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=KINDS)
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with closing(bench_of(request.param, request, tmp_path_factory.mktemp("search"))) as bench:
        yield bench


@pytest.fixture
def open_engine(bench: Bench) -> Callable[[], SearchEngine]:
    """The same index each time, empty at first."""
    bench.open("changes").clear()
    return lambda: bench.open("changes")


@pytest.fixture
def engine(open_engine: Callable[[], SearchEngine]) -> SearchEngine:
    return open_engine()


def find(engine: SearchEngine, text: str, **more: object) -> SearchAnswer:
    return engine.search(SearchRequest(query=parse(text), **more))  # type: ignore[arg-type]


def ids(engine: SearchEngine, text: str, **more: object) -> list[str]:
    return [hit.id for hit in find(engine, text, **more).hits]


# --- changes ---


def test_an_empty_index_finds_nothing_and_has_no_cursor(engine: SearchEngine) -> None:
    assert engine.cursor() is None
    assert engine.count() == 0
    assert list(engine.keys()) == []
    assert find(engine, "anything").total == 0


def test_what_is_applied_is_there_when_it_is_opened_again(open_engine: Callable[[], SearchEngine]) -> None:
    engine = open_engine()
    engine.apply([document("a", "one"), document("b", "two")], [], cursor="v1")
    engine = open_engine()
    assert engine.cursor() == "v1"
    assert dict(engine.keys()) == {"a": "ha.", "b": "hb."}
    assert engine.count() == 2
    assert ids(engine, "two") == ["b"]


def test_a_document_that_comes_again_replaces_itself(engine: SearchEngine) -> None:
    engine.apply([document("a", "one"), document("b", "two")], [], cursor="v1")
    engine.apply([document("a", "three", hash="new", label="l")], ["b", "never"], cursor="v2")
    engine.apply([document("a", "three", hash="new", label="l")], ["b", "never"], cursor="v2")  # late, or twice
    assert dict(engine.keys()) == {"a": "new.l"}
    assert (ids(engine, "one"), ids(engine, "two"), ids(engine, "three")) == ([], [], ["a"])
    assert engine.cursor() == "v2"


def test_changes_without_a_cursor_leave_the_cursor(open_engine: Callable[[], SearchEngine]) -> None:
    engine = open_engine()
    engine.apply([document("a", "one")], [], cursor="v1")
    engine.apply([document("b", "two")], [], cursor=None)
    engine = open_engine()
    assert engine.cursor() == "v1"
    assert engine.count() == 2


def test_the_same_id_twice_in_one_change_is_one_document(engine: SearchEngine) -> None:
    engine.apply([document("a", "one"), document("a", "two")], [], cursor="v1")
    assert engine.count() == 1
    assert (ids(engine, "one"), ids(engine, "two")) == ([], ["a"])


def test_cleared_it_is_as_new(engine: SearchEngine) -> None:
    engine.apply([document("a", "one")], [], cursor="v1")
    engine.clear()
    assert engine.cursor() is None
    assert engine.count() == 0
    engine.apply([document("b", "two")], [], cursor="v2")
    assert dict(engine.keys()) == {"b": "hb."}


IDS = [
    "com,example)/a?b=c&d=%20",
    "한국/공지 1",
    "a\tb",
    "-x:y*",
    "q" * 2000,
    "q" * 70_000,
    '"',
    "a\\b",
    "\x00cursor",
    "a\x00",
    "#a",
]


@pytest.mark.parametrize("id_", IDS, ids=range(len(IDS)))
def test_any_id_is_an_id(engine: SearchEngine, id_: str) -> None:
    for version in ("v1", "v2"):  # the second time it replaces itself
        engine.apply([document("other", "one"), document(id_, "two", url="")], [], cursor=version)
        assert dict(engine.keys()).keys() == {"other", key_of(id_)}
        assert ids(engine, "two") == [id_]
        assert engine.cursor() == version
    engine.apply([], [key_of(id_)], cursor="v3")
    assert dict(engine.keys()).keys() == {"other"}


# --- queries ---


@pytest.fixture(scope="module")
def library(bench: Bench) -> SearchEngine:
    """To look into only."""
    engine = bench.open("library")
    place = {"warc_filename": "crawl-data/x.warc.gz", "warc_offset": 12, "warc_length": 345, "date": CAPTURED}
    engine.apply(
        [
            document("a", "The annual report of the city", title="City report", language="eng", **place),
            document("b", "Reports were written annually; the report is long", title="O", language="eng", date=day(1)),
            document("c", "서울특별시청은 예산을 발표했습니다", title="서울시 공지", language="kor", date=day(2)),
            document("d", "東京都庁の年次報告書です", title="東京都", language="jpn", facets={"campus": "east"}),
            document(
                "e", "北京市政府发布年度报告", title="北京", language="zho", facets={"campus": "west"}, date=day(3)
            ),
            document("f", "Über die Straße ins Café", title="Naïve", language="deu", facets={"campus": "east"}),
        ],
        [],
        cursor="v1",
    )
    return engine


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("annual report", {"a", "b"}),
        ("annual city", {"a"}),
        ('"annual report"', {"a"}),
        ('"report annual"', set()),
        ("report -city", {"b"}),
        ("city OR 北京", {"a", "e"}),
        ("title:report", {"a"}),
        ("annual*", {"a", "b"}),
        ("cafe", {"f"}),
        ("CAFÉ", {"f"}),
        ("서울", {"c"}),
        ("특별시", {"c"}),
        ("산을", {"c"}),
        ("시청은 예산", {"c"}),
        ("年次報告書", {"d"}),
        ("京", {"d", "e"}),
        ("報告", {"d"}),
        ("报告", {"e"}),
        ("site:example.org 京", {"d", "e"}),
        ("site:www.a.example.org", {"a"}),
        ("site:org", set()),
        ("lang:kor", {"c"}),
        ("lang:ko", {"c"}),
        ("site:*.a.example.org", {"a"}),
        ('"예산을 발표"', {"c"}),
        ('"발표 예산"', set()),
        ("-lang:eng -lang:kor", {"d", "e", "f"}),
        ("date:2026", {"a"}),
        ("date:1970-01-02..1970-01-03", {"b", "c"}),
        ("date:1970-01-03 OR date:2026-01-02", {"a", "c"}),
        ("-date:1970 -date:2026", {"d", "f"}),
        ('site:www.a.example.org OR lang:kor OR date:1970-01-02 OR "年次 7"', {"a", "b", "c"}),
        ("date:report", set()),
        ("", {"a", "b", "c", "d", "e", "f"}),
        ("nothingatall", set()),
    ],
)
def test_a_query_finds_what_it_says(library: SearchEngine, query: str, found: set[str]) -> None:
    answer = find(library, query)
    assert {hit.id for hit in answer.hits} == found
    assert answer.total == len(found)
    assert answer.suggestion == ""


def test_other_forms_of_a_word_are_found_but_the_phrase_stays_the_phrase(library: SearchEngine) -> None:
    assert set(ids(library, "reporting")) == {"a", "b"}
    assert ids(library, '"reporting"') == []


def test_a_word_that_is_left_out_is_that_word(library: SearchEngine) -> None:
    assert set(ids(library, "annually -reports")) == {"a"}
    assert set(ids(library, "annual -reported")) == {"a", "b"}


@pytest.mark.parametrize(
    "word", ["हिन्दी", "தமிழ்", "বাংলা", "الكِتَابُ", "שָׁלוֹם", "İstanbul", "ΑΘΉΝΑ", "ﬁne", "Ǆ", "naïve", "don't"]
)
def test_a_word_is_found_as_it_is_written_and_marked(engine: SearchEngine, word: str) -> None:
    engine.apply([document("it", f"before {word} after"), document("other", "before after")], [], cursor="v1")
    assert ids(engine, word) == ["it"]
    assert ids(engine, f'"before {word} after"') == ["it"]


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("iPhone用ケース15", True),
        ("iPhone用", True),
        ("用ケース15", True),
        ("ケース15", True),
        ('"iPhone用ケース15 新発売"', True),
        ("iPhone15", False),
        ("ケース用", False),
    ],
)
def test_a_word_of_two_scripts_is_found(engine: SearchEngine, query: str, is_found: bool) -> None:
    engine.apply([document("it", "新しいiPhone用ケース15 新発売"), document("other", "iPhone 15 用")], [], cursor="v1")
    answer = find(engine, query)
    assert ("it" in [hit.id for hit in answer.hits] and not answer.suggestion) == is_found


@pytest.mark.parametrize("query", ['"한 を"', '"한 を a"', '"を 한 東京"', '"a 한"'])
def test_a_phrase_may_have_single_characters(engine: SearchEngine, query: str) -> None:
    engine.apply([document("it", f"x {query} y"), document("other", "x y")], [], cursor="v1")
    assert ids(engine, query) == ["it"]


def test_a_long_text_is_found_by_what_is_at_its_end_and_over_any_border(engine: SearchEngine) -> None:
    start = "a " * ((TEXT_KEPT - len("water ")) // 2) + "water "
    assert len(start) == TEXT_KEPT
    engine.apply([document("long", start + "tower and the lighthouse"), document("short", "tower")], [], cursor="v1")
    for query in ("lighthouse", '"water tower"', "water lighthouse"):
        assert ids(engine, query) == ["long"]
    assert set(ids(engine, "tower")) == {"long", "short"}
    assert ids(engine, '"tower water"') == []


def test_a_phrase_does_not_reach_over_what_stands_between(engine: SearchEngine) -> None:
    engine.apply(
        [document("it", "7 東京都 text 예산 서울"), document("other", "7 text 서울 예산 東京都")], [], cursor="v1"
    )
    assert ids(engine, '"7 text"') == ["other"]
    assert ids(engine, '"7 東京都 text"') == ["it"]
    assert ids(engine, '"예산 서울"') == ["it"]
    assert ids(engine, '"서울 예산"') == ["other"]


def test_a_word_with_wrong_letters_is_told_and_found(library: SearchEngine) -> None:
    answer = find(library, "anual reprot")
    assert answer.suggestion == "annual report"
    assert {hit.id for hit in answer.hits} == {"a", "b"}
    assert find(library, "xqzvkw").suggestion == ""


def test_filters_narrow_what_is_found(library: SearchEngine) -> None:
    assert set(ids(library, "", filters=SearchFilters(languages=["kor", "ZHO"]))) == {"c", "e"}
    assert set(ids(library, "", filters=SearchFilters(facets={"campus": ["east"]}))) == {"d", "f"}
    assert set(ids(library, "", filters=SearchFilters(facets={"campus": ["east", "west"]}, languages=["jpn"]))) == {"d"}
    assert set(ids(library, "", filters=SearchFilters(sites=["www.a.example.org"]))) == {"a"}
    assert set(ids(library, "", filters=SearchFilters(since=DAY, until=3 * DAY))) == {"b", "c"}
    assert set(ids(library, "", filters=SearchFilters(until=DAY + 1))) == {"b"}  # one without a date is at no time


def test_dates_sort_and_facets_count(library: SearchEngine) -> None:
    assert ids(library, "", sort="newest")[:4] == ["a", "e", "c", "b"]
    assert ids(library, "", sort="oldest", filters=SearchFilters(since=1)) == ["b", "c", "e", "a"]
    facets = find(library, "", facets=["language", "campus", "site", "none"]).facets
    assert {each.value: each.count for each in facets["campus"]} == {"east": 2, "west": 1}
    assert facets["campus"][0].value == "east"
    assert {each.value: each.count for each in facets["language"]} == {"eng": 2, "kor": 1, "jpn": 1, "zho": 1, "deu": 1}
    assert [(each.value, each.count) for each in facets["site"]] == [("example.org", 6)]
    assert facets["none"] == []


def test_hits_lead_to_what_they_were_made_of(library: SearchEngine) -> None:
    hit = find(library, "annual city").hits[0]
    found = hit.document
    assert (found.id, found.hash, found.version, found.url) == ("a", "ha", "1", "https://www.a.example.org/a")
    assert (found.text, found.language, found.date) == (None, "eng", CAPTURED)
    assert hit.capture == CaptureRef(
        url=found.url, timestamp="20260102030405", filename="crawl-data/x.warc.gz", offset=12, length=345
    )
    assert [hit.snippet.text[start:end] for start, end in hit.snippet.marks] == ["annual", "city"]
    assert [hit.title.text[start:end] for start, end in hit.title.marks] == ["City"]


def test_pages_follow_one_another(engine: SearchEngine) -> None:
    engine.apply([document(f"{number:03}", "same words") for number in range(150)], [], cursor="v1")
    pages = [ids(engine, "words", limit=40, offset=start) for start in range(0, 160, 40)]
    assert [len(page) for page in pages] == [40, 40, 40, 30]
    assert len({id_ for page in pages for id_ in page}) == 150
    assert find(engine, "words", offset=1 << 60).hits == []
    assert len(ids(engine, "words", limit=10**9)) == MAX_HITS


# --- the same as the engine that comes along ---

SYLLABLES = ["report", "reports", "reported", "annual", "annually", "Café", "ﬁne", "x1", "a", "of", "the", "Straße"]
SYLLABLES += ["O'Neill", "naïve", "state-of-the-art", "서울", "서울시", "울시청", "예산", "한"]
SYLLABLES += ["東京", "東京都", "京都", "北京", "报告", "を"]


def some_text(dice: random.Random, most: int) -> str:
    parts = (dice.choice(SYLLABLES) + dice.choice(["", " ", " ", " ", ", "]) for _ in range(dice.randint(1, most)))
    return "".join(parts)


def some_query(dice: random.Random) -> str:
    def term() -> str:
        text = some_text(dice, 3).strip(" ,")
        field = dice.choice(["", "", "", "", "title:", "url:"])
        form = dice.choice(["{}", "{}", "{}", '"{}"', "-{}", '-"{}"', "{}*"])
        return form.format(f"{field}{text}") if form[-1] != '"' else form.replace('"', f'{field}"', 1).format(text)

    return " ".join(term() + dice.choice(["", "", " OR"]) for _ in range(dice.randint(1, 3)))


@pytest.mark.parametrize("seed", range(2))
def test_all_engines_find_the_same(bench: Bench, engine: SearchEngine, tmp_path: Path, seed: int) -> None:
    if bench.kind == "embedded":
        pytest.skip("it is the judge of the others")
    dice = random.Random(seed)
    documents = [
        document(
            f"{number}",
            some_text(dice, 12),
            title=some_text(dice, 3),
            url=f"https://a{number % 3}.example.org/{dice.choice(SYLLABLES)}/{number}",
            language=dice.choice(["eng", "kor", "jpn", "deu", ""]),
        )
        for number in range(60)
    ]
    engine.apply(documents, [], cursor="v1")
    with closing(EmbeddedEngine(tmp_path)) as judge:
        judge.apply(documents, [], cursor="v1")
        for _ in range(QUERIES):
            text = some_query(dice)
            answer, right = (find(each, text, limit=MAX_HITS) for each in (engine, judge))
            if bench.kind in MISSES_WRONG_FIRST_LETTERS and right.suggestion and not answer.suggestion:
                continue
            assert (text, {hit.id for hit in answer.hits}) == (text, {hit.id for hit in right.hits})
            assert (text, answer.total, answer.suggestion) == (text, right.total, right.suggestion)


# --- sense ---


def test_a_word_in_the_title_counts_for_more_than_one_in_the_text(engine: SearchEngine) -> None:
    body = "some other words that make a text of about the same length "
    engine.apply([document("text", body + "budget"), document("title", body, title="budget")], [], cursor="v1")
    assert ids(engine, "budget") == ["title", "text"]


def test_words_that_stand_together_count_for_more_than_scattered_ones(engine: SearchEngine) -> None:
    together = "in this text the water tower stands among many other things of the town"
    scattered = "the tower stands in this town, and many other things; far from it is water"
    engine.apply([document("scattered", scattered), document("together", together)], [], cursor="v1")
    assert ids(engine, "water tower") == ["together", "scattered"]


def test_a_rare_word_counts_for_more_than_a_common_one(engine: SearchEngine) -> None:
    common = [document(f"c{number}", "common word here") for number in range(50)]
    engine.apply([*common, document("rare", "rare thing here")], [], cursor="v1")
    assert ids(engine, "common OR rare")[0] == "rare"


# --- strangers ---


HOSTILE = [
    '"',
    "\\",
    "a:b:c",
    "[1 TO",
    "*" * 50,
    "/.*/",
    "a^9",
    "~",
    "(((",
    "\x00",
    "\ud7ff",
    "OR " * 2000,
    "x " * 5000,
    "a* " * 3000,
    "x" * 100_000,
    "東" * 100_000,
    '"' + "東京 7 " * 1000 + '"',
    " OR ".join(f'"서울 {number}" OR 東京都{number}' for number in range(60)),
    "-" * 1000,
    "site: lang: title:* url:-",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_is_typed_is_answered(library: SearchEngine, text: str) -> None:
    assert find(library, text, facets=["language"]).total >= 0


@given(text=st.text(max_size=60), more=st.text(max_size=10))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_answered_and_any_filter(library: SearchEngine, text: str, more: str) -> None:
    filters = SearchFilters(languages=[more], sites=[more], facets={more: [more]})
    assert find(library, text).total >= 0
    assert find(library, text, filters=filters).total >= 0


def test_a_hit_survives_being_written_down(library: SearchEngine) -> None:
    answer = find(library, "annual city")
    assert msgspec.json.decode(msgspec.json.encode(answer), type=SearchAnswer).hits[0].capture == answer.hits[0].capture
