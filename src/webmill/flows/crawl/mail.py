"""Links from one shard of a crawl to another: durable batches through a queue that each shard has as its letter box."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from webmill.errors import BadInput, Conflict
from webmill.infra.queue.base import Delivery, Message, Queue
from webmill.model import Link

AT_ONCE = 16  # letters taken in one go
LINKS = 5_000  # in one letter: 10 MB where each is as long as may be

_decode = msgspec.msgpack.Decoder(list[Link]).decode


class Box(Queue, Protocol):
    def end_leases(self) -> None:
        """For its owner, who knows that no earlier one lives: what they held is to be had again."""
        ...


class Mail:
    """Of the shard `own` among `boxes`: its own box is emptied, the others are written to when first needed.

    What is sent is in the other's box when `send` returns. What is received must be `settle`d once it is durable here;
    a letter that was not comes again, and its links are known then.
    """

    def __init__(self, boxes: Sequence[Path], own: int, *, open_box: Callable[[Path], Box]) -> None:
        self._boxes = boxes
        self._open = open_box
        self._others: dict[int, Queue] = {}
        self._box = open_box(boxes[own])
        self._box.end_leases()
        self._letters = self._box.consume(prefetch=AT_ONCE)
        self._held: list[tuple[Delivery, list[Link]]] = []

    def send(self, shard: int, links: Sequence[Link]) -> None:
        if shard not in self._others:
            self._others[shard] = self._open(self._boxes[shard])
        post(self._others[shard], links)

    def receive(self) -> list[Link]:
        """The links of all letters that are not settled yet."""
        while len(self._held) < AT_ONCE and (letter := self._letters.receive(timeout=0)):
            self._held.append((letter, _read(letter)))
        return [link for _, links in self._held for link in links]

    def settle(self) -> None:
        for letter, _ in self._held:
            try:
                letter.ack()
            except Conflict:  # held for too long: it comes again
                pass
        self._held.clear()

    def is_empty(self) -> bool:
        stats = self._box.stats()
        return not (stats.ready or stats.leased or stats.delayed or self._held)

    def close(self) -> None:
        self._letters.close()
        for queue in (self._box, *self._others.values()):
            queue.close()


def post(box: Queue, links: Sequence[Link]) -> None:
    """Links as letters in a box."""
    letters = (links[start : start + LINKS] for start in range(0, len(links), LINKS))
    box.publish(Message(uuid.uuid4().hex, msgspec.msgpack.encode(letter)) for letter in letters)


def _read(letter: Delivery) -> list[Link]:
    try:
        return _decode(letter.body)
    except msgspec.MsgspecError as error:  # tampered with: another webmill's file has another schema
        raise BadInput(f"letter {letter.id}: {error}", reason="bad_letter") from error
