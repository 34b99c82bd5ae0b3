"""CDXJ of Common Crawl-like WARC files: webmill beside pywb, cdxj-indexer and bare FastWARC loops.

The files are made here: request, response and metadata records of pages with a natural spread of words and Common
Crawl's mean size (30 KB compressed). WEBMILL_BENCH_CAPTURES says how many (5,000 are about 150 MB). The sample of real
pages at WEBMILL_TEST_DATA (default ../shared/data) is raced too, where it is. pywb and cdxj-indexer run from their own
environment (`.venv-judges`); their start takes about a second, so the ratio is also given without it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.frame import cpu_seconds, race
from webmill.formats.warc.record_headers import (
    CaptureEvent,
    describe_block,
    describe_http_block,
    encode_warc_fields,
    metadata_headers,
    request_headers,
    response_headers,
)
from webmill.formats.warc.scan import ScanOptions
from webmill.formats.warc.writer import compress_dense, compress_record
from webmill.index.build.warc import index_file
from webmill.model import Damage

with warnings.catch_warnings():  # it warns of its own old classes while it is imported
    warnings.simplefilter("ignore")
    from fastwarc import ArchiveIterator, WarcRecordType

ROOT = Path(__file__).parents[1]
JUDGES = ROOT / ".venv-judges" / "bin"
SAMPLE = "triple/CC-MAIN-20240712094214-20240712124214-00000.warc.gz"
CAPTURES = int(os.environ.get("WEBMILL_BENCH_CAPTURES", "5000"))
BEGIN = datetime(2024, 7, 12, tzinfo=UTC)
FIELDS = ("Server: nginx", "Cache-Control: max-age=600", "X-Frame-CaptureOptions: SAMEORIGIN", "Vary: Accept-Encoding")


# --- a Common Crawl-like file ---------------------------------------------------------------------------------------


def make_file(path: Path, *, captures: int, seed: int = 1) -> None:
    dice = random.Random(seed)
    words = ["".join(dice.choices("etaoinshrdlucmfwypvbgkqjxz", k=dice.randint(2, 11))) for _ in range(30_000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    text = dice.choices(words, weights, k=400_000)
    with path.open("wb") as file:
        for number in range(captures):
            file.write(b"".join(one_capture(dice, text, number)))


def one_capture(dice: random.Random, text: list[str], number: int) -> list[bytes]:
    host = f"www.{text[dice.randrange(len(text))]}{dice.randrange(99)}.example"
    path = f"/{text[dice.randrange(len(text))]}/{number}.html"
    visit = CaptureEvent(uri=f"https://{host}{path}", date=BEGIN + timedelta(seconds=number), ip="192.0.2.1")
    ids = [f"urn:uuid:{dice.randrange(1 << 128):032x}" for _ in range(3)]
    asked = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: CCBot/2.0\r\nAccept: */*\r\n\r\n".encode()
    block = one_page(dice, text)
    about = encode_warc_fields([("fetchTimeMs", "56"), ("charset-detected", "UTF-8"), ("languages-cld2", languages())])
    return [
        pack(request_headers(visit, describe_block(asked), record_id=ids[0]), asked),
        pack(
            response_headers(
                visit, describe_http_block(block), record_id=ids[1], concurrent_to=ids[0], payload_type="text/html"
            ),
            block,
        ),
        pack(metadata_headers(visit, describe_block(about), record_id=ids[2], concurrent_to=ids[1]), about),
    ]


def pack(headers: object, content: bytes) -> bytes:
    return compress_record(headers, content, compress=compress_dense)  # type: ignore[arg-type]


def one_page(dice: random.Random, text: list[str]) -> bytes:
    paragraphs = []
    for number in range(int(dice.lognormvariate(4.15, 0.9)) + 5):
        at = dice.randrange(len(text) - 100)
        paragraphs.append(
            f'<div class="c{number % 9}"><a href="/{number}">{text[at]}</a><p>{" ".join(text[at : at + 90])}'
        )
    body = "".join(["<!doctype html><html><body>\n", *paragraphs, "</body></html>"]).encode()
    head = "\r\n".join(
        ("HTTP/1.1 200 OK", *FIELDS, "Content-Type: text/html; charset=UTF-8", f"Content-Length: {len(body)}")
    )
    return head.encode() + b"\r\n\r\n" + body


def languages() -> str:
    language = {"code": "en", "code-iso-639-3": "eng", "text-covered": 0.98, "score": 1100.0, "name": "ENGLISH"}
    return json.dumps({"reliable": True, "text-bytes": 4000, "languages": [language]}, separators=(",", ":"))


# --- contestants ----------------------------------------------------------------------------------------------------


def index(path: Path, scan: ScanOptions) -> int:
    with path.open("rb", buffering=0) as file:
        lines = [item for item in index_file(file, filename=path.name, scan=scan) if not isinstance(item, Damage)]
    return len(sorted(lines))


def index_path(path: Path) -> int:
    return index(path, ScanOptions())


def fastwarc_heads(path: Path) -> int:
    with path.open("rb") as file:
        loop = ArchiveIterator(file, parse_http=False)
        return sum(record.record_type == WarcRecordType.response for record in loop)


def fastwarc_all(path: Path) -> int:
    count = 0
    with path.open("rb") as file:
        for record in ArchiveIterator(file, parse_http=False):
            record.reader.read()
            count += record.record_type == WarcRecordType.response
    return count


def judge(program: str, *arguments: str | Path) -> int:
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    output = subprocess.run([JUDGES / program, *arguments], check=True, capture_output=True, env=environment).stdout
    return output.count(b"\n")


def contestants(path: Path) -> dict[str, Callable[[], int]]:
    ours: dict[str, Callable[[], int]] = {
        "webmill": lambda: index_path(path),
        "webmill, verifying all": lambda: index(path, ScanOptions(verify=True)),
        "FastWARC loop, heads only": lambda: fastwarc_heads(path),
        "FastWARC loop, reading all": lambda: fastwarc_all(path),
    }
    if JUDGES.is_dir():
        ours["pywb cdx-indexer -j"] = lambda: judge("cdx-indexer", "-j", path)
        ours["cdxj-indexer"] = lambda: judge("cdxj-indexer", path)
    return ours


def start_of(program: str) -> float:
    def start() -> float:
        before = cpu_seconds()
        subprocess.run([JUDGES / program, "--help"], check=True, capture_output=True)
        return cpu_seconds() - before

    return min(start() for _ in range(3))


def race_file(title: str, path: Path) -> None:
    results = race(f"{title}, {path.stat().st_size / 1e6:.0f} MB", contestants(path), unit="captures")
    for name, program in (("pywb cdx-indexer -j", "cdx-indexer"), ("cdxj-indexer", "cdxj-indexer")):
        if name in results:
            ratio = (results[name].cpu - start_of(program)) / results["webmill"].cpu
            print(f"\n{name} without its start: {ratio:.2f} times our CPU")


def race_processes(folder: Path, *, captures: int) -> None:
    paths = [folder / f"{number}.warc.gz" for number in range(4)]
    for seed, path in enumerate(paths):
        make_file(path, captures=captures // 4, seed=seed)
    wall = {}
    for workers in (1, 2):
        with ProcessPoolExecutor(workers) as pool:
            list(pool.map(index_path, paths[:workers]))  # start them
            begin = time.perf_counter()
            list(pool.map(index_path, paths))
            wall[workers] = time.perf_counter() - begin
    print(f"\nFour files: two processes need {wall[2] / wall[1]:.2f} of the time of one ({os.cpu_count()} cores)")


def main() -> None:
    samples = Path(os.environ.get("WEBMILL_TEST_DATA", ROOT.parent / "shared" / "data"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.warc.gz"
        make_file(path, captures=CAPTURES)
        race_file("Indexing made pages", path)
        race_processes(Path(folder), captures=CAPTURES)
    if (samples / SAMPLE).is_file():
        race_file("Indexing real pages", samples / SAMPLE)


if __name__ == "__main__":
    main()
