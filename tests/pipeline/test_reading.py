"""`webmill.open_collection`: captures and pages of a collection, from a folder and over HTTP."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import webmill
from tests.serve.sample_collection import Visit, archive, run, visits
from tests.serve.server_process import serving
from tests.serve.warc_fixtures import collection, record, response, revisit
from webmill.errors import BadInput, Misconfigured, NotFound, WebmillError
from webmill.infra.storage.backends import open_storage
from webmill.pipeline.collection_reader import OpenCollection

HOME, SITE, WHEN = "https://town.example/", "https://made.example", "20230401120000"
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
GZIP = (("Content-Type", "text/plain"), ("Content-Encoding", "gzip"))


@pytest.fixture(scope="module", params=["folder", "http"])
def opened(
    request: pytest.FixtureRequest, sample_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenCollection]:
    if request.param == "folder":
        with webmill.open_collection(sample_root) as found:
            yield found
        return
    with (
        serving(sample_root, tmp_path_factory.mktemp("serving") / "errors") as server,
        webmill.open_collection(server.address + "/", rate=0) as found,
    ):
        yield found


# --- find -------------------------------------------------------------------------------------------------------------


def test_captures_of_an_address_come_in_the_order_of_time(opened: OpenCollection) -> None:
    expected = [visit.when for visit in visits() if visit.url == HOME]
    assert [capture.timestamp for capture in opened.captures(HOME)] == expected
    assert [capture.timestamp for capture in opened.captures("town.example")] == expected


def test_captures_of_a_pattern_in_a_period(opened: OpenCollection) -> None:
    expected = {
        (visit.url, visit.when) for visit in visits() if visit.url.startswith(HOME) and visit.when[:4] == "2023"
    }
    found = {(capture.url, capture.timestamp) for capture in opened.captures(f"{HOME}*", since="2023", until="2023")}
    assert found == expected
    assert len(list(opened.captures("*.town.example", limit=3))) == 3


def test_the_status_is_told_by_the_index(opened: OpenCollection) -> None:
    assert [line.status for line in opened.lines(f"{HOME}gone")] == ["404"]


@pytest.mark.parametrize(
    ("at", "when"),
    [("2022", "20220310080000"), ("2023-04", "20230401120000"), ("9999", "20240401100000"), (None, "20240401100000")],
)
def test_the_nearest_capture_is_found(opened: OpenCollection, at: str | None, when: str) -> None:
    assert opened.capture(HOME, at=at).timestamp == when


def test_what_is_not_there_is_not_found(opened: OpenCollection) -> None:
    assert list(opened.captures("https://nobody.example/")) == []
    with pytest.raises(NotFound, match=r"https://nobody\.example/"):
        opened.capture("https://nobody.example/")


@pytest.mark.parametrize("url", ["", "http://[", "mailto://a", "https://a b/", "https://" + "a" * 9000])
def test_what_is_no_url_is_refused(opened: OpenCollection, url: str) -> None:
    with pytest.raises(BadInput):
        opened.captures(url)
    with pytest.raises(BadInput):
        opened.capture(url)


def test_what_is_no_period_limit_or_pattern_is_refused(opened: OpenCollection) -> None:
    with pytest.raises(BadInput):
        opened.capture(HOME, at="soon")
    with pytest.raises(BadInput):
        opened.captures(HOME, since="soon")
    with pytest.raises(BadInput):
        opened.captures(HOME, limit=-1)
    with pytest.raises(BadInput):
        opened.captures("*")


# --- read -------------------------------------------------------------------------------------------------------------


def test_a_page_is_read(opened: OpenCollection) -> None:
    page = opened.read(opened.capture(HOME, at="2022"))
    visit = next(visit for visit in visits() if visit.url == HOME)
    assert (page.status, page.body, page.complete, page.flaw) == (200, visit.body, True, None)
    assert page.headers.get("content-type") == page.content_type == "text/html; charset=utf-8"
    assert page.text == visit.body.decode()


def test_a_revisit_has_the_body_of_its_original(opened: OpenCollection) -> None:
    capture = opened.capture(HOME, at="20230401120500")
    [line] = [line for line in opened.lines(HOME) if line.capture == capture]
    assert line.is_revisit
    page = opened.read(capture)
    assert (page.status, page.capture, page.original.timestamp) == (200, capture, "20230401120000")
    assert "The ferry leaves at noon." in page.text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of captures that are hard to read."""
    chunked = (("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip"))
    packed = gzip.compress(b"the text", mtime=0)
    records = [
        response(f"{SITE}/gzip", WHEN, packed, head=GZIP),
        response(f"{SITE}/chunked", WHEN, b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed), head=chunked),
        response(f"{SITE}/cut", WHEN, packed[:-9], head=GZIP),
        response(f"{SITE}/bomb", WHEN, gzip.compress(bytes(20 << 20), mtime=0), head=GZIP),
        response(f"{SITE}/large", WHEN, bytes(1000)),
        record("resource", f"{SITE}/resource", WHEN, b"plain words", (("Content-Type", "text/plain"),)),
        record("response", f"{SITE}/stopped", WHEN, b"HTTP/1.1 200 OK\r\n\r\nhal", (("WARC-Truncated", "length"),)),
        revisit(f"{SITE}/lost", WHEN, b"gone"),
        response(f"{SITE}/damaged", WHEN, b"the words that are lost"),
    ]
    return collection(tmp_path_factory.mktemp("made") / "made", records)


@pytest.mark.parametrize("path", ["gzip", "chunked"])
def test_codings_are_undone(made: Path, path: str) -> None:
    with webmill.open_collection(made) as found:
        page = found.read(found.capture(f"{SITE}/{path}"))
    assert (page.body, page.complete, page.flaw) == (b"the text", True, None)


@pytest.mark.parametrize(("path", "flaw"), [("cut", "truncated"), ("bomb", "decode_limit"), ("stopped", "truncated")])
def test_a_body_that_is_not_whole_says_so(made: Path, path: str, flaw: str) -> None:
    with webmill.open_collection(made) as found:
        page = found.read(found.capture(f"{SITE}/{path}"))
    assert (page.complete, page.flaw) == (False, flaw)
    assert len(page.body) <= 10 << 20


def test_no_more_than_the_limit_is_read(made: Path) -> None:
    with webmill.open_collection(made) as found:
        capture = found.capture(f"{SITE}/large")
        for limit, flaw in ((999, "decode_limit"), (1000, None)):
            page = found.read(capture, limit=limit)
            assert (len(page.body), page.flaw) == (limit, flaw)


def test_a_record_that_is_no_http_is_read_too(made: Path) -> None:
    with webmill.open_collection(made) as found:
        page = found.read(found.capture(f"{SITE}/resource"))
    assert (page.status, page.content_type, page.text, len(page.headers)) == (200, "text/plain", "plain words", 0)


def test_a_revisit_of_what_is_not_here_is_not_found(made: Path) -> None:
    with webmill.open_collection(made) as found, pytest.raises(NotFound, match="its original is not here"):
        found.read(found.capture(f"{SITE}/lost"))


def test_a_damaged_record_is_told_with_its_cause(made: Path) -> None:
    with webmill.open_collection(made) as found:
        capture = found.capture(f"{SITE}/damaged")
        with (made / capture.filename).open("r+b") as file:
            file.seek(capture.offset + capture.length // 2)
            file.write(bytes(8))
        with pytest.raises(NotFound, match="damaged") as caught:
            found.read(capture)
    assert isinstance(caught.value.__cause__, BadInput)


# --- open -------------------------------------------------------------------------------------------------------------


def test_the_newest_crawl_is_asked_unless_one_is_named(tmp_path: Path) -> None:
    for name, day in (("WEEK-1", "20240101000000"), ("WEEK-2", "20240108000000")):
        archive(tmp_path, [Visit(HOME, day, b"words")], name=name)
        run("index", tmp_path, "--name", name)
    for crawl, day in ((None, "20240108000000"), ("WEEK-1", "20240101000000")):
        with webmill.open_collection(f"{tmp_path}/", crawl=crawl) as found:
            assert [capture.timestamp for capture in found.captures(HOME)] == [day]
    with pytest.raises(NotFound, match="no index of WEEK-3"):
        webmill.open_collection(tmp_path, crawl="WEEK-3")


@pytest.mark.parametrize(
    "place", ["nowhere/", "", "ftp://a/", "http://[", "http://a:b/", "s3://", "redis://127.0.0.1/"]
)
def test_no_place_is_an_error_of_ours(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WebmillError):
        webmill.open_collection(place)


@pytest.mark.server("s3")
def test_a_bucket_is_read_as_a_folder_is(sample_root: Path, s3_url: str) -> None:
    place = urlsplit(s3_url)._replace(path="/a-town").geturl()
    bucket = open_storage(place)
    for path in sorted(sample_root.rglob("*")):
        key = path.relative_to(sample_root).as_posix()
        if path.is_file() and key.startswith(("crawl-data/", "cc-index/collections/")) and path.name[0] != ".":
            bucket.write(key, path)
    with webmill.open_collection(place, rate=0) as found:
        page = found.read(found.capture(HOME, at="20230401120500"))
    assert page.original != page.capture
    assert "The ferry leaves at noon." in page.text
    with pytest.raises(NotFound) as caught:
        webmill.open_collection(place, crawl="OTHER", rate=0)
    assert "not-a-secret" not in str(caught.value)  # which is in the address


def test_a_closed_collection_says_so(sample_root: Path) -> None:
    with webmill.open_collection(sample_root) as found:
        capture = found.capture(HOME)
    with pytest.raises(Misconfigured, match="closed"):
        found.read(capture)


def test_the_package_loads_nothing_before_it_is_asked() -> None:
    seen = "import sys, webmill; print([name for name in sys.modules if name.startswith('webmill.')])"
    assert subprocess.check_output([sys.executable, "-c", seen], text=True).strip() == "[]"
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        webmill.nothing_of_the_kind  # type: ignore[attr-defined]  # noqa: B018


def test_the_documented_example_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, about = "https://example.org/", "https://example.org/about"
    records = [
        response(page, "20231201090000", b"<h1>Advent</h1>"),
        response(page, "20240105090000", "<h1>Happy new…</h1>".encode()),
        response(page, "20240212090000", b"<h1>Carnival</h1>"),
        response(about, "20240212090001", b"gone", status="404 Not Found"),
    ]
    collection(tmp_path / "news", records)
    monkeypatch.chdir(tmp_path)
    code, reported = (
        re.findall(rf"^```{kind}\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE)[0]
        for kind in ("python", "text")
    )
    capsys.readouterr()
    exec(compile(code, str(DOCS), "exec"), {})
    assert capsys.readouterr().out == reported
