"""WAT and WET of a WARC: webmill beside the loops that people write for text alone.

webmill reads every record, proves it, extracts, describes and writes compressed files; the others only extract text
and throw it away. The pages are those of the Common Crawl-like sample when WEBMILL_TEST_DATA (default ../shared/data)
has it, else made here. Rivals that are not installed are left out: pip install resiliparse lxml beautifulsoup4.
"""

from __future__ import annotations

import io
import logging
import os
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from benchmarks.frame import Contestant, race
from webmill.archive.derive import DeriveJob, derive, output_name
from webmill.formats.warc.http_records import is_html, read_response
from webmill.formats.warc.reader import read_records
from webmill.model import Record

with warnings.catch_warnings():  # it warns of its own old classes while it is imported
    warnings.simplefilter("ignore")
    from fastwarc import ArchiveIterator as FastWarcIterator
    from fastwarc.warc import WarcRecordType

SAMPLE = "triple/CC-MAIN-20240712094214-20240712124214-00000.warc.gz"
PAGES = 200
HTML = ("text/html", "application/xhtml+xml")


def webmill(warc: Path, *kinds: str) -> int:
    return derive(
        DeriveJob(warc=warc, outputs={kind: warc.parent / output_name(warc.name, kind) for kind in kinds})
    ).pages


def resiliparse(warc: Path) -> int:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    def extract(page: bytes) -> None:
        extract_plain_text(bytes_to_str(page, detect_encoding(page)))

    return extracting(fastwarc_pages(warc), extract)


def lxml(warc: Path) -> int:
    from lxml.html import document_fromstring

    return extracting(fastwarc_pages(warc), lambda page: document_fromstring(page).text_content())


def beautiful_soup(warc: Path) -> int:
    from bs4 import BeautifulSoup

    return extracting(warcio_pages(warc), lambda page: BeautifulSoup(page, "html.parser").get_text())


def extracting(pages: Iterator[bytes], extract: Callable[[bytes], object]) -> int:
    count = 0
    for page in pages:
        count += 1
        if page.strip():
            extract(page)
    return count


def fastwarc_pages(warc: Path) -> Iterator[bytes]:
    with warc.open("rb") as file:
        for record in FastWarcIterator(file, record_types=WarcRecordType.response):
            if record.headers.get("WARC-Identified-Payload-Type") in HTML:
                yield record.reader.read()


def warcio_pages(warc: Path) -> Iterator[bytes]:
    with warc.open("rb") as file:
        for record in WarcioIterator(file):
            if record.rec_type == "response" and record.rec_headers.get_header("WARC-Identified-Payload-Type") in HTML:
                yield record.content_stream().read()


def cut_sample(sample: Path, warc: Path) -> None:
    """The first pages of the sample, as they are stored."""
    stored = sample.read_bytes()
    pages = (item for item in read_records(io.BytesIO(stored)) if isinstance(item, Record) and is_page(item))
    last = list(islice(pages, PAGES))[-1]
    warc.write_bytes(stored[: last.offset + last.length])


def is_page(record: Record) -> bool:
    return record.type == "response" and is_html(record, read_response(record.content))


def make_file(warc: Path) -> None:
    from tests.unit.archive.made import info, response, write_warc

    dice = random.Random(1)
    words = [dice.randbytes(dice.randint(1, 6)).hex() for _ in range(5000)]

    def page() -> bytes:
        lines = (" ".join(dice.choices(words, k=20)) for _ in range(dice.randint(10, 1000)))
        return "".join(f'<div class="line"><p>{line} <a href="/x">more</a></p></div>\n' for line in lines).encode()

    write_warc(warc, info(), *(response(str(number), page(), payload_type=HTML[0]) for number in range(PAGES)))


def main() -> None:
    logging.disable(logging.WARNING)  # warcio's, of spaces in URIs
    samples = Path(os.environ.get("WEBMILL_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
    rivals = {
        "resiliparse": ("FastWARC + resiliparse, text thrown away", resiliparse),
        "lxml": ("FastWARC + lxml, text thrown away", lxml),
        "bs4": ("warcio + BeautifulSoup, text thrown away", beautiful_soup),
    }
    with tempfile.TemporaryDirectory() as folder:
        warc = Path(folder) / "made.warc.gz"
        if (samples / SAMPLE).is_file():
            cut_sample(samples / SAMPLE, warc)
        else:
            make_file(warc)
        contestants: dict[str, Contestant] = {
            "webmill derive wet": lambda: webmill(warc, "wet"),
            "webmill derive wat": lambda: webmill(warc, "wat"),
            "webmill derive all": lambda: webmill(warc, "wat", "wet"),
        }
        for package, (name, loop) in rivals.items():
            if find_spec(package):
                contestants[name] = lambda loop=loop: loop(warc)  # type: ignore[misc]
        race("Deriving WAT and WET", contestants, unit="pages")


if __name__ == "__main__":
    main()
