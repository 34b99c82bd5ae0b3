"""Encode and decode the files of WACZ 1.1.1: archives, their index and a list of pages in one ZIP file.

    archive/*.warc.gz          stored, not compressed again: readers request ranges
    indexes/index.cdx.gz       CDXJ in gzip members;  indexes/index.idx  the offset of each
    pages/pages.jsonl          the pages to show first, with titles and texts;  pages/extraPages.jsonl  other captures
    datapackage.json           every file with its length and sha256;  datapackage-digest.json  its own

https://specs.webrecorder.net/wacz/1.1.1/
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import datetime

import msgspec

from webmill.errors import BadInput
from webmill.formats import lenient_json as lenient
from webmill.formats.cdx.cdxj import CdxjLine, prefix_of
from webmill.formats.timestamps import to_datetime

VERSION = "1.1.1"
ARCHIVES = "archive/"
INDEX, SUMMARY = "indexes/index.cdx.gz", "indexes/index.idx"
PAGES, EXTRA_PAGES = "pages/pages.jsonl", "pages/extraPages.jsonl"
PACKAGE, DIGEST = "datapackage.json", "datapackage-digest.json"
SUMMARY_HEAD = b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n'
MAX_PACKAGE = 8 << 20  # bytes: about ten thousand files
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_ARCHIVE = re.compile(r".+\.w?arc(\.gz|\.zst)?", re.IGNORECASE | re.DOTALL)
_HASH = re.compile(r"(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})", re.IGNORECASE)


class WaczResource(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the package."""

    name: str
    path: str
    hash: str  # sha256:…
    bytes: int


class MainPage(msgspec.Struct, frozen=True, kw_only=True):
    """The capture that players open first."""

    url: str
    timestamp: str


class PackageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a package says of itself besides its files."""

    title: str
    description: str
    main: MainPage | None = None


def is_page(capture: CdxjLine) -> bool:
    """Return whether a capture is listed as a page: HTML with status 200."""
    kind = capture.text("mime-detected") or capture.text("mime")
    return capture.text("status") == "200" and kind in _HTML


def encode_pages_head(id_: str, title: str, *, has_text: bool) -> bytes:
    """Return the first line of a list of pages."""
    head = {"format": "json-pages-1.0", "id": id_, "title": title, "hasText": has_text}
    return json.dumps(head).encode() + b"\n"


def encode_page_line(capture: CdxjLine, *, number: int, title: str | None, text: str) -> bytes:
    """Return a line of a list of pages; what is empty is left out."""
    page = {"id": f"{number:08x}", "url": capture.text("url"), "ts": format_date(capture.timestamp)}
    page |= {"title": title} if title else {}
    page |= {"text": text} if text else {}
    return json.dumps(page, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def format_date(timestamp: str) -> str:
    return f"{to_datetime(timestamp):%Y-%m-%dT%H:%M:%SZ}"


def encode_summary_line(first: bytes, *, offset: int, block: bytes) -> bytes:
    """Return the summary line of a block of the index, which begins with the line `first`."""
    digest = f"sha256:{hashlib.sha256(block).hexdigest()}"
    fields = {"offset": offset, "length": len(block), "digest": digest, "filename": "index.cdx.gz"}
    return prefix_of(first) + b" " + json.dumps(fields).encode() + b"\n"


def encode_package(
    resources: Iterable[WaczResource], about: PackageSummary, *, created: datetime, software: str
) -> bytes:
    main = about.main
    described = {
        "profile": "data-package",
        "wacz_version": VERSION,
        "title": about.title,
        "description": about.description,
        **({"mainPageUrl": main.url, "mainPageDate": format_date(main.timestamp)} if main else {}),
        "created": f"{created:%Y-%m-%dT%H:%M:%SZ}",
        "software": software,
        "resources": [msgspec.to_builtins(resource) for resource in resources],
    }
    return json.dumps(described, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def encode_package_digest(package_: bytes) -> bytes:
    fields = {"path": PACKAGE, "hash": f"sha256:{hashlib.sha256(package_).hexdigest()}"}
    return json.dumps(fields, indent=2).encode() + b"\n"


# --- reading ----------------------------------------------------------------------------------------------------------


class ListedResource(lenient.LenientObject, frozen=True, kw_only=True):
    """One file as an untrusted package lists it; values of the wrong type are missing."""

    path: str | None = None
    hash: str | None = None
    bytes: int | None = None

    @property
    def digest(self) -> str | None:
        """The hash in lower case, if its algorithm is known."""
        return self.hash.lower() if self.hash and _HASH.fullmatch(self.hash) else None

    @property
    def algorithm(self) -> str:
        return (self.digest or "sha256").partition(":")[0]

    def check(self, *, size: int, hexdigest: str) -> None:
        """Raise BadInput unless size and digest are as listed."""
        if self.bytes not in (None, size):
            raise BadInput(f"the file has {size} bytes, but {PACKAGE} states {self.bytes}", reason="bad_size")
        if self.digest not in (None, f"{self.algorithm}:{hexdigest}"):
            raise BadInput(
                f"the {self.algorithm} of the file is not the one that {PACKAGE} states", reason="bad_digest"
            )


class _WaczPackage(lenient.LenientObject, frozen=True, kw_only=True):
    resources: tuple[ListedResource, ...] | None = None


def is_archive(name: str) -> bool:
    """Return whether this is an archive, in any folder: before WACZ, ZIP files had `warcs/`."""
    return _ARCHIVE.fullmatch(name) is not None


def read_package(data: bytes) -> dict[str, ListedResource]:
    """Return the files that `datapackage.json` lists, by path."""
    listed = lenient.build_object(_WaczPackage, _decode_json(data, PACKAGE)).resources
    if listed is None:
        raise BadInput(f"{PACKAGE} lists no resources", reason="bad_package")
    return {entry.path: entry for entry in listed if entry.path}


def check_digest(data: bytes, package_: bytes) -> None:
    """Check `datapackage.json` against `datapackage-digest.json`. Signatures are ignored."""
    entry = lenient.build_object(ListedResource, _decode_json(data, DIGEST))
    hexdigest = hashlib.new(entry.algorithm, package_, usedforsecurity=False).hexdigest()
    if entry.digest not in (None, f"{entry.algorithm}:{hexdigest}"):
        raise BadInput(f"{PACKAGE} does not have the hash that {DIGEST} states", reason="bad_package")


def _decode_json(data: bytes, name: str) -> dict[str, lenient.Json]:
    try:
        return lenient.decode_object(data)
    except BadInput as error:
        raise BadInput(f"{name}: {error.message}", reason="bad_package") from None
