"""Collections with items of the test's own making: many of them, or hostile ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

from tests.serve.sample_collection import run
from webmill.infra.storage.local import LocalStorage
from webmill.publish.publication import Publication, PublishOptions
from webmill.publish.types import PublishedItem, Scalar, Version

OPTIONS = PublishOptions(facets=("language", "campus"), force=True, inline=10)  # more items than these are in shards


def publish(root: Path, contents: Mapping[str, Mapping[str, str]], *, url: str = "https://board.example/") -> Version:
    """By id: title, text, language, campus; and `url`, when it is not made of the id."""
    with Publication.begin(LocalStorage(root), options=OPTIONS) as publication:
        for id_, content in contents.items():
            facets = {name: content[name] for name in ("language", "campus") if name in content}
            metadata: dict[str, Scalar] = {
                "title": content["title"],
                "url": content.get("url", f"{url}{id_}"),
                "date": content.get("date", ""),
            }
            hash_ = publication.put({name: value for name, value in content.items() if name not in ("campus", "url")})
            publication.add(PublishedItem(id_, "board", hash_, facets=facets, metadata=metadata))
        return publication.commit().version


def update_search(root: Path) -> None:
    run("search", "update", root)


class ParsedPage(HTMLParser):
    """What a browser would make of a page: its links, forms, and the elements and attributes that run things."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.active: list[str] = []
        self.tags: list[str] = []
        self._text: list[str] = []
        self.feed(text)
        self.close()

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self._text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = {name: value or "" for name, value in attrs}
        self.links += [values[name] for name in ("href", "action", "formaction") if name in values]
        is_picture = tag == "img" and values.get("src", "").startswith("/picture/")
        shows = tag in ("iframe", "object", "embed", "style", "img") and not is_picture
        if shows or (tag == "script" and "src" not in values):
            self.active.append(tag)
        self.active += [name for name in values if name.startswith("on") or name == "style"]

    def handle_data(self, data: str) -> None:
        self._text.append(data)


def assert_harmless(text: str) -> ParsedPage:
    """The page, after a look that nothing in it runs and every link is one that a page may have."""
    seen = ParsedPage(text)
    assert seen.active == []
    odd = [link for link in seen.links if not re.match(r"/|#|\?|https?://", link)]
    assert odd == []
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", text)
    return seen
