"""Batches, the messages between the batcher and its workers: captures of an index as one JSON array.

    [{"surt_url": "com,example)/", "timestamp": "20240722120756", "metadata": {…all of the CDX line's JSON…}}, …]

This is the format of the batcher that webmill replaces, so that the workers of both understand each other. The JSON of
a line is copied unchanged once it is known to be JSON.

The id of a batch is made of the run (a fingerprint of the query) and its number, from 1. The same selection of the
same index gives the same batches with the same ids: publishing one twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring_ascii as quoted

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import (
    CdxjLine,
    Value,
    as_text,
    capture_of,
    from_columns,
    parse,
    parse_json_fields,
    parts_of,
)
from webmill.formats.timestamps import is_timestamp
from webmill.model import CaptureRef, check_position, normalise_digest

QUEUE = "batches"  # the name of the queue at a broker, as in the reference

_ID = re.compile(r"([0-9a-f]{12})-([0-9]{8,18})")
ENTRY = b'{"surt_url": "%b", "timestamp": "%b", "metadata": %b}'
# Bytes that need no escape in JSON; keys of Common Crawl have no others.
_PLAIN = bytes(byte for byte in range(0x21, 0x7F) if byte not in b'"\\')


class BatchItem(msgspec.Struct, frozen=True):
    """One capture to fetch. Values of `metadata` that are not strings are kept as their JSON text."""

    capture: CaptureRef
    metadata: dict[str, str]


NOTHING_KNOWN = CaptureRef(url="", filename="", offset=0, length=0)


class RejectedItem(msgspec.Struct, frozen=True):
    """An item of a batch that cannot be fetched; `number` counts from 0, `raw` is the start of the item, `known` what
    it says about the capture, as far as that can be read."""

    number: int
    reason: str
    message: str
    raw: bytes
    known: CaptureRef = NOTHING_KNOWN


class _Entry(msgspec.Struct):
    surt_url: str
    timestamp: str
    metadata: msgspec.Raw


_entries = msgspec.json.Decoder(list[msgspec.Raw])
_entry = msgspec.json.Decoder(_Entry)


# --- ids --------------------------------------------------------------------------------------------------------------


def batch_id(run: str, number: int) -> str:
    return f"{run}-{number:08d}"


def parse_batch_id(id_: str) -> tuple[str, int] | None:
    """Return the run and the number of a batch id; None if the message is not from our batcher."""
    match = _ID.fullmatch(id_)
    return (match[1], int(match[2])) if match else None


# --- writing ----------------------------------------------------------------------------------------------------------


def encode_batch(lines: Iterable[bytes]) -> bytes:
    """Return the batch of these CDX lines, each validated. Raise BadInput as `encode_item` does."""
    return join_items(map(encode_item, lines))


def encode_item(line: bytes) -> bytes:
    """Return one CDX line as an item of a batch. Raise BadInput as `parse` does."""
    parse(line)
    line = line if b" {" in line else from_columns(line)
    return format_item(*parts_of(line.rstrip(b"\r\n")))


def format_item(surt: bytes, timestamp: bytes, data: bytes) -> bytes:
    """Return an item of a batch from parts that are known to be valid."""
    if not are_json_safe([surt]):
        surt = quoted(surt.decode("utf-8", "replace")).encode()[1:-1]
    return ENTRY % (surt, timestamp, data)


def are_json_safe(surts: Iterable[bytes]) -> bool:
    """Return whether none of them needs an escape in JSON."""
    return not b"".join(surts).translate(None, _PLAIN)


def join_items(items: Iterable[bytes]) -> bytes:
    return b"[" + b", ".join(items) + b"]"


# --- reading ----------------------------------------------------------------------------------------------------------


def decode_batch(body: bytes) -> list[BatchItem | RejectedItem]:
    """Return all items in order; an invalid one does not affect the others. Raise BadInput (bad_batch) if not a batch.

    Unknown keys are ignored; offset and length may be numbers or strings of digits.
    """
    try:
        entries = _entries.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"not a JSON array: {error} in {body[:80]!r}", reason="bad_batch") from error
    return [_decode_item(bytes(raw), number) for number, raw in enumerate(entries)]


def _decode_item(raw: bytes, number: int) -> BatchItem | RejectedItem:
    known = NOTHING_KNOWN
    try:
        entry = _entry.decode(raw)
        fields = parse_json_fields(bytes(entry.metadata))
        known = _read_known(entry, fields)
        capture = capture_of(CdxjLine(entry.surt_url, entry.timestamp, fields), shortest=1)
        if entry.timestamp and not is_timestamp(entry.timestamp.encode()):
            raise BadInput(f"not 14 digits: {entry.timestamp[:40]!r}", reason="bad_timestamp")
        return BatchItem(capture, {name: as_text(value) for name, value in fields.items()})
    except BadInput as error:
        return RejectedItem(number, error.reason, error.message, raw[:1024], known)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return RejectedItem(number, "bad_item", str(error), raw[:1024])


def _read_known(entry: _Entry, fields: Mapping[str, Value]) -> CaptureRef:
    """Return what an item says about its capture, right or wrong."""
    said = CdxjLine(entry.surt_url, entry.timestamp, dict(fields))
    return CaptureRef(
        url=said.text("url"),
        urlkey=entry.surt_url,
        timestamp=entry.timestamp if is_timestamp(entry.timestamp.encode("utf-8", "replace")) else "",
        filename=said.text("filename"),
        offset=_read_number(said.text("offset")),
        length=_read_number(said.text("length")),
        digest=normalise_digest(said.text("digest")),
    )


def _read_number(text: str) -> int:
    try:
        return check_position(text, name="position")
    except BadInput:
        return 0
