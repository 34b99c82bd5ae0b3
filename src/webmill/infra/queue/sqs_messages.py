"""What the SQS queue writes on a message and reads from it.

The body is the message's own when it is text that SQS takes, so that people can read it in Amazon's console, else
base64. All else is in message attributes, which count as part of the message.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import msgspec

from webmill.errors import BadInput
from webmill.infra.queue.base import MAX_ID, MAX_REASON, DeadLetter, clip_reason, lease_expired

ID, ATTEMPTS, FIRST, LAST = "webmill-id", "webmill-attempts", "webmill-first-error", "webmill-last-error"
CODING, DELAY, BURIED = "webmill-coding", "webmill-delay", "webmill-buried"
ATTRIBUTES = ["webmill-.*"]
SYSTEM_ATTRIBUTES = [
    "ApproximateReceiveCount",
    "ApproximateFirstReceiveTimestamp",
    "MessageGroupId",
    "SentTimestamp",
    "SequenceNumber",
]
RESERVE = 2 * 4 * MAX_REASON + MAX_ID + 1024  # bytes that the attributes may come to take: two errors in any script
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LONGEST_DELAY = 11 * 3600.0  # a message can be invisible for twelve hours


class SqsOutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message on its way to one of our queues, with what has happened to it."""

    id: str
    body: bytes
    dedup: str
    group: str
    attempts: int = 0  # made before this publication
    first_error: str = ""
    last_error: str = ""
    delay: float = 0.0
    buried: bool = False

    def entry(self) -> dict[str, Any]:
        body, coding = encode_body(self.body)
        strings = {
            ID: self.id,
            FIRST: replace_forbidden(self.first_error),
            LAST: replace_forbidden(self.last_error),
            CODING: coding,
            BURIED: "by a worker" * self.buried,
        }
        numbers = {ATTEMPTS: f"{self.attempts}" * bool(self.attempts), DELAY: f"{self.delay:g}" * bool(self.delay)}
        kinds = [("String", strings), ("Number", numbers)]
        return {
            "MessageBody": body,
            "MessageAttributes": {
                name: {"DataType": kind, "StringValue": value}
                for kind, fields in kinds
                for name, value in fields.items()
                if value
            },
            "MessageGroupId": self.group,
            "MessageDeduplicationId": self.dedup,
        }


class MessageCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A message as SQS handed it to us. One message may have been several copies, one after the other."""

    receipt: str
    id: str
    body: bytes
    group: str
    carried: int  # attempts that earlier copies had
    first_error: str
    last_error: str
    sequence: str  # tells copies of one queue apart
    receives: int
    sent: float
    early: float  # seconds by which its first receipt was too early; 0: it was not
    buried: bool  # by one of us; what is among the buried and is not was moved there by SQS

    @property
    def lost(self) -> int:
        """Return how many deliveries of this copy, but for the last, ended without an answer."""
        return self.receives - 1 - bool(self.early)

    @property
    def is_early(self) -> bool:
        return self.early > 0 and self.receives == 1

    def next(self, verb: str, **changes: Any) -> SqsOutgoingMessage:
        """Return its successor. However often one step is tried for a copy, SQS keeps one (for five minutes)."""
        dedup = hash_of(self.id, self.sequence, verb)
        errors = {"first_error": self.first_error, "last_error": self.last_error}
        return SqsOutgoingMessage(id=self.id, body=self.body, dedup=dedup, group=self.group, **{**errors, **changes})


def decode_message(message: Mapping[str, Any]) -> MessageCopy:
    """Decode a message of ReceiveMessage. Other programs may have sent it: whatever is missing has a default."""
    attributes, system = message.get("MessageAttributes") or {}, message.get("Attributes") or {}
    ours = {name: str(value.get("StringValue", "")) for name, value in attributes.items()}
    sent, first = parse_count(system.get("SentTimestamp")), parse_count(system.get("ApproximateFirstReceiveTimestamp"))
    due = sent + 1000 * min(parse_seconds(ours.get(DELAY)), LONGEST_DELAY)
    return MessageCopy(
        receipt=message["ReceiptHandle"],
        id=ours.get(ID) or str(message.get("MessageId", "")),
        body=decode_body(str(message.get("Body", "")), ours.get(CODING)),
        group=str(system.get("MessageGroupId") or message.get("MessageId", "")),
        carried=parse_count(ours.get(ATTEMPTS)),
        first_error=ours.get(FIRST, ""),
        last_error=ours.get(LAST, ""),
        sequence=str(system.get("SequenceNumber") or message.get("MessageId", "")),
        receives=max(1, parse_count(system.get("ApproximateReceiveCount"))),
        sent=sent / 1000,
        early=max(0.0, due - first) / 1000 if ours.get(DELAY) and first else 0.0,
        buried=BURIED in ours,
    )


def decode_lambda_record(record: Mapping[str, Any]) -> MessageCopy:
    """Decode a record of the event that Lambda makes of a message: the same in another spelling."""
    attributes = record.get("messageAttributes") or {}
    return decode_message(
        {
            "ReceiptHandle": record["receiptHandle"],
            "MessageId": record.get("messageId", ""),
            "Body": record.get("body", ""),
            "Attributes": record.get("attributes"),
            "MessageAttributes": {
                name: {"StringValue": value.get("stringValue") or ""} for name, value in attributes.items()
            },
        }
    )


def dead_letter_of(copy: MessageCopy, *, max_attempts: int) -> DeadLetter:
    attempts, last = copy.carried, copy.last_error
    if not copy.buried:  # SQS did it: no worker lived to say why
        attempts, last = max(max_attempts, copy.carried), lease_expired(max(1, max_attempts - copy.carried))
    return DeadLetter(
        id=copy.id,
        body=copy.body,
        reason=clip_reason(last),
        attempts=attempts,
        first_error=clip_reason(copy.first_error or last),
        last_error=clip_reason(last),
        when=copy.sent,
    )


def check_outgoing(message: SqsOutgoingMessage, *, max_bytes: int) -> SqsOutgoingMessage:
    """Return the message. BadInput: SQS would not take it, now or after some failures."""
    if FORBIDDEN.search(message.id):
        raise BadInput(f"SQS cannot carry the id {message.id[:80]!r}: it has control characters", reason="bad_id")
    size = len(encode_body(message.body)[0].encode())
    if size > max_bytes - RESERVE:
        raise BadInput(
            f"message {message.id} takes {size:,} bytes in SQS, which has room for {max_bytes - RESERVE:,} beside the "
            "reasons of failures; store the content and pass its name",
            reason="too_large",
        )
    return message


def size_of(entry: Mapping[str, Any]) -> int:
    """Return the size as SQS counts it: the body, and names, types and values of the attributes."""
    attributes = entry["MessageAttributes"].items()
    parts = [entry["MessageBody"]]
    parts += [part for name, value in attributes for part in (name, value["DataType"], value["StringValue"])]
    return sum(len(part.encode()) for part in parts)


def hash_of(*parts: str) -> str:
    """Return an id for groups and deduplication, of at most 128 ASCII characters: ids are longer, in any script."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def encode_body(body: bytes) -> tuple[str, str]:
    try:
        text = body.decode()
        if text and not FORBIDDEN.search(text):
            return text, ""
    except UnicodeDecodeError:
        pass
    return b64encode(body).decode() or "=", "base64"  # SQS takes no empty body


def decode_body(text: str, coding: str | None) -> bytes:
    if coding != "base64":
        return text.encode(errors="surrogatepass")
    try:
        return b64decode(text.removeprefix("="), validate=True)
    except ValueError:
        return text.encode(errors="surrogatepass")  # of another program


def replace_forbidden(text: str) -> str:
    return FORBIDDEN.sub("\ufffd", text)


def parse_count(value: object) -> int:
    text = str(value or "")
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def parse_seconds(value: object) -> float:
    try:
        seconds = float(str(value or 0))
    except ValueError:
        return 0.0
    return seconds if 0 < seconds < float("inf") else 0.0
