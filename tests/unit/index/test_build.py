"""Index lines of WARC and ARC files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from base64 import b32encode
from functools import partial
from pathlib import Path

import pytest
import zstandard

from tests.contracts.range_server import serving
from webmill.errors import Misconfigured, NotFound
from webmill.formats.cdx import cdxj
from webmill.formats.warc.scan import ScanOptions
from webmill.index.build.captures import FIELDS, PROFILES, CaptureOptions
from webmill.index.build.warc import ArchiveInput, index_archives, index_file, local_archive
from webmill.infra.storage.http import HttpStorage
from webmill.infra.storage.memory import MemoryStorage
from webmill.model import Damage

PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>hello"
DIGEST = "WARC-Payload-Digest: sha1:GVVY5VBGKBP2UTLFBTSZJNNFN75WPR3K"


def record(kind: str, content: bytes, *fields: str, uri: str = "http://site.example/", number: int = 1) -> bytes:
    lines = [
        *("WARC/1.0", f"WARC-Type: {kind}", "WARC-Date: 2024-07-12T10:00:03Z", f"WARC-Record-ID: <urn:uuid:{number}>"),
        *(f"Content-Length: {len(content)}", f"WARC-Target-URI: {uri}", *fields),
    ]
    return "\r\n".join((*lines, "", "")).encode("utf-8", "surrogateescape") + content + b"\r\n\r\n"


def lines_of(data: bytes, *, scan: ScanOptions | None = None, **options: object) -> list[bytes]:
    return [item for item in all_of(data, scan=scan, **options) if isinstance(item, bytes)]


def damages_of(data: bytes, **options: object) -> list[str]:
    return [item.reason for item in all_of(data, **options) if isinstance(item, Damage)]


def all_of(data: bytes, *, scan: ScanOptions | None = None, **options: object) -> list[bytes | Damage]:
    chosen = CaptureOptions(**options)  # type: ignore[arg-type]
    return list(index_file(io.BytesIO(data), filename="a.warc.gz", options=chosen, scan=scan or ScanOptions()))


def fields_of(data: bytes, **options: object) -> dict[str, object]:
    (line,) = lines_of(data, **options)
    return dict(cdxj.parse(line).fields)


def test_a_line_has_common_crawls_fields_in_its_order() -> None:
    cld2 = '{"reliable":true,"languages":[{"code-iso-639-3":"deu"},{"code-iso-639-3":"eng"}]}'
    about = f"fetchTimeMs: 56\r\ncharset-detected: UTF-8\r\nlanguages-cld2: {cld2}\r\n\r\n".encode()
    moved = b"HTTP/1.1 301 Moved\r\nContent-Type: text/html\r\nlocation: ../there?a b\r\n\r\n"
    extra = (DIGEST, "WARC-Identified-Payload-Type: application/xhtml+xml", "WARC-Truncated: length")
    data = gzip.compress(record("response", moved, *extra, uri="http://site.example/x/y")) + gzip.compress(
        record("metadata", about, "WARC-Concurrent-To: <urn:uuid:1>", "Content-Type: application/warc-fields", number=2)
    )
    fields = fields_of(data)
    assert list(fields) == list(FIELDS[:12])
    assert fields | {"length": "", "digest": ""} == {
        "url": "http://site.example/x/y",
        "mime": "text/html",
        "mime-detected": "application/xhtml+xml",
        "status": "301",
        "digest": "",
        "length": "",
        "offset": "0",
        "filename": "a.warc.gz",
        "charset": "UTF-8",
        "languages": "deu,eng",
        "truncated": "length",
        "redirect": "http://site.example/there?a b",
    }


def test_metadata_of_another_capture_is_not_taken() -> None:
    about = b"charset-detected: UTF-8\r\n"
    other = record("metadata", about, "WARC-Concurrent-To: <urn:uuid:9>", "Content-Type: application/warc-fields")
    assert "charset" not in fields_of(record("response", PAGE, DIGEST) + other)


@pytest.mark.parametrize(
    "cld2", [b"{", b"[]", b"[" * 100_000, b'{"languages":[{"code-iso-639-3":"\xff"}]}'], ids=range(4)
)
def test_metadata_that_makes_no_sense_is_passed_over(cld2: bytes) -> None:
    about = b"languages-cld2: " + cld2
    other = record("metadata", about, "WARC-Concurrent-To: <urn:uuid:1>", "Content-Type: application/warc-fields")
    assert "languages" not in fields_of(record("response", PAGE, DIGEST) + other)


def test_the_chosen_fields_are_written_in_the_chosen_order() -> None:
    data = record("response", PAGE, DIGEST)
    assert list(fields_of(data, fields=("offset", "url", "languages"))) == ["offset", "url"]
    (line,) = lines_of(data, fields=PROFILES["pywb"])
    assert line == (
        b'example,site)/ 20240712100003 {"url": "http://site.example/", "mime": "text/html", "status": "200", '
        b'"digest": "GVVY5VBGKBP2UTLFBTSZJNNFN75WPR3K", "length": "%d", "offset": "0", "filename": "a.warc.gz"}\n'
    ) % (len(data) - 4)  # the empty lines behind a plain record are not counted
    with pytest.raises(Misconfigured, match="unknown field colour"):
        CaptureOptions(fields=("url", "colour"))


def test_a_missing_digest_is_computed_over_the_payload() -> None:
    body = PAGE.partition(b"\r\n\r\n")[2]
    wanted = b32encode(hashlib.sha1(body).digest()).decode()
    big = PAGE + b"x" * 100_000
    assert fields_of(record("response", PAGE))["digest"] == wanted
    assert fields_of(gzip.compress(record("response", PAGE)))["digest"] == wanted
    found = fields_of(gzip.compress(record("response", big)))["digest"]
    assert found == b32encode(hashlib.sha1(big.partition(b"\r\n\r\n")[2]).digest()).decode()


def test_a_block_too_large_to_digest_is_told() -> None:
    data = gzip.compress(record("response", PAGE + bytes(65 << 20)), 1) + gzip.compress(record("response", PAGE))
    assert damages_of(data) == ["too_large"]
    assert [b'"digest"' in line for line in lines_of(data)] == [False, True]


def test_which_records_are_captures() -> None:
    about = "Content-Type: application/warc-fields"
    data = b"".join(
        [
            record("warcinfo", b"software: x\r\n", about),
            record("request", b"GET / HTTP/1.1\r\n\r\n"),
            *(record(kind, PAGE, DIGEST) for kind in ("response", "revisit", "resource", "conversion", "metadata")),
            record("metadata", b"a: b\r\n", about),
        ]
    )
    assert len(lines_of(data)) == 5
    assert len(lines_of(data, all_records=True)) == 7
    assert not damages_of(data)


def test_a_revisit_says_so_and_has_a_status_on_request() -> None:
    data = record("revisit", PAGE, DIGEST)
    assert fields_of(data)["mime"] == "warc/revisit"
    assert "status" not in fields_of(data)
    assert fields_of(data, revisit_status=True)["status"] == "200"


def test_a_response_that_is_no_http_has_no_status() -> None:
    assert "status" not in fields_of(record("response", b"<html> 200 </html>", DIGEST))
    dns = record(
        "response", b"20240712\nsite.example. 60 IN A 192.0.2.1\n", "Content-Type: text/dns", uri="dns:site.example"
    )
    assert fields_of(dns)["mime"] == "text/dns"


# --- whatever the URL -----------------------------------------------------------------------------------------------

URLS = [
    *(
        "http://a.example:99999/",
        "http://a.example:x/",
        "http://[::1",
        "",
        " ",
        "a b",
        "http://a/\x00",
        "http://a/\x0b",
    ),
    *(
        'http://a/"},"filename":"/etc/passwd',
        "http://a/\u2028b",
        "http://a/\x85",
        "http://a/\udce9",
        "javascript:alert(1)",
    ),
    *("http://a/" + "x" * 60_000, "http://" + "a." * 5000 + "com/", "urn:x:y", "//a/b", "http://ä.example/ü", "\x7f"),
]


@pytest.mark.parametrize("url", URLS, ids=lambda url: ascii(url[:20]))
def test_every_capture_has_one_line_that_parses_back(url: str) -> None:
    data = record("response", PAGE, DIGEST, uri=url)
    (line,) = lines_of(data)
    assert line.count(b"\n") == 1
    assert line.isascii()
    assert json.loads(cdxj.json_of(line))["url"] == cdxj.parse(line).fields["url"]
    assert len(line.split(b" ", 2)[1]) == 14
    assert lines_of(gzip.compress(data), fields=("url",)) == lines_of(data, fields=("url",))


def test_a_record_that_cannot_be_indexed_is_reported() -> None:
    data = record("response", PAGE, DIGEST)
    nowhere = data.replace(b"WARC-Target-URI", b"X-Target-URI")
    sometime = data.replace(b"2024-07-12T10:00:03Z", b"yesterday")
    assert damages_of(nowhere + data + sometime) == ["bad_header", "bad_header"]
    assert len(lines_of(nowhere + data + sometime)) == 1


def test_a_line_that_no_tool_would_read_is_not_written() -> None:
    data = record("response", PAGE, DIGEST, uri="http://a/" + "é" * 30_000)
    assert damages_of(data) == []
    data = record("response", PAGE, DIGEST, uri="http://a/" + "\x00" * 240_000)
    assert damages_of(data) == ["too_large"]
    assert lines_of(data) == []


# --- files ----------------------------------------------------------------------------------------------------------


def test_plain_gzip_and_zstd_files_give_the_same_but_for_places() -> None:
    each = [record("response", PAGE + b"x" * 9000, DIGEST, number=number) for number in range(4)]
    fields = ("url", "mime", "status", "digest")
    wanted = lines_of(b"".join(each), fields=fields)
    assert len(wanted) == 4
    assert lines_of(b"".join(map(gzip.compress, each)), fields=fields) == wanted
    assert lines_of(b"".join(map(zstandard.compress, each)), fields=fields) == wanted
    assert lines_of(gzip.compress(b"".join(each)), fields=fields) == wanted


def test_records_that_share_a_member_are_told_and_have_no_length() -> None:
    data = gzip.compress(b"".join(record("response", PAGE, DIGEST, number=number) for number in range(4)))
    assert damages_of(data) == ["shared_member"]
    assert {json.loads(cdxj.json_of(line))["length"] for line in lines_of(data)} == {"0"}


def test_a_file_that_was_copied_in_text_mode_is_indexed() -> None:
    """As pywb's sample missing-status-text.warc: every LF became CR LF, and the length is still that of before."""
    head = b"HTTP/1.0 302 \r\nLocation: http://www.site.example/x\r\nServer: BigIP\r\n"
    moved = head + b"Connection: close\r\nContent-Length: 0\r\n\r\n"
    copied = record("response", moved, DIGEST)[: -len(b"\r\n\r\n")].replace(b"\r\n", b"\r\r\n")
    assert fields_of(copied)["status"] == "302"
    assert fields_of(copied)["redirect"] == "http://www.site.example/x"
    assert damages_of(copied) == []


def test_a_response_without_a_version_has_a_status() -> None:
    assert fields_of(record("response", b"HTTP 200 OK\r\nContent-Type: text/html\r\n\r\nhello"))["status"] == "200"


def test_arc_records_are_indexed() -> None:
    head = b"filedesc://a.arc 0.0.0.0 20140216050221 text/plain 9\n1 0 Alexa\n"
    data = head + b"http://site.example/ 192.0.2.1 20140216050221 text/html %d\n%b\n" % (len(PAGE), PAGE)
    fields = fields_of(data)
    assert (fields["mime"], fields["status"], fields["offset"]) == ("text/html", "200", str(len(head)))
    assert int(str(fields["length"])) == len(data) - len(head) - 1


def test_good_records_around_a_bad_one_are_indexed() -> None:
    each = [gzip.compress(record("response", PAGE + b"x" * 9000, DIGEST, number=number)) for number in range(3)]
    bad = bytearray(each[1])
    bad[-1] ^= 1
    assert len(lines_of(each[0] + bad + each[2])) == 2
    assert damages_of(each[0] + bad + each[2]) == ["bad_crc"]


def test_a_truncated_record_is_indexed_only_on_request() -> None:
    whole = gzip.compress(record("response", PAGE, DIGEST))
    data = whole + gzip.compress(record("response", PAGE + b"x" * 5000, DIGEST, uri="http://torn.example/"))[:-9]
    assert len(lines_of(data)) == 1
    assert damages_of(data) == ["truncated_member"]
    assert b"torn" in lines_of(data, scan=ScanOptions(torn=True))[1]


def test_verifying_changes_no_line(shared_data: Path) -> None:
    for path in [*shared_data.glob("warc/*/*"), *shared_data.glob("hostile/*.warc")]:
        data = path.read_bytes()
        assert lines_of(data, scan=ScanOptions(verify=True)) == lines_of(data), path


# --- many files -----------------------------------------------------------------------------------------------------


def write_files(folder: Path, *, files: int = 3, captures: int = 40) -> list[Path]:
    paths = [folder / f"{number}.warc.gz" for number in range(files)]
    for path in paths:
        each = (record("response", PAGE, DIGEST, uri=f"http://{n * 7 % captures}.example/") for n in range(captures))
        path.write_bytes(b"".join(map(gzip.compress, each)))
    return paths


@pytest.mark.parametrize("memory", [1 << 20, 4096])
def test_lines_of_many_files_come_in_byte_order(tmp_path: Path, memory: int) -> None:
    paths = write_files(tmp_path)
    batches = index_archives(map(local_archive, paths), report=_fail, memory=memory, folder=tmp_path)
    found = [line for batch in batches for line in batch]
    wanted = []
    for path in paths:
        with path.open("rb") as file:
            wanted += list(index_file(file, filename=path.name))
    assert found == sorted(wanted)
    assert len(found) == 120


def test_damage_is_reported_with_the_name_of_its_file(tmp_path: Path) -> None:
    path = write_files(tmp_path, files=1)[0]
    path.write_bytes(path.read_bytes() + b"junk")
    reported: list[tuple[str, str]] = []
    archive = local_archive(path, filename="segments/1/0.warc.gz")
    lines = [*index_archives([archive], report=lambda name, damage: reported.append((name, damage.reason)))]
    assert reported == [("segments/1/0.warc.gz", "trailing_garbage")]
    assert b'"filename": "segments/1/0.warc.gz"' in lines[0][0]


def test_archives_are_read_from_memory_and_over_http(tmp_path: Path) -> None:
    data = write_files(tmp_path, files=1, captures=400)[0].read_bytes()
    memory = MemoryStorage()
    memory.write("a.warc.gz", data)
    wanted = list(index_archives([local_archive(tmp_path / "0.warc.gz", filename="a.warc.gz")], report=_fail))
    assert [*index_archives([ArchiveInput("a.warc.gz", partial(memory.open, "a.warc.gz"))], report=_fail)] == wanted
    with serving() as server:
        server.values["a.warc.gz"] = data
        http = HttpStorage(server.url, user_agent="webmill-test")
        assert [*index_archives([ArchiveInput("a.warc.gz", partial(http.open, "a.warc.gz"))], report=_fail)] == wanted


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        [*index_archives([local_archive(tmp_path / "none.warc.gz")], report=_fail)]


def _fail(name: str, damage: Damage) -> None:
    raise AssertionError(f"{name}: {damage}")
