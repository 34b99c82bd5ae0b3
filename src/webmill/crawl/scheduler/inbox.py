"""Links and orders for a shard of a crawl: durable letters in a box that each shard has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from webmill.crawl.scheduler.commands import Order
from webmill.errors import BadInput
from webmill.model import Link

AT_ONCE = 16  # letters taken in one go
LINKS = 5_000  # in one letter: 10 MB where each is as long as may be

_decode: Callable[[bytes], list[Link] | Order] = msgspec.msgpack.Decoder(list[Link] | Order).decode


class Letter(msgspec.Struct, frozen=True):
    id: str
    body: bytes


class Box(Protocol):
    """Anyone may post; its shard's owner takes. A letter is there until it is dropped, whoever has taken it."""

    def post(self, letters: Sequence[bytes]) -> None:
        """Durable on return."""
        ...

    def take(self, count: int) -> list[Letter]:
        """The oldest. Only for the owner, who drops them before he takes again."""
        ...

    def drop(self, letters: Sequence[Letter]) -> None: ...

    def is_empty(self) -> bool: ...

    def close(self) -> None: ...


class Mail:
    """Of the shard `own` among `boxes`: its own box is emptied, the others are written to when first needed.

    What is sent is in the other's box when `send` returns. What is received must be `settle`d once it is durable here;
    a letter that was not comes again, and its links are known then.
    """

    def __init__(self, boxes: Sequence[Path], own: int, *, open_box: Callable[[Path], Box]) -> None:
        self._boxes = boxes
        self._open = open_box
        self._others: dict[int, Box] = {}
        self._box = open_box(boxes[own])
        self._held: list[tuple[Letter, list[Link] | Order]] = []

    def send(self, shard: int, links: Sequence[Link]) -> None:
        if shard not in self._others:
            self._others[shard] = self._open(self._boxes[shard])
        post(self._others[shard], links)

    def receive(self) -> list[Link]:
        """The links of all letters that are not settled yet."""
        if not self._held:
            self._held = [(letter, _read(letter)) for letter in self._box.take(AT_ONCE)]
        return [link for _, content in self._held if isinstance(content, list) for link in content]

    def orders(self) -> list[Order]:
        """Those that came with what was received."""
        return [content for _, content in self._held if not isinstance(content, list)]

    def settle(self) -> None:
        if self._held:
            self._box.drop([letter for letter, _ in self._held])
            self._held = []

    def is_empty(self) -> bool:
        return not self._held and self._box.is_empty()

    def close(self) -> None:
        for box in (self._box, *self._others.values()):
            box.close()


def post(box: Box, links: Sequence[Link]) -> None:
    """Links as letters in a box."""
    letters = (links[start : start + LINKS] for start in range(0, len(links), LINKS))
    box.post([msgspec.msgpack.encode(letter) for letter in letters])


def post_order(box: Box, order: Order) -> None:
    """It is done by the shard's owner, after all that was posted before it."""
    box.post([msgspec.msgpack.encode(order)])


def _read(letter: Letter) -> list[Link] | Order:
    try:
        return _decode(letter.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # tampered with
        raise BadInput(f"letter {letter.id}: {error}", reason="bad_letter") from error
