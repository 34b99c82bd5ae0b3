"""`webmill warc` and `webmill cdxj index`: what a person learns about a file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from webmill.cli.main import webmill
from webmill.formats.warc import record_headers as records
from webmill.formats.warc.writer import compress_record

WHEN = datetime(2024, 7, 12, 9, 42, 14, tzinfo=UTC)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(webmill, [str(each) for each in arguments])


def response(url: str, body: bytes) -> bytes:
    content = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    visit = records.CaptureEvent(uri=url, date=WHEN)
    headers = records.response_headers(visit, records.describe_http_block(content), record_id=f"urn:x:{len(body)}")
    return compress_record(headers, content)


@pytest.fixture
def warc(tmp_path: Path) -> Path:
    file = tmp_path / "a.warc.gz"
    file.write_bytes(response("http://b.example/", b"b" * 10) + response("http://a.example/", b"a" * 20))
    return file


def test_a_whole_file_is_counted_and_exits_0(warc: Path) -> None:
    done = run("warc", "check", warc)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "2 records" in done.stderr


def test_a_torn_file_names_the_bytes_and_exits_3(warc: Path) -> None:
    whole = warc.read_bytes()
    second = len(response("http://b.example/", b"b" * 10))
    warc.write_bytes(whole[:-5])
    done = run("warc", "check", "--json", warc)
    assert done.exit_code == 3
    (damage,) = map(json.loads, done.stdout.splitlines())
    assert (damage["offset"], damage["end"], damage["reason"]) == (second, len(whole) - 5, "truncated_member")
    assert ": 1 record\n" in done.stderr


def test_a_changed_payload_is_a_digest_mismatch(tmp_path: Path) -> None:
    content = b"HTTP/1.1 200 OK\r\n\r\nabc"
    headers = records.response_headers(
        records.CaptureEvent(uri="http://a.example/", date=WHEN),
        records.describe_http_block(content),
        record_id="urn:x:1",
    )
    file = tmp_path / "x.warc.gz"
    file.write_bytes(compress_record(headers, content.replace(b"abc", b"abd")))
    done = run("warc", "check", file)
    assert done.exit_code == 3
    assert done.stdout.count(": bad_digest: ") == 2  # of the block and of the payload


def test_records_are_listed_with_their_places(warc: Path) -> None:
    first, second = (line.split("\t") for line in run("warc", "list", warc).stdout.splitlines())
    assert first[0] == "0"
    assert second[0] == first[1]  # the second begins where the first ends
    assert [row[2:] for row in (first, second)] == [
        ["response", "2024-07-12T09:42:14Z", "http://b.example/"],
        ["response", "2024-07-12T09:42:14Z", "http://a.example/"],
    ]
    rows = [json.loads(line) for line in run("warc", "list", "--json", warc).stdout.splitlines()]
    assert [row["record_id"] for row in rows] == ["<urn:x:10>", "<urn:x:20>"]


def test_a_damaged_file_is_listed_as_far_as_it_goes(warc: Path) -> None:
    warc.write_bytes(warc.read_bytes()[:-5])
    done = run("warc", "list", warc)
    assert done.exit_code == 3
    assert done.stdout.count("\n") == 1
    assert "truncated_member" in done.stderr


def test_control_characters_of_a_url_do_not_reach_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "x.warc"
    head = b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a/\x1b[2J\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    file.write_bytes(head)
    done = run("warc", "list", file)
    assert "\x1b" not in done.output
    assert "\\x1b[2J" in done.stdout


def test_files_are_indexed_together_in_order(warc: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.cdxj"
    done = run("cdxj", "index", warc, warc, "-o", out)
    assert done.exit_code == 0
    keys = [line.split()[0] for line in out.read_text().splitlines()]
    assert keys == ["example,a)/", "example,a)/", "example,b)/", "example,b)/"]


def test_a_damaged_file_is_indexed_as_far_as_it_goes_and_exits_3(warc: Path) -> None:
    warc.write_bytes(warc.read_bytes()[:-5])
    done = run("cdxj", "index", warc)
    assert done.exit_code == 3
    assert done.stdout.startswith("example,b)/ 20240712094214 {")
    assert "truncated_member" in done.stderr


def test_fields_can_be_chosen_and_unknown_ones_are_refused(warc: Path) -> None:
    done = run("cdxj", "index", "--fields", "url,status", warc)
    assert json.loads(done.stdout.splitlines()[0].split(" ", 2)[2]) == {"url": "http://a.example/", "status": "200"}
    assert "unknown field nonsense" in str(run("cdxj", "index", "--fields", "nonsense", warc).exception)


def test_the_whole_path_can_be_the_name(warc: Path) -> None:
    done = run("cdxj", "index", "--full-paths", "--fields", "filename", warc)
    assert json.loads(done.stdout.splitlines()[0].split(" ", 2)[2]) == {"filename": str(warc)}
