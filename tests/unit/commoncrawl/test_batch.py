"""The message between batcher and workers: exactly the reference's shape, and nothing lost on the way."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.commoncrawl.batch import (
    BatchItem,
    RejectedItem,
    batch_id,
    decode_batch,
    encode_batch,
    parse_batch_id,
)
from webmill.errors import BadInput
from webmill.model import CaptureRef

LINE = (
    b'com,example)/ 20240722120756 {"url": "https://example.com/", "mime": "text/html; charset=utf-8", '
    b'"status": "200", "length": "689", "offset": "3499", "filename": "crawl-data/a.warc.gz", "languages": "eng,fra"}'
)


def test_a_message_has_the_shape_of_the_reference() -> None:
    assert json.loads(encode_batch([LINE, LINE])) == 2 * [
        {
            "surt_url": "com,example)/",
            "timestamp": "20240722120756",
            "metadata": json.loads(LINE.split(b" ", 2)[2]),
        }
    ]


def test_spaces_inside_values_are_kept() -> None:
    assert json.loads(encode_batch([LINE]))[0]["metadata"]["mime"] == "text/html; charset=utf-8"


def test_no_lines_are_an_empty_array() -> None:
    assert json.loads(encode_batch([])) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "no_json"),
        (b"com,example)/ 20240722120756", "no_json"),
        (b" 20240722120756 {}", "no_key"),
        (b"com,example)/ 2024072212075 {}", "bad_timestamp"),
        (b'com,example)/ 20240722120756 {"url": "a"', "bad_json"),
        (b'com,example)/ 20240722120756 {"url": "a"} extra', "bad_json"),
        (b"com,example)/ 20240722120756 []", "no_json"),
        (b'com,example)/ 20240722120756 {"a": ' + b"[" * 100 + b"]" * 100 + b"}", "too_deep"),
        (b'com,example)/ 20240722120756 {"a": "\xff"}', "bad_json"),
        (b"a" * (2 << 20), "line_too_long"),
    ],
    ids=str,
)
def test_a_line_that_is_no_capture_is_refused_with_its_reason(line: bytes, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        encode_batch([line])
    assert refused.value.reason == reason


@pytest.mark.parametrize("surt", ['com,example)/"quoted"', "com,example)/\\", "com,example)/\x01", "com,example)/ü"])
def test_a_key_of_any_bytes_makes_valid_json(surt: str) -> None:
    line = surt.encode() + LINE.removeprefix(b"com,example)/")
    assert json.loads(encode_batch([line]))[0]["surt_url"] == surt


def test_a_key_that_is_not_utf8_makes_valid_json() -> None:
    line = b"com,example)/\xff" + LINE.removeprefix(b"com,example)/")
    assert json.loads(encode_batch([line]))[0]["surt_url"] == "com,example)/\ufffd"


def test_a_batch_is_read_back() -> None:
    (item,) = decode_batch(encode_batch([LINE]))
    assert isinstance(item, BatchItem)
    assert item.capture == CaptureRef(
        url="https://example.com/",
        urlkey="com,example)/",
        timestamp="20240722120756",
        filename="crawl-data/a.warc.gz",
        offset=3499,
        length=689,
    )
    assert item.metadata == json.loads(LINE.split(b" ", 2)[2])


def test_numbers_and_unknown_keys_are_understood() -> None:
    body = json.dumps(
        [
            {
                "surt_url": "a)/",
                "timestamp": "20240722120756",
                "more": [1],
                "metadata": {"filename": "f", "offset": 7, "length": 1, "rank": 0.5},
            }
        ]
    ).encode()
    (item,) = decode_batch(body)
    assert isinstance(item, BatchItem)
    assert (item.capture.offset, item.capture.length, item.metadata["rank"]) == (7, 1, "0.5")


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"{}", b'"text"', b"[1", b"[1] 2", b"\xff", b"[" * 100_000],
    ids=["empty", "null", "object", "text", "cut", "trailing", "not_utf8", "deep"],
)
def test_what_is_no_batch_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput) as refused:
        decode_batch(body)
    assert refused.value.reason == "bad_batch"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (b"7", "bad_item"),
        (b"{}", "bad_item"),
        (b'{"surt_url": 1, "timestamp": "", "metadata": {}}', "bad_item"),
        (b'{"surt_url": "a", "timestamp": "", "metadata": []}', "bad_json"),
        (b'{"surt_url": "a", "timestamp": "", "metadata": {}}', "no_filename"),
        (b'{"surt_url": "a", "timestamp": "", "metadata": {"filename": "f"}}', "no_offset"),
        (b'{"surt_url": "a", "timestamp": "", "metadata": {"filename": "f", "offset": "1"}}', "no_length"),
        (
            b'{"surt_url": "a", "timestamp": "", "metadata": {"filename": "f", "offset": "-1", "length": "1"}}',
            "bad_offset",
        ),
        (
            b'{"surt_url": "a", "timestamp": "", "metadata": {"filename": "f", "offset": "1", "length": 0}}',
            "bad_length",
        ),
        (
            b'{"surt_url": "a", "timestamp": "2024", "metadata": {"filename": "f", "offset": "1", "length": 1}}',
            "bad_timestamp",
        ),
        (
            b'{"surt_url": "a", "timestamp": "", "metadata": {"filename": "f", "offset": 1e3, "length": 1}}',
            "bad_offset",
        ),
    ],
    ids=str,
)
def test_a_bad_item_spoils_no_other(entry: bytes, reason: str) -> None:
    good = encode_batch([LINE])[1:-1]
    first, bad, last = decode_batch(b"[%b,%b,%b]" % (good, entry, good))
    assert isinstance(first, BatchItem)
    assert isinstance(last, BatchItem)
    assert isinstance(bad, RejectedItem)
    assert (bad.number, bad.reason) == (1, reason)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_batch_or_refused(body: bytes) -> None:
    with suppress(BadInput):
        assert isinstance(decode_batch(body), list)


@settings(deadline=None)
@given(st.integers(0, len(encode_batch([LINE]))))
def test_a_batch_cut_anywhere_is_refused(cut: int) -> None:
    body = encode_batch([LINE])
    if cut < len(body):
        with pytest.raises(BadInput):
            decode_batch(body[:cut])


def test_ids_tell_run_and_number() -> None:
    assert batch_id("0123456789ab", 7) == "0123456789ab-00000007"
    assert parse_batch_id("0123456789ab-00000007") == ("0123456789ab", 7)
    assert parse_batch_id(batch_id("0123456789ab", 123_456_789)) == ("0123456789ab", 123_456_789)


@pytest.mark.parametrize("foreign", ["", "7", "0123456789ab-7", "0123456789AB-00000007", "x-00000007", "a\n"])
def test_foreign_ids_are_not_ours(foreign: str) -> None:
    assert parse_batch_id(foreign) is None
