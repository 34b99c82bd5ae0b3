"""The demo: a small web of our own, archived as Common Crawl archives the real one.

The pages are asked for one after the other on loopback: the demo shows the formats and the files, not the crawler.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from webmill import __version__
from webmill.errors import Unavailable
from webmill.formats import warc_records as records
from webmill.formats.http import ResponseFramer, encode_request_head
from webmill.formats.warc_writer import compress_record
from webmill.infra import atomic
from webmill.model import Headers
from webmill.testing import TestWeb

NAME = "DEMO"
DEADLINE = 10.0


class Gathered(msgspec.Struct, frozen=True):
    """What `gather` wrote."""

    warc: Path
    pages: int
    hosts: int
    bytes: int


class Exchange(msgspec.Struct, frozen=True):
    """One request and its answer, as they went over the wire."""

    url: str
    ip: str
    request: bytes
    response: bytes


def gather(web: TestWeb, collection: Path, *, started: datetime, seen: Callable[[], None]) -> Gathered:
    """Every page of the well-behaved hosts into one WARC at Common Crawl's path. `seen` is called for each."""
    stamp = started.strftime("%Y%m%d%H%M%S")
    segment = collection / "crawl-data" / NAME / "segments" / stamp / "warc"
    atomic.make_folder(segment)
    file = segment / f"{NAME}-{stamp}-00000.warc.gz"
    pages, hosts, size = 0, set(), 0
    with atomic.writing(file) as out:
        warcinfo_id = new_id()
        out.write(warcinfo(file.name, record_id=warcinfo_id, started=started))
        for page in web.pages():
            exchange = fetch(page.url, web)
            for record in exchange_records(exchange, warcinfo_id=warcinfo_id, date=datetime.now(UTC)):
                size += out.write(record)
            pages += 1
            hosts.add(urlsplit(page.url).hostname)
            seen()
    return Gathered(warc=file, pages=pages, hosts=len(hosts), bytes=size)


def fetch(url: str, web: TestWeb) -> Exchange:
    parts = urlsplit(url)
    host = parts.netloc
    ip, port = web.resolve[parts.hostname or ""]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = [
        ("Host", host),
        ("User-Agent", f"webmill/{__version__} (demo)"),
        ("Accept", "*/*"),
        ("Connection", "close"),
    ]
    request = encode_request_head(Headers(fields), method="GET", target=target)
    framer = ResponseFramer(method="GET")
    with closing(socket.create_connection((ip, port), timeout=DEADLINE)) as connection:
        connection.sendall(request)
        response = b"".join(answer(connection, framer))
    if framer.head is None or framer.broken:
        raise Unavailable(f"{url}: the test web gave no whole answer")
    return Exchange(url=url, ip=ip, request=request, response=response[framer.start : framer.taken])


def answer(connection: socket.socket, framer: ResponseFramer) -> Iterator[bytes]:
    while not framer.ended and not framer.broken:
        data = connection.recv(64 << 10)
        if not data:
            framer.close()
            return
        framer.feed(data)
        yield data


def exchange_records(exchange: Exchange, *, warcinfo_id: str, date: datetime) -> Iterator[bytes]:
    visit = records.Visit(uri=exchange.url, date=date, warcinfo_id=warcinfo_id, ip=exchange.ip)
    request_id, response_id = new_id(), new_id()
    yield compress_record(
        records.request(visit, records.measure(exchange.request), record_id=request_id), exchange.request
    )
    block = records.measure_http(exchange.response)
    headers = records.response(visit, block, record_id=response_id, concurrent_to=request_id)
    yield compress_record(headers, exchange.response)


def warcinfo(filename: str, *, record_id: str, started: datetime) -> bytes:
    fields = [("software", f"webmill/{__version__}"), ("format", "WARC File Format 1.0"), ("isPartOf", NAME)]
    content = records.encode_fields(fields)
    headers = records.warcinfo(records.measure(content), record_id=record_id, date=started, filename=filename)
    return compress_record(headers, content)


def new_id() -> str:
    return f"urn:uuid:{uuid.uuid4()}"
