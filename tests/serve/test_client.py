"""`webmill.connect`: what a program reads from a server is what it reads from the folder; and from a server that lies,
a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import msgspec
import pytest

import webmill
from tests.serve.answering import Reply, answering_as
from tests.serve.sample_collection import NAME
from tests.serve.server_process import RunningServer, serving
from webmill.errors import BadInput, Misconfigured, NotFound, WebmillError
from webmill.pipeline.remote_collection import RemoteCollection
from webmill.search.base import SearchFilters
from webmill.settings import SearchSettings

TOWN = "https://town.example/"
PATTERNS = (TOWN, "*.town.example", "https://town.example/c*", "https://서울.example/공지")
SERVER = json.dumps({"webmill": "1", "api": "1.9"}).encode()


@pytest.fixture(scope="module")
def server(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(sample_root, tmp_path_factory.mktemp("client") / "errors", "--no-feed", "--processes", "1") as running:
        yield running


@pytest.fixture
def there(server: RunningServer) -> Iterator[RemoteCollection]:
    with webmill.connect(server.address, rate=0) as collection:
        yield collection


# --- the same as from the folder --------------------------------------------------------------------------------------


def test_lines_and_captures_are_those_of_the_folder(there: RemoteCollection, sample_root: Path) -> None:
    with webmill.open_collection(sample_root) as here:
        for url in PATTERNS:
            expected = list(here.lines(url))
            assert expected
            assert list(there.lines(url)) == expected
            assert list(there.captures(url, since="2023", until="2024-06")) == list(
                here.captures(url, since="2023", until="2024-06")
            )
        for at in ("2022", "2023-04-01", None):
            assert there.capture(TOWN, at=at) == here.capture(TOWN, at=at)
        assert list(there.captures(TOWN, limit=1)) == list(here.captures(TOWN, limit=1))


def test_an_index_of_many_parts_is_read_to_its_end(
    there: RemoteCollection, sample_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webmill.pipeline.remote_index.LINES", 7)
    with webmill.open_collection(sample_root) as here:
        assert len(list(there.lines("*.town.example"))) > 70
        assert list(there.lines("*.town.example")) == list(here.lines("*.town.example"))


def test_every_capture_reads_the_same_also_a_revisit(there: RemoteCollection, sample_root: Path) -> None:
    with webmill.open_collection(sample_root) as here:
        captures = [*here.captures(TOWN), *here.captures("https://town.example/pixel.png")]
        assert any(line.is_revisit for line in here.lines(TOWN))
        for capture in captures:
            assert there.read(capture) == here.read(capture)


def test_a_crawl_can_be_chosen(server: RunningServer) -> None:
    with webmill.connect(server.address, crawl=NAME, rate=0) as chosen:
        assert chosen.capture(TOWN)
    with (
        webmill.connect(server.address, crawl="OTHER", rate=0) as other,
        pytest.raises(NotFound, match="no crawl OTHER"),
    ):
        other.capture(TOWN)


def test_a_search_finds_what_it_finds_in_the_folder(there: RemoteCollection, sample_root: Path) -> None:
    for words, filters in (
        ("ferry", SearchFilters()),
        ("", SearchFilters(languages=["eng", "kor"], sites=["town.example"])),
        ("도서관", SearchFilters(facets={"language": ["kor"]}, since=0)),
    ):
        found = there.search(words, filters=filters)
        expected = webmill.search(sample_root, words, filters=filters, settings=SearchSettings())
        assert found.total == expected.total > 0
        assert [hit.id for hit in found.hits] == [hit.id for hit in expected.hits]
        for hit, other in zip(found.hits, expected.hits, strict=True):
            shown = [msgspec.to_builtins((one.title, one.snippet, one.score)) for one in (hit, other)]
            assert json.dumps(shown[0]) == json.dumps(shown[1])
            assert (hit.document.url, hit.document.date) == (other.document.url, other.document.date)
            assert hit.capture
            assert there.read(hit.capture).status == 200
    with pytest.raises(BadInput, match="beginning of a day"):
        there.search("a", filters=SearchFilters(since=1))


def test_documents_versions_and_differences_are_those_that_are_published(there: RemoteCollection) -> None:
    old, new = there.versions()
    assert (old.live, new.live) == (False, True)
    texts = {document.url: document.text for document in there.documents()}
    assert len(texts) == new.count == 7
    assert texts[TOWN] == "Welcome to the town. The ferry leaves at noon."
    before = {document.url: document.text for document in there.documents(version=old.version, prefix="town.example")}
    assert before[TOWN] == "Welcome to the town. The ferry leaves at nine."
    (changed,) = [one for one in there.differences() if one.change == "changed"]
    assert changed.id == "example,town)/"
    assert list(there.differences(new.version, new.version)) == []
    assert "The ferry leaves at noon." in there.markdown(changed.id)


def test_errors_are_those_of_the_tree(there: RemoteCollection) -> None:
    with pytest.raises(NotFound):
        there.capture("https://nowhere.example/")
    with pytest.raises(NotFound, match="no document"):
        there.markdown("nothing")
    with pytest.raises(BadInput, match="not the name of a version"):
        list(there.documents(version="../x"))
    there.close()
    for ask in (there.versions, lambda: there.capture(TOWN), there.search):
        with pytest.raises(Misconfigured, match="closed"):
            ask()


# --- a server that lies -----------------------------------------------------------------------------------------------

LINE = b'com,example)/ 20240101000000 {"url": "http://example.com/", "filename": "a.warc.gz", "offset": "0"'
LINE += b', "length": "9"}\n'


def following(path: str, lines: bytes = LINE * 1_000) -> Reply:
    """A part that has another one behind it, for ever."""
    number = path.count("x", path.find("cursor="))
    return Reply(200, lines, {"Link": f'</api/index?cursor={"x" * (number + 1)}>; rel="next"'})


LIES: dict[str, Callable[[str], Reply]] = {
    "not JSON": lambda _: Reply(200, b"<html>"),
    "deep JSON": lambda _: Reply(200, b"[" * 1_000_000),
    "other JSON": lambda _: Reply(200, b'{"versions": 7, "hits": {}, "items": []}'),
    "much": lambda _: Reply(200, b" " * (70 << 20)),
    "cut": lambda _: Reply(200, b'{"versions": [', {"Content-Length": "1000"}),
    "a redirect": lambda _: Reply(302, b"", {"Location": "http://127.0.0.1:1/"}),
    "lines without end": lambda _: Reply(200, LINE[:-1] * 20_000),
    "lines in disorder": lambda _: Reply(200, LINE.replace(b"/ 2024", b"/b 2024") + LINE),
    "a next that is itself": lambda _: Reply(200, LINE, {"Link": '</api/index?cursor=same>; rel="next"'}),
    "empty parts": lambda path: following(path, b""),
    "small parts": lambda path: following(path, LINE),
    "one line for ever": lambda path: following(path, LINE * 30_000),
    "a message of controls": lambda _: Reply(404, b'{"message": "\\u001b[31m' + b"x" * 10_000 + b'"}'),
}


@contextmanager
def connected(answer: Callable[[str], Reply]) -> Iterator[RemoteCollection]:
    """A client of a server that says that it is webmill."""
    with answering_as(lambda path: Reply(200, SERVER) if path == "/version" else answer(path)) as address:
        yield webmill.connect(address, rate=0)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_what_a_server_invents_ends_in_a_sentence(lie: Callable[[str], Reply]) -> None:
    with connected(lie) as collection:
        asks = (
            collection.versions,
            lambda: list(collection.lines("*.example.com")),
            lambda: collection.search("a"),
            lambda: list(collection.documents()),
            lambda: list(collection.differences()),
        )
        for ask in asks:
            with pytest.raises(WebmillError) as error:
                ask()
            assert len(str(error.value)) < 1_000
            assert str(error.value).isprintable()


def test_lines_without_an_end_are_read_no_further_than_they_are_used() -> None:
    with connected(following) as collection:
        assert len(list(islice(collection.captures("http://example.com/"), 5))) == 5


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"webmill": "9", "api": "2.0"}', "version 2.0 of the API"),
        (b'{"name": "nginx"}', "not an answer of webmill's API"),
    ],
)
def test_what_is_not_webmill_or_a_later_one_is_told(body: bytes, why: str) -> None:
    with answering_as(lambda _: Reply(200, body)) as address, pytest.raises(Misconfigured, match=why):
        webmill.connect(address)


def test_a_folder_is_no_server() -> None:
    with pytest.raises(Misconfigured, match="not an http or https address"):
        webmill.connect("news/")
