"""The lanes of a frontier in one file: what waits, without what was consumed. A million files would take too long."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from webmill.crawl.frontier.frames import read_frames, write_frames
from webmill.crawl.frontier.lanes import Lane, Lanes, hash_of_domain
from webmill.crawl.frontier.state import Domain
from webmill.errors import BadInput

log = logging.getLogger(__name__)

PACK = "lanes.pack"
PART = 1 << 20  # bytes in one frame


class Part(msgspec.Struct, array_like=True):
    """Of a lane: its bytes from a position on. They may end inside a line."""

    domain: str
    priority: int
    position: int
    data: bytes


_part = msgspec.msgpack.Decoder(Part)
_encode = msgspec.msgpack.Encoder().encode


def write_pack(path: Path, domains: Iterable[Domain], lanes: Lanes) -> None:
    write_frames(path, (_encode(part) for domain in domains for part in parts_of(domain, lanes)))


def parts_of(domain: Domain, lanes: Lanes) -> Iterator[Part]:
    try:
        for priority, (start, end) in domain.lanes.items():
            lane = Lane(domain.hash, priority)
            for at in range(start, end, PART):
                yield Part(domain.name, priority, at, lanes.bytes_of(lane, at, min(end, at + PART)))
    except BadInput as error:
        if not domain.excluded:  # else its operator knows, and the copy is damaged as the original is
            raise
        log.warning("frontier_lane_damaged", extra={"domain": domain.name, "why": str(error)})


def unpack(path: Path, folder: Path, *, size: int) -> None:
    """As files of a frontier, each lane at its positions. Not synced."""
    lanes = Lanes(folder, size=size)
    try:
        for frame in read_frames(path):
            part = _part.decode(frame)
            lanes.write(Lane(hash_of_domain(part.domain), part.priority), part.position, part.data)
        lanes.flush()
    finally:
        lanes.close()
