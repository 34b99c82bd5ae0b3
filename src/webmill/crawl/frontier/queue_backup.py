"""The queues of a frontier in one file: what waits, without what was consumed. A million files would take too long."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from webmill.crawl.frontier.framed_file import read_frames, write_frames
from webmill.crawl.frontier.state import DomainState
from webmill.crawl.frontier.url_queue_files import UrlQueue, UrlQueueFiles, hash_domain
from webmill.errors import BadInput

log = logging.getLogger(__name__)

QUEUES_FILE = "lanes.pack"
PART_SIZE = 1 << 20  # bytes in one frame


class QueuePart(msgspec.Struct, array_like=True):
    """Of a queue: its bytes from a position on. They may end inside a line."""

    domain: str
    priority: int
    position: int
    data: bytes


_part = msgspec.msgpack.Decoder(QueuePart)
_encode = msgspec.msgpack.Encoder().encode


def write_queues(path: Path, domains: Iterable[DomainState], queues: UrlQueueFiles) -> None:
    write_frames(path, (_encode(part) for domain in domains for part in read_parts(domain, queues)))


def read_parts(domain: DomainState, queues: UrlQueueFiles) -> Iterator[QueuePart]:
    try:
        for priority, (start, end) in domain.queues.items():
            queue = UrlQueue(domain.hash, priority)
            for at in range(start, end, PART_SIZE):
                yield QueuePart(domain.name, priority, at, queues.bytes_of(queue, at, min(end, at + PART_SIZE)))
    except BadInput as error:
        if not domain.excluded:  # else its operator knows, and the copy is damaged as the original is
            raise
        log.warning("frontier_lane_damaged", extra={"domain": domain.name, "why": str(error)})


def restore_queues(path: Path, folder: Path, *, size: int) -> None:
    """Write the queues of a backup as files of a frontier, each at its positions. Not synced."""
    queues = UrlQueueFiles(folder, size=size)
    try:
        for frame in read_frames(path):
            part = _part.decode(frame)
            queues.write(UrlQueue(hash_domain(part.domain), part.priority), part.position, part.data)
        queues.flush()
    finally:
        queues.close()
