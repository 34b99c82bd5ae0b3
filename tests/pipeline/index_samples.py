"""Small collections, and what `webmill index` publishes of them, read by code that shares nothing with it."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from webmill.collection import Collection
from webmill.formats.warc.record_headers import CaptureEvent, describe_http_block, response_headers
from webmill.formats.warc.writer import compress_record
from webmill.index.archives import find_archives
from webmill.infra.executor.base import Executor
from webmill.infra.executor.inline import InlineExecutor
from webmill.model import Headers
from webmill.pipeline.index import IndexingOptions, IndexReport, index_collection

NAME = "TEST-2024"
START = datetime(2024, 1, 1, tzinfo=UTC)
LATER = 10_000_000_000  # nanoseconds: every file has rested by then


def record(number: int, *, encode: Callable[[Headers, bytes], bytes] = compress_record) -> bytes:
    """A capture of one of a hundred pages, as a gzip member unless told otherwise."""
    body = f"page {number:06d} ".encode() * 9
    content = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    visit = CaptureEvent(
        uri=f"http://h{number % 7}.example.org/{number % 100:03d}", date=START + timedelta(hours=number)
    )
    return encode(response_headers(visit, describe_http_block(content), record_id=f"urn:x:{number}"), content)


def warc(*numbers: int) -> bytes:
    return b"".join(map(record, numbers))


def collection_at(root: Path) -> Collection:
    return Collection(root, NAME)


def put(root: Path, path: str, data: bytes) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


class Silent:
    def advance(self, count: int = 1) -> None: ...


@contextmanager
def no_progress(title: str, *, total: int | None = None, unit: str) -> Iterator[Silent]:
    yield Silent()


def index(
    root: Path, options: IndexingOptions | None = None, *, executor: Executor | None = None, **more: object
) -> IndexReport:
    """In this process, unless an executor is given."""
    options, executor = options or IndexingOptions(shards=3, lines=5), executor or InlineExecutor()
    return index_collection(collection_at(root), options, executor=executor, progress=no_progress, **more)  # type: ignore[arg-type]


def index_from_scratch(root: Path, elsewhere: Path, options: IndexingOptions | None = None) -> dict[str, bytes]:
    """What a run on a copy of the archives alone, in a folder that never was an index, publishes."""
    shutil.rmtree(elsewhere, ignore_errors=True)
    elsewhere.mkdir()
    for file in sorted(root.rglob("*arc*")):
        if file.is_file() and file.relative_to(root).parts[0] not in ("cdxj", "cc-index", "rejected"):
            put(elsewhere, str(file.relative_to(root)), file.read_bytes())
    if not any(find_archives(collection_at(elsewhere), refuse=print)):  # then it is an index whose archives went
        passing = put(elsewhere, "passing.warc.gz", b"")
        index(elsewhere, options)
        passing.unlink()
    index(elsewhere, options)
    return published(elsewhere)


def at_rest() -> int:
    """A clock for `index`: every file has rested."""
    return time.time_ns() + LATER


def webmill(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, without processes of its own unless told otherwise: they take their time to start."""
    command = [sys.executable, "-m", "webmill", *map(str, arguments)]
    environment = {**os.environ, "WEBMILL_EXECUTOR_URL": "inline", **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def rejects(root: Path) -> list[dict[str, object]]:
    file = root / "rejected" / "index.jsonl"
    return [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []


def indexes(root: Path) -> Path:
    return root / "cc-index" / "collections" / NAME / "indexes"


def tables(root: Path) -> Path:
    return root / "cc-index" / "table" / "cc-main" / "warc" / f"crawl={NAME}" / "subset=warc"


def shard_names(root: Path) -> list[str]:
    summary = indexes(root) / "cluster.idx"
    lines = summary.read_bytes().splitlines() if summary.exists() else []
    rows = [line.split(b"\t") for line in lines]
    return list(dict.fromkeys(row[1].decode(errors="replace") for row in rows if len(row) > 1))  # it may be cut


def published(root: Path) -> dict[str, bytes]:
    """All that readers are promised: path to bytes. Shards that no summary names are none of it."""
    files = [indexes(root) / name for name in ("cluster.idx", "cluster.loc", *shard_names(root))]
    files += sorted(tables(root).iterdir()) if tables(root).exists() else []
    files += [root / "crawl-data" / NAME / f"{kind}.paths.gz" for kind in ("warc", "cc-index", "cc-index-table")]
    files += [file for file in [root / "rejected" / "index.jsonl"] if file.exists()]
    return {str(file.relative_to(root)): file.read_bytes() for file in files}


def lines_of(root: Path) -> list[bytes]:
    """Every line of the index, block by block as the summary tells; any hole, tear or disorder is an error."""
    found: list[bytes] = []
    summary = (indexes(root) / "cluster.idx").read_bytes().splitlines()
    for number, row in enumerate(summary, start=1):
        key, shard, offset, length, running = row.split(b"\t")
        data = (indexes(root) / shard.decode()).read_bytes()[int(offset) :][: int(length)]
        assert len(data) == int(length), f"{shard!r} is too short"
        lines = gzip.decompress(data).splitlines(keepends=True)
        assert lines[0].startswith(key)
        assert int(running) == number
        found += lines
    assert found == sorted(found)
    return found


def leftovers(root: Path) -> list[Path]:
    """Temporary files and folders; locks, and the tables just replaced, are none."""
    mine = [path for path in root.rglob(".webmill-*") if not path.name.endswith("-lock") and "-old-" not in path.name]
    return mine + list(root.rglob("webmill-sort-*"))
