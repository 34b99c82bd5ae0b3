"""Other forms of index lines, beside the programs that defined them: CDX with 9 and 11 columns and minimal CDXJ as pywb
writes them, digests of records as cdxj-indexer does."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from tests.serve.warc_fixtures import response, revisit
from tests.unit.cli.command import webmill
from tests.unit.index.test_build_judges import theirs

WHEN = "20240101000000"


@pytest.fixture(scope="module")
def warc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("forms") / "a.warc.gz"
    records = [
        response("https://z.example/ü?a=b c", WHEN, b"<p>last"),
        response("https://a.example/", WHEN, b"<p>first"),
        response("https://a.example/gone", WHEN, b"", status="404 Not Found"),
        revisit("https://a.example/", "20240202000000", b"<p>first", date=WHEN),
    ]
    path.write_bytes(b"".join(records))
    return path


@pytest.mark.parametrize(
    ("ours", "pywb"),
    [
        (["--format", "cdx11"], ["-s"]),
        (["--format", "cdx9"], ["-s", "-9"]),
        (["--minimal"], ["-s", "--minimal-cdxj"]),
        (["--profile", "pywb"], ["-s", "--cdxj"]),
    ],
    ids=["cdx11", "cdx9", "minimal", "cdxj"],
)
def test_the_lines_are_those_of_pywb(
    warc: Path, judges: Path, tmp_path: Path, ours: list[str], pywb: list[str]
) -> None:
    (judged,) = theirs(judges, "pywb", tmp_path, pywb, [warc])
    assert len(judged) >= 4
    assert webmill("cdxj", "index", *ours, warc).lines == judged


def test_digests_of_records_are_those_of_cdxj_indexer(warc: Path, judges: Path, tmp_path: Path) -> None:
    (judged,) = theirs(judges, "cdxj-indexer", tmp_path, ["--sort", "--post-append", "--digest-records"], [warc])
    expected = {record["offset"]: record["recordDigest"] for record in map(fields, judged)}
    found = [fields(line) for line in webmill("cdxj", "index", "--digest-records", warc).lines]
    assert {record["offset"]: record["recordDigest"] for record in found} == expected
    data = warc.read_bytes()
    for record in found:
        stored = data[int(record["offset"]) :][: int(record["length"])]
        assert record["recordDigest"] == f"sha256:{hashlib.sha256(stored).hexdigest()}"


def fields(line: bytes) -> dict[str, str]:
    found: dict[str, str] = json.loads(line.split(b" ", 2)[2])
    return found


def test_what_is_written_in_columns_is_read_as_an_index(warc: Path, tmp_path: Path) -> None:
    for form in ("cdx9", "cdx11"):
        assert webmill("cdxj", "index", "--format", form, warc, "-o", tmp_path / f"{form}.cdx").code == 0
        done = webmill("cdxj", "query", "a.example", "--index", tmp_path / f"{form}.cdx", "--json")
        assert [json.loads(line)["timestamp"] for line in done.lines] == [WHEN, "20240202000000"]


def test_minimal_reads_no_http_and_so_needs_none(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(response("https://a.example/", WHEN, b"x"))
    (line,) = webmill("cdxj", "index", "--minimal", path).lines
    assert set(fields(line)) == {"url", "digest", "length", "offset", "filename"}
    plain = tmp_path / "plain.warc"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    (line,) = webmill("cdxj", "index", "--minimal", "--digest-records", plain).lines
    assert fields(line)["recordDigest"].startswith("sha256:")


@pytest.mark.parametrize(
    "flags",
    [("--minimal", "--post-append"), ("--format", "cdx9", "--fields", "url"), ("--format", "cdx9", "--digest-records")],
)
def test_what_cannot_be_together_is_refused(warc: Path, flags: tuple[str, ...]) -> None:
    assert webmill("cdxj", "index", *flags, warc).code == 2
