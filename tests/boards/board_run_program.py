"""A process that orchestrates, works or puts together, to be killed. Boards are a file that the test writes."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import msgspec

from tests.boards.publishing import QUICK, MemoryBoardReader, boards
from webmill.boards.aggregator import aggregate
from webmill.boards.board_list import Board
from webmill.boards.jobs import parse_job
from webmill.boards.orchestrator import RunOptions, start_run
from webmill.boards.process_job import PreviousVersion, process_job
from webmill.boards.run_loop import RunContext, run_once
from webmill.boards.types import BoardResult, KnownNotice
from webmill.boards.workers import BoardWorkers
from webmill.errors import Conflict, NotFound, Unavailable
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.local import LocalStorage
from webmill.publish.fragments import open_runs
from webmill.publish.holder import this_process
from webmill.publish.publication import PublishOptions

OPTIONS = PublishOptions(inline=4, force=True, facets=("campus",))
LEASE = 4.0  # seconds that a killed worker's job is lost; many beats of a living one
WORKER_OPTIONS = msgspec.structs.replace(QUICK, heartbeat_interval=0.2)
POISON = "kills whoever reads it"


class FileBoardReader(MemoryBoardReader):
    """`texts.json`: source -> row -> text."""

    def __init__(self, root: Path) -> None:
        self.file = root / "texts.json"
        super().__init__(boards(len(json.loads(self.file.read_text()))))

    def read(self, board: Board, *, known: Mapping[str, KnownNotice]) -> BoardResult:
        self.texts = json.loads(self.file.read_text())
        if POISON in self.texts[board.source].values():
            os._exit(9)
        return super().read(board, known=known)


def main() -> None:
    command, root = sys.argv[1], Path(sys.argv[2])
    storage = LocalStorage(root / "store")
    queue = SqliteQueue(root / "queue.sqlite", max_attempts=QUICK.attempts, lease=LEASE)
    reader = FileBoardReader(root)
    match command:
        case "whole":
            whole(storage, queue, reader, OPTIONS)
        case "calm":
            whole(storage, queue, reader, msgspec.structs.replace(OPTIONS, force=False))
        case "run":
            run_on(storage, queue, reader)
        case "work":
            BoardWorkers(storage, queue, reader, WORKER_OPTIONS).run(stop=threading.Event())
        case "aggregate":
            aggregate_on(storage, queue)
    queue.close()


def whole(storage: LocalStorage, queue: SqliteQueue, reader: FileBoardReader, options: PublishOptions) -> None:
    """Everything in one thread, so that each of its writes has a number."""
    planning = RunOptions(holder=this_process(), publish=options)
    plan = start_run(storage, queue, reader.boards, options=planning)
    previous = PreviousVersion(storage)
    with queue.consume() as consumer:
        while aggregated(storage, queue, plan.run, options) is None:
            delivery = consumer.receive(timeout=10)
            if delivery:
                process_job(storage, parse_job(delivery.body), reader=reader, previous=previous)
                delivery.ack()


def aggregated(storage: LocalStorage, queue: SqliteQueue, run: str, options: PublishOptions = OPTIONS) -> object:
    outcome = aggregate(storage, queue, run, options=options)
    if outcome:
        print_line(f"published {outcome.version}")
    return outcome


def run_on(storage: LocalStorage, queue: SqliteQueue, reader: FileBoardReader) -> None:
    """One run after the other; workers and other aggregators are elsewhere."""
    around = RunContext(stop=threading.Event(), poll_interval=0.02)
    while True:
        try:
            deadline = timedelta(minutes=10)
            outcome = run_once(storage, queue, reader.boards, deadline=deadline, options=OPTIONS, context=around)
            print_line(f"published {outcome.version} {outcome.refused}")
        except (Conflict, Unavailable) as error:
            print_line(f"not this time: {error}")


def aggregate_on(storage: LocalStorage, queue: SqliteQueue) -> None:
    """A second aggregator, which looks for runs that are complete."""
    while True:
        for run in open_runs(storage):
            try:
                aggregated(storage, queue, run)
            except (Conflict, NotFound, Unavailable) as error:
                print_line(f"not this time: {error}")
        time.sleep(0.01)


def print_line(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
