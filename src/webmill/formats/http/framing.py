"""Find where a live response begins and ends, without I/O: feed received bytes, get body bytes.

The end of a body is never guessed (RFC 9112, 6.3). The policy for Content-Length and Transfer-Encoding:

| oddity | answer |
|---|---|
| Content-Length that is not a plain number (`-1`, `+5`, `1e3`, 2^64) | BadInput `bad_length` |
| two Content-Lengths that differ | BadInput `conflicting_length` |
| two that agree | used, flaw `repeated_length` |
| either of these where no length counts: with Transfer-Encoding, 204, 304, HEAD | a flaw of that name |
| Content-Length with Transfer-Encoding: chunked | chunked, flaw `length_and_chunked` |
| `chunked` more than once, and at the end | chunked once, flaw `odd_transfer_encoding` |
| Transfer-Encoding in HTTP/1.0 | used, flaw `chunked_in_1_0` |
| Transfer-Encoding that does not end in `chunked` | until the connection closes, flaw `odd_transfer_encoding` |
| a body announced for 204 | none read, flaw `body_not_allowed` |
| bad chunk | flaw `bad_chunk` and `broken`; the body before it was returned |
| more than 65,536 chunks and one for each KiB of the body | flaw `too_many_chunks` and `broken`, likewise |
| bytes after the end | counted in `excess`, flaw `excess_bytes` |
| `HTTP 200 OK` without a version, which archives may have | BadInput `no_start_line` |
| more than 8 interim (1xx) responses | BadInput `header_limit` |
| 101 (never requested) | BadInput `unexpected_upgrade` |
| closed inside a body | flaw `truncated` and `broken` |

So BadInput means that there is no usable response; a `broken` one has a head and part of a body, worth archiving.

A connection with any flaw is not reused, so that no response can be taken for that of another request (desync).
"""

from __future__ import annotations

from webmill.errors import BadInput
from webmill.formats.http.chunked import ChunkedReader
from webmill.formats.http.head import MAX_HEAD_BYTES, OWS, ResponseHead, end_of_head, parse_response_head

MAX_INTERIM = 8
_MAX_LENGTH_DIGITS = 18
_MAX_BLANK = 64  # bytes of empty lines before a status line


class ResponseFramer:
    """The framing of one response on one connection.

    The caller keeps the raw bytes for the WARC: of all bytes fed, `[start:taken]` is the final response, head and body
    as sent, without interim responses before it and excess bytes after it.
    """

    def __init__(self, *, method: str) -> None:
        self.head: ResponseHead | None = None
        self.interim: list[ResponseHead] = []
        self.ended = False
        self.broken = False
        self.start = 0
        self.taken = 0
        self.excess = 0
        self._method = method.upper()
        self._flaws: list[str] = []
        self._buffer = bytearray()  # head bytes only
        self._chunks: ChunkedReader | None = None
        self._left: int | None = None  # of a body with a length; None: until close

    @property
    def flaws(self) -> tuple[str, ...]:
        found = [*self._flaws, *(self._chunks.flaws if self._chunks else ())]
        return tuple(dict.fromkeys(found))

    @property
    def reusable(self) -> bool:
        """Whether the connection may be used for another request."""
        if self.head is None or not self.ended or self.flaws or (self._chunks is None and self._left is None):
            return False
        options = {
            word.strip().lower() for value in self.head.headers.get_all("connection") for word in value.split(",")
        }
        return "close" not in options and (self.head.version == "HTTP/1.1" or "keep-alive" in options)

    def feed(self, data: bytes) -> bytes:
        """Return body bytes, without chunk framing. The response is finished when it has `ended` or is `broken`."""
        if self.head is None:
            data = self._feed_head(data)
        if not data:
            return b""
        if self.ended:
            return self._refuse_excess(data)
        if self._chunks is not None:
            return self._feed_chunks(self._chunks, data)
        return self._feed_plain(data)

    def close(self) -> None:
        """Note that the server closed the connection."""
        if self.head is None:
            raise BadInput("the connection closed before a whole head", reason="truncated_head")
        if self.ended:
            return
        if self._chunks is None and self._left is None:
            self.ended = True
        elif not self.broken:
            self.broken = True
            self._flaws.append("truncated")

    def _feed_head(self, data: bytes) -> bytes:
        """Return the bytes after the head, once it is complete."""
        searched = max(0, len(self._buffer) - 3)  # the empty line may have begun
        self._buffer += data
        while (head := self._take_head(searched)) is not None:
            searched = 0
            if head.status >= 200:
                self.head = head
                self._flaws += head.flaws
                self._frame(head)
                rest = bytes(self._buffer)
                self._buffer.clear()
                return rest
            self._note_interim(head)
        return b""

    def _take_head(self, searched: int) -> ResponseHead | None:
        seen = bytes(self._buffer[: _MAX_BLANK + 1])
        begin = seen.lstrip(b"\r\n")[:5].upper()
        if begin != b"HTTP/"[: len(begin)] or (not begin and len(seen) > _MAX_BLANK):
            raise BadInput(f"no status line: {bytes(self._buffer[:40])!r}", reason="no_start_line")
        end = end_of_head(self._buffer, searched=searched)
        if (end or len(self._buffer)) > MAX_HEAD_BYTES:
            raise BadInput("the head does not end", reason="header_limit")
        if end is None:
            return None
        head = parse_response_head(bytes(self._buffer[:end]))
        del self._buffer[:end]
        self.start, self.taken = self.taken, self.taken + end
        return head

    def _note_interim(self, head: ResponseHead) -> None:
        if head.status == 101:
            raise BadInput("the server switched protocols without a request", reason="unexpected_upgrade")
        self.interim.append(head)
        self._flaws += head.flaws
        if len(self.interim) > MAX_INTERIM:
            raise BadInput(f"more than {MAX_INTERIM} interim responses", reason="header_limit")

    def _frame(self, head: ResponseHead) -> None:
        """Find out where the body ends, in the order of RFC 9112, 6.3: a length counts last."""
        codings = _words(head, "transfer-encoding")
        is_bodiless = self._method == "HEAD" or head.status in (204, 304)
        length = self._uncounted_length(head) if codings or is_bodiless else self._content_length(head)
        if is_bodiless:
            if head.status == 204 and (length or codings):
                self._flaws.append("body_not_allowed")
            self._left, self.ended = 0, True
        elif codings:
            self._frame_by_coding(head, codings, length)
        else:
            self._left, self.ended = length, length == 0

    def _frame_by_coding(self, head: ResponseHead, codings: list[str], length: int | None) -> None:
        if codings != ["chunked"]:
            self._flaws.append("odd_transfer_encoding")
        if length is not None:
            self._flaws.append("length_and_chunked")
        if head.version != "HTTP/1.1":
            self._flaws.append("chunked_in_1_0")
        if codings[-1] == "chunked":
            self._chunks = ChunkedReader(limit_chunks=True)

    def _uncounted_length(self, head: ResponseHead) -> int | None:
        try:
            return self._content_length(head)
        except BadInput as error:
            self._flaws.append(error.reason)
            return None

    def _content_length(self, head: ResponseHead) -> int | None:
        values = [part.strip(OWS) for value in head.headers.get_all("content-length") for part in value.split(",")]
        for value in values:
            if not (value.isascii() and value.isdigit() and len(value) <= _MAX_LENGTH_DIGITS):
                raise BadInput(f"Content-Length: {value[:40]!r}", reason="bad_length")
        if len({int(value) for value in values}) > 1:
            raise BadInput(f"Content-Length: {values[0]} and others", reason="conflicting_length")
        if len(values) > 1:
            self._flaws.append("repeated_length")
        return int(values[0]) if values else None

    def _feed_chunks(self, chunks: ChunkedReader, data: bytes) -> bytes:
        body = chunks.feed(data)
        self.taken += len(data) - len(chunks.unused)
        self.broken = chunks.broken
        if chunks.ended:
            self.ended = True
            self._refuse_excess(chunks.unused)
        return body

    def _feed_plain(self, data: bytes) -> bytes:
        if self._left is None:
            self.taken += len(data)
            return data
        body, rest = data[: self._left], data[self._left :]
        self._left -= len(body)
        self.taken += len(body)
        self.ended = self._left == 0
        self._refuse_excess(rest)
        return body

    def _refuse_excess(self, data: bytes) -> bytes:
        if data:
            self.excess += len(data)
            if "excess_bytes" not in self._flaws:
                self._flaws.append("excess_bytes")
        return b""


def _words(head: ResponseHead, name: str) -> list[str]:
    """Return the comma-separated values of a field in lower case."""
    values = head.headers.get_all(name)
    return [word for value in values for part in value.split(",") if (word := part.strip(OWS).lower())]
