"""Documents from captures of a crawl: webmill's workers beside the sequential worker that they take the place of.

All fetch the same captures from the same nginx. The rival asks for one capture after the other, as its design does:
`requests`, `gzip`, warcio, `trafilatura.extract` on the payload; the text is thrown away. webmill keeps it: queue,
sandbox, languages, durable files and all. The pages are those of the Common Crawl-like sample when WEBMILL_TEST_DATA
(default ../shared/data) has it, else made here.

CPU ratios are printed by the frame; documents a second by the clock beside them, which mean something only on a
machine that does nothing else.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import requests
import trafilatura
from tests.services.nginx import nginx_serving
from warcio.archiveiterator import ArchiveIterator

from benchmarks.frame import Contestant, race
from webmill.commoncrawl.batch import batch_id, encode_batch
from webmill.extract.recipe import Recipe
from webmill.formats.cld2 import can_detect_languages
from webmill.formats.url.surt import surt
from webmill.formats.warc.http_records import read_response
from webmill.formats.warc.reader import read_records
from webmill.infra.executor.pool import PoolExecutor
from webmill.infra.queue.base import Message, is_drained
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.model import Record
from webmill.pipeline.extract.engine import EngineTimes, ExtractEngine
from webmill.pipeline.extract.output import ExtractOutput, OutputShape
from webmill.pipeline.extract.plan import ArchiveFetching, ExtractPlan, OutputTarget
from webmill.pipeline.extract.tasks import Task
from webmill.pipeline.extract.totals import TaskTotals
from webmill.settings import CommonCrawlSettings

SAMPLE = "triple/CC-MAIN-20240712094214-20240712124214-00000.warc.gz"
PAGES = 1000
TIMES = 3  # each page: a run of hours does not feel the start of its processes, one of seconds does
BATCH = 50
RUN = "0123456789ab"


def main() -> None:
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        lines = index_of(root / "crawl")
        with nginx_serving(root / "crawl") as server:
            for extractor in ("resiliparse", "trafilatura"):
                clock: dict[str, float] = {}
                contestants: dict[str, Contestant] = {
                    f"webmill, {extractor}": lambda extractor=extractor: webmill(  # type: ignore[misc]
                        root, server.url, lines, extractor=extractor
                    ),
                    "one after the other, trafilatura": lambda: sequential(server.url, lines),
                }
                timed = {name: on_the_clock(name, contestant, clock) for name, contestant in contestants.items()}
                race(f"Documents from a crawl: {extractor}", timed, unit="documents", rounds=1)
                tell(clock, len(lines))


def on_the_clock(name: str, contestant: Contestant, best: dict[str, float]) -> Callable[[], int]:
    def run() -> int:
        began = time.perf_counter()
        count = contestant()
        best[name] = min(best.get(name, float("inf")), time.perf_counter() - began)
        return count

    return run


def tell(clock: dict[str, float], documents: int) -> None:
    print("\n| by the clock | documents/s |\n|---|---:|")
    for name, seconds in clock.items():
        print(f"| {name} | {documents / seconds:,.0f} |")
    ours, theirs = clock.values()
    print(f"\n{theirs / ours:.1f} times as many on {os.cpu_count()} cores.")


# --- contestants ------------------------------------------------------------------------------------------------------


def webmill(root: Path, url: str, lines: list[bytes], *, extractor: str) -> int:
    with tempfile.TemporaryDirectory(dir=root) as folder:
        out = f"{folder}/documents"
        queue = SqliteQueue(Path(folder) / "queue.sqlite")
        queue.publish(messages(lines))
        output = ExtractOutput(
            out, f"{out}/.webmill", shape=OutputShape(recipe=Recipe(extractor=extractor, detect=can_detect_languages()))
        )
        output.prepare()
        plan = ExtractPlan(
            name="benchmark",
            source=url,
            output=OutputTarget(to=out, format="parquet"),
            errors=OutputTarget(to=f"{out}/.webmill/errors"),
            state=f"{out}/.webmill",
            recipe=output.shape.recipe,
            spooled=True,
            fetching=ArchiveFetching(commoncrawl=CommonCrawlSettings(rate=0.0), cache_size=0),
        )
        with closing(queue), closing(PoolExecutor(workers=2)) as executor:
            engine = ExtractEngine(queue, executor, plan, pace=EngineTimes(), observer=Unwatched())
            engine.run(stop=threading.Event(), is_over=lambda: is_drained(queue))
            (part,) = output.finish(lambda _: False)
        return part.rows


class Unwatched:
    def began(self, task: Task) -> None:
        pass

    def ended(self, task: Task, totals: TaskTotals | None) -> None:
        pass


def sequential(url: str, lines: list[bytes]) -> int:
    count = 0
    for message in messages(lines):
        for item in json.loads(message.body):
            data = download(url, item["metadata"])
            for record in ArchiveIterator(io.BytesIO(data)):
                if record.rec_type == "response":
                    trafilatura.extract(record.content_stream().read())
                    count += 1
    return count


def download(url: str, metadata: dict[str, Any]) -> bytes:
    start, length = int(metadata["offset"]), int(metadata["length"])
    headers = {"Range": f"bytes={start}-{start + length - 1}"}
    return gzip.decompress(requests.get(f"{url}/{metadata['filename']}", headers=headers, timeout=30).content)


def messages(lines: list[bytes]) -> list[Message]:
    starts = enumerate(range(0, len(lines), BATCH), 1)
    return [Message(batch_id(RUN, number), encode_batch(lines[at : at + BATCH])) for number, at in starts]


# --- input ------------------------------------------------------------------------------------------------------------


def index_of(root: Path) -> list[bytes]:
    """Lines of an index of HTML pages in a WARC file below `root`."""
    sample = Path(os.environ.get("WEBMILL_TEST_DATA", "../shared/data")) / SAMPLE
    file = root / "crawl-data" / "sample.warc.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(sample.read_bytes() if sample.exists() else made())
    with file.open("rb") as source:
        found = (line_of(record) for record in read_records(source) if isinstance(record, Record))
        return sorted(line for line in found if line)[:PAGES] * TIMES


def line_of(record: Record) -> bytes | None:
    if record.type != "response" or "html" not in (read_response(record.content).content_type or ""):
        return None
    url = record.target_uri or ""
    fields = {"url": url, "mime": "text/html", "mime-detected": "text/html", "status": "200"}
    fields |= {"filename": "crawl-data/sample.warc.gz", "offset": str(record.offset), "length": str(record.length)}
    return f"{surt(url)} 20240101000000 {json.dumps(fields)}\n".encode()


def made() -> bytes:
    from tests.pipeline.cc_pages import write_crawl

    with tempfile.TemporaryDirectory() as folder:
        write_crawl(Path(folder), pages=PAGES, files=1)
        return next(Path(folder).rglob("*.warc.gz")).read_bytes()
