"""How a crawl stands, for whoever looks from outside: a small file beside its frontier, written every few seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from webmill.crawl.progress import Snapshot
from webmill.errors import BadInput, NotFound, Unavailable
from webmill.infra import atomic
from webmill.infra.lock import is_locked

log = logging.getLogger(__name__)

EVERY = 2.0
FILE = "status.json"
ENDS = {  # how the last run ended, by what its file says
    "finished": "finished: nothing was left to fetch",
    "waiting": "ended when nothing could be asked for long",
    "pages": "ended at its limit of pages",
    "seconds": "ended at its limit of time",
    "bytes": "ended at its limit of bytes",
    "stopped": "was stopped",
    "": "was killed, or the machine went down",
}


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """`time` is when it was written. `is_running` is asked of the lock, not of the file."""

    time: float
    name: str
    started: float
    end: str = ""
    total: Snapshot
    is_running: bool = False


class StatusFile:
    """`seat`: of one node of many that have this folder, maybe."""

    def __init__(self, folder: Path, *, name: str, started: float, clock: Callable[[], float], seat: str = "") -> None:
        self._path = folder / (f"status-{seat}.json" if seat else FILE)
        self._name, self._started, self._clock = name, started, clock
        self._next = 0.0

    def show(self, seen: Snapshot) -> None:
        if time.monotonic() >= self._next:
            self.write(seen)
            self._next = time.monotonic() + EVERY

    def write(self, seen: Snapshot, *, end: str = "") -> None:
        status = Status(time=self._clock(), name=self._name, started=self._started, end=end, total=seen)
        try:
            atomic.write_bytes(self._path, msgspec.json.encode(status) + b"\n")
        except Unavailable as error:  # the crawl waits for room on the disk; this need not be kept
            log.warning("no status written", extra={"why": str(error)})


def seats(folder: Path) -> list[str]:
    """Of nodes that have this folder, or had it; [""] for a crawl on one machine."""
    found = sorted(path.name.removeprefix("status-").removesuffix(".json") for path in folder.glob("status-*.json"))
    return found or [""]


def read_status(folder: Path, *, seat: str = "") -> Status:
    """`folder` is the crawl's `frontier/`."""
    path = folder / (f"status-{seat}.json" if seat else FILE)
    try:
        status = msgspec.json.decode(path.read_bytes(), type=Status)
    except msgspec.MsgspecError as error:
        raise BadInput(f"{error}: the next run writes it anew", reason="bad_status", source=str(path)) from error
    except FileNotFoundError:
        raise NotFound(f"no crawl in {folder.parent}: begin one with `webmill crawl {folder.parent} URL`") from None
    return msgspec.structs.replace(status, is_running=is_locked(folder, f"node-{seat}" if seat else "crawl"))
