"""What a crawl with a browser has archived."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from warcio.archiveiterator import ArchiveIterator


class Archived(msgspec.Struct):
    requests: set[tuple[str, str]] = msgspec.field(default_factory=set)  # method and URL
    posted: dict[str, bytes] = {}
    made: dict[str, bytes] = {}  # records of pages by their `urn:`
    order: list[tuple[str, str]] = []  # type and URL of each record
    raw: bytes = b""  # of all requests and responses

    def text(self, url: str) -> str:
        return self.made.get(f"urn:text:{url}", b"").decode()

    def info(self, url: str) -> dict[str, Any]:
        return json.loads(self.made[f"urn:pageinfo:{url}"])  # type: ignore[no-any-return]


def read_archive(root: Path) -> Archived:
    found = Archived()
    for path in sorted(root.glob("crawl-data/**/*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, no_record_parse=True):
                url = record.rec_headers.get_header("WARC-Target-URI") or ""
                content = record.content_stream().read()
                found.order.append((record.rec_type, url))
                if record.rec_type == "request":
                    head, _, body = content.partition(b"\r\n\r\n")
                    found.requests.add((head.split(b" ", 1)[0].decode(), url))
                    found.posted[url] = body or found.posted.get(url, b"")
                    found.raw += content
                elif record.rec_type in ("response", "revisit"):
                    found.raw += content
                elif url.startswith("urn:"):
                    found.made[url] = content
    return found
