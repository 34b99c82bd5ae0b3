"""Keys of captures that were asked for with a body: the same as pywb's."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from webmill.index.build.captures import PROFILES, CaptureOptions
from webmill.index.build.request_body import body_to_query
from webmill.index.build.warc import index_file
from webmill.model import Damage

MULTIPART = (
    b'--XX\r\nContent-Disposition: form-data; name="a"\r\n\r\nsome text\r\n'
    b'--XX\r\nContent-Disposition: form-data; name="b b"; filename="c.bin"\r\nContent-Type: x/y\r\n\r\n\x00\xff\r\n.'
    b"\r\n--XX--\r\n"
)
JSON = b'{"a": 1, "b": {"a": "x y", "c": [true, null, 1.5, 2.0, {"d": "\xc3\xa9"}]}, "e": []}'
ASKED = [
    ("GET", "", b""),
    ("GET", "application/x-www-form-urlencoded", b"a=1"),
    ("HEAD", "", b""),
    ("OPTIONS", "", b""),
    ("POST", "", b""),
    ("POST", "", b"\x00raw\xff"),
    ("PUT", "application/x-www-form-urlencoded", b"z=1&a=%20b+c&WB_wombat_x=1"),
    ("POST", "application/x-www-form-urlencoded; charset=UTF-8", b"z=1&a=2"),
    ("POST", "application/x-www-form-urlencoded", b"a=\xff"),
    ("POST", "multipart/form-data; boundary=XX", MULTIPART),
    ("POST", 'multipart/form-data; boundary="XX"', MULTIPART),
    ("POST", "multipart/form-data", MULTIPART),
    ("POST", "application/json", JSON),
    ("POST", "application/json", b"{broken"),
    ("POST", "application/json", b"[" * 100_000),
    ("POST", "application/json", b'{"a": 1e999}'),
    ("POST", "application/json", b'{"n": 12345678901234567890, "f": 0.1}'),
    ("POST", "text/plain;charset=UTF-8", JSON),
    ("POST", "text/plain", b"not JSON"),
    ("POST", "text/plain", b"x" * 9000),
    ("post", "text/plain", b"1"),
]


def make_record(kind: str, number: int, other: int | None, uri: str, block: bytes) -> bytes:
    concurrent = "" if other is None else f"WARC-Concurrent-To: <urn:uuid:{other}>\r\n"
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Date: 2024-07-12T10:00:03Z\r\nWARC-Record-ID: <urn:uuid:{number}>\r\n"
        f"{concurrent}Content-Type: application/http; msgtype={kind}\r\nWARC-Payload-Digest: sha1:AAAA\r\n"
        f"WARC-Target-URI: {uri}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + block + b"\r\n\r\n", mtime=0)


def make_archive(*, request_first: bool) -> bytes:
    members = []
    for number, (method, content_type, body) in enumerate(ASKED):
        uri = f"http://site.example/{number}" + ("?q=1" if number % 2 else "")
        fields = [f"Content-Type: {content_type}\r\n"] if content_type else []
        head = f"{method} /{number} HTTP/1.1\r\n{''.join(fields)}Content-Length: {len(body)}\r\n\r\n"
        first, second = 2 * number, 2 * number + 1
        asked = (head.encode() + body,)
        answered = (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + b"page" * 2000,)
        order = [("request", asked), ("response", answered)]
        for (kind, block), this, other in zip(
            order if request_first else reversed(order), (first, second), (None, first), strict=True
        ):
            members.append(make_record(kind, this, other, uri, *block))
    return b"".join(members)


@pytest.mark.parametrize("request_first", [True, False])
def test_keys_and_fields_are_pywbs(judges: Path, tmp_path: Path, *, request_first: bool) -> None:
    path = tmp_path / "posts.warc.gz"
    path.write_bytes(make_archive(request_first=request_first))
    options = CaptureOptions(fields=PROFILES["pywb"], post_append=True)
    with path.open("rb") as file:
        items = list(index_file(file, filename=path.name, options=options))
    ours = [item for item in items if not isinstance(item, Damage)]
    assert len(ours) == len(items) == len(ASKED)
    judged = subprocess.run([judges / "cdx-indexer", "-p", "-j", path], check=True, capture_output=True).stdout
    for line, other in zip(sorted(ours), sorted(judged.splitlines(keepends=True)), strict=True):
        assert line == other


def test_a_request_for_something_else_is_not_joined() -> None:
    post = b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"
    page = b"HTTP/1.1 200 OK\r\n\r\n"
    data = make_record("request", 1, None, "http://other.example/", post) + make_record(
        "response", 2, 1, "http://site.example/", page
    )
    source = iter([data])

    class Source:
        def read(self, size: int, /) -> bytes:
            return next(source, b"")

    (line,) = index_file(Source(), filename="a", options=CaptureOptions(post_append=True))
    assert isinstance(line, bytes)
    assert line.startswith(b"example,site)/ ")


def test_leaves_of_a_deep_body_come_in_their_order() -> None:
    body = b'{"a":' * 300 + b'[1, {"b": 2}, [3]]' + b"}" * 300
    assert body_to_query("POST", "application/json", body) == "a=1&b=2&a.2_=3"
