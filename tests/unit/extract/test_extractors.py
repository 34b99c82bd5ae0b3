"""The one registry of extractors: ours, those of other packages, and how good they are."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SHARED_DATA
from webmill.errors import Misconfigured
from webmill.extract import extractors
from webmill.extract.extractors import (
    EXTRACTORS,
    UnionText,
    default_extractor,
    extract_text,
    extract_union,
    install_advice,
    require_extractor,
)

PAGE = """<!doctype html><html><head><title> Bread &amp;
 salt </title></head><body><nav><a href="/">home</a></nav><main><article><h1>Bread</h1>
<p>Every Thursday the market fills the square with apples, cheese and gossip, and nobody minds the rain at all.</p>
<p>The baker says that good bread needs time, warmth and very little else; the mayor says that it needs salt.</p>
</article></main><footer>imprint</footer></body></html>"""


@pytest.mark.parametrize("extractor", ["resiliparse", "trafilatura"])
def test_the_text_is_the_article_without_its_frame(extractor: str) -> None:
    text = extract_text(extractor, PAGE)
    assert "good bread needs time" in text
    assert "imprint" not in text


def test_plain_text_is_all_of_the_page() -> None:
    text = extract_text("plain", PAGE)
    assert "good bread needs time" in text
    assert "imprint" in text


def test_texts_of_pictures_and_comments_of_readers_are_no_part_of_an_article() -> None:
    picture = PAGE.replace("</article>", '<img alt="a loaf of bread"><p>And so on, and on, and on.</p></article>')
    assert "a loaf of bread" not in extract_text("resiliparse", picture)


MARKDOWN = """<!doctype html><title>T</title><body><nav><a href="/">home</a></nav><article><h1>Bread</h1>
<p>Every Thursday the market fills the square with apples, <b>cheese</b> and gossip, and nobody minds the rain.</p>
<h2>What it needs</h2><ul><li>time</li><li>warmth</li></ul><ol><li>knead</li><li>bake</li></ol>
<pre><code>x = 1
y  = 2</code></pre>
<table><tr><th>flour</th><th>salt</th></tr><tr><td>500</td><td>10</td></tr></table>
<p>The baker says that good bread needs time, warmth and very little else; the mayor says that it needs salt.</p>
</article></body>"""


def test_markdown_keeps_headings_lists_tables_and_code() -> None:
    lines = [line.rstrip() for line in extract_text("markdown", MARKDOWN).splitlines()]
    assert {"# Bread", "## What it needs", "- time", "- warmth", "x = 1", "y  = 2", "| 500 | 10 |"} <= set(lines)
    assert "```" in lines
    assert any("**cheese**" in line for line in lines)
    assert "home" not in "".join(lines)


def fails(_: str) -> str:
    raise ZeroDivisionError


def test_a_union_takes_the_article_and_the_wider_text_where_that_is_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = extract_text("trafilatura", PAGE)
    assert extract_union(PAGE) == UnionText(text, "trafilatura")
    wide = extract_text("resiliparse", PAGE)
    monkeypatch.setattr(extractors, "by_trafilatura", lambda _: wide[: len(wide) // 10 - 1])
    assert extract_union(PAGE) == UnionText(wide, "resiliparse")
    monkeypatch.setattr(extractors, "by_trafilatura", lambda _: wide[: len(wide) // 10 + 1])
    assert extract_union(PAGE).extractor == "trafilatura"


def test_a_union_needs_one_extractor_that_can_read_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extractors, "by_trafilatura", fails)
    assert extract_union(PAGE) == UnionText(extract_text("resiliparse", PAGE), "resiliparse")
    monkeypatch.setattr(extractors, "by_resiliparse", fails)
    with pytest.raises(ZeroDivisionError):
        extract_union(PAGE)
    monkeypatch.setattr(extractors, "by_trafilatura", lambda _: "text")
    assert extract_union(PAGE) == UnionText("text", "trafilatura")


@pytest.mark.parametrize("extractor", ["resiliparse", "trafilatura", "union", "markdown", "plain"])
@pytest.mark.parametrize("page", ["", "\0", "<", "<p>", "&#xD800;"])
def test_odd_pages_give_text(extractor: str, page: str) -> None:
    assert isinstance(extract_text(extractor, page), str)


# --- what is installed ------------------------------------------------------------------------------------------------


def test_the_default_is_the_best_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (default_extractor(), install_advice()) == ("trafilatura", None)
    monkeypatch.setattr(extractors, "find_spec", lambda _: None)
    assert default_extractor() == "plain"
    assert "pip install 'webmill[text]'" in (install_advice() or "")


def test_a_missing_extractor_is_told_with_the_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    for name in ("resiliparse", "plain", "wet", "none"):
        require_extractor(name)
    for name in ("trafilatura", "union", "markdown"):
        with pytest.raises(Misconfigured, match=r"trafilatura is not installed: pip install 'webmill\[text\]'"):
            require_extractor(name)


def test_an_extractor_that_nobody_has_is_told_with_those_that_there_are() -> None:
    with pytest.raises(
        Misconfigured, match="unknown extractor best: use trafilatura, resiliparse, union, markdown, plain, wet or none"
    ):
        require_extractor("best")


@pytest.mark.parametrize(
    "line", ["import a_part_that_is_not_there", "raise OSError('a library is of another machine')"]
)
def test_an_extractor_that_is_there_and_cannot_be_loaded_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    (tmp_path / "trafilatura.py").write_text(f"{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "trafilatura", raising=False)
    with pytest.raises(Misconfigured, match="trafilatura is installed, but cannot be loaded: "):
        require_extractor("trafilatura")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another package, with extractors of its own."""
    (tmp_path / "others.py").write_text("def shout(html): return html.upper()\ndef count(html): return len(html)\n")
    about = tmp_path / "others-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    lines = ("shout = others:shout", "count = others:count", "plain = others:shout", "gone = others:gone")
    (about / "entry_points.txt").write_text("\n".join(("[webmill.extractor]", *lines)))
    monkeypatch.syspath_prepend(tmp_path)
    extractors._extractor.cache_clear()
    yield
    extractors._extractor.cache_clear()
    sys.modules.pop("others", None)


@pytest.mark.usefixtures("package")
def test_another_package_adds_its_own() -> None:
    require_extractor("shout")
    assert extract_text("shout", "<p>a") == "<P>A"
    assert EXTRACTORS.schemes()[-2:] == ["gone", "shout"]


@pytest.mark.usefixtures("package")
def test_ours_cannot_be_taken_over() -> None:
    assert extract_text("plain", "<p>a") == "a"


@pytest.mark.usefixtures("package")
def test_what_gives_no_text_or_is_not_there_is_told() -> None:
    with pytest.raises(TypeError, match="count returned int"):
        extract_text("count", "<p>a")
    with pytest.raises(Misconfigured, match="others:gone"):
        require_extractor("gone")


# --- how good they are ------------------------------------------------------------------------------------------------

PAGES = SHARED_DATA / "extraction"
WORD = re.compile(r"\w+")
SHINGLE = 4


@pytest.mark.skipif(not PAGES.exists(), reason="no pages with known text")
@pytest.mark.parametrize(
    ("extractor", "least"), [("trafilatura", 0.95), ("resiliparse", 0.905), ("union", 0.95), ("plain", 0.6)]
)
def test_the_text_of_real_pages_is_as_good_as_we_say(extractor: str, least: float) -> None:
    truth = json.loads((PAGES / "ground-truth.json").read_bytes())
    pages = {name: (PAGES / "html" / f"{name}.html.gz").read_bytes() for name in truth}
    scores = [
        overlap(extract_text(extractor, gzip.decompress(pages[name]).decode("utf-8", "replace")), known["articleBody"])
        for name, known in truth.items()
    ]
    assert f1(scores) >= least


def overlap(found: str, known: str) -> tuple[float, float, float]:
    """Shingles that both have, only one, only the other: as shares, so that a long page counts as a short one."""
    ours, theirs = shingles(found), shingles(known)
    both = sum(min(ours[one], theirs[one]) for one in ours)
    more, less = sum(ours.values()) - both, sum(theirs.values()) - both
    total = both + more + less
    return (both / total, more / total, less / total) if total else (0.0, 0.0, 0.0)


def shingles(text: str) -> Counter[tuple[str, ...]]:
    words = WORD.findall(text)
    return Counter(tuple(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1)) if words)


def f1(scores: list[tuple[float, float, float]]) -> float:
    """The mean of precision and of recall over the pages, as the benchmark's repository has it."""
    precision = [both / (both + more) for both, more, _ in scores if both + more]
    recall = [both / (both + less) for both, _, less in scores if both + less]
    mean_precision, mean_recall = sum(precision) / len(precision), sum(recall) / len(recall)
    return 2 * mean_precision * mean_recall / (mean_precision + mean_recall)
