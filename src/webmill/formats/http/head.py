"""Parse and encode the head of an HTTP/1.x message: start line, fields, empty line.

Real servers and archives are odd. What is odd but unambiguous is parsed and named in `flaws`; what is meaningless is
`BadInput`. `raw` always keeps the exact bytes. The policy, case by case:

| oddity | answer |
|---|---|
| more than 64 KiB or 256 lines | BadInput `header_limit` |
| no status or request line (HTTP/0.9, `ICY 200`) | BadInput `no_start_line` |
| status that is not three digits from 100 on (`99999`, `abc`) | BadInput `bad_status` |
| cut before the empty line | BadInput `truncated_head` |
| empty lines before the start line | skipped, flaw `leading_blank` |
| lines ended by LF alone | read as CRLF, flaw `lf_only` |
| lines ended by CR CR LF, as a copy in text mode leaves them | read as CRLF, flaw `double_cr` |
| CR inside a line | kept in the value, flaw `bare_cr` |
| NUL in a line | kept in the value, flaw `nul` |
| folded field (obs-fold) | joined by one space, flaw `obs_fold` |
| line without a colon or a name | left to `raw`, flaw `bad_line` |
| name that is no token | kept without white space around it, flaw `odd_name` |
| no reason phrase and no space for one | reason is empty, flaw `no_reason` |
| version that is not `HTTP/1.0` or `HTTP/1.1` (`HTTP/2`, `http/1.1`, `HTTP 200`) | kept, flaw `odd_version` |

Content-Length and Transfer-Encoding are only fields here; `framing` interprets them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from webmill.errors import BadInput
from webmill.model import Headers

MAX_HEAD_BYTES = 64 * 1024
MAX_HEAD_LINES = 256

OWS = " \t"  # optional white space (RFC 9110, 5.6.3)

_EMPTY_LINE = re.compile(rb"\n\r{0,2}\n")
_LEADING_BLANK = re.compile(rb"[\r\n]{0,64}")
_STATUS_LINE = re.compile(
    r"(HTTP(?:/[0-9](?:\.[0-9])?)?)[ \t]+([^ \t]+)(?:([ \t])[ \t]*(.*))?", re.IGNORECASE | re.DOTALL
)
_VERSION = re.compile(r"HTTP/[0-9](?:\.[0-9])?", re.IGNORECASE)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MOST_KEPT = 64  # characters of a name that is remembered to be a token


class ResponseHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a response."""

    version: str
    status: int
    reason: str
    headers: Headers
    raw: bytes
    flaws: tuple[str, ...] = ()


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a request."""

    method: str
    target: str
    version: str
    headers: Headers
    raw: bytes
    flaws: tuple[str, ...] = ()


def end_of_head(data: bytes | bytearray, *, searched: int = 0) -> int | None:
    """Return where the body begins, or None before the empty line was received. Leading empty lines do not end a head.

    The first `searched` bytes do not contain the empty line: a slowly received head is not searched again and again.
    """
    blank = _LEADING_BLANK.match(data)
    found = _EMPTY_LINE.search(data, max(searched, blank.end() if blank else 0))
    return found.end() if found else None


def parse_response_head(raw: bytes) -> ResponseHead:
    """Parse a head, up to and including the empty line."""
    line, headers, flaws = _parse(raw)
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise BadInput(f"not a status line: {line[:60]!r}", reason="no_start_line")
    version, status, space, reason = match.groups()
    if not (len(status) == 3 and status.isascii() and status.isdigit() and status >= "100"):
        raise BadInput(f"not a status of three digits: {status[:20]!r}", reason="bad_status")
    if space is None:
        flaws.append("no_reason")
    _note_version(version, flaws)
    return ResponseHead(
        version=version, status=int(status), reason=reason or "", headers=headers, raw=raw, flaws=_once(flaws)
    )


def parse_request_head(raw: bytes) -> RequestHead:
    """Parse a head, up to and including the empty line. A target with spaces is kept as sent."""
    line, headers, flaws = _parse(raw)
    method, _, rest = line.strip(OWS).partition(" ")
    target, _, version = rest.rpartition(" ")
    target = target.strip(OWS)
    if not (method and target and _VERSION.fullmatch(version)):
        raise BadInput(f"not a request line: {line[:60]!r}", reason="no_start_line")
    _note_version(version, flaws)
    return RequestHead(method=method, target=target, version=version, headers=headers, raw=raw, flaws=_once(flaws))


def encode_response_head(headers: Headers, *, status: int, reason: str = "", version: str = "HTTP/1.1") -> bytes:
    if not 100 <= status <= 999:
        raise BadInput(f"not a status of three digits: {status}", reason="bad_status")
    return _encode(f"{_checked(version)} {status} {_checked(reason)}", headers)


def encode_request_head(headers: Headers, *, method: str, target: str, version: str = "HTTP/1.1") -> bytes:
    if re.search(r"[\x00-\x20\x7f]", method + target + version) or not (method and target):
        raise BadInput(
            "a part of the request line is empty, or has white space or control characters", reason="header_injection"
        )
    return _encode(f"{method} {target} {version}", headers)


def _parse(raw: bytes) -> tuple[str, Headers, list[str]]:
    """Return start line, fields and flaws. Latin-1 maps every byte to one character, so nothing is lost."""
    flaws: list[str] = []
    if len(raw) > MAX_HEAD_BYTES:
        raise BadInput(f"the head has {len(raw)} bytes; the limit is {MAX_HEAD_BYTES}", reason="header_limit")
    text = raw.decode("latin-1")
    if text.startswith(("\r", "\n")):
        text = text.lstrip("\r\n")
        flaws.append("leading_blank")
    lines = text.split("\n")
    if len(lines) < 3 or lines[-1] or lines[-2] not in ("", "\r", "\r\r"):
        raise BadInput("the head ends before its empty line", reason="truncated_head")
    if len(lines) > MAX_HEAD_LINES + 2:
        raise BadInput(f"the head has {len(lines) - 2} lines; the limit is {MAX_HEAD_LINES}", reason="header_limit")
    cleaned = [line.removesuffix("\r") for line in lines[:-2]]
    ends = text.count("\r\n")
    has_odd_cr = text.count("\r") != ends  # in hardly any head
    if has_odd_cr and any(line.endswith("\r") for line in cleaned):
        cleaned = [line.removesuffix("\r") for line in cleaned]
        flaws.append("double_cr")
    if ends != len(lines) - 1:
        flaws.append("lf_only")
    if "\0" in text:
        flaws.append("nul")
    if has_odd_cr and any("\r" in line for line in cleaned):
        flaws.append("bare_cr")
    return cleaned[0], Headers(_fields(cleaned[1:], flaws)), flaws


def _fields(lines: Iterable[str], flaws: list[str]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for line in lines:
        if line[:1] in (" ", "\t") and pairs:
            name, value = pairs.pop()
            pairs.append((name, f"{value} {line.strip(OWS)}".strip(OWS)))
            flaws.append("obs_fold")
            continue
        name, colon, value = line.partition(":")
        clean = name.strip(OWS)
        if not colon or not clean:
            flaws.append("bad_line")
            continue
        if not _is_token(name):
            flaws.append("odd_name")
        pairs.append((clean, value.strip(OWS)))
    return pairs


def _is_token(name: str) -> bool:
    return _is_short_token(name) if len(name) <= _MOST_KEPT else _TOKEN.fullmatch(name) is not None


@lru_cache(maxsize=1024)  # the same few in nearly all heads
def _is_short_token(name: str) -> bool:
    return _TOKEN.fullmatch(name) is not None


def _note_version(version: str, flaws: list[str]) -> None:
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        flaws.append("odd_version")


def _once(flaws: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(flaws))


def _encode(start_line: str, headers: Headers) -> bytes:
    """Encode a head. White space around a value is not part of it (RFC 9110, 5.5) and not written."""
    lines = [start_line]
    for name, value in headers.pairs:
        if not _is_token(name):
            raise BadInput(f"not a field name: {name[:60]!r}", reason="header_injection")
        lines.append(f"{name}: {_checked(value).strip(OWS)}")
    try:
        return "\r\n".join((*lines, "", "")).encode("latin-1")
    except UnicodeEncodeError as error:
        raise BadInput("HTTP fields hold Latin-1 only", reason="not_latin1") from error


def _checked(text: str) -> str:
    if "\r" in text or "\n" in text or "\0" in text:
        raise BadInput(f"line break or NUL in {text[:60]!r}", reason="header_injection")
    return text
