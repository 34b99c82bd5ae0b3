"""A crawl with a browser: what its pages ask for is archived, and shown as a plain browser shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import webmill as api
from tests.browser.archive import Archived, read_archive
from tests.browser.hard_web import CDN, HOST
from webmill.testing import TestWeb

pytestmark = [pytest.mark.server("chromium"), pytest.mark.xdist_group("browser")]

NAMES = ("fetch-chain", "xhr-post", "cors-preflight", "worker", "iframe-cross-site", "image-lazy", "cookie", "dialogs")
MORE = (
    "scroll-infinite",
    "load-more",
    "consent",
    "polling",
    "popup",
    "fetch-redirect",
    "module",
    "audio-range",
    "shadow",
    "graphql",
)


def url_of(name: str) -> str:
    return f"http://{HOST}/hard/{name}"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, Any]) -> Path:
    root = tmp_path_factory.mktemp("living") / "c"
    report = api.crawl(root, [url_of(name) for name in (*NAMES, *MORE)], depth=0, **settings)
    assert report.total.errors == {}
    return root


@pytest.fixture(scope="module")
def archived(root: Path) -> Archived:
    return read_archive(root)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fetch-chain", "data of 3"),
        ("xhr-post", "POST form: a=1&b=two"),
        ("cors-preflight", "data of preflight"),
        ("worker", "data of worker"),
        ("iframe-cross-site", "data of in-frame"),
        ("image-lazy", "lazy"),
        ("cookie", "mine=1"),
        ("dialogs", "confirmed true\n\ndata of after-dialogs"),
        ("consent", "data of agreed"),
        ("module", "part deep"),
        ("audio-range", "206 2345"),
    ],
)
def test_a_page_shows_what_a_browser_would(archived: Archived, name: str, text: str) -> None:
    assert archived.text(url_of(name)).strip() == text


def test_what_a_page_asks_for_is_archived_with_its_body(archived: Archived) -> None:
    assert ("POST", f"http://{HOST}/post/form") in archived.requests
    assert archived.posted[f"http://{HOST}/post/form"] == b"a=1&b=two"
    assert ("OPTIONS", f"http://{CDN}/data/preflight") in archived.requests
    assert ("GET", f"http://{HOST}/data/page-4") in archived.requests  # of a list that grows while one scrolls
    assert ("GET", f"http://{HOST}/data/more-3") in archived.requests  # behind a button


def test_what_was_posted_to_one_url_is_told_apart_in_the_index(root: Path) -> None:
    api.index(root)
    lines = [line for file in (root / "cdxj").glob("*.cdxj") for line in file.read_text().splitlines()]
    keys = [line.split()[0] for line in lines if "/post/graphql" in line]
    assert keys == [f"localhost,mill,hard)/post/graphql?__wb_method=post&query={query}" for query in ("one", "two")]
    assert any(line.startswith("localhost,mill,cdn)/data/preflight?__wb_method=options ") for line in lines)


def test_a_page_that_asks_for_ever_is_done_all_the_same(archived: Archived) -> None:
    info = archived.info(url_of("polling"))
    assert "data of first" in archived.text(url_of("polling"))
    assert info["urls"][f"http://{HOST}/data/poll"]["status"] == 200


def test_windows_are_noted_and_not_opened(archived: Archived) -> None:
    assert archived.info(url_of("popup"))["popups"] == [f"http://{HOST}/data/popup"]


def test_each_page_has_its_records_before_its_capture(archived: Archived) -> None:
    for name in ("fetch-chain", "worker"):
        info = archived.order.index(("resource", f"urn:pageinfo:{url_of(name)}"))
        assert info < archived.order.index(("response", url_of(name)))
        for kind in ("dom", "text", "view", "thumbnail"):
            assert archived.order.index(("resource", f"urn:{kind}:{url_of(name)}")) < info
    assert archived.made[f"urn:view:{url_of('worker')}"].startswith(b"\x89PNG")
    assert archived.made[f"urn:thumbnail:{url_of('worker')}"].startswith(b"\xff\xd8")


def test_documents_have_the_text_that_scripts_made(tmp_path: Path, hard_web: TestWeb, settings: dict[str, Any]) -> None:
    root = tmp_path / "c"
    report = api.save(root, url_of("fetch-json"), **settings)
    assert report.page.status == 200
    api.extract(root, progress=None)
    documents = {
        (one.outcome, one.text and one.text.strip()) for one in api.documents(root) if one.url == url_of("fetch-json")
    }
    assert documents == {("rendered", None), ("ok", "json a")}
