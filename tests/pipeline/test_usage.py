"""What sites say of the use of their pages goes with the data: from the request to search and replay."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from click.testing import CliRunner
from pyarrow import parquet
from warcio.archiveiterator import ArchiveIterator

import webmill
from tests.pipeline.corpora import decisions
from tests.pipeline.crawling import Linked, Setup, archives, crawl_here, visits
from tests.usage_cases import RSL_TYPE, UsageCase, cases
from webmill.cli.main import webmill as command
from webmill.crawl.options import CrawlLimits, CrawlOptions, UsagePolicy
from webmill.formats.preferences.decision import PURPOSES
from webmill.model import Document
from webmill.pipeline.curate.run import open_corpus
from webmill.pipeline.documents import open_documents
from webmill.testing import Answer, ExpectedPage, HttpReply, ReceivedRequest, TestWeb

TOO_LONG = 8000  # characters of a field that a server of ours sends


class UsageSetup(Setup, frozen=True, kw_only=True):
    usage: UsagePolicy = UsagePolicy()

    def options(self, root: Path) -> CrawlOptions:
        return msgspec.structs.replace(super().options(root), usage=self.usage)


class CaseHost(Linked):
    """The site of one case of the conformance web: its home page, which says nothing, leads to the page."""

    def __init__(self, case: UsageCase) -> None:
        super().__init__(0)
        self.case = case

    def answer(self, request: ReceivedRequest) -> Answer:
        case = self.case
        if request.path == "/robots.txt":
            license_line = "License: /licence.xml\n" if case.rsl else ""
            return HttpReply(body=(license_line + case.robots).encode(), media_type="text/plain")
        if request.path == "/.well-known/tdmrep.json" and case.tdmrep:
            return HttpReply(body=case.tdmrep.encode(), media_type="application/json")
        if request.path == "/licence.xml" and case.rsl:
            return HttpReply(body=case.rsl.encode(), media_type=RSL_TYPE)
        if request.target == case.path:
            return HttpReply(
                status=case.status, body=case.page.encode(), media_type=case.media_type, headers=case.headers
            )
        if request.path in ("/robots.txt", "/llms.txt", "/licence.xml", "/.well-known/tdmrep.json"):
            return HttpReply(status=404)
        return HttpReply(body=f'<html><body><a href="{case.path}">page</a></body></html>'.encode())


def crawlable() -> dict[str, UsageCase]:
    """Return the cases that a server can send as they are, by their hosts."""
    found = [case for case in cases() if case.path != "/" and all(len(value) < TOO_LONG for _, value in case.headers)]
    return {f"case{number}.test": case for number, case in enumerate(found)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("purpose", "step"), [("training", 4), *(pytest.param(one, 1, marks=pytest.mark.soak) for one in PURPOSES)]
)
def test_a_crawl_of_the_conformance_web_keeps_exactly_what_its_purpose_may(
    tmp_path: Path, purpose: Any, step: int
) -> None:
    hosts = dict(islice(crawlable().items(), 0, None, step))
    with TestWeb(hosts=0, sites={name: CaseHost(case) for name, case in hosts.items()}) as web:
        setup = UsageSetup(
            seeds=tuple(f"http://{name}/" for name in hosts if hosts[name].robots != "User-agent: *\nDisallow: /\n"),
            resolve=dict(web.resolve),
            usage=UsagePolicy(purpose=purpose, site_files=True),
            limits=CrawlLimits(retry_wait=0.1, attempts=1),
            concurrency=50,
        )
        crawl_here(tmp_path / "news", setup)
    archived = responses(tmp_path / "news")
    known, wrong = visits(tmp_path / "news"), []
    for name, case in hosts.items():
        url = f"http://{name}{case.path}"
        denied = case.expected[PURPOSES.index(purpose)] == "d"
        if url not in known:
            home = known.get(f"http://{name}/")
            assert denied or home is None or home.error.startswith(("usage:", "robots")), case.name
            continue
        is_kept = url in archived and case.status != 402
        if is_kept == denied:
            wrong.append((case.name, known[url].error, is_kept))
    assert wrong == []
    assert len(known) > len(hosts)


def responses(root: Path) -> dict[str, dict[str, list[str]]]:
    """Return the notes beside each response, by URL."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in archives(root):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                url = record.rec_headers.get_header("WARC-Target-URI")
                if record.rec_type == "response":
                    found[url] = {}
                elif record.rec_type == "metadata":
                    for line in record.content_stream().read().decode().splitlines():
                        name, _, value = line.partition(": ")
                        found.setdefault(url, {}).setdefault(name, []).append(value)
    return found


LONG = "Words about ferries and islands, enough of them to be a page. " * 12
MIXED = {
    "/free": HttpReply(body=f"<html><title>Free</title><p>{LONG}</p></html>".encode()),
    "/header": HttpReply(
        body=f"<html><title>Header</title><p>{LONG} header</p></html>".encode(),
        headers=(("Content-Usage", "train-ai=n, search=y"),),
    ),
    "/hidden": HttpReply(
        body=f"<html><title>Hidden</title><meta name=robots content=noindex><p>{LONG} hidden</p></html>".encode()
    ),
    "/closed": HttpReply(
        body=f"<html><title>Closed</title><meta name=robots content=noarchive><p>{LONG} closed</p></html>".encode()
    ),
    "/licensed": HttpReply(
        body=(
            f"<html><title>Licensed</title><p>{LONG} licensed</p>"
            '<a rel="license" href="https://creativecommons.org/licenses/by/4.0/">CC</a></html>'
        ).encode()
    ),
    "/mined": HttpReply(
        body=f"<html><title>Mined</title><p>{LONG} mined</p></html>".encode(), headers=(("tdm-reservation", "1"),)
    ),
    "/ruled": HttpReply(body=f"<html><title>Ruled</title><p>{LONG} ruled</p></html>".encode()),
}
ROBOTS = b"User-agent: *\nContent-Usage: /ruled train-ai=n\n"


class MixedSite(Linked):
    def __init__(self) -> None:
        super().__init__(0, robots=ROBOTS)
        self.replies = dict(MIXED)

    def pages(self, version: int) -> Any:
        del version
        return iter(list[ExpectedPage]())


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("usage") / "news"
    with TestWeb(hosts=0, sites={"mixed.test": MixedSite()}) as web:
        seeds = tuple(f"http://mixed.test{path}" for path in MIXED)
        crawl_here(root, UsageSetup(seeds=seeds, resolve=dict(web.resolve)))
    webmill.index(root)
    webmill.extract(root)
    webmill.publish(root)
    webmill.update_search(root)
    return root


def test_what_was_seen_is_archived_beside_the_page_verbatim_and_with_its_place(collection: Path) -> None:
    noted = responses(collection)
    assert noted["http://mixed.test/header"]["usage-preference"] == [
        "train-ai=n header:content-usage train-ai=n",
        "search=y header:content-usage search=y",
    ]
    assert noted["http://mixed.test/hidden"]["usage-preference"] == ["search=n meta:robots noindex"]
    assert noted["http://mixed.test/ruled"]["usage-preference"] == ["train-ai=n robots:content-usage train-ai=n"]
    assert "usage-preference" not in noted["http://mixed.test/free"]


def test_the_index_has_what_was_seen(collection: Path) -> None:
    lines = [line for file in collection.glob("cdxj/*.cdxj") for line in file.read_text().splitlines()]
    usage = {(fields := json.loads(line.split(" ", 2)[2]))["url"]: fields.get("usage") for line in lines}
    assert usage["http://mixed.test/header"] == "train-ai=n,search=y"
    assert usage["http://mixed.test/closed"] == "replay=n"
    assert usage["http://mixed.test/free"] is None


def test_documents_have_columns_of_it(collection: Path) -> None:
    files = open_documents(str(collection / "documents"))
    rows = {row.url.rpartition("/")[2]: row for key in files.stats() for row in files.read(key) if hasattr(row, "url")}
    header = rows["header"]
    assert (header.usage_search, header.usage_train_ai, header.usage_tdm) == (True, False, None)
    assert header.usage_source == "header:content-usage: search=y; header:content-usage: train-ai=n"
    assert rows["hidden"].usage_search is False
    assert rows["ruled"].usage_train_ai is False
    assert rows["mined"].usage_tdm is False
    assert rows["licensed"].license == "https://creativecommons.org/licenses/by/4.0/"
    free = rows["free"]
    assert (free.usage_search, free.usage_train_ai, free.usage_source, free.license) == (None, None, None, None)


def test_a_page_that_is_not_to_be_found_is_not_searched_unless_the_operator_wants_it(collection: Path) -> None:
    assert webmill.search(collection, "ferries").total == len(MIXED) - 1
    assert not webmill.search(collection, "title:Hidden").total
    webmill.update_search(collection, settings=webmill.SearchSettings(noindex="keep"))


def test_explain_says_which_rule_decides(collection: Path) -> None:
    def explained(path: str, *flags: str) -> str:
        arguments = ["crawl", str(collection), "--explain", f"http://mixed.test{path}", *flags]
        ended = CliRunner().invoke(command, arguments, catch_exceptions=False)
        assert ended.exit_code == 0, ended.output
        return ended.output

    assert "usage     for archive: limit: replay=n (meta:robots 'noarchive')" in explained("/closed")
    assert "for archive: allow" in explained("/header")
    (collection / "webmill.toml").write_text('[crawl]\npurpose = "training"\n')
    assert "for training: deny: train-ai=n (header:content-usage 'train-ai=n')" in explained("/header")
    assert json.loads(explained("/ruled", "--json"))["usage"]["outcome"] == "deny"
    (collection / "webmill.toml").unlink()


@pytest.mark.parametrize(
    ("flags", "removed"),
    [
        (("--respect", "train-ai"), {"header", "ruled"}),
        (("--respect", "train-ai,tdm"), {"header", "ruled", "mined"}),
        (("--respect", "search", "--on-unknown", "drop"), {"free", "hidden", "closed", "licensed", "mined", "ruled"}),
    ],
)
def test_a_corpus_has_exactly_what_sites_allow_and_counts_the_rest(
    collection: Path, tmp_path: Path, flags: tuple[str, ...], removed: set[str]
) -> None:
    (tmp_path / "mine.toml").write_text('[[step]]\nuse = "length"\n')
    arguments = ["curate", "run", str(collection), "--recipe", str(tmp_path / "mine.toml"), *flags]
    ended = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    decided, files = decisions(collection), open_documents(str(collection))
    rows = [row for key in files.files() for row in files.read(key) if isinstance(row, Document)]
    pages = {row.url.rpartition("/")[2]: decided[row.id] for row in rows if row.outcome == "ok"}
    assert len(pages) == len(MIXED)
    assert {page for page, (is_kept, step, _) in pages.items() if not is_kept and step == "respect"} == removed
    assert {page for page, (is_kept, _, _) in pages.items() if is_kept} == pages.keys() - removed
    assert next(one.removed for one in open_corpus(collection).report().steps if one.step == "respect") == len(removed)


def test_a_version_reports_how_many_documents_carry_which_preference(collection: Path) -> None:
    ended = CliRunner().invoke(command, ["publish", "show", str(collection), "--usage", "--json"])
    report = json.loads(ended.output)
    assert report["documents"] == len(MIXED)
    assert report["usage"] == {"train-ai=n": 2, "search=y": 1, "search=n": 1, "tdm=n": 1}
    assert report["silent"] == len(MIXED) - 4  # those above, on header, ruled, hidden and mined
    assert report["licenses"] == {"https://creativecommons.org/licenses/by/4.0/": 1}


def test_from_site_to_data_set_exactly_what_is_allowed_gets_through_and_the_card_counts_the_rest(
    collection: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text('[[step]]\nuse = "length"\n')
    recipe = ["--recipe", str(tmp_path / "mine.toml"), "--respect", "train-ai"]
    out = tmp_path / "data set"
    for arguments in (["run", str(collection), *recipe], ["export", str(collection), "--hf", str(out)]):
        ended = CliRunner().invoke(command, ["curate", *arguments], catch_exceptions=False)
        assert ended.exit_code == 0, ended.output
    urls = {row["url"] for file in (out / "data").iterdir() for row in parquet.read_table(file).to_pylist()}
    assert urls == {f"http://mixed.test{path}" for path in MIXED.keys() - {"/header", "/ruled"}}
    card = (out / "README.md").read_text()
    assert "Left out for what their sites say of the use of their pages: 2 documents (train_ai_forbidden 2)." in card


# --- archives of others ---


class ForeignRecord(msgspec.Struct, frozen=True):
    url: str
    second: int
    body: bytes
    media_type: str = "text/plain"


FOREIGN = [
    ForeignRecord(
        "http://old.test/robots.txt", 10, b"User-agent: *\nContent-Usage: /a train-ai=n\nLicense: /rsl.xml\n"
    ),
    ForeignRecord("http://old.test/.well-known/tdmrep.json", 11, b'[{"location": "/t", "tdm-reservation": 1}]'),
    ForeignRecord(
        "http://old.test/rsl.xml",
        12,
        b'<rsl xmlns="https://rslstandard.org/rsl"><content url="/r"><license>'
        b'<prohibits type="usage">search</prohibits></license></content></rsl>',
        "application/rsl+xml",
    ),
    *(ForeignRecord(f"http://old.test/{name}", 20, LONG.encode() + name.encode(), "text/html") for name in "atrz"),
    ForeignRecord("http://old.test/robots.txt", 30, b"User-agent: *\nContent-Usage: /z train-ai=n\n"),
    ForeignRecord("http://old.test/z-later", 40, LONG.encode() + b" later", "text/html"),
    ForeignRecord("http://old.test/a-later", 40, LONG.encode() + b" a later", "text/html"),
]


def test_an_archive_without_notes_is_joined_with_the_files_of_its_sites_that_held_at_capture(tmp_path: Path) -> None:
    root = tmp_path / "foreign"
    root.mkdir()
    with (root / "pages.warc.gz").open("wb") as pages, (root / "files.warc.gz").open("wb") as files:
        for one in FOREIGN:
            http = f"HTTP/1.1 200 OK\r\nContent-Type: {one.media_type}\r\n\r\n".encode() + one.body
            head = (
                f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{uuid4()}>\r\n"
                f"WARC-Target-URI: {one.url}\r\nWARC-Date: 2024-01-01T00:00:{one.second}Z\r\n"
                f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(http)}\r\n\r\n"
            ).encode()
            out = pages if one.media_type == "text/html" else files
            out.write(gzip.compress(head + http + b"\r\n\r\n"))
    webmill.index(root, jobs=1)
    webmill.extract(root, jobs=1)
    rows = {row.url.rpartition("/")[2]: row for row in webmill.documents(root)}
    said = {name: (row.usage_train_ai, row.usage_tdm, row.usage_search) for name, row in rows.items() if name in SAID}
    assert said == SAID
    assert "robots:content-usage" in (rows["a"].usage_source or "")


SAID = {
    "a": (False, None, None),
    "t": (None, False, None),
    "r": (None, None, False),
    "z": (None, None, None),  # the rule came later
    "z-later": (False, None, None),
    "a-later": (None, None, None),  # the rule was gone
}
