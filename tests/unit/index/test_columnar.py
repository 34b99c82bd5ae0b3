"""The columnar index: Common Crawl's table, readable by DuckDB, the same bytes from the same lines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.samples import cut_into
from tests.unit.index.zipnum_samples import make_url
from webmill.errors import BadInput
from webmill.formats.url.surt import surt
from webmill.index.columnar.columns import COLUMNS, row_of
from webmill.index.columnar.parquet import write_parquet

WARC = "crawl-data/CC-MAIN-2024-30/segments/1720763514387.0/warc/CC-MAIN-20240712094214-20240712124214-00000.warc.gz"

# name, type, nullable: the flat schema of commoncrawl/cc-index-table without its partitions
SCHEMA = """
url_surtkey string false, url string false, url_host_name string false, url_host_tld string true,
url_host_2nd_last_part string true, url_host_3rd_last_part string true, url_host_4th_last_part string true,
url_host_5th_last_part string true, url_host_registry_suffix string true, url_host_registered_domain string true,
url_host_private_suffix string true, url_host_private_domain string true, url_host_name_reversed string true,
url_protocol string false, url_port integer true, url_path string false, url_query string true,
fetch_time timestamp false, fetch_status short false, fetch_redirect string true, content_digest string true,
content_mime_type string true, content_mime_detected string true, content_charset string true,
content_languages string true, content_truncated string true, warc_filename string false,
warc_record_offset integer false, warc_record_length integer false, warc_segment string false
"""
TYPES = {"string": pa.string(), "integer": pa.int32(), "short": pa.int16(), "timestamp": pa.timestamp("ms", tz="UTC")}


def line(url: str, *, stamp: str = "20240712100347", **fields: object) -> bytes:
    data = {"url": url, "mime": "text/html", "status": "200", "length": "5381", "offset": "568", "filename": WARC}
    data = {name: value for name, value in (data | fields).items() if value is not None}
    return f"{surt(url)} {stamp} {json.dumps(data)}\n".encode()


def row(url: str, **fields: Any) -> dict[str, Any]:
    values = row_of(line(url, **fields))
    return dict(zip((column.name for column in COLUMNS), values, strict=True))


def test_the_schema_is_common_crawls(tmp_path: Path) -> None:
    write_parquet([[line("http://a.com/")]], tmp_path / "t.parquet")
    wanted = [text.split() for text in SCHEMA.replace("\n", " ").split(",")]
    expected = pa.schema([pa.field(name, TYPES[kind], nullable=null == "true") for name, kind, null in wanted])
    assert pq.read_schema(tmp_path / "t.parquet") == expected
    assert pq.ParquetFile(tmp_path / "t.parquet").schema.column(17).converted_type == "TIMESTAMP_MILLIS"


def test_a_line_of_common_crawl_becomes_its_row() -> None:
    fields = {"mime-detected": "application/xhtml+xml", "digest": "MDUV", "charset": "UTF-8", "languages": "deu,eng"}
    found = row("https://user@www.Example.co.uk:8443/a/B.html?q=1&r#top", **fields, redirect="x", truncated="length")
    assert found | {"fetch_time": str(found["fetch_time"])} == {
        "url_surtkey": "uk,co,example:8443)/a/b.html?q=1&r",
        "url": "https://user@www.Example.co.uk:8443/a/B.html?q=1&r#top",
        "url_host_name": "www.example.co.uk",
        "url_host_tld": "uk",
        "url_host_2nd_last_part": "co",
        "url_host_3rd_last_part": "example",
        "url_host_4th_last_part": "www",
        "url_host_5th_last_part": None,
        "url_host_registry_suffix": "co.uk",
        "url_host_registered_domain": "example.co.uk",
        "url_host_private_suffix": "co.uk",
        "url_host_private_domain": "example.co.uk",
        "url_host_name_reversed": "uk.co.example.www",
        "url_protocol": "https",
        "url_port": 8443,
        "url_path": "/a/B.html",
        "url_query": "q=1&r",
        "fetch_time": "2024-07-12 10:03:47+00:00",
        "fetch_status": 200,
        "fetch_redirect": "x",
        "content_digest": "MDUV",
        "content_mime_type": "text/html",
        "content_mime_detected": "application/xhtml+xml",
        "content_charset": "UTF-8",
        "content_languages": "deu,eng",
        "content_truncated": "length",
        "warc_filename": WARC,
        "warc_record_offset": 568,
        "warc_record_length": 5381,
        "warc_segment": "1720763514387.0",
    }


@pytest.mark.parametrize(
    ("host", "registry", "registered", "private_suffix", "private"),
    [
        ("bbc.co.uk", "co.uk", "bbc.co.uk", "co.uk", "bbc.co.uk"),
        ("me.github.io", "io", "github.io", "github.io", "me.github.io"),
        ("github.io", "io", "github.io", "github.io", None),
        ("co.uk", "co.uk", None, "co.uk", None),
        ("mybucket.s3.amazonaws.com", "com", "amazonaws.com", "s3.amazonaws.com", "mybucket.s3.amazonaws.com"),
    ],
)
def test_suffixes_and_domains_are_by_the_public_suffix_list(
    host: str, registry: str, registered: str | None, private_suffix: str, private: str | None
) -> None:
    found = row(f"http://{host}/")
    assert found["url_host_registry_suffix"] == registry
    assert found["url_host_registered_domain"] == registered
    assert found["url_host_private_suffix"] == private_suffix
    assert found["url_host_private_domain"] == private


@pytest.mark.parametrize(
    ("url", "host", "tld", "path", "query"),
    [
        ("http://1.2.3.4/x", "1.2.3.4", None, "/x", None),
        ("http://3232235521/x", "192.168.0.1", None, "/x", None),
        ("http://[2001:db8::1]:80/x", "[2001:db8::1]", None, "/x", None),
        ("http://münchen.de/", "xn--mnchen-3ya.de", "de", "/", None),
        ("http://%f0%9f%a7%a0.s.country/", "xn--qv9h.s.country", "country", "/", None),
        ("http://a.com", "a.com", "com", "", None),
        ("http://a.com.?", "a.com", "com", "", ""),
        ("http://a.com?q#f?x", "a.com", "com", "", "q"),
        ("https:////www.google.com/robots.txt", "www.google.com", "com", "/robots.txt", None),
        ("http:/www.google.com/robots.txt", "www.google.com", "com", "/robots.txt", None),
        ("http://sites.google.com////robots.txt", "sites.google.com", "com", "////robots.txt", None),
        ("dns:www.example.com", "www.example.com", "com", "", None),
    ],
)
def test_parts_of_odd_urls(url: str, host: str, tld: str | None, path: str, query: str | None) -> None:
    found = row(url)
    assert (found["url_host_name"], found["url_host_tld"], found["url_path"], found["url_query"]) == (
        host,
        tld,
        path,
        query,
    )


@pytest.mark.parametrize("url", ["javascript:x", "urn:uuid:1", "mailto:a@b.c", "http://[::1/", "http://:80/", "x", ""])
def test_a_url_without_host_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="bad_url"):
        row_of(b'k 20240101000000 {"url":"%b","offset":"1","length":"1","filename":"f"}' % url.encode())


def test_a_status_that_is_none_is_minus_one_and_numbers_may_be_numbers() -> None:
    assert row("http://a.com/", status=None)["fetch_status"] == -1
    assert row("http://a.com/", status="-")["fetch_status"] == -1
    assert row("http://a.com/", status=301, offset=7)["fetch_status"] == 301
    assert row("http://a.com/", offset=7)["warc_record_offset"] == 7
    assert row("http://a.com/", filename="mine.warc.gz")["warc_segment"] == ""


BAD = {
    "no_json": b"com,a)/ 20240101000000\n",
    "bad_json": b"com,a)/ 20240101000000 {broken\n",
    "bad_timestamp": line("http://a.com/", stamp="20240230000000"),
    "bad_url": line("http:///"),
    "bad_offset": line("http://a.com/", offset="-5"),
    "bad_text": line("http://a.com/").replace(b"com,a", b"com,\xff"),
}


def test_bad_lines_are_refused_counted_and_handed_on(tmp_path: Path) -> None:
    good = [line(f"http://a.com/{number}") for number in range(5)]
    more = [
        line("http://a.com/", offset=10**30),
        line("http://a.com/", offset=str(1 << 31)),
        line("http://a.com/", filename=None),
    ]
    refused: list[tuple[bytes, str]] = []
    lines = sorted([*good, *BAD.values(), *more])
    table = write_parquet([lines], tmp_path / "t", on_reject=lambda text, error: refused.append((text, error.reason)))
    assert table.rows == 5
    assert table.rejected == dict.fromkeys(BAD, 1) | {"bad_offset": 3, "bad_json": 2}
    assert sorted(text for text, _ in refused) == sorted([*BAD.values(), *more])


@settings(deadline=None, max_examples=200)
@given(
    st.binary(max_size=60),
    st.dictionaries(st.sampled_from(["url", "offset", "status", "filename"]), st.text() | st.integers() | st.none()),
)
def test_no_line_raises_anything_but_bad_input(raw: bytes, fields: dict[str, Any]) -> None:
    data = {"url": "http://a.com/", "offset": "1", "length": "1", "filename": "x"} | fields
    for text in (raw, b"com,a)/ 20240101000000 " + raw, b"com,a)/ 20240101000000 " + json.dumps(data).encode()):
        try:
            row_of(text)
        except BadInput:
            pass


def many(count: int) -> list[bytes]:
    import random

    dice = random.Random(7)
    return sorted(line(make_url(dice), offset=str(number), length="1") for number in range(count))


def test_the_bytes_do_not_depend_on_batches_and_row_groups_are_bounded(tmp_path: Path) -> None:
    lines = many(3000)
    for size in (1, 7, 3000):
        table = write_parquet(cut_into(lines, size), tmp_path / str(size), rows_per_group=700)
        assert table.rows == 3000
    assert (tmp_path / "1").read_bytes() == (tmp_path / "7").read_bytes() == (tmp_path / "3000").read_bytes()
    data = pq.ParquetFile(tmp_path / "1").metadata
    assert [data.row_group(number).num_rows for number in range(data.num_row_groups)] == [700, 700, 700, 700, 200]
    assert data.row_group(0).sorting_columns[0].column_index == 0
    assert data.row_group(0).column(0).compression == "ZSTD"
    keys = pq.read_table(tmp_path / "1", columns=["url_surtkey"]).column(0).to_pylist()
    assert keys == [text.split(b" ")[0].decode() for text in lines]


def test_duckdb_answers_common_crawls_questions(tmp_path: Path) -> None:
    lines = many(2000)
    folder = tmp_path / "crawl=CC-MAIN-2024-30" / "subset=warc"
    folder.mkdir(parents=True)
    for number in range(2):
        write_parquet([lines[number * 1000 : number * 1000 + 1000]], folder / f"part-{number:05d}.parquet")
    with duckdb.connect() as base:
        base.execute(
            f"CREATE VIEW ccindex AS SELECT * FROM read_parquet('{tmp_path}/*/*/*.parquet', hive_partitioning=true)"
        )
        found = base.execute(
            "SELECT url, warc_filename, warc_record_offset FROM ccindex WHERE crawl = 'CC-MAIN-2024-30'"
            " AND subset = 'warc' AND url_host_registered_domain = 'a.co.uk' AND fetch_status = 200"
            " AND fetch_time = TIMESTAMPTZ '2024-07-12 10:03:47+00' ORDER BY warc_record_offset"
        ).fetchall()
    expected = [json.loads(text.split(b" ", 2)[2]) for text in lines if text.startswith(b"uk,co,a")]
    assert found == sorted(((data["url"], WARC, int(data["offset"])) for data in expected), key=lambda found: found[2])
    assert len(found) > 50


def test_no_lines_make_a_table_of_no_rows(tmp_path: Path) -> None:
    assert write_parquet([], tmp_path / "t").rows == 0
    assert pq.read_table(tmp_path / "t").num_rows == 0


def test_input_out_of_order_leaves_no_file(tmp_path: Path) -> None:
    lines = [line("http://b.com/"), line("http://a.com/")]
    with pytest.raises(BadInput, match="unsorted"):
        write_parquet([lines], tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


WITHOUT_PYARROW = """
import sys
from pathlib import Path
sys.modules["pyarrow"] = None
from webmill.errors import Misconfigured
from webmill.index.columnar.parquet import write_parquet
try:
    write_parquet([], Path(sys.argv[1]))
except Misconfigured as error:
    print(error)
"""


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_PYARROW, str(tmp_path / "t")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "pip install 'webmill[parquet]'" in printed


def test_a_real_index_becomes_a_table(shared_data: Path, tmp_path: Path) -> None:
    import gzip

    (path,) = (shared_data / "triple").glob("*.cdx.gz")
    lines = sorted(gzip.decompress(path.read_bytes()).splitlines(keepends=True))
    table = write_parquet([lines], tmp_path / "t")
    assert table.rows + table.rejected.total() == len(lines)
    assert table.rejected == {}  # though ten keys have a space in them
