"""Versions of a few pages, published without a crawl."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from webmill.infra.storage.local import LocalStorage
from webmill.publish.publication import Publication, PublishOptions
from webmill.publish.types import PublishedItem, Version


def publish_pages(root: Path, pages: Mapping[str, str]) -> Version:
    """Publish pages by URL; the first line of a text is the title."""
    with Publication.begin(LocalStorage(root), options=PublishOptions(force=True)) as publication:
        for url, text in sorted(pages.items(), key=lambda page: page_id(page[0])):
            title, _, rest = text.partition("\n")
            hash_ = publication.put({"title": title, "text": rest})
            metadata = {"title": title, "url": url, "date": "2026-11-18T12:00:00Z"}
            publication.add(PublishedItem(page_id(url), "documents", hash_, metadata=metadata))
        return publication.commit().version


def page_id(url: str) -> str:
    host, slash, path = url.partition("://")[2].partition("/")
    return f"{','.join(host.split('.')[::-1])}){slash}{path}"
