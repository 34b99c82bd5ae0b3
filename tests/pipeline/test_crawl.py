"""A whole crawl of the test web, judged by the log of its server."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.pipeline.crawling import (
    NAME,
    Setup,
    archives,
    captures,
    check_records,
    counts,
    crawl,
    most_at_once,
    seen_by,
    visits,
)
from webmill.testing import ExpectedPage, TestWeb

NOT_FOLLOWED = (".css", ".png", ".pdf")  # no anchors lead to them, or their names say that they are no text


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


def truth(web: TestWeb) -> dict[str, ExpectedPage]:
    return {page.url: page for page in web.pages() if page.allowed and not page.url.endswith(NOT_FOLLOWED)}


@pytest.mark.parametrize("processes", [1, 2], ids=["one process", "two processes"])
def test_every_allowed_page_is_asked_for_once_and_nothing_else(root: Path, processes: int) -> None:
    with TestWeb(hosts=12, pages_per_host=8) as web:
        report = crawl(root, Setup(seeds=(web.home,), resolve=dict(web.resolve), processes=processes))
        assert web.log.settle()
        seen, pages = seen_by(web.log), truth(web)
        aside = {f"http://{name}/{file}" for name in web.names for file in ("robots.txt", "sitemap.xml")}
    assert report.end == "finished"
    assert report.total.pages == len(pages)
    assert counts(seen) == dict.fromkeys({*pages, *aside}, 1)
    assert most_at_once(seen) == 1
    known = visits(root)
    refused = {page.url for page in web.pages() if not page.allowed}
    assert known.keys() == {*pages, *refused, *(url for url in aside if url.endswith(".xml"))}
    assert {known[url].error for url in refused} == {"robots"}
    assert all(known[url].status == page.status for url, page in pages.items())
    check_records(root)
    archived = [url for _, url, _ in captures(root)]
    assert sorted(archived) == sorted({*pages, *aside})
    listed = gzip.decompress((root / "crawl-data" / NAME / "warc.paths.gz").read_bytes()).decode().split()
    assert listed == [str(path.relative_to(root)) for path in archives(root) if path.parent.name == "warc"]
