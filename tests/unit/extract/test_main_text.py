"""Main text, by other people's extractors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from webmill.errors import Misconfigured
from webmill.extract.main_text import MainText, main_text, require, title_of

PAGE = """<!doctype html><html><head><title> Bread &amp;
 salt </title></head><body><nav><a href="/">home</a></nav><main><article><h1>Bread</h1>
<p>Every Thursday the market fills the square with apples, cheese and gossip, and nobody minds the rain at all.</p>
<p>The baker says that good bread needs time, warmth and very little else; the mayor says that it needs salt.</p>
</article></main><footer>imprint</footer></body></html>"""


@pytest.mark.parametrize("extractor", ["resiliparse", "trafilatura"])
def test_the_text_is_the_article_without_its_frame(extractor: MainText) -> None:
    text = main_text(PAGE, extractor=extractor)
    assert "good bread needs time" in text
    assert "imprint" not in text


def test_without_an_extractor_there_is_no_text() -> None:
    assert main_text(PAGE, extractor="none") == ""


@pytest.mark.parametrize("extractor", ["resiliparse", "trafilatura"])
@pytest.mark.parametrize("page", ["", "\0", "<", "<p>", "&#xD800;"])
def test_odd_pages_give_text_that_utf8_can_hold(extractor: MainText, page: str) -> None:
    main_text(page, extractor=extractor).encode()


def test_titles_are_read_as_people_see_them() -> None:
    assert title_of(PAGE) == "Bread & salt"
    assert title_of("<p>none") is None


def test_a_missing_extractor_is_told_with_the_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    require("resiliparse")
    require("none")
    with pytest.raises(Misconfigured, match=r"pip install 'webmill\[text\]'"):
        require("trafilatura")


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
        require("trafilatura")
