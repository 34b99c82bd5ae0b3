"""The key of a URL in an index: its SURT, as pywb and Common Crawl write it (docs/reference/surt.md).

`http://www.example.com:80/A/?b=2&a=1#top` has the key `com,example)/a?a=1&b=2`: the host reversed, so that a domain and
its hosts are neighbours, and everything folded that usually names the same page: case, `www.`, default port, trailing
slash, order of the query, session ids, escapes. The rules are those of the Internet Archive's canonicaliser, which
extends the "Canonicalization" of Google's Safe Browsing API. A key is for looking up, not fetching (`normalise.py`).

`surt` never raises and never resolves a host. A key is printable ASCII without a space: it cannot break its line.
"""

from __future__ import annotations

import re

import re2

# The common case in one match, on a lower-cased URL. `_surt_of_any` handles the rest: userinfo, ports, numeric hosts,
# empty or dotted segments, segments that may be session ids, escapes except those of a space and of non-ASCII.
_PLAIN = r'!-"$&-.0->@-~'  # printable without # % / ?
_ESCAPED = "%(?:[89a-f][0-9a-f]|20)"
_COMMON = re.compile(
    r"https?://(?:www[0-9]*+\.)?((?:[a-z0-9_-]++\.)*[a-z][a-z0-9_-]*+)"
    rf"((?:/(?![.(])(?:[{_PLAIN}]|{_ESCAPED})++)*+)/?"
    rf"(?:\?((?:[{_PLAIN}/?]|{_ESCAPED})*+))?"
    r"(?:#.*)?"
)


def surt(url: str) -> str:
    """Return the index key of a URL, whatever the URL looks like."""
    match = _COMMON.fullmatch(url.lower()) if url.isascii() else None
    if match is None:
        return _surt_of_any(url)
    host, path, query = match.groups()
    key = ",".join(host.split(".")[::-1]) + ")" + (path or "/")
    if query and (query := _fold_query(query)):
        return f"{key}?{query}"
    return key


def without_surrogates(text: str) -> str:
    """Return text with lone surrogates (a header with invalid UTF-8) decoded as Latin-1, as by warcio and pywb."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _bytes_of(text).decode("latin-1")
    return text


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _surt_of_any(url: str) -> str:
    # From here on each character is one byte: escapes are of bytes and need not be UTF-8.
    raw = without_surrogates(url).encode().decode("latin-1")
    if raw.startswith("filedesc"):  # the first record of an ARC file: the name of a file, not a URL
        return _safe(raw)
    parts = _split(_CUT.sub("", raw.strip(_SPACE)))
    if parts is None:
        return _safe(raw.strip(_SPACE)) or "-"
    scheme, host, port, path, query = parts
    host = _canonical_host(host)
    if scheme != "dns":  # a DNS record is of exactly this name
        host = _WWW.sub("", host)
    path = _canonical_path(path, resolve=bool(host))
    query = _fold_query(_escape(_unescape(query)).lower())
    if query:
        path = f"{path or '/'}?{query}"
    if not host:
        return f"{scheme}:{path}"
    return f"{','.join(host.split('.')[::-1])}{port}){path}"


# --- splitting a URL ------------------------------------------------------------------------------------------------

_SPACE = " \t\n\r\x0b\x0c"
_CUT = re.compile("[\t\n\r]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DOUBLED = re.compile("^(?:https?://)+(?=https?://)")
_REST = re.compile(r"(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?")
_DEFAULT_PORT = {"http": 80, "https": 443}


def _split(text: str) -> tuple[str, str, str, str, str] | None:
    """Return scheme, host, `:port` if it is not the default, path and query; None if the port is invalid."""
    if not text:
        return None
    if not _SCHEME.match(text):
        text = "http://" + text
    scheme, _, rest = _DOUBLED.sub("", text).partition(":")
    found = _REST.match(rest)
    assert found is not None  # every part of the pattern may be empty
    authority, path, query = found.groups("")
    host, digits = _host_and_port(authority)
    if digits.strip("0123456789") or len(digits := digits.lstrip("0")) > 5 or int(digits or 0) > 65535:
        return None
    if not host and path and scheme.startswith("http"):  # http:/host/path, http:host/path, http:////host/path
        host, _, path = path.lstrip("/").partition("/")
        path = "/" + path
    port = "" if not digits or int(digits) == _DEFAULT_PORT.get(scheme.lower()) else f":{digits}"
    return scheme, host, port, path, query


def _host_and_port(authority: str) -> tuple[str, str]:
    hostport = authority.rpartition("@")[2].rstrip(":")
    if "[" in hostport:
        host, _, after = hostport.partition("[")[2].partition("]")
        return host, after.partition(":")[2]
    host, _, port = hostport.partition(":")
    return host, port


# --- the host -------------------------------------------------------------------------------------------------------

_WWW = re.compile(r"^www[0-9]*\.")
_NUMERIC = re.compile(r"(?:0[0-7]*(?:\.[0-7]+){1,3}|[1-9][0-9]*(?:\.[0-9]+){1,3})")
_MAX_IDNA = 1024  # bytes; the codec needs quadratic time for a long label, and DNS ends at 253


def _canonical_host(host: str) -> str:
    host = _to_ascii(_unescape(host)).replace("..", ".").strip(".")
    return _escape(_dotted_quad(host) or host).lower()


def _to_ascii(host: str) -> str:
    """Encode a host by IDNA 2003, as the indexes of all archives do (the German sharp s becomes ss)."""
    if host.isascii() or len(host) > _MAX_IDNA:
        return host
    try:
        return host.encode("latin-1").decode("utf-8", "ignore").encode("idna").decode("ascii")
    except UnicodeError:
        return host


def _dotted_quad(host: str) -> str | None:
    """Return the IPv4 address of a number, or of the short and octal forms of inet_aton: 127.0.0.1 for 0177.1."""
    if host.isdigit() and host.isascii():
        return _quad(int(host[-32:]) % 2**32)  # 2**32 divides 10**32: the last digits are enough
    if not _NUMERIC.fullmatch(host):
        return None
    *heads, last = (_number(part) for part in host.split("."))
    if max(heads) > 255 or last >= 256 ** (4 - len(heads)):
        return None
    return _quad(last + sum(head << (24 - 8 * place) for place, head in enumerate(heads)))


def _number(digits: str) -> int:
    """Parse a number as in C: a leading 0 means octal. An invalid or very large one exceeds every limit."""
    base = 8 if digits[0] == "0" else 10
    short = len(digits.lstrip("0")) < 12
    return int(digits, base) if short and (base == 10 or not set(digits) & {"8", "9"}) else 2**32


def _quad(number: int) -> str:
    return ".".join(str(byte) for byte in number.to_bytes(4, "big"))


# --- the path and the query -----------------------------------------------------------------------------------------

# Session ids of ASP.NET, Java, PHP, ASP and ColdFusion. RE2, since URLs are untrusted.
_PATH_SESSIONS = [
    re2.compile(r"(?s)(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)"),
    re2.compile(r"(?s)(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)"),
]
_QUERY_SESSIONS = [
    re2.compile(rf"(?s)(.*){session}(?:&(.*))?")
    for session in (
        "jsessionid=[0-9a-z]{32}",
        "phpsessid=[0-9a-z]{32}",
        "sid=[0-9a-z]{32}",
        "aspsessionid[a-z]{8}=[a-z]{24}",
        "cfid=[^&]+&cftoken=[^&]+",
    )
]
_MAYBE_SESSION = re.compile("sid=|sessionid|cfid=")


def _canonical_path(path: str, *, resolve: bool) -> str:
    path = _unescape(path)
    path = _escape(_resolve(path) if resolve else path).lower()
    if ".aspx" in path:
        path = _drop_sessions(path, _PATH_SESSIONS)
    return path.removesuffix("/") if len(path) > 1 else path


def _resolve(path: str) -> str:
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == ".." and kept:
            kept.pop()
        elif segment != ".":
            kept.append(segment)
    return "/" + "/".join(filter(None, kept))


def _fold_query(query: str) -> str:
    if _MAYBE_SESSION.search(query):
        query = _drop_sessions(query, _QUERY_SESSIONS)
    if "&" not in query:
        return query
    return "&".join(sorted(query.split("&"), key=_name_then_value))


def _name_then_value(parameter: str) -> tuple[str, str, str]:
    return parameter.partition("=")


def _drop_sessions(text: str, sessions: list[re2._Regexp]) -> str:
    for session in sessions:
        if found := session.fullmatch(text):
            text = "".join(filter(None, found.groups()))
    return text


# --- escapes --------------------------------------------------------------------------------------------------------

_HEX = frozenset("0123456789abcdefABCDEF")
_ESCAPE = re.compile("%([0-9a-fA-F]{2})")
_UNSAFE = re.compile("[^!-~]")
_UNSAFE_OR_MARK = re.compile('[^!-"$&-~]')  # and also # and %


def _unescape(text: str) -> str:
    """Percent-decode until nothing changes (%2541 is A)."""
    text = _ESCAPE.sub(_decode, text)
    return _unescape_all(text) if _ESCAPE.search(text) else text


def _unescape_all(text: str) -> str:
    """Decode all layers in one pass: layer by layer takes quadratic time.

    Escapes never overlap: the order is irrelevant.
    """
    out: list[str] = []
    for char in text:
        out.append(char)
        while len(out) > 2 and out[-3] == "%" and out[-2] in _HEX and out[-1] in _HEX:
            out[-3:] = chr(int(out[-2] + out[-1], 16))
    return "".join(out)


def _decode(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def _encode(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02x}"


def _escape(text: str) -> str:
    return _UNSAFE_OR_MARK.sub(_encode, text)


def _safe(text: str) -> str:
    return _UNSAFE.sub(_encode, text)
