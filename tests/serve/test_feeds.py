"""/feeds: Atom that a feed reader reads, made of changes that never change; escaped, bounded and paged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import feedparser
import httpx
import pytest
from starlette.testclient import TestClient

from tests.published_pages import publish_pages
from webmill.serve.api import feeds

NEWS, SHOP = "https://news.example.org/", "https://shop.example.com/"
HOSTILE = '<script>alert("1")</script> & ]]> \x00\x0b\ufffe'
FIRST = {f"{NEWS}a": "A\nThe ferry leaves at noon.", f"{SHOP}b": "B\nThe price is ten.", f"{NEWS}c": "C\nThe mill."}
SECOND = {
    f"{NEWS}a": "A\nThe ferry leaves at one.",
    f"{SHOP}b": "B\nThe price is twelve.",
    f"{NEWS}d": f"D {HOSTILE}\nA bridge {HOSTILE} is built.",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "news").mkdir()
    return tmp_path / "news"


@pytest.fixture
def ask(root: Path, client_of: Callable[[Path], TestClient]) -> Iterator[TestClient]:
    with client_of(root) as client:
        yield client


def parsed(response: httpx.Response) -> Any:
    """What a feed reader makes of it; it must be XML without a fault."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/atom+xml")
    ElementTree.fromstring(response.content)
    found = feedparser.parse(response.content, response_headers={"content-type": response.headers["content-type"]})
    assert not found.bozo, found.get("bozo_exception")
    assert found.version == "atom10"
    return found


def links(one: Any, rel: str) -> list[str]:
    return [link.href for link in one.links if link.rel == rel]


def entries(response: httpx.Response) -> list[str]:
    return [entry.title for entry in parsed(response).entries]


def test_a_feed_tells_every_change_with_links_to_the_diff_and_the_archived_page(root: Path, ask: TestClient) -> None:
    publish_pages(root, FIRST)
    version = publish_pages(root, SECOND)
    feed = parsed(ask.get("/feeds/changes.atom"))
    assert feed.feed.title == "Changes · news"
    assert links(feed.feed, "self") == ["http://127.0.0.1:8080/feeds/changes.atom"]
    by_title = {entry.title: entry for entry in feed.entries}
    assert [*by_title] == ["Changed: B", "Changed: A", "Removed: C", 'New: D <script>alert("1")</script> & ]]>']
    entry = by_title["Changed: B"]
    assert links(entry, "alternate") == [
        f"http://127.0.0.1:8080/versions/diff?to={version.version}&id=com%2Cexample%2Cshop%29%2Fb"
    ]
    assert links(entry, "related") == [f"http://127.0.0.1:8080/web/20261118120000/{SHOP}b"]
    assert links(entry, "via") == [f"{SHOP}b"]
    assert entry.tags[0].term == "changed"
    assert "<del>The price is ten.</del>" in entry.content[0].value
    assert "<ins>The price is twelve.</ins>" in entry.content[0].value
    assert ask.get(links(entry, "alternate")[0]).status_code == 200


def test_nothing_in_a_page_becomes_markup(root: Path, ask: TestClient) -> None:
    publish_pages(root, FIRST)
    publish_pages(root, SECOND)
    response = ask.get("/feeds/changes.atom")
    texts = [
        node.text or "" for node in ElementTree.fromstring(response.content).iter() if node.tag.endswith("content")
    ]
    (html,) = [text for text in texts if "bridge" in text]
    assert "<script" not in html, "markup of the content is read a second time, as HTML"
    assert "&lt;script&gt;" in html
    assert response.headers["content-security-policy"]


def test_an_entry_keeps_its_id_and_text_when_more_is_published(root: Path, ask: TestClient) -> None:
    publish_pages(root, FIRST)
    publish_pages(root, SECOND)
    before = {entry.id: entry.content[0].value for entry in parsed(ask.get("/feeds/changes.atom")).entries}
    publish_pages(root, FIRST)
    after = parsed(ask.get("/feeds/changes.atom"))
    assert len(before) == 4
    assert before.items() <= {entry.id: entry.content[0].value for entry in after.entries}.items()
    assert len({entry.id for entry in after.entries}) == 8
    assert all(id_.startswith("urn:uuid:") for id_ in before)


def test_feeds_of_a_site_and_of_a_search(root: Path, ask: TestClient) -> None:
    publish_pages(root, FIRST)
    publish_pages(root, SECOND)
    every = {entry.title: entry.id for entry in parsed(ask.get("/feeds/changes.atom")).entries}
    assert entries(ask.get("/feeds/changes.atom?site=example.com")) == ["Changed: B"]
    assert len(entries(ask.get("/feeds/changes.atom?site=news.example.org"))) == 3
    assert entries(ask.get("/feeds/changes.atom?site=ample.com")) == []
    found = parsed(ask.get("/feeds/search.atom", params={"q": '"price is" site:example.com'})).entries
    assert [(entry.title, entry.id) for entry in found] == [("Changed: B", every["Changed: B"])]
    assert entries(ask.get("/feeds/search.atom?q=mill")) == ["Removed: C"], "as it was before"
    ids = {
        parsed(ask.get(f"/feeds/changes.atom{query}")).feed.id for query in ("", "?site=a.example", "?site=b.example")
    }
    assert len(ids) == 3, "each feed has an id of its own"


def test_a_search_without_words_is_refused(ask: TestClient) -> None:
    for query in ("", "?q=", "?q=%22%22", "?q=-"):
        assert ask.get(f"/feeds/search.atom{query}").status_code == 400


def test_a_reader_that_has_the_newest_version_gets_no_body(root: Path, ask: TestClient) -> None:
    assert entries(ask.get("/feeds/changes.atom")) == [], "nothing is published yet"
    publish_pages(root, FIRST)
    version = publish_pages(root, SECOND)
    first = ask.get("/feeds/changes.atom")
    again = ask.get("/feeds/changes.atom", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    since = (version.published_at + timedelta(seconds=1)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert ask.get("/feeds/changes.atom", headers={"If-Modified-Since": since}).status_code == 304
    assert (
        ask.get("/feeds/changes.atom?site=a.example", headers={"If-None-Match": first.headers["etag"]}).status_code
        == 200
    )
    publish_pages(root, FIRST)
    assert ask.get("/feeds/changes.atom", headers={"If-None-Match": first.headers["etag"]}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/feeds/changes.atom", "/feeds/changes.atom?site=news.example.org", "/feeds/search.atom?q=page"]
)
def test_older_changes_are_on_the_next_pages_each_once(root: Path, ask: TestClient, path: str) -> None:
    publish_pages(root, {f"{NEWS}0": "Page 0\nThis page is the first"})
    for start in range(1, 121, 60):
        pages = {f"{NEWS}{number}": f"Page {number}\nThis page {number}" for number in range(start + 60)}
        publish_pages(root, {f"{NEWS}0": "Page 0\nThis page is the first"} | pages)
    seen: list[str] = []
    while path:
        feed = parsed(ask.get(path))
        assert len(feed.entries) <= feeds.ENTRIES
        seen += [entry.title for entry in feed.entries]
        path = next(iter(links(feed.feed, "next")), "")
    assert len(seen) == len(set(seen)) == 121
    assert seen[0].startswith("New: Page 1"), "the newest version first"


def test_pages_name_their_feeds(client: TestClient) -> None:
    page = client.get("/search?q=ferry&site=harbour.example").text
    assert '<link rel="alternate" type="application/atom+xml"' in client.get("/").text
    assert 'href="/feeds/search.atom?q=ferry+site%3Aharbour.example"' in page
    assert parsed(client.get("/feeds/search.atom?q=ferry+site%3Aharbour.example"))
