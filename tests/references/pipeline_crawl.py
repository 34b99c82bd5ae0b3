"""A small CC-MAIN-2024-30 as `https://data.commoncrawl.org` has it, and the commands of both systems before it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.pipeline.cc_pages import Page, write_crawl
from tests.pipeline.dispatch_samples import in_blocks, write_index
from tests.unit.cli.command import Ended, webmill
from webmill.commoncrawl.selection import Selection
from webmill.formats.cdx.zipnum import ZipnumBlock, encode_block, format_summary_line
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.metrics import Metrics
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.memory import MemoryStorage
from webmill.pipeline.dispatch.batcher import BatcherContext, BatcherOptions, IndexSource, dispatch
from webmill.pipeline.dispatch.metrics import ALL

CRAWL = "CC-MAIN-2024-30"
INDEXES = f"cc-index/collections/{CRAWL}/indexes"
ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
VARIABLE = "RABBITMQ_CONNECTION_STRING"


def write_site(root: Path, *, pages: int) -> list[Page]:
    """WARC files, their index, and `cluster.idx` in a folder of its own, as if downloaded; return the English pages."""
    found = write_crawl(root, pages=pages, files=2)
    cluster = write_index(root / INDEXES, in_blocks([page.line.rstrip(b"\n") for page in found], 40))
    (root / "downloaded").mkdir()
    (root / "downloaded" / "cluster.idx").write_bytes(cluster.read_bytes())
    return [page for page in found if page.fields["languages"] == "eng" and page.fields["status"] == "200"]


def batch(site: Path | str, cluster: Path, queue: str, *flags: str | Path) -> Ended:
    """`cc-batcher`, in this process."""
    place = ("--base-url", site, "--queue", queue, "--rate", "0", "--no-metrics")
    return webmill("dropin", "cc-batcher", "--cluster-idx-filename", cluster, *place, *flags)


def batches_of(lines: Sequence[bytes], folder: Path, *, block: int = 3) -> list[list[dict[str, Any]]]:
    """What `cc-batcher` queues of these lines of an index."""
    cluster = write_index(folder / "site" / INDEXES, in_blocks(lines, block))
    ended = batch(folder / "site", cluster, f"sqlite:{folder}/q.sqlite", "--state", folder / "state")
    assert ended.code == 0, ended.err
    return queued(folder / "q.sqlite")


def queued(file: Path) -> list[list[dict[str, Any]]]:
    bodies = []
    with closing(SqliteQueue(file)) as queue, queue.consume() as consumer:
        while delivery := consumer.receive(timeout=0):
            bodies.append(json.loads(delivery.body))
            delivery.ack()
    return bodies


def work(site: Path | str, queue: str, out: Path, *flags: str | Path) -> Ended:
    """`cc-worker` until the queue is empty, in this process."""
    place = ("--base-url", site, "--queue", queue, "--rate", "0", "--no-metrics", "--executor", "inline")
    return webmill("dropin", "cc-worker", *place, "-o", out, "--until-empty", "--format", "jsonl", *flags)


@contextmanager
def running(*command: str | Path, **variables: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A process, and the lines that it has printed so far. It is ended with the block, if it runs yet."""
    process = subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, **variables},
    )
    lines: list[str] = []

    thread = threading.Thread(target=drain, args=(process, lines), daemon=True)
    thread.start()
    try:
        yield process, lines
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(60)
        thread.join(60)
        if process.stdout:
            process.stdout.close()


def drain(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stdout
    lines.extend(process.stdout)


def reference(part: str, site: str, argument: str | Path, url: str) -> Any:
    """The batcher or a worker of the document."""
    program = (sys.executable, "-m", "tests.references.pipeline_program", part, site, argument)
    return running(*program, **{VARIABLE: url})


def wait_until(condition: Callable[[], object], lines: Sequence[str] = (), *, seconds: float = 60.0) -> None:
    """The limit is for what never happens: no time is measured."""
    for _ in range(round(seconds / 0.05)):
        if condition():
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"it did not happen; printed: {''.join(lines)}")


def published(chunk: list[bytes], *, batch_size: int) -> int:
    """The batcher over a reader and a queue that are given: three rows of an index, each with the same answer."""
    storage, queue = MemoryStorage(), MemoryQueue()
    block = encode_block([line + b"\n" for line in chunk])
    key = b" ".join(chunk[0].split(b" ", 2)[:2])
    rows = [ZipnumBlock(key, "cdx-00000.gz", 0, len(block), number) for number in (1, 2, 3)]
    storage.write("cluster.idx", b"".join(map(format_summary_line, rows)))
    with tempfile.TemporaryDirectory() as folder:
        report = dispatch(
            IndexSource("test", storage, "cluster.idx", OneBlock(block)),
            Selection(languages=("eng",), statuses=("200",)),
            queue,
            root=Path(folder),
            executor=InlineExecutor(),
            options=BatcherOptions(batch_size=batch_size),
            around=BatcherContext(Metrics(ALL)),
        )
    assert report.published == queue.stats().ready
    return report.published


class OneBlock:
    """The document's `FakeDownloader`: a reader is what has the method."""

    def __init__(self, block: bytes) -> None:
        self._block = block

    def read(self, name: str, *, start: int, length: int) -> bytes:
        assert (name, start, length) == ("cdx-00000.gz", 0, len(self._block))
        return self._block


def write_configuration(folder: Path, address: str) -> Path:
    """deploy/prometheus.yml as it is, but for the address of this test, and every second."""
    for name in ("prometheus.yml", "prometheus/counters.yml", "prometheus/alerts.yml"):
        text = (DEPLOY / name).read_text().replace("127.0.0.1", address).replace(": 5s", ": 1s")
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return folder / "prometheus.yml"
