"""What people ask of a search besides words: others like this one, one of many that are alike, how it was, of which
type, since when published, in a language that they call by its name."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.pipeline.test_search_feed import OPTIONS
from tests.unit.cli.command import webmill
from webmill.infra.storage.local import LocalStorage
from webmill.publish import history
from webmill.publish.publication import Publication
from webmill.publish.types import PublishedItem
from webmill.search.likeness import ALIKE, likeness, sketch_of

PRESS = "The council has decided to build a new library beside the harbour, and money for it comes from the region. "
TEXTS: dict[str, dict[str, object]] = {
    "https://a.test/press": {"title": "A library", "text": PRESS * 3, "published": "2024-05-01T00:00:00Z"},
    "https://b.test/copy": {"title": "Library news", "text": PRESS * 3 + "Share this."},
    "https://c.test/copy": {"title": "Harbour news", "text": "Today: " + PRESS * 3, "language": "deu"},
    "https://d.test/books": {"title": "Books", "text": "Books that a library should have, and who reads them."},
    "https://e.test/boats": {"title": "Boats", "text": "Boats in the harbour, in winter.", "language": "deu"},
    "https://f.test/paper.pdf": {"title": "Budget", "text": "Money of the council.", "mime": "application/pdf"},
}


def publish(root: Path, texts: dict[str, dict[str, object]]) -> str:
    with Publication.begin(LocalStorage(root), options=OPTIONS) as publication:
        for url, said in texts.items():
            content = {"language": "eng", **said}
            metadata = {"url": url, **({"mime": content.pop("mime")} if "mime" in content else {})}
            item = PublishedItem(url, "documents", publication.put(content), metadata=metadata)  # type: ignore[arg-type]
            publication.add(item)
        return publication.commit().version.version


@pytest.fixture
def root(tmp_path: Path) -> Path:
    publish(tmp_path, TEXTS)
    assert webmill("search", "update", tmp_path).code == 0
    return tmp_path


def hits(root: Path, *arguments: object) -> list[dict[str, object]]:
    ended = webmill("search", root, *arguments, "--json")
    assert ended.code == 0, ended.err
    return list(json.loads(ended.out)["hits"])


def urls(root: Path, *arguments: object) -> list[object]:
    return [hit["url"] for hit in hits(root, *arguments)]


def test_of_near_duplicates_the_first_is_shown_and_says_how_many(root: Path) -> None:
    assert len(urls(root, "library", "council")) == 3
    [first] = hits(root, "library", "council", "--collapse")
    assert first["similar"] == 2
    assert "and 2 documents like it" in webmill("search", root, "library", "council", "--collapse").out.decode()
    assert len(urls(root, "harbour", "--collapse")) == 2  # the boats are something else
    assert len(urls(root, "harbour", "--collapse", "--offset", "1")) == 1


def test_others_like_a_document_are_found_without_it(root: Path) -> None:
    found = urls(root, "--like", "https://a.test/press")
    assert found[:2] in (
        ["https://b.test/copy", "https://c.test/copy"],
        ["https://c.test/copy", "https://b.test/copy"],
    )
    assert "https://a.test/press" not in found
    assert urls(root, "--like", "https://a.test/press", "--language", "german")[:1] == ["https://c.test/copy"]
    assert "no document" in webmill("search", root, "--like", "https://never.test/").err


def test_types_publication_and_names_of_languages_are_filters(root: Path) -> None:
    assert urls(root, "--type", "pdf") == ["https://f.test/paper.pdf"]
    assert len(urls(root, "--type", "html", "--type", "pdf")) == len(TEXTS)
    assert urls(root, "--published-since", "2024-05-01", "--published-until", "2024-05-02") == ["https://a.test/press"]
    assert urls(root, "--published-since", "2024-05-02") == []
    assert set(urls(root, "lang:german")) == set(urls(root, "--language", "German")) == set(urls(root, "lang:de"))
    assert len(urls(root, "lang:german")) == 2


def test_what_was_published_then_is_searched_as_it_was(root: Path) -> None:
    [old] = history.list_versions(LocalStorage(root))
    time.sleep(1.1)  # versions are told apart by the second
    changed = {**TEXTS, "https://a.test/press": {"title": "No library", "text": "It was not built."}}
    del changed["https://d.test/books"]
    publish(root, changed)
    assert webmill("search", "update", root).code == 0
    assert "https://d.test/books" not in urls(root, "books")
    moment = old.published_at.strftime("%Y%m%d%H%M%S")
    refused = webmill("search", root, "books", "--as-of", moment)
    assert f"search update {root}" in refused.err
    assert webmill("search", "update", root, "--as-of", moment).code == 0
    assert urls(root, "books", "--as-of", moment) == ["https://d.test/books"]
    assert "https://a.test/press" in urls(root, "council library", "--as-of", old.version)
    assert "https://a.test/press" not in urls(root, "council library")
    assert urls(root, "built", "--as-of", str(datetime.now(UTC).year + 1)) == ["https://a.test/press"]  # the live one
    assert "no version" in webmill("search", root, "books", "--as-of", "1999").err
    assert "is not a date" in webmill("search", root, "books", "--as-of", "soon").err
    assert webmill("search", "check", root, "--dry-run").err.startswith("would be indexed: 0")


def test_a_sketch_estimates_what_two_texts_have_in_common() -> None:
    words = [f"word{number}" for number in range(400)]
    whole = " ".join(words)
    assert likeness(sketch_of(whole), sketch_of(whole)) == 1
    assert likeness(sketch_of(whole), sketch_of(f"{whole} and a last sentence")) > ALIKE
    assert likeness(sketch_of(whole), sketch_of(" ".join(words[::2] + ["x"] * 10))) < 0.2
    assert likeness(sketch_of(whole), sketch_of("")) == likeness("", "") == 0
    korean = "서울시 예산은 작년보다 늘었다고 시의회가 발표했다"
    assert likeness(sketch_of(korean), sketch_of(f"{korean}.")) > ALIKE
