"""A small archived town: pages of several years, languages and kinds, indexed, published twice, searchable.

python -m tests.serve.sample_collection DIR      makes one to look at
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import ada_url
import msgspec

from webmill.archive.writer import WarcinfoDetails, WarcWriter
from webmill.cli.main import webmill
from webmill.collection import Collection
from webmill.formats.timestamps import to_datetime
from webmill.formats.url.surt import surt
from webmill.formats.warc.capture import Capture
from webmill.formats.warc.digest import compute
from webmill.formats.warc.record_headers import OriginalCapture
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.model import Document, Exchange

NAME = "TOWN-2024"
HTML = "text/html; charset=utf-8"
SCRIPT = "<script>document.title='owned'</script>"
ROWS: dict[str, tuple[str, str, str]] = {  # url: title, text, language
    "https://town.example/": ("The town", "Welcome to the town. The ferry leaves at noon.", "eng"),
    "https://town.example/news": ("News", "The bridge over the harbour is open again.", "eng"),
    "https://town.example/hostile": (SCRIPT, f"A page that tries: {SCRIPT} and waits.", "eng"),
    "https://서울.example/공지": ("공지사항", "서울대학교 도서관은 여름방학 동안 일찍 문을 닫습니다.", "kor"),
    "https://tokyo.example/": ("東京のお知らせ", "図書館は夏休みの間、早く閉まります。", "jpn"),
    "https://beijing.example/": ("北京通知", "图书馆在暑假期间提前关门。", "zho"),
    "https://wien.example/": ("Öffnungszeiten", "Die Bücherei schließt im Sommer früher.", "deu"),
}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cfc0f01f0005000200ff7f3c1b0000000049454e44ae426082"
)


@dataclass(frozen=True)
class Visit:
    """One capture. `same` gives only the head: the body is that of the visit before."""

    url: str
    when: str
    body: bytes = b""
    status: int = 200
    mime: str = HTML
    head: tuple[tuple[str, str], ...] = ()
    same: bool = False


def page(title: str, text: str, *, extra: str = "") -> bytes:
    return (
        f"<!doctype html><html><head><meta charset=utf-8><title>{title}</title>"
        f'<link rel=stylesheet href="/style.css">{extra}</head><body><h1>{title}</h1><p>{text}</p>'
        '<p><a href="/news">News</a> <a href="https://wien.example/">Wien</a>'
        ' <img src="/pixel.png" srcset="/pixel.png 1x, pixel.png?2x 2x" alt=""></p></body></html>'
    ).encode()


def visits() -> list[Visit]:
    first = "https://town.example/"
    found = [
        Visit(first, "20220310080000", page("The town", "Welcome to the town. The ferry leaves at nine.")),
        Visit(first, "20230401120000", page("The town", "Welcome to the town. The ferry leaves at noon.")),
        Visit(first, "20230401120500", page("The town", "Welcome to the town. The ferry leaves at noon."), same=True),
        Visit("https://town.example/old", "20230401120001", b"moved", 301, head=(("Location", "/news"),)),
        Visit("https://town.example/gone", "20230401120002", b"<h1>gone</h1>", 404),
        Visit("https://town.example/style.css", "20230401120003", b"h1{color:teal}", mime="text/css"),
        Visit("https://town.example/pixel.png", "20230401120004", PIXEL, mime="image/png"),
        Visit("https://town.example/app.js", "20230401120005", b"document.title='ran'", mime="text/javascript"),
    ]
    found += [
        Visit(url, f"202404{day:02d}100000", page(title, text))
        for day, (url, (title, text, _)) in enumerate(ROWS.items(), 1)
    ]
    found += [  # enough captures of one page for a calendar, pages of a listing and collapse
        Visit("https://town.example/clock", f"2024{month:02d}{day:02d}0{hour}0000", f"{month}.{day}.{hour}".encode())
        for month in range(1, 13)
        for day in (1, 15)
        for hour in range(3)
    ]
    return sorted(found, key=lambda visit: visit.when)


def archive(root: Path, found: list[Visit], *, name: str = NAME, segment: str = "1", max_bytes: int = 1 << 30) -> None:
    made = datetime(2024, 12, 31, tzinfo=UTC)
    collection = Collection(root, name)
    originals: dict[str, OriginalCapture] = {}
    with WarcWriter(
        collection,
        segment=segment,
        stem="a",
        software=WarcinfoDetails(),
        now=lambda: made,
        languages=False,
        max_bytes=max_bytes,
    ) as out:
        for visit in found:
            out.append(capture_of(visit, originals))
        out.sync()


def capture_of(visit: Visit, originals: dict[str, OriginalCapture]) -> Capture:
    date = datetime.strptime(visit.when, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    fields = "".join(f"{key}: {value}\r\n" for key, value in (("Content-Type", visit.mime), *visit.head))
    head = f"HTTP/1.1 {visit.status} Said\r\n{fields}Content-Length: {len(visit.body)}\r\n\r\n".encode()
    url = ascii_url(visit.url)
    made = Exchange(
        url=url,
        date=date,
        seconds=0.1,
        ip="192.0.2.7",
        request=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        response=head + visit.body,
    )
    original = originals.get(url) if visit.same else None
    if not original:
        originals[url] = OriginalCapture(payload_digest=compute(visit.body), uri=url, date=date)
    diagnostic = visit.status != 200
    return Capture(
        exchange=made,
        payload=visit.body,
        kind="identical" if original else "response",
        original=original,
        subset="crawldiagnostics" if diagnostic else "warc",
    )


def ascii_url(url: str) -> str:
    return ada_url.normalize_url(url)


def documents(root: Path, rows: dict[str, tuple[str, str, str]], *, when: str) -> None:
    """As `webmill extract` and `webmill cc` write them."""
    lines = [
        Document(
            id=ascii_url(url),
            url=ascii_url(url),
            urlkey=surt(ascii_url(url)),
            date=to_datetime(when),
            title=title,
            text=text,
            text_chars=len(text),
            language=language,
            status=200,
        )
        for url, (title, text, language) in rows.items()
    ]
    (root / "documents").mkdir(exist_ok=True)
    (root / "documents" / "town.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def bury(root: Path) -> None:
    """One job that nobody could do."""
    (root / "publish").mkdir(exist_ok=True)
    queue = SqliteQueue(root / "publish" / "queue.sqlite", max_attempts=1, lease=60.0)
    try:
        queue.publish([Message("job-1", b'{"source":"town/notices"}')])
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=10)
            assert delivery
            delivery.bury(f"HTTP 500 from the board {SCRIPT}")
    finally:
        queue.close()


def run(*arguments: str | Path) -> None:
    webmill.main(["-q", *map(str, arguments)], standalone_mode=False)


def build(root: Path) -> Path:
    """The whole town. The second version has a page less, a page more, and one changed."""
    archive(root, visits())
    run("index", root, "--name", NAME)
    before = {url: row for url, row in ROWS.items() if "wien" not in url}
    before["https://town.example/gone"] = ("Soon gone", "This page will be removed.", "eng")
    before["https://town.example/"] = ("The town", "Welcome to the town. The ferry leaves at nine.", "eng")
    documents(root, before, when="20230401120000")
    run("publish", "documents", root, "--facet", "language", "--facet", "domain")
    documents(root, ROWS, when="20240401100000")
    run("publish", "documents", root, "--facet", "language", "--facet", "domain", "--force")
    run("search", "update", root)
    bury(root)
    return root


if __name__ == "__main__":
    build(Path(sys.argv[1]))
