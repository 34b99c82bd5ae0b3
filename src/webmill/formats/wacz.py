"""WACZ 1.1.1: archives, their index and a list of pages in one ZIP file, for replayweb.page and others.

    archive/*.warc.gz          stored, not compressed again: a reader takes ranges out of them
    indexes/index.cdx.gz       CDXJ in gzip members;  indexes/index.idx  where each begins
    pages/pages.jsonl          what to show first
    datapackage.json           every file with its length and sha256;  datapackage-digest.json  its own

https://specs.webrecorder.net/wacz/1.1.1/
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime

import msgspec

from webmill.formats.cdxj import Capture, prefix_of
from webmill.formats.timestamps import to_datetime

VERSION = "1.1.1"
ARCHIVES = "archive/"
INDEX, SUMMARY = "indexes/index.cdx.gz", "indexes/index.idx"
PAGES, PACKAGE, DIGEST = "pages/pages.jsonl", "datapackage.json", "datapackage-digest.json"
PAGES_HEAD = b'{"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}\n'
SUMMARY_HEAD = b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n'
_HTML = frozenset({"text/html", "application/xhtml+xml"})


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the package."""

    name: str
    path: str
    hash: str  # sha256:…
    bytes: int


def is_page(capture: Capture) -> bool:
    kind = capture.text("mime-detected") or capture.text("mime")
    return capture.text("status") == "200" and kind in _HTML


def page_line(capture: Capture, *, number: int) -> bytes:
    date = to_datetime(capture.timestamp)
    page = {"id": f"{number:08x}", "url": capture.text("url"), "ts": f"{date:%Y-%m-%dT%H:%M:%SZ}"}
    return json.dumps(page).encode() + b"\n"


def summary_line(first: bytes, *, offset: int, block: bytes) -> bytes:
    """Of the block that begins with this line."""
    digest = f"sha256:{hashlib.sha256(block).hexdigest()}"
    fields = {"offset": offset, "length": len(block), "digest": digest, "filename": "index.cdx.gz"}
    return prefix_of(first) + b" " + json.dumps(fields).encode() + b"\n"


def package(resources: Iterable[Resource], *, title: str, created: datetime, software: str) -> bytes:
    described = {
        "profile": "data-package",
        "wacz_version": VERSION,
        "title": title,
        "created": f"{created:%Y-%m-%dT%H:%M:%SZ}",
        "software": software,
        "resources": [msgspec.to_builtins(resource) for resource in resources],
    }
    return json.dumps(described, indent=2, ensure_ascii=False).encode() + b"\n"


def digest_of(package_: bytes) -> bytes:
    fields = {"path": PACKAGE, "hash": f"sha256:{hashlib.sha256(package_).hexdigest()}"}
    return json.dumps(fields, indent=2).encode() + b"\n"
