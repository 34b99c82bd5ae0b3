"""The progress of a crawl for others: a small file beside its frontier, written every few seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from webmill.crawl.progress import CrawlProgress
from webmill.errors import BadInput, NotFound, Unavailable
from webmill.infra import atomic
from webmill.infra.checksums import seal_json, unseal_json
from webmill.infra.lock import is_locked

log = logging.getLogger(__name__)

WRITE_INTERVAL = 2.0
FILE = "status.json"
ENDS = {  # how the last run ended, by what its file says
    "finished": "finished: nothing was left to fetch",
    "waiting": "ended because every remaining host must wait for long",
    "pages": "ended at its limit of pages",
    "seconds": "ended at its limit of time",
    "bytes": "ended at its limit of bytes",
    "stopped": "was stopped",
    "": "was killed, or the machine went down",
}


class CrawlStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a crawl stands. `time` is when that was written. `is_running` comes from the lock, not from the file."""

    time: float
    name: str
    started: float
    end: str = ""
    total: CrawlProgress
    is_running: bool = False


class StatusFile:
    """Writes the progress of a crawl. `slot`: of one node of many that share this folder."""

    def __init__(self, folder: Path, *, name: str, started: float, clock: Callable[[], float], slot: str = "") -> None:
        self._path = folder / (f"status-{slot}.json" if slot else FILE)
        self._name, self._started, self._clock = name, started, clock
        self._next = 0.0

    def show(self, progress: CrawlProgress) -> None:
        if time.monotonic() >= self._next:
            self.write(progress)
            self._next = time.monotonic() + WRITE_INTERVAL

    def write(self, progress: CrawlProgress, *, end: str = "") -> None:
        status = CrawlStatus(time=self._clock(), name=self._name, started=self._started, end=end, total=progress)
        try:
            atomic.write_bytes(self._path, seal_json(msgspec.json.encode(status)))
        except Unavailable as error:  # the crawl waits for room on the disk; this need not be kept
            log.warning("no status written", extra={"why": str(error)})


def node_slots(folder: Path) -> list[str]:
    """Return the slots of nodes that share this folder, or did; [""] for a crawl on one machine."""
    found = sorted(path.name.removeprefix("status-").removesuffix(".json") for path in folder.glob("status-*.json"))
    return found or [""]


def read_status(folder: Path, *, slot: str = "") -> CrawlStatus:
    """Return how the crawl in `folder` stands, which is the `frontier/` of a collection."""
    path = folder / (f"status-{slot}.json" if slot else FILE)
    try:
        data = unseal_json(path.read_bytes(), source=str(path), repair="the next run writes it anew")
        status = msgspec.json.decode(data, type=CrawlStatus)
    except msgspec.MsgspecError as error:
        raise BadInput(f"{error}: the next run writes it anew", reason="bad_status", source=str(path)) from error
    except FileNotFoundError:
        raise NotFound(f"no crawl in {folder.parent}: begin one with `webmill crawl {folder.parent} URL`") from None
    return msgspec.structs.replace(status, is_running=is_locked(folder, f"node-{slot}" if slot else "crawl"))
