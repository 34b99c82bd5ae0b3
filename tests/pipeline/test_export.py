"""A WACZ holds what it says, every record can be read at its place, and pywb takes it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import zipfile
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from tests.pipeline.foreign import put, warc
from tests.serve.sample_collection import Visit, archive, page
from tests.serve.warc_fixtures import collection, response, revisit
from tests.unit.cli.command import webmill
from webmill.errors import BadInput
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.writer import encode_record
from webmill.index.lookup.indexes import open_index
from webmill.index.lookup.query import Query, url_range
from webmill.index.zipnum.writer import write_index
from webmill.infra.storage.local import LocalStorage
from webmill.model import Headers
from webmill.pipeline.export.wacz import WaczExport

URL = "https://town.example/"


class Wacz:
    """As a player reads it."""

    def __init__(self, path: Path) -> None:
        self.zip = zipfile.ZipFile(path)
        assert self.zip.testzip() is None
        package = self.zip.read("datapackage.json")
        digest = json.loads(self.zip.read("datapackage-digest.json"))
        assert digest == {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(package).hexdigest()}"}
        self.package = json.loads(package)
        for resource in self.package["resources"]:
            data = self.zip.read(resource["path"])
            assert (resource["bytes"], resource["hash"]) == (len(data), f"sha256:{hashlib.sha256(data).hexdigest()}")
        listed = {resource["path"] for resource in self.package["resources"]}
        assert listed | {"datapackage.json", "datapackage-digest.json"} == set(self.zip.namelist())
        self.lines = gzip.decompress(self.zip.read("indexes/index.cdx.gz")).decode().splitlines()
        self.captures = [json.loads(line.split(" ", 2)[2]) for line in self.lines]
        self.pages = self.listed("pages/pages.jsonl")
        self.extra = self.listed("pages/extraPages.jsonl")
        self.check_summary()
        self.check_headers(path)

    def listed(self, path: str) -> list[dict[str, str]]:
        head, *pages = [json.loads(line) for line in self.zip.read(path).splitlines()]
        assert head["format"] == "json-pages-1.0"
        self.has_text = head["hasText"]
        return pages

    def check_headers(self, path: Path) -> None:
        """Players in browsers look for an entry's data right behind its name, as if no header had room for 64 bits."""
        with path.open("rb") as file:
            for info in self.zip.infolist():
                file.seek(info.header_offset + 26)
                assert int.from_bytes(file.read(2), "little") == len(info.filename)
                assert int.from_bytes(file.read(2), "little") == 0

    def check_summary(self) -> None:
        head, *rows = self.zip.read("indexes/index.idx").decode().splitlines()
        assert head.startswith("!meta 0 ")
        data, texts = self.zip.read("indexes/index.cdx.gz"), []
        for row in rows:
            key, timestamp, fields = row.split(" ", 2)
            place = json.loads(fields)
            block = data[place["offset"] : place["offset"] + place["length"]]
            assert place["digest"] == f"sha256:{hashlib.sha256(block).hexdigest()}"
            texts.append(gzip.decompress(block).decode())
            assert texts[-1].startswith(f"{key} {timestamp} ")
        assert "".join(texts).splitlines() == self.lines
        assert self.lines == sorted(self.lines)

    def record(self, capture: dict[str, str]) -> tuple[Any, bytes]:
        """Headers and body by warcio, from the range that the index names: archives must be stored."""
        info = self.zip.getinfo(f"archive/{capture['filename']}")
        assert info.compress_type == zipfile.ZIP_STORED
        data = self.zip.read(info)[int(capture["offset"]) :][: int(capture["length"])]
        ((headers, body),) = [(record.rec_headers, record.content_stream().read()) for record in read_all(data)]
        return headers, body


def read_all(data: bytes) -> ArchiveIterator:
    return ArchiveIterator(io.BytesIO(data))


def export(*arguments: str | Path) -> Wacz:
    ended = webmill("export", "wacz", *arguments)
    assert ended.code == 0, ended.err
    return Wacz(Path(arguments[1]))


def test_a_whole_collection_is_packed_with_every_record_at_its_place(sample_root: Path, tmp_path: Path) -> None:
    wacz = export(sample_root, tmp_path / "town.wacz", "--title", "Die Stadt 서울")
    assert wacz.package["title"] == "Die Stadt 서울"
    assert len(wacz.captures) == 87
    for capture in wacz.captures:
        headers, _ = wacz.record(capture)
        assert headers.get_header("WARC-Target-URI") == capture["url"]
    assert len({capture["filename"] for capture in wacz.captures}) == 2, "two archives of one name stay two"
    assert {page["url"] for page in wacz.pages} >= {URL, "https://tokyo.example/"}
    assert not any("style.css" in page["url"] for page in wacz.pages)


def test_players_list_pages_by_title_and_search_their_texts(sample_root: Path, tmp_path: Path) -> None:
    wacz = export(sample_root, tmp_path / "town.wacz")
    newest = {page["url"]: page for page in wacz.pages}
    assert wacz.has_text
    assert len(newest) == len(wacz.pages), "each page once; its earlier captures are in the other list"
    assert newest["https://tokyo.example/"]["title"] == "東京のお知らせ"
    assert "図書館は夏休み" in newest["https://tokyo.example/"]["text"]
    times = [page["ts"] for page in (*wacz.extra, newest[URL]) if page["url"] == URL]
    assert times == sorted(times)
    assert len(times) > 1
    assert len({page["id"] for page in (*wacz.pages, *wacz.extra)}) == len(wacz.pages) + len(wacz.extra) == 81


def test_players_open_the_page_with_the_shortest_url_at_its_newest_capture(sample_root: Path, tmp_path: Path) -> None:
    package = export(sample_root, tmp_path / "town.wacz").package
    assert (package["mainPageUrl"], package["mainPageDate"]) == (URL, "2024-04-01T10:00:00Z")
    assert package["description"] == "87 captures, 2022-03-10 to 2024-12-15"


@pytest.mark.parametrize(
    ("flags", "opened"),
    [
        (["--url", "https://town.example/news"], "https://town.example/news"),
        (["--url", "*.town.example"], URL),
        (["--url", "*.town.example", "--main-page", "https://town.example/news"], "https://town.example/news"),
        (["--main-page", "https://wien.example/"], "https://wien.example/"),
    ],
)
def test_the_page_that_players_open_can_be_chosen(
    sample_root: Path, tmp_path: Path, flags: list[str], opened: str
) -> None:
    assert export(sample_root, tmp_path / "a.wacz", *flags).package["mainPageUrl"] == opened


def test_a_main_page_that_is_not_there_is_told(sample_root: Path, tmp_path: Path) -> None:
    ended = webmill("export", "wacz", sample_root, tmp_path / "a.wacz", "--main-page", "https://nowhere.example/")
    assert f"no page https://nowhere.example/ is among them, so players open {URL}" in " ".join(ended.err.split())


def test_texts_can_be_left_out(sample_root: Path, tmp_path: Path) -> None:
    wacz = export(sample_root, tmp_path / "a.wacz", "--no-text")
    assert len(wacz.pages) == 8
    assert not wacz.has_text
    assert not any({"text", "title"} & page.keys() for page in wacz.pages)


def test_the_newest_capture_of_a_main_page_may_be_a_revisit(tmp_path: Path) -> None:
    body = page("A", "words")
    again = revisit(URL, "20240102000000", body, date="20240101000000", uri=URL)
    root = collection(tmp_path / "a", [response(URL, "20240101000000", body), again])
    wacz = export(root, tmp_path / "a.wacz", "--url", URL)
    assert wacz.package["mainPageDate"] == "2024-01-02T00:00:00Z"
    assert [(page["ts"], page["title"]) for page in wacz.pages] == [("2024-01-01T00:00:00Z", "A")]


def test_a_page_that_cannot_be_parsed_is_listed_without_its_text(tmp_path: Path) -> None:
    root = collection(tmp_path / "a", [response(URL, "20240101000000", b"<p>" * 3_000_000)])
    wacz = export(root, tmp_path / "a.wacz")
    assert [page.keys() for page in wacz.pages] == [{"id", "url", "ts"}]


def test_only_the_beginning_of_a_long_text_is_listed(tmp_path: Path) -> None:
    root = collection(tmp_path / "a", [response(URL, "20240101000000", b"<title>A</title><p>" + b"word " * 50_000)])
    (page,) = export(root, tmp_path / "a.wacz").pages
    assert (page["title"], len(page["text"])) == ("A", 100_000)


def test_a_query_is_packed_with_the_originals_of_its_revisits(sample_root: Path, tmp_path: Path) -> None:
    wacz = export(
        sample_root, tmp_path / "page.wacz", "--url", URL, "--from", "20230401120500", "--to", "20230401120500"
    )
    assert [line.split(" ")[1] for line in wacz.lines] == ["20230401120000", "20230401120500"]
    bodies = [wacz.record(capture)[1] for capture in wacz.captures]
    assert b"ferry leaves at noon" in bodies[0]
    assert bodies[1] == b""
    assert [entry for entry in wacz.zip.namelist() if entry.startswith("archive/")] == ["archive/data.warc.gz"]


def test_hosts_and_filters_choose(sample_root: Path, tmp_path: Path) -> None:
    wacz = export(sample_root, tmp_path / "a.wacz", "--url", "*.town.example", "--filter", "=status:404")
    assert [capture["url"] for capture in wacz.captures] == ["https://town.example/gone"]
    assert wacz.pages == []


def test_a_revisit_without_its_original_is_told(tmp_path: Path) -> None:
    body = page("A", "words")
    visits = [Visit(URL, "20240101000000", body), Visit(URL, "20240102000000", body, same=True)]
    archive(tmp_path / "a", visits, name="A")
    (whole,) = (tmp_path / "a").rglob("*.warc.gz")
    with whole.open("rb") as file:
        second_request = [record.offset for record in read_records(file)][4]
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "second.warc.gz").write_bytes(whole.read_bytes()[second_request:])
    assert webmill("index", tmp_path / "c").code == 0
    ended = webmill("export", "wacz", tmp_path / "c", tmp_path / "c.wacz", "--url", URL)
    assert ended.code == 0
    assert "1 revisit without the original capture, which is not in" in ended.err


@pytest.mark.parametrize(
    ("chosen", "packed"),
    [
        (f"{URL}print", [URL, f"{URL}print"]),
        (f"{URL}p*", [URL, f"{URL}print", f"{URL}print2"]),  # for two revisits, and once
        ("*.town.example", [URL, f"{URL}print", f"{URL}print2"]),  # chosen anyway, and once
    ],
)
def test_a_revisit_of_another_address_brings_its_original(tmp_path: Path, chosen: str, packed: list[str]) -> None:
    body = page("A", "words")
    earlier = {"date": "20240101000000", "uri": URL}
    visits = [revisit(f"{URL}{name}", "20240102000000", body, **earlier) for name in ("print", "print2")]
    root = collection(tmp_path / "a", [response(URL, "20240101000000", body), *visits])
    wacz = export(root, tmp_path / "a.wacz", "--url", chosen)
    assert [capture["url"] for capture in wacz.captures] == packed
    assert wacz.record(wacz.captures[0])[1].endswith(body)
    assert "is not in" not in webmill("export", "wacz", root, tmp_path / "b.wacz", "--url", chosen).err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["DIR", "there.wacz"], "already exists"),
        (["DIR", "new.wacz", "--url", "https://nowhere.example/"], "no captures match this query"),
        (["DIR", "new.wacz", "--from", "2024"], "--from, --to, --filter and --match need --url"),
        (["EMPTY", "new.wacz"], "nothing is indexed"),
    ],
)
def test_what_cannot_be_packed_leaves_nothing(
    sample_root: Path, tmp_path: Path, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.wacz").write_bytes(b"mine")
    Path("empty").mkdir()
    places = {"DIR": str(sample_root), "EMPTY": "empty"}
    ended = webmill("export", "wacz", *(places.get(word, word) for word in arguments))
    assert ended.code in (1, 2)
    assert words in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "there.wacz"]
    assert Path("there.wacz").read_bytes() == b"mine"


def test_pywb_takes_it_and_finds_the_same_captures(sample_root: Path, tmp_path: Path, judges: Path) -> None:
    wacz = export(sample_root, tmp_path / "town.wacz")
    manager = [judges / "wb-manager"]
    subprocess.run([*manager, "init", "town"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(
        [*manager, "add", "--unpack-wacz", "town", "town.wacz"], cwd=tmp_path, check=True, capture_output=True
    )
    lines = (tmp_path / "collections" / "town" / "indexes" / "index.cdxj").read_text().splitlines()
    assert {tuple(line.split(" ")[:2]) for line in lines} == {tuple(line.split(" ")[:2]) for line in wacz.lines}
    assert len(lines) == len(wacz.lines)


class Silent:
    def advance(self, count: int = 1) -> None: ...


@pytest.mark.parametrize(
    ("place", "printed"),
    [
        ({"offset": "x", "length": "1"}, "bad_offset"),
        ({"offset": "0", "length": "9" * 5000}, "bad_length"),
        ({}, "com,a.* 20240101000000: the offset is missing"),
        ({"offset": "0", "length": "99999999999999"}, "bad_range"),
        ({"offset": "0", "length": "1", "filename": "../secret"}, "bad_key"),
    ],
)
def test_a_place_that_is_none_is_an_error_that_names_it(tmp_path: Path, place: dict[str, str], printed: str) -> None:
    (tmp_path / "secret").write_text("x")
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.warc.gz").write_bytes(b"x")
    fields = {"url": "http://a.com/", "filename": "a.warc.gz", "status": "200"} | place
    write_index([[f"com,a)/ 20240101000000 {json.dumps(fields)}\n".encode()]], tmp_path / "index")
    work = WaczExport(
        io.BytesIO(),
        files=LocalStorage(files),
        title="",
        created=datetime.now(UTC),
        progress=lambda *_, **__: nullcontext(Silent()),
    )
    with pytest.raises(BadInput, match=printed):
        work.found(open_index(tmp_path / "index"), Query(range=url_range("http://a.com/")))


def test_records_of_whatever_archives_become_members_of_their_own(tmp_path: Path) -> None:
    """Copied as they were, plain ones had no end and shared ones no bytes."""
    records = warc(1, 2, gzipped=False).split(b"WARC/1.")[1:]
    put(tmp_path / "in" / "plain.warc", warc(3, 4, gzipped=False))
    put(tmp_path / "in" / "whole.warc.gz", gzip.compress(warc(5, 6, gzipped=False)))
    put(tmp_path / "in" / "z.warc.zst", b"".join(zstandard.compress(b"WARC/1." + record) for record in records))
    assert webmill("index", tmp_path / "in").code == 3  # two share a member
    ended = webmill("export", "wacz", tmp_path / "in", tmp_path / "a.wacz", "--url", "*.elsewhere.example", "--json")
    assert (ended.code, json.loads(ended.out)["unreadable"]) == (3, 2)
    wacz = Wacz(tmp_path / "a.wacz")
    assert [capture["url"][-1] for capture in wacz.captures] == ["1", "2", "3", "4"]
    for capture in wacz.captures:
        headers, body = wacz.record(capture)
        assert headers.get_header("WARC-Target-URI") == capture["url"]
        assert f"Lighthouse {capture['url'][-1]}".encode() in body
    assert webmill("add", tmp_path / "out", tmp_path / "a.wacz").code == 0


@pytest.mark.parametrize("gzipped", [True, False], ids=["gzip", "plain"])
def test_what_follows_a_capture_and_belongs_to_it_comes_along(tmp_path: Path, gzipped: bool) -> None:
    pieces = []
    for number in (1, 2):
        content = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>words"
        for kind, type_, block in (
            ("response", "application/http; msgtype=response", content),
            ("request", "application/http; msgtype=request", b"GET / HTTP/1.1\r\n\r\n"),
            ("metadata", "application/warc-fields", b"charset-detected: UTF-8\r\n"),
        ):
            id_, fields = f"<urn:x:{number}-{kind}>", [("WARC-Type", kind), ("WARC-Date", "2024-01-02T03:04:05Z")]
            fields += [("WARC-Record-ID", id_), ("WARC-Target-URI", f"{URL}{number}"), ("Content-Type", type_)]
            if kind != "response":
                fields.append(("WARC-Concurrent-To", f"<urn:x:{number}-response>"))
            record = encode_record(Headers([*fields, ("Content-Length", str(len(block)))]), block)
            pieces.append(gzip.compress(record) if gzipped else record)
    put(tmp_path / "in" / ("a.warc.gz" if gzipped else "a.warc"), b"".join(pieces))
    assert webmill("index", tmp_path / "in").code == 0
    wacz = export(tmp_path / "in", tmp_path / "a.wacz", "--url", f"{URL}1")
    kinds = [
        record.rec_headers.get_header("WARC-Record-ID") for record in read_all(wacz.zip.read("archive/data.warc.gz"))
    ]
    assert kinds[1:] == ["<urn:x:1-response>", "<urn:x:1-request>", "<urn:x:1-metadata>"]
