"""The key of a capture whose request had a body: its URL with the method and the body as a query.

Two POSTs to one URL are two resources. pywb and cdxj-indexer put what was sent into the key, in the form that
https://specs.webrecorder.net/request-body-canonicalization/latest/ describes: `?__wb_method=POST&a=1`. The body becomes
a query by its type: forms and multipart fields by name, JSON by its leaves, everything else in base64.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from math import isinf
from urllib.parse import unquote_plus, urlencode

MAX_REQUEST_QUERY = 4096  # characters of the body in a key
_NAME = re.compile(rb'(?:^|;)[ \t]*name="?([^";\r\n]*)"?', re.IGNORECASE)
_FILE = re.compile(rb";[ \t]*filename\*?=", re.IGNORECASE)
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,200})"|([^;\s"]{1,200}))', re.IGNORECASE)


def url_with_body(url: str, method: str, query: str) -> str:
    """Return the URL whose key the capture gets. A GET has its query in the URL already."""
    if method == "GET":
        return url
    addition = f"__wb_method={method}" + (f"&{query}" if query else "")
    return f"{url}{'&' if '?' in url else '?'}{addition}".replace("WB_wombat_", "")


def body_to_query(method: str, content_type: str, body: bytes) -> str:
    """Return the body as a query. Only the body of POST and PUT names a resource."""
    if method not in ("POST", "PUT") or not body:
        return ""
    return _query(content_type, body)[:MAX_REQUEST_QUERY]


def _query(content_type: str, body: bytes) -> str:
    if content_type.startswith("application/x-www-form-urlencoded"):
        try:
            return unquote_plus(body.decode())
        except UnicodeDecodeError:
            return _opaque(body)
    if content_type.startswith("multipart/"):
        boundary = _BOUNDARY.search(content_type)
        return urlencode(list(_parts(boundary[1] or boundary[2], body))) if boundary else _opaque(body)
    if content_type.startswith(("application/json", "text/plain")):
        try:
            return urlencode(_leaves(json.loads(body)))
        except (ValueError, RecursionError, OverflowError):
            return "" if content_type.startswith("application/json") else _opaque(body)
    return _opaque(body)


def _opaque(body: bytes) -> str:
    return f"__wb_post_data={base64.b64encode(body).decode()}"


def _parts(boundary: str, body: bytes) -> Iterator[tuple[str, str | bytes]]:
    """Yield name and value of each field; of a file, its bytes."""
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1", "replace"))[1:]:
        if part.startswith(b"--"):
            return
        head, _, value = part.lstrip(b" \t").partition(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            field, _, disposition = line.partition(b":")
            name = _NAME.search(disposition) if field.strip().lower() == b"content-disposition" else None
            if name:
                is_file = _FILE.search(disposition)
                yield name[1].decode("utf-8", "replace"), value if is_file else value.decode("utf-8", "replace")


def _leaves(value: object) -> dict[str, str]:
    """Return every named leaf of a JSON value; repeated names are numbered: `a`, `a.2_`, `a.3_`."""
    found: dict[str, str] = {}
    times: dict[str, int] = {}
    for name, text in _walk(value, ""):
        times[name] = times.get(name, 0) + 1
        found[name if times[name] == 1 else f"{name}.{times[name]}_"] = text
    return found


def _walk(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Yield the leaves. Not recursive: each leaf would pass through as many generators as it is deep."""
    waiting = [(name, value)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += reversed(value.items())
        elif isinstance(value, list):
            waiting += [(name, inner) for inner in reversed(value)]
        elif name:
            yield name, _as_javascript(value)


def _as_javascript(value: object) -> str:
    """Return the value as JavaScript writes it: a browser canonicalises the same body in its request."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float) and (value.is_integer() or isinf(value)):
        return str(int(value))  # of what is too large for a number: OverflowError
    return str(value)
