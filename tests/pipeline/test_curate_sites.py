"""Steps that look at a site or a language: what its pages have in common, limits of its own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.corpora import add_part, corpus_bytes, curate, decisions, document, write_documents
from webmill.curate.recipe import load_recipe, recipe_of_steps
from webmill.errors import Misconfigured
from webmill.model import Document
from webmill.pipeline.curate.explain import ExplainedStep, explain_document
from webmill.pipeline.curate.kept import corpus
from webmill.pipeline.curate.run import open_corpus

MENU = "Home\nNews\nContact us"
FOOTER = "All rights reserved by the people of this site."
BOILERPLATE = [{"use": "site-boilerplate"}]


def pages_of(host: str, count: int, first: int, *, menu: str = MENU) -> list[Document]:
    drawn = random.Random(first)
    letters = "abcdefghijklmnopqrstuvwxyz"
    said = [" ".join("".join(drawn.choices(letters, k=6)) for _ in range(30)) for _ in range(count)]
    return [
        document(
            first + number, f"{menu}\nPage {first + number} says {text}.\n{FOOTER}", url=f"https://{host}/{number}"
        )
        for number, text in enumerate(said)
    ]


def texts_of(root: Path) -> list[str]:
    return [one.text or "" for one in corpus(root)]


def explained(root: Path, named: str) -> ExplainedStep:
    (found,) = explain_document(root, named)
    return found.steps[0]


def test_what_the_pages_of_a_site_have_in_common_goes_from_all_of_them(tmp_path: Path) -> None:
    large, small = pages_of("large.example.org", 8, 0), pages_of("small.example.org", 4, 100)
    mixed = [one for pair in zip(large, small, strict=False) for one in pair]
    write_documents(tmp_path, [*mixed, *large[4:]], files=4)
    curate(tmp_path, BOILERPLATE)
    by_url = {one.url: one.text or "" for one in corpus(tmp_path)}
    for page in large:
        assert by_url[page.url] == (page.text or "").split("\n")[3]  # neither menu nor footer
    for page in small:
        assert by_url[page.url] == page.text  # too few pages of this host to say so
    (removed,) = explained(tmp_path, large[0].id).numbers
    assert (removed.name, removed.value) == ("parts_removed", 4)


def test_a_line_of_a_few_pages_of_a_large_site_stays(tmp_path: Path) -> None:
    pages = pages_of("large.example.org", 40, 0, menu="")
    few = [document(900 + n, f"{pages[n].text}\nA quote.", url=f"https://large.example.org/q{n}") for n in range(6)]
    write_documents(tmp_path, [*pages, *few], files=2)
    curate(tmp_path, BOILERPLATE)
    assert sum("A quote." in text for text in texts_of(tmp_path)) == 6  # of 46: less than a fifth
    assert not any(FOOTER in text for text in texts_of(tmp_path))
    curate(tmp_path, [{**BOILERPLATE[0], "min_share": 0.1}])
    assert not any("A quote." in text for text in texts_of(tmp_path))


def test_a_page_of_nothing_else_is_removed_and_explained(tmp_path: Path) -> None:
    pages = pages_of("large.example.org", 8, 0)
    write_documents(tmp_path, [*pages, document(50, f"{MENU}\n{FOOTER}", url="https://large.example.org/empty")])
    curate(tmp_path, BOILERPLATE)
    assert decisions(tmp_path)[document(50, "").id] == (False, "site-boilerplate", "mostly_repeated")
    step = explained(tmp_path, "https://large.example.org/empty")
    assert step.removed_here
    assert [(one.name, one.value, one.broken) for one in step.numbers] == [
        ("removed", 1, True),
        ("parts_removed", 4, False),
    ]


def test_what_is_learned_of_sites_is_the_same_from_scratch_and_with_new_pages(tmp_path: Path) -> None:
    pages = pages_of("large.example.org", 12, 0)
    for name in ("whole", "grown"):
        write_documents(tmp_path / name, pages[:8], files=2)
    curate(tmp_path / "grown", BOILERPLATE)
    for name in ("whole", "grown"):
        add_part(tmp_path / name / "documents" / "part-00002.parquet", pages[8:])
        curate(tmp_path / name, BOILERPLATE)
    assert corpus_bytes(tmp_path / "whole") == corpus_bytes(tmp_path / "grown")


def test_lines_are_found_where_another_step_has_taken_paragraphs(tmp_path: Path) -> None:
    paragraph = "This paragraph is on both pages.\nAll of it, with its second line."
    line = "A line that both pages have somewhere."
    write_documents(
        tmp_path,
        [
            document(0, f"{paragraph}\n\nThe first page says this.\n{line}"),
            document(1, f"{paragraph}\n\nThe second page says that.\n{line}\nAnd it ends with this line."),
        ],
    )
    steps = [{"use": "repeated-paragraphs"}, {"use": "repeated-lines"}]
    curate(tmp_path, [{**step, "max_removed": None} for step in steps])
    assert texts_of(tmp_path) == [
        f"{paragraph}\n\nThe first page says this.\n{line}",
        "The second page says that.\nAnd it ends with this line.",
    ]


def test_a_limit_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(Misconfigured, match="max_documents"):
        recipe_of_steps([{**BOILERPLATE[0], "max_documents": 3}])


# --- languages ---


def test_a_language_has_limits_and_stop_words_of_its_own(tmp_path: Path) -> None:
    texts = ["Das ist der Satz und noch ein Satz.", "Wort " * 8, "Le mot et la phrase de la page ici."]
    languages = ["deu", "deu", "fra"]
    pairs = zip(texts, languages, strict=True)
    write_documents(
        tmp_path, [document(number, text, language=language) for number, (text, language) in enumerate(pairs)]
    )
    step = {
        "use": "gopher-quality",
        "min_words": 5,
        "min_mean_word_length": 2,
        "min_stop_words": 0,
        "by_language": {"deu": {"stop_words": ["der", "und", "das"], "min_stop_words": 2, "min_words": 6}},
    }
    curate(tmp_path, [step])
    assert list(decisions(tmp_path).values()) == [
        (True, None, None),
        (False, "gopher-quality", "too_few_stop_words"),
        (True, None, None),
    ]
    corpus_of = open_corpus(tmp_path)
    limits = [limit for part in corpus_of.parts for limit in corpus_of.table(part).column("limit").to_pylist()]
    assert limits == [None, 2.0, None]
    numbers = explained(tmp_path, document(1, "").id).numbers
    assert [one.least for one in numbers if one.name == "words"] == [6, None]
    assert [(one.name, one.value, one.least) for one in numbers if one.broken] == [("stop_words", 0, 2)]
    french = explained(tmp_path, document(2, "").id).numbers
    assert [one.least for one in french if one.name == "words"] == [5, None]
    curate(tmp_path, [{**step, "by_language": {"deu": {"min_stop_words": 0}, "fra": {"min_words": 100}}}])
    assert [one[0] for one in decisions(tmp_path).values()] == [True, True, False]


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"min_word": 3}, "min_word"), ({"min_words": "x"}, "by_language.deu"), ({"name": "x"}, "same for all languages")],
)
def test_wrong_limits_of_a_language_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        recipe_of_steps([{"use": "gopher-quality", "by_language": {"deu": changed}}])


def test_the_published_limits_of_fineweb2_are_those_of_each_language() -> None:
    steps = {step.title: step for step in load_recipe("fineweb2").steps}
    german = {limit.reason: limit for limit in steps["gopher-quality"].limits_for("deu")}
    assert (german["words_too_long"].most, german["too_few_alphabetic_words"].least) == (15, 0.774)
    repetition = {limit.column: limit.most for limit in steps["gopher-repetition"].limits_for("kor")}
    assert repetition["top_2_gram"] == 0.282
    for name in ("gopher-repetition", "fineweb-quality", "gopher-quality"):
        assert {"deu", "rus", "zho", "jpn", "kor", "fra", "spa", "ara", "hin", "tha"} <= set(
            steps[name].own_languages()
        )
    assert {limit.column: limit.most for limit in steps["fineweb-quality"].limits_for("zho")}[
        "newlines_per_word"
    ] == 0.178


def test_explain_does_not_call_a_number_beyond_the_limit_of_another_language(tmp_path: Path) -> None:
    write_documents(tmp_path, [document(0, "short", language="zho")])
    curate(tmp_path, [{"use": "length", "min_chars": 100, "languages": ["eng"]}])
    step = explained(tmp_path, document(0, "").id)
    assert not step.concerned
    assert not step.numbers
