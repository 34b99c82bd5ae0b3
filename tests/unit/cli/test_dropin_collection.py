"""`cdxj-index-collection`: the whole pipeline by its old name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.unit.cli.command import Ended, dropin, webmill
from tests.unit.index.samples import write


def member(url: str, date: str = "2024-02-03T04:05:06Z") -> bytes:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\npage"
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{url}>\r\nWARC-Date: {date}\r\n"
        f"WARC-Target-URI: {url}\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(http)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + http + b"\r\n\r\n")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two WARC files of one name in two folders: the original lets one index overwrite the other."""
    folder = tmp_path / "collections" / "AWP"
    (folder / "sub").mkdir(parents=True)
    write(folder / "a.warc.gz", [member("http://z.pt/"), member("http://b.pt/"), member("http://spam.pt/x")])
    write(folder / "sub" / "a.warc.gz", [member("http://a.pt/")])
    return tmp_path


def index(data: Path, *flags: str | Path) -> Ended:
    places = [f"--{name}={data / name.removesuffix('-dir')}" for name in ("output-dir", "temp-dir")]
    return dropin("cdxj-index-collection", "AWP", "--collections-dir", data / "collections", *places, *flags)


def keys(data: Path) -> list[str]:
    done = webmill("cdxj", "flatten", data / "output" / "AWP")
    assert done.code == 0, done.err
    return [line.split(b" ")[0].decode() for line in done.lines]


def test_the_pipeline_ends_well_sorted_and_with_the_collection_in_every_line(data: Path) -> None:
    """The original's own stages refuse the flags that it gives them, and it does not sort."""
    done = index(data)
    assert done.code == 0, done.err
    assert keys(data) == ["pt,a)/", "pt,b)/", "pt,spam)/x", "pt,z)/"]
    lines = webmill("cdxj", "flatten", data / "output" / "AWP").lines
    assert {json.loads(line.split(b" ", 2)[2])["collection"] for line in lines} == {"AWP"}
    assert "nothing is blocked" in done.err
    assert list((data / "temp" / "AWP").iterdir()) == []
    assert webmill("cdxj", "verify", data / "output" / "AWP").code == 0


def test_the_blocklist_and_the_threshold_are_kept_to(data: Path) -> None:
    rules = write(data / "rules", [b"^pt,spam\n", b"\n"])
    many = [member("http://b.pt/", f"2024-02-03T04:05:{second:02d}Z") for second in range(10)]
    write(data / "collections" / "AWP" / "many.warc.gz", many)
    done = index(data, "--blocklist", rules, "--threshold", "10")
    assert done.code == 0
    assert keys(data) == ["pt,a)/", "pt,z)/"]
    assert b"2 in the index, of 14 in the WARC files" in done.out
    flat = index(data, "--blocklist", rules, "--threshold", "10", "--no-compress")
    assert b"2 in the index, of 14 in the WARC files" in flat.out


def test_more_fields_can_be_added_to_every_line(data: Path) -> None:
    function = write(data / "year.py", [b"def addfield(key, at, data): return data | {'year': at[:4]}\n"])
    assert index(data, "--addfield", "source=web", "--addfield", "by=me", "--addfield-func", function).code == 0
    lines = webmill("cdxj", "flatten", data / "output" / "AWP").lines
    added = [json.loads(line.split(b" ", 2)[2]) for line in lines]
    assert {(one["collection"], one["source"], one["by"], one["year"]) for one in added} == {
        ("AWP", "web", "me", "2024")
    }


def test_a_wrong_use_ends_with_code_1_as_a_shell_script_does() -> None:
    for arguments, message in (
        ([], "required"),
        (["A", "B"], "Too many arguments"),
        (["A", "--x"], "Unknown option: --x"),
    ):
        done = dropin("cdxj-index-collection", *arguments)
        assert done.code == 1
        assert message in done.err
        assert "Usage:" in done.err


def test_incremental_runs_keep_their_work_and_give_what_a_full_run_gives(data: Path) -> None:
    """The original keeps nothing unless told to, and captures of WARC files that are gone stay for ever."""
    folder = data / "collections" / "AWP"
    assert index(data, "--incremental").code == 0
    assert len(list((data / "temp" / "AWP").rglob("*.cdxj"))) == 2
    write(folder / "new.warc.gz", [member("http://new.pt/")])
    (folder / "sub" / "a.warc.gz").unlink()
    assert index(data, "--incremental").code == 0
    assert keys(data) == ["pt,b)/", "pt,new)/", "pt,spam)/x", "pt,z)/"]
    after = webmill("cdxj", "flatten", data / "output" / "AWP").out
    assert index(data).code == 0
    assert webmill("cdxj", "flatten", data / "output" / "AWP").out == after


def test_uncompressed_is_one_flat_file(data: Path) -> None:
    assert index(data).code == 0
    rules = write(data / "rules", [b"^pt,spam\n"])
    assert index(data, "--no-compress", "--keep-temp", "--blocklist", rules).code == 0
    flat = (data / "output" / "AWP" / "AWP.cdxj").read_bytes().splitlines()
    assert [line.split(b" ")[0] for line in flat] == [b"pt,a)/", b"pt,b)/", b"pt,z)/"]
    assert len(list((data / "temp" / "AWP").rglob("*.cdxj"))) == 2


def test_a_damaged_warc_gives_its_good_records_and_code_3(data: Path) -> None:
    """The original takes the part for the whole."""
    whole = member("http://c.pt/") + member("http://torn.pt/")
    write(data / "collections" / "AWP" / "torn.warc.gz", [whole[:-30]])
    done = index(data)
    assert done.code == 3
    assert "pt,c)/" in keys(data)
    rejected = (data / "output" / "AWP" / "rejected" / "index.jsonl").read_text()
    assert "torn.warc.gz" in rejected


def test_what_is_missing_is_a_sentence_and_code_1(data: Path, tmp_path: Path) -> None:
    none = dropin("cdxj-index-collection", "NONE", "--collections-dir", tmp_path)
    assert none.code == 1
    assert "Collection directory not found" in none.err
    listless = index(data, "--blocklist", tmp_path / "nowhere")
    assert listless.code == 1
    assert "Blocklist not found" in listless.err
    for file in (data / "collections").rglob("*.warc.gz"):
        file.unlink()
    empty = index(data)
    assert empty.code == 1
    assert "No WARC files found" in empty.err


def test_the_collection_itself_is_only_read(data: Path) -> None:
    before = sorted((data / "collections").rglob("*"))
    assert index(data, "--incremental").code == 0
    assert sorted((data / "collections").rglob("*")) == before
