"""Split an archived HTTP message, as stored in a WARC record, into head and body.

Archives keep what servers sent and what crawlers rewrote, so nothing is refused: a block with an unreadable head is all
body, and `flaws` says why. Where the body begins does not depend on whether the head is valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from webmill.errors import BadInput
from webmill.formats.http.head import (
    MAX_HEAD_BYTES,
    RequestHead,
    ResponseHead,
    end_of_head,
    parse_request_head,
    parse_response_head,
)

Head = TypeVar("Head", ResponseHead, RequestHead)


class ArchivedMessage(msgspec.Struct, Generic[Head], frozen=True):
    """An archived message. `head` is None if it is unreadable. The body is as stored: still chunked and compressed."""

    head: Head | None
    body: bytes
    flaws: tuple[str, ...] = ()


def split_response(block: bytes) -> ArchivedMessage[ResponseHead]:
    """Split an archived response."""
    message = _split(block, parse_response_head)
    if message.head is not None and _has_double_empty_line(message.head, message.body):
        return ArchivedMessage(message.head, message.body, (*message.flaws, "double_empty_line"))
    return message


def split_request(block: bytes) -> ArchivedMessage[RequestHead]:
    """Split an archived request."""
    return _split(block, parse_request_head)


def _split(block: bytes, parse: Callable[[bytes], Head]) -> ArchivedMessage[Head]:
    end = end_of_head(block)
    flaws: tuple[str, ...] = ()
    head = block if end is None else block[:end]
    if end is None and len(block) <= MAX_HEAD_BYTES and block:
        # A capture truncated inside its head, or a head stored without its empty line: parse what is there.
        head, flaws = block.rstrip(b"\r\n") + b"\r\n\r\n", ("truncated_head",)
    try:
        parsed: Head = parse(head)
    except BadInput as error:
        body = block[end:] if end is not None and _has_start_line(head, parse) else block
        return ArchivedMessage(None, body, (error.reason,))
    if end is None:
        parsed = msgspec.structs.replace(parsed, raw=block)
    return ArchivedMessage(parsed, b"" if end is None else block[end:], (*flaws, *parsed.flaws))


def _has_start_line(head: bytes, parse: Callable[[bytes], Head]) -> bool:
    """Return whether this is a head at all, however broken: if not, its bytes belong to the body."""
    try:
        parse(head.lstrip(b"\r\n").partition(b"\n")[0] + b"\n\n")
    except BadInput as error:
        return error.reason == "bad_status"
    return True


def _has_double_empty_line(head: ResponseHead, body: bytes) -> bool:
    """Return whether a second empty line follows the head, as in some crawls of 2018, by the Content-Length."""
    return body.startswith(b"\r\n") and head.headers.get("content-length") == str(len(body) - 2)
