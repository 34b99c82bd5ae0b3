"""What a person tells a run of a crawl as a whole, and the log of all that persons told it.

    DIR/frontier/control/ID.json     a request: stop, or read the settings again; the coordinator removes it when done
    DIR/frontier/log/control.jsonl   who did what when: a line of JSON for each action (docs/reference/crawl-log.md)

A request is durable when it is sent. It is for the run under way: the next one begins without it. What is told to
shards (pause, add, exclude) goes through their inboxes (`scheduler/commands.py`); nodes are told through Redis
(`cluster/`).
"""

from __future__ import annotations

import getpass
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from webmill.crawl.reload import ReloadedSettings
from webmill.errors import WebmillError
from webmill.infra import atomic, waiting
from webmill.masking import hide_secrets

log = logging.getLogger(__name__)

FOLDER = "control"
LOG_FILE, OLD_LOG_FILE = "log/control.jsonl", "log/control.old.jsonl"
LOG_BYTES = 4 << 20  # of one of the two
LONGEST_DETAILS = 2000  # characters
POLL_INTERVAL = 0.3  # seconds between two looks for requests
ANSWER_PATIENCE = 10.0  # seconds for the coordinator to answer

RunAction = Literal["stop", "reload"]


class ControlRequest(msgspec.Struct, frozen=True):
    """Something that the coordinator of the run is to do. `by` says for whom."""

    id: str
    action: RunAction
    by: str


class ControlEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person has told a crawl. `request` is the id of what the coordinator was asked to do."""

    time: float
    action: str
    by: str
    details: str = ""
    request: str = ""
    failed: bool = False


class RunControl:
    """Carries out what persons ask of a run on one machine. `reload` reads the settings again."""

    def __init__(self, folder: Path, reload: Callable[[], ReloadedSettings]) -> None:
        self._folder, self._reload = folder, reload
        self._next = 0.0
        clear_requests(folder)

    def poll(self, *, stop: Callable[[], None], apply: Callable[[ReloadedSettings], None]) -> None:
        """Carry out what was asked since the last call: `stop` ends the run, `apply` gets changed settings."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + POLL_INTERVAL
        for path, request in pending_requests(self._folder):
            details, failed = "", False
            if request.action == "stop":
                stop()
            else:
                try:
                    reloaded = self._reload()
                except WebmillError as error:
                    details, failed = f"refused: {hide_secrets(str(error))}", True
                else:
                    apply(reloaded)
                    details = reloaded.describe()
            record_event(
                self._folder, request.action, by=request.by, details=details, request=request.id, failed=failed
            )
            path.unlink(missing_ok=True)


# --- requests -----------------------------------------------------------------------------------------------------


def send_request(folder: Path, action: RunAction, *, by: str) -> ControlRequest:
    """Ask the run in `folder`, the `frontier/` of a collection, to do something. Durable on return."""
    request = ControlRequest(secrets.token_hex(8), action, by)
    atomic.make_folder(folder / FOLDER)
    atomic.write_bytes(request_file(folder, request.id), msgspec.json.encode(request))
    return request


def wait_for_answer(folder: Path, request: ControlRequest, *, patience: float = ANSWER_PATIENCE) -> ControlEvent | None:
    """Return what came of a request; None if the coordinator has not done it yet."""
    deadline = time.monotonic() + patience
    path = request_file(folder, request.id)
    while path.exists() and time.monotonic() < deadline:
        waiting.sleep(0.05)
    return next((event for event in read_events(folder) if event.request == request.id), None)


def request_file(folder: Path, id_: str) -> Path:
    return folder / FOLDER / f"{id_}.json"


def pending_requests(folder: Path) -> list[tuple[Path, ControlRequest]]:
    """Return the requests that were not done, oldest first."""
    found: list[tuple[int, Path, ControlRequest]] = []
    try:
        paths = [path for path in (folder / FOLDER).iterdir() if path.suffix == ".json"]
    except (FileNotFoundError, NotADirectoryError):
        return []
    for path in paths:
        try:
            found.append((path.stat().st_mtime_ns, path, msgspec.json.decode(path.read_bytes(), type=ControlRequest)))
        except FileNotFoundError:
            continue
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("a request to the crawl cannot be read", extra={"path": str(path), "why": str(error)})
            path.unlink(missing_ok=True)
    return [(path, request) for _, path, request in sorted(found, key=lambda each: each[:2])]


def clear_requests(folder: Path) -> None:
    """Forget what an earlier run was asked to do."""
    for path, _ in pending_requests(folder):
        path.unlink(missing_ok=True)


# --- who did what when --------------------------------------------------------------------------------------------


def person_at_terminal() -> str:
    """Return who types a command: the user and the machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def record_event(
    folder: Path, action: str, *, by: str, details: str = "", request: str = "", failed: bool = False
) -> None:
    """Add a line to the log of what persons did. A log that cannot be written stops nobody."""
    event = ControlEvent(time.time(), action, by, hide_secrets(details)[:LONGEST_DETAILS], request, failed)
    path = folder / LOG_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > LOG_BYTES:
            path.replace(folder / OLD_LOG_FILE)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags, 0o666)
        try:
            os.write(fd, msgspec.json.encode(event) + b"\n")
        finally:
            os.close(fd)
    except OSError as error:
        log.warning("the log of the crawl is not written", extra={"why": error.strerror or str(error)})


def read_events(folder: Path, *, since: float = 0.0) -> Iterator[ControlEvent]:
    """Yield what persons have told the crawl, oldest first; lines that cannot be read are left out."""
    for name in (OLD_LOG_FILE, LOG_FILE):
        try:
            lines = (folder / name).read_bytes().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            continue
        for line in lines:
            try:
                event = msgspec.json.decode(line, type=ControlEvent)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            if event.time >= since:
                yield event
