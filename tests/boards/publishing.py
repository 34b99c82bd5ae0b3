"""Boards without a web: what stands on them is set by hand. And a cycle in one call, with its parts in view."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from webmill.boards.aggregator import RunOutcome
from webmill.boards.board_list import Board
from webmill.boards.run_loop import RunContext, run_once
from webmill.boards.types import BoardResult, KnownNotice, Notice
from webmill.boards.workers import BoardWorkerOptions, BoardWorkers
from webmill.infra.queue.base import Queue
from webmill.infra.storage.base import Readable, Storage
from webmill.publish.publication import PublishOptions
from webmill.publish.types import PublishProblem

LONG = timedelta(minutes=5)
QUICK = BoardWorkerOptions(threads=4, attempts=3, heartbeat_interval=1.0, first_delay=0.01, longest_delay=0.05)


def boards(count: int) -> list[Board]:
    """All of them are called "notice" by their departments."""
    return [
        Board(
            source=f"Seoul/d{number:03d}/notice",
            board="notice",
            url=f"http://d{number:03d}.test/",
            facets={"campus": "Seoul" if number % 2 else "Incheon"},
        )
        for number in range(count)
    ]


class MemoryBoardReader:
    """What stands on every board. A reader like `BoardReader`, for many threads."""

    def __init__(self, found: list[Board], *, notices: int = 3) -> None:
        self.boards = found
        self.texts = {board.source: {str(n): f"{board.source} {n}" for n in range(notices)} for board in found}
        self.failing: dict[str, bool] = {}  # source -> whether it may work later
        self.asked: Counter[str] = Counter()  # bodies
        self.readings: Counter[str] = Counter()
        self.before: Callable[[Board], None] = lambda _: None
        self._lock = threading.Lock()

    def read(self, board: Board, *, known: Mapping[str, KnownNotice]) -> BoardResult:
        with self._lock:
            self.readings[board.source] += 1
        self.before(board)
        source = board.source
        if source in self.failing:
            problem = PublishProblem(stage="fetch", source=source, url=board.url, message="HTTP 500", retryable=True)
            return BoardResult(source=source, failed=True, retryable=self.failing[source], problems=(problem,))
        items = tuple(self._notice(board, row, text, known) for row, text in self.texts[source].items())
        return BoardResult(source=source, items=items, counts={"requests": 1})

    def _notice(self, board: Board, row: str, text: str, known: Mapping[str, KnownNotice]) -> Notice:
        id_, digest = f"{board.source}/{row}", hashlib.sha256(text.encode()).hexdigest()[:16]
        before = known.get(id_)
        is_known = before is not None and before.row == digest
        if not is_known:
            with self._lock:
                self.asked[id_] += 1
        return Notice(
            id=id_,
            url=f"{board.url}{row}",
            content=None if is_known else {"text": text},
            hash=before.hash if before and is_known else "",
            facets=board.facets,
            metadata={"title": text[:20]},
            row=digest,
            checked=1.0,
        )

    def content(self) -> dict[str, str]:
        return {f"{source}/{row}": text for source, rows in self.texts.items() for row, text in rows.items()}


@contextmanager
def working(
    storage: Storage, queue: Queue, reader: Any, worker_options: BoardWorkerOptions = QUICK
) -> Iterator[BoardWorkers]:
    """Workers beside the test, told to stop at its end."""
    stop = threading.Event()
    board_workers = BoardWorkers(storage, queue, reader, worker_options)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            board_workers.run(stop=stop)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield board_workers
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


def cycle(
    storage: Storage,
    queue: Queue,
    reader: MemoryBoardReader,
    *,
    options: PublishOptions | None = None,
    deadline: timedelta = LONG,
    worker_options: BoardWorkerOptions = QUICK,
) -> RunOutcome:
    """One run with workers of its own."""
    around = RunContext(stop=threading.Event(), poll_interval=0.02)
    with working(storage, queue, reader, worker_options):
        options = options or PublishOptions(facets=("campus",))
        return run_once(storage, queue, reader.boards, deadline=deadline, options=options, context=around)


def file_of(storage: Readable, outcome: RunOutcome, key: str) -> Any:
    return json.loads(storage.read(f"snapshots/{outcome.version}/{key}"))


def changes(storage: Readable, outcome: RunOutcome) -> dict[str, list[str]]:
    diff = file_of(storage, outcome, "aux/diff.json")
    return {
        name: [one["id"] for one in diff[name]] for name in ("added", "changed", "removed", "relabelled") if diff[name]
    }


def checked_items(storage: Readable) -> dict[str, Any]:
    """Every item of the live version by id, each with content that hashes to its name; by keys and hashes alone."""
    version = json.loads(storage.read("latest.json"))["version"]
    index = json.loads(storage.read(f"snapshots/{version}/index/all.json"))
    items = index.get("items") or [item for shard in index["shards"] for item in blob(storage, shard["hash"])]
    assert len(items) == index["count"]
    for item in items:
        blob(storage, item["hash"])
    return {item["id"]: item for item in items}


def blob(storage: Readable, hash_: str) -> Any:
    data = storage.read(f"blobs/sha256/{hash_}.json")
    assert hashlib.sha256(data).hexdigest() == hash_
    return json.loads(data)
