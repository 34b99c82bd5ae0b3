"""Archives as other programs write them: WARC by warcio, WACZ in the manner of Browsertrix."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

HOST = "https://elsewhere.example"


@functools.cache
def warc(*numbers: int, gzipped: bool = True) -> bytes:
    """A page for each number, with its request."""
    out = io.BytesIO()
    writer = WARCWriter(out, gzip=gzipped)
    for number in numbers:
        url = f"{HOST}/{number}"
        body = f"<html><title>Page {number}</title><body><p>Lighthouse {number}</p></body></html>".encode()
        head = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
        asked = StatusAndHeaders(f"GET /{number} HTTP/1.1", [("Host", "elsewhere.example")], is_http_request=True)
        for kind, headers, content in (("response", head, body), ("request", asked, b"")):
            fields = {
                "WARC-Date": f"2024-02-03T04:05:{number % 60:02d}Z",
                "WARC-Record-ID": f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{kind} {url}')}>",
            }
            record = writer.create_warc_record(
                url, kind, io.BytesIO(content), http_headers=headers, warc_headers_dict=fields
            )
            writer.write_record(record)
            record.raw_stream.close()  # it is a temporary file by now
    return out.getvalue()


class Pipe(io.RawIOBase):
    """What is packed while it is downloaded cannot be gone back in: lengths follow their data, with 64 bits."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.parts.append(bytes(data))
        return len(data)


def lines_of(archives: Mapping[str, bytes]) -> bytes:
    """Some index: nobody believes it."""
    return b"".join(
        b'example,elsewhere)/ 20240203040506 {"url": "%b/", "filename": "%b"}\n' % (HOST.encode(), name.encode())
        for name in archives
    )


def resources(archives: Mapping[str, bytes], *, compressed_index: bool) -> dict[str, bytes]:
    lines = lines_of(archives)
    made = {f"archive/{name}": data for name, data in archives.items()}
    if compressed_index:
        made["indexes/index.cdx.gz"] = gzip.compress(lines)
        made["indexes/index.idx"] = b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n'
    else:
        made["indexes/index.cdx"] = lines
    made["pages/pages.jsonl"] = b'{"format": "json-pages-1.0", "id": "pages", "title": "Seed Pages", "hasText": true}\n'
    made["pages/pages.jsonl"] += b'{"id": "1", "url": "%b/1", "title": "Page 1", "seed": true}\n' % HOST.encode()
    made["pages/extraPages.jsonl"] = b'{"format": "json-pages-1.0", "id": "extra-pages", "title": "Extra Pages"}\n'
    made["logs/crawl.log"] = b'{"logLevel": "info"}\n'
    return made


def package_of(files: Mapping[str, bytes], **changes: Any) -> dict[str, Any]:
    listed = [
        {
            "name": path.rpartition("/")[2],
            "path": path,
            "hash": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "bytes": len(data),
        }
        for path, data in files.items()
    ]
    package = {"profile": "data-package", "resources": listed, "wacz_version": "1.1.1", "software": "Browsertrix 1.4"}
    return package | changes


def signed(package: bytes) -> bytes:
    digest = f"sha256:{hashlib.sha256(package).hexdigest()}"
    signature = {"hash": digest, "signature": "bm8=", "publicKey": "a2V5", "created": "2024-02-03T04:05:06Z"}
    return json.dumps({"path": "datapackage.json", "hash": digest, "signedData": signature}).encode()


def wacz(
    archives: Mapping[str, bytes],
    *,
    package: Mapping[str, Any] | None = None,
    method: int = zipfile.ZIP_STORED,
    compressed_index: bool = True,
    streamed: bool = False,
) -> bytes:
    files = resources(archives, compressed_index=compressed_index)
    described = json.dumps(package_of(files) if package is None else package).encode()
    files |= {"datapackage.json": described, "datapackage-digest.json": signed(described)}
    return zipped(files, method=method, streamed=streamed)


def zipped(files: Mapping[str, bytes], *, method: int = zipfile.ZIP_STORED, streamed: bool = False) -> bytes:
    out = Pipe() if streamed else io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, data in files.items():
            with file.open(name, "w", force_zip64=streamed) as member:
                member.write(data)
    return b"".join(out.parts) if isinstance(out, Pipe) else out.getvalue()


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
