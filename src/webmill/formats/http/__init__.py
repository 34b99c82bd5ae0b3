"""HTTP messages as bytes (RFC 9110, RFC 9112, RFC 9113): heads, archived messages, live responses."""

from webmill.formats.http.chunked import ChunkedReader
from webmill.formats.http.framing import ResponseFramer
from webmill.formats.http.head import (
    MAX_HEAD_BYTES,
    MAX_HEAD_LINES,
    RequestHead,
    ResponseHead,
    encode_request_head,
    encode_response_head,
    end_of_head,
    parse_request_head,
    parse_response_head,
)
from webmill.formats.http.http2 import Http2Client, request_fields, without_connection_fields
from webmill.formats.http.message import ArchivedMessage, split_request, split_response

__all__ = [
    "MAX_HEAD_BYTES",
    "MAX_HEAD_LINES",
    "ArchivedMessage",
    "ChunkedReader",
    "Http2Client",
    "RequestHead",
    "ResponseFramer",
    "ResponseHead",
    "encode_request_head",
    "encode_response_head",
    "end_of_head",
    "parse_request_head",
    "parse_response_head",
    "request_fields",
    "split_request",
    "split_response",
    "without_connection_fields",
]
