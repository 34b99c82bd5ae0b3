"""A queue in one SQLite file at work, to be killed and refused: `queue|tasks MODE FOLDER`; of tasks it remembers what
is done.

It prints `added ID …` and `settled ID` when the call that promises it has returned, and `settling ID` before.

work      a few rounds
too_early the same with its lines before the calls: a negative control
stubborn  more of them, on a disk that refuses: what was refused is tried again
endless   rounds for ever
relaxed   rounds for ever, and nothing waits for the disk: a negative control
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from webmill.errors import Unavailable
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.sqlite import Database

ROUNDS, BATCH = 6, 3
FILE = "file.sqlite"
BODY, RESULT = b"x" * 1500, b"y" * 700


class Queue:
    remember = False

    def __init__(self, folder: Path) -> None:
        self.queue = SqliteQueue(folder / FILE, remember=self.remember)
        self.consumer = self.queue.consume()

    def add(self, ids: Iterable[str]) -> None:
        self.queue.publish(Message(id_, BODY) for id_ in ids)

    def take(self) -> tuple[str, Callable[[], None]]:
        delivery = self.consumer.receive(timeout=0)
        assert delivery
        return delivery.id, lambda: delivery.ack(RESULT)

    def close(self) -> None:
        self.consumer.close()
        self.queue.close()


class Tasks(Queue):
    remember = True


KINDS: dict[str, type[Queue]] = {"queue": Queue, "tasks": Tasks}


def main() -> None:
    kind, mode, folder = sys.argv[1:]
    if mode == "relaxed":
        transaction = Database._transaction
        Database._transaction = lambda self, _: transaction(self, "OFF")  # type: ignore[method-assign]
    patience = 60 if mode == "stubborn" else 1
    place = insisting(lambda: KINDS[kind](Path(folder)), patience)
    rounds = {"work": ROUNDS, "too_early": ROUNDS, "stubborn": 10 * ROUNDS}
    for number in range(rounds[mode]) if mode in rounds else itertools.count():
        ids = [f"{number}-{step}" for step in range(BATCH)]
        promise(f"added {' '.join(ids)}", lambda ids=ids: insisting(lambda: place.add(ids), patience), mode)  # type: ignore[misc]
        name, settle = insisting(place.take, patience)
        print(f"settling {name}", flush=True)
        promise(f"settled {name}", lambda settle=settle: insisting(settle, patience), mode)  # type: ignore[misc]
    insisting(place.close, patience)


def promise(line: str, call: Callable[[], object], mode: str) -> None:
    if mode != "too_early":
        call()
    print(line, flush=True)
    if mode == "too_early":
        call()


def insisting(call: Callable[[], Any], patience: int) -> Any:
    for _ in range(patience - 1):
        try:
            return call()
        except Unavailable:
            pass
    return call()


if __name__ == "__main__":
    main()
