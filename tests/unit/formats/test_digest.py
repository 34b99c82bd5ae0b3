"""Digests of WARC records."""

from __future__ import annotations

import base64
import hashlib
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed
from warcio.utils import Digester as WarcioDigester

from webmill.formats.warc.digest import DigestCheck, Digester, DigestVerdict, check, compute, same, verify
from webmill.model import Headers

OK, MISMATCH, UNKNOWN, ABSENT = DigestVerdict.OK, DigestVerdict.MISMATCH, DigestVerdict.UNKNOWN, DigestVerdict.ABSENT
ALGORITHMS = ["md5", "sha1", "sha256", "sha512"]


def spellings(algorithm: str, data: bytes) -> list[str]:
    raw = hashlib.new(algorithm, data).digest()
    values = [raw.hex(), raw.hex().upper(), base64.b32encode(raw).decode(), base64.b32encode(raw).decode().lower()]
    values += [base64.b32encode(raw).decode().rstrip("="), base64.b64encode(raw).decode()]
    values += [base64.urlsafe_b64encode(raw).decode()]
    return [f"{name}:{value}" for value in values for name in (algorithm, algorithm.upper())]


@settings(deadline=None)
@given(st.sampled_from(ALGORITHMS), st.binary(max_size=50), st.binary(min_size=1, max_size=5))
def test_every_spelling_of_a_digest_is_understood(algorithm: str, data: bytes, more: bytes) -> None:
    for digest in spellings(algorithm, data):
        assert verify(digest, data) is OK
        assert verify(digest, data + more) is MISMATCH
        assert same(digest, compute(data, algorithm))
        assert not same(digest, compute(data + more, algorithm))


def test_the_name_of_an_algorithm_may_have_a_hyphen() -> None:
    assert verify("SHA-1:" + hashlib.sha1(b"a").hexdigest(), b"a") is OK


def test_a_digest_is_written_as_common_crawl_writes_it() -> None:
    assert compute(b"") == "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"


def test_an_unknown_algorithm_is_no_mismatch() -> None:
    assert verify("blake9:abc", b"a") is UNKNOWN
    assert verify("3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", b"") is UNKNOWN
    assert same("blake9:abc", "blake9:abc")
    assert not same("blake9:abc", "blake9:abd")


@pytest.mark.parametrize("value", ["", "x", "é" * 32, "1" * 32, "z" * 40, "=" * 27])
def test_a_value_that_is_no_digest_is_a_mismatch(value: str) -> None:
    assert verify("sha1:" + value, b"") is MISMATCH


def test_a_digest_over_pieces_is_that_of_the_whole() -> None:
    digester = Digester("sha256")
    digester.update(b"ab")
    digester.update(b"c")
    assert digester.text() == compute(b"abc", "sha256")


def headers(kind: str, uri: str = "http://a/", **digests: str) -> Headers:
    pairs = [("WARC-Type", kind), ("WARC-Target-URI", uri)]
    return Headers([*pairs, *((f"WARC-{name.title()}-Digest", value) for name, value in digests.items())])


def test_the_payload_of_an_http_record_follows_its_head() -> None:
    content = b"HTTP/1.1 200 OK\r\n\r\nbody"
    right = headers("response", block=compute(content), payload=compute(b"body"))
    assert check(right, content) == DigestCheck(OK, OK)
    assert check(right, content + b"!") == DigestCheck(MISMATCH, MISMATCH)
    assert check(headers("response", "dns:a", payload=compute(content)), content).payload is OK
    assert check(headers("resource", payload=compute(content)), content) == DigestCheck(ABSENT, OK)


def test_a_digest_that_speaks_of_other_bytes_is_unknown() -> None:
    revisit = headers("revisit", payload=compute(b"the original"))
    assert check(revisit, b"HTTP/1.1 304 X\r\n\r\n") == DigestCheck(ABSENT, UNKNOWN)
    segment = headers("response", payload=compute(b"x")).with_added(("WARC-Segment-Number", "1"))
    assert check(segment, b"HTTP/1.1 200 OK\r\n\r\n").payload is UNKNOWN


def _records(path: Path) -> list[tuple[Headers, bytes, bytes]]:
    """Headers, block and payload of each record as warcio sees them, up to the first damage."""
    data, found = path.read_bytes(), []
    blocks = ArchiveIterator(io.BytesIO(data), no_record_parse=True)
    payloads = ArchiveIterator(io.BytesIO(data))
    while True:
        try:
            block, payload = next(blocks), next(payloads)
            pairs = [(name, value) for name, value in block.rec_headers.headers if value is not None]
            found.append((Headers(pairs), block.raw_stream.read(), payload.raw_stream.read()))
        except (StopIteration, ArchiveLoadFailed):
            return found


def _warcio(data: bytes) -> str:
    digester = WarcioDigester("sha1")
    digester.update(data)
    return str(digester)


def test_both_digests_are_warcios_on_every_sample(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [path for path in sorted((shared_data / "warc").rglob("*")) if ".warc" in path.name or ".wet" in path.name]
    seen = 0
    for path in paths:
        if "paths" in path.name:
            continue
        for fields, block, payload in _records(path):
            expected = fields.without("WARC-Block-Digest").without("WARC-Payload-Digest").without("WARC-Segment-Number")
            expected = expected.with_added(
                ("WARC-Block-Digest", _warcio(block)), ("WARC-Payload-Digest", _warcio(payload))
            )
            verdict = UNKNOWN if fields.get("WARC-Type") == "revisit" else OK
            assert check(expected, block) == DigestCheck(OK, verdict), (path, fields)
            seen += 1
    assert seen > 100


def test_the_stated_digests_of_the_triple_hold(shared_data: Path) -> None:
    [path] = (shared_data / "triple").glob("*.warc.gz")
    with path.open("rb") as stream:
        checked = [
            check(Headers(record.rec_headers.headers), record.raw_stream.read())
            for record, _ in zip(ArchiveIterator(stream, no_record_parse=True), range(400), strict=False)
            if record.rec_type == "response"
        ]
    assert len(checked) > 100
    assert set(checked) == {DigestCheck(OK, OK)}
