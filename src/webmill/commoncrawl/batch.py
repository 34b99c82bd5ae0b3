"""Messages between the batcher and its workers: some captures of an index, as one JSON array.

    [{"surt_url": "com,example)/", "timestamp": "20240722120756", "metadata": {…all of the CDX line's JSON…}}, …]

This is the format of the batcher that webmill takes the place of, so that its workers understand ours and ours theirs.
The JSON of a line is copied as it stands once it is known to be JSON: nothing in it is lost or spelled anew.

A batch has an id made of the run (a fingerprint of what was asked for) and its number, counted from 1. The same
selection of the same index has the same batches under the same ids: whoever publishes one twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii as quoted

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import CdxjLine, as_text, capture_of, parse, parse_json_fields
from webmill.formats.timestamps import is_timestamp
from webmill.model import CaptureRef

QUEUE = "batches"  # what the queue is called at a broker, as in the reference

_ID = re.compile(r"([0-9a-f]{12})-([0-9]{8,18})")
ENTRY = b'{"surt_url": "%b", "timestamp": "%b", "metadata": %b}'
# What stands in JSON as it is; keys of Common Crawl are nothing else.
_PLAIN = bytes(byte for byte in range(0x21, 0x7F) if byte not in b'"\\')


class BatchItem(msgspec.Struct, frozen=True):
    """One capture to fetch. Values of `metadata` that are no strings are there as the JSON they were spelled in."""

    capture: CaptureRef
    metadata: dict[str, str]


class RejectedItem(msgspec.Struct, frozen=True):
    """An entry of a batch that cannot be fetched; `number` counts from 0, `raw` is its beginning."""

    number: int
    reason: str
    message: str
    raw: bytes


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
    """The run and the number; None: the message is not from our batcher."""
    match = _ID.fullmatch(id_)
    return (match[1], int(match[2])) if match else None


# --- writing ----------------------------------------------------------------------------------------------------------


def encode_batch(lines: Iterable[bytes]) -> bytes:
    """Lines of a CDX, each proven. BadInput as `encode_item`."""
    return join_items(map(encode_item, lines))


def encode_item(line: bytes) -> bytes:
    """Return one line as an entry. BadInput as `parse`."""
    parse(line)
    return format_item(*line.rstrip(b"\r\n").split(b" ", 2))


def format_item(surt: bytes, timestamp: bytes, data: bytes) -> bytes:
    """An entry of parts that are known to be right."""
    if not are_json_safe([surt]):
        surt = quoted(surt.decode("utf-8", "replace")).encode()[1:-1]
    return ENTRY % (surt, timestamp, data)


def are_json_safe(surts: Iterable[bytes]) -> bool:
    """Whether all of them stand in JSON as they are."""
    return not b"".join(surts).translate(None, _PLAIN)


def join_items(items: Iterable[bytes]) -> bytes:
    return b"[" + b", ".join(items) + b"]"


# --- reading ----------------------------------------------------------------------------------------------------------


def decode_batch(body: bytes) -> list[BatchItem | RejectedItem]:
    """All entries, in order; one that cannot be fetched spoils no other. BadInput (bad_batch): this is no batch at all.

    Keys that we do not know are left alone; offset and length may be numbers or strings of digits.
    """
    try:
        entries = _entries.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"not a JSON array: {error} in {body[:80]!r}", reason="bad_batch") from error
    return [_decode_item(bytes(raw), number) for number, raw in enumerate(entries)]


def _decode_item(raw: bytes, number: int) -> BatchItem | RejectedItem:
    try:
        entry = _entry.decode(raw)
        fields = parse_json_fields(bytes(entry.metadata))
        capture = capture_of(CdxjLine(entry.surt_url, entry.timestamp, fields), shortest=1)
        if entry.timestamp and not is_timestamp(entry.timestamp.encode()):
            raise BadInput(f"not 14 digits: {entry.timestamp[:40]!r}", reason="bad_timestamp")
        return BatchItem(capture, {name: as_text(value) for name, value in fields.items()})
    except BadInput as error:
        return RejectedItem(number, error.reason, error.message, raw[:1024])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return RejectedItem(number, "bad_item", str(error), raw[:1024])
