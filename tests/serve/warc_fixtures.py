"""Archives with records that no writer of ours would write."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.testclient import TestClient

from tests.serve.conftest import ADDRESS, REPLAY, site_of
from tests.serve.sample_collection import NAME, run
from webmill.formats.timestamps import to_warc_date
from webmill.formats.warc.digest import compute
from webmill.formats.warc.writer import compress_record
from webmill.model import Headers
from webmill.serve.app import application, replay_application

HTML = (("Content-Type", "text/html; charset=utf-8"),)
Fields = tuple[tuple[str, str], ...]


def record(kind: str, url: str, when: str, block: bytes, fields: Fields = ()) -> bytes:
    named = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {when}")
    headers = (
        ("WARC-Type", kind),
        ("WARC-Record-ID", f"<urn:uuid:{named}>"),
        ("WARC-Date", to_warc_date(when)),
        ("WARC-Target-URI", url),
        *fields,
        ("Content-Length", str(len(block))),
    )
    return compress_record(Headers(headers), block)


def response(url: str, when: str, body: bytes, *, status: str = "200 OK", head: Fields = HTML) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in head)
    block = f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body
    fields = (("Content-Type", "application/http; msgtype=response"), ("WARC-Payload-Digest", compute(body)))
    return record("response", url, when, block, fields)


def revisit(
    url: str, when: str, body: bytes, *, date: str = "", uri: str = "", block: bytes = b"HTTP/1.1 200 OK\r\n\r\n"
) -> bytes:
    """Of a page whose body was `body`, as another record said it, if `date` tells when that was."""
    fields: Fields = (
        ("Content-Type", "application/http; msgtype=response"),
        ("WARC-Payload-Digest", compute(body)),
        ("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"),
    )
    if date:
        fields += (("WARC-Refers-To-Target-URI", uri or url), ("WARC-Refers-To-Date", to_warc_date(date)))
    return record("revisit", url, when, block, fields)


def collection(root: Path, records: Iterable[bytes], *flags: str) -> Path:
    folder = root / "crawl-data" / NAME / "segments" / "1" / "warc"
    folder.mkdir(parents=True)
    (folder / "made.warc.gz").write_bytes(b"".join(records))
    run("index", root, "--name", NAME, *flags)
    return root


@contextmanager
def serve_both_origins(root: Path) -> Iterator[tuple[TestClient, TestClient]]:
    """Our own origin and that of replay, without sockets. Redirects are not followed."""
    site = site_of(root)
    with (
        TestClient(application(site), base_url=ADDRESS, follow_redirects=False) as own,
        TestClient(replay_application(site), base_url=REPLAY, follow_redirects=False) as replay,
    ):
        yield own, replay
