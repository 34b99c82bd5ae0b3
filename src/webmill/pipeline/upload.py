"""Upload finished WARC files to another store while a crawl runs, and drop those that are safe there.

    finished here ─▶ written there ─▶ read back: size and SHA-256 ─▶ journal, durable ─▶ deleted here, as far as wished

Each step may be killed: what is not in the journal is looked for in the store, compared, and written again if it is
not there. Before a file is deleted the store must still say what the journal says. Another file under the same key is
never overwritten. While a store is down or slow files wait, and `webmill status` says how many; a crawl begins nothing
more while too many bytes do.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from webmill.collection import STATE_FOLDER, Collection
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.index.archives import find_local_archives
from webmill.index.state import inspect_file
from webmill.infra import atomic
from webmill.infra.address import scheme_of
from webmill.infra.files import os_errors
from webmill.infra.lock import exclusive
from webmill.infra.storage.backends import open_storage
from webmill.infra.storage.base import CHUNK, Storage
from webmill.infra.storage.uploads import (
    UploadBacklog,
    UploadedFile,
    UploadJournal,
    UploadTrouble,
    record_backlog,
)
from webmill.infra.ticker import Ticker
from webmill.masking import hide_secrets
from webmill.pipeline.upload_backlog import describe_backlog, measure_backlog

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0  # seconds between looks for finished files
LONGEST_RETRY = 300.0
STOP_EVERY = 0.5  # seconds between looks whether the end of the uploads is to be waited for
LAST_PATIENCE = 5.0  # seconds for an upload that was stopped
Clock = Callable[[], float]


class UploadRules(msgspec.Struct, frozen=True, kw_only=True):
    """Where archives go, and how many bytes of those that are there may stay here; None: all."""

    place: str
    keep_local: int | None = None

    def check(self, root: Path) -> None:
        """Raise Misconfigured for what cannot be meant."""
        scheme, rest = scheme_of(self.place)
        if scheme == "file" and Path(rest).resolve().is_relative_to(root.resolve()):
            raise Misconfigured(f"--upload {rest} lies in the collection itself; name a folder or bucket elsewhere")
        open_storage(self.place)


class UploadReport(msgspec.Struct, kw_only=True):
    """What came of one look at a collection's archives."""

    uploaded: int = 0
    dropped: int = 0
    waiting: int = 0
    problem: str = ""


class ArchiveUploader:
    """Uploads the archives of one crawl. `stop` ends an upload that is under way."""

    def __init__(
        self, collection: Collection, rules: UploadRules, *, stop: threading.Event, clock: Clock = time.time
    ) -> None:
        self._collection, self._rules, self._stop, self._clock = collection, rules, stop, clock
        self._trouble: UploadTrouble | None = None

    def step(self) -> UploadReport:
        """Upload what is finished, and drop what may be dropped. `Conflict`: another process does."""
        report, state = UploadReport(), self._collection.root / STATE_FOLDER
        atomic.make_folder(state)
        with (
            exclusive(state, "uploads", doing="uploading"),
            UploadJournal(self._collection.root, self._rules.place) as journal,
        ):
            try:
                storage = open_storage(self._rules.place)
                self._upload_finished(storage, journal, report)
                self._drop(storage, journal, report)
            except WebmillError as error:
                report.problem = hide_secrets(str(error))
            self._tell(journal, report)
        return report

    def _upload_finished(self, storage: Storage, journal: UploadJournal, report: UploadReport) -> None:
        known = journal.files()
        missing = [key for key, path in self._finished() if not is_same_file(path, known.get(key))]
        report.waiting = len(missing)
        for key in missing:
            try:
                journal.record(key, self._upload(storage, key))
            except (NotFound, BadInput) as error:  # of this file alone
                report.problem = hide_secrets(str(error))
                continue
            report.uploaded += 1
            report.waiting -= 1
            self._drop(storage, journal, report)  # now: the others may take long

    def _finished(self) -> Iterator[tuple[str, Path]]:
        """Yield the finished archives of the crawl that are here, the oldest first. Links are left alone."""
        keys = find_local_archives(self._collection, refuse=lambda *_: None)
        paths = [(key, self._collection.root / key) for key in keys if key.startswith("crawl-data/")]
        yield from sorted(((key, path) for key, path in paths if not path.is_symlink()), key=lambda one: one[0][-32:])

    def _upload(self, storage: Storage, key: str) -> UploadedFile:
        """Bring one file to the store, and return what the store gave back. Raise `BadInput` where it has another."""
        path = self._collection.root / key
        with os_errors(str(path)):
            before = inspect_file(path)
            with path.open("rb") as stream:
                sha256, size = self._digest(stream)
            try:
                there = storage.stat(key)
            except NotFound:
                with path.open("rb") as stream:
                    there = storage.write(key, _Stoppable(stream, self._stop))  # type: ignore[arg-type]
            with storage.open(key, etag=there.etag) as stream:
                found = self._digest(stream)
            if found != (sha256, size):
                raise BadInput(
                    f"{hide_secrets(self._rules.place)} has another {key} ({found[1]:,} bytes, here {size:,}): it is "
                    "not overwritten, and nothing is deleted here; give --upload another place",
                    reason="other_file",
                )
            if inspect_file(path) != before:
                raise Unavailable(f"{path} was changed while it was uploaded")
        looks = msgspec.json.encode(before).decode()
        return UploadedFile(size=size, sha256=sha256, etag=there.etag, verified=self._clock(), looks=looks)

    def _digest(self, stream: BinaryIO) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0
        while piece := stream.read(CHUNK):
            self._check_stop()
            digest.update(piece)
            size += len(piece)
        return digest.hexdigest(), size

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise Conflict("stopped")

    def _drop(self, storage: Storage, journal: UploadJournal, report: UploadReport) -> None:
        """Delete the oldest of those that are safe, until the rest takes no more than may stay."""
        if self._rules.keep_local is None:
            return
        known = journal.files()
        safe = [(key, path) for key, path in self._finished() if is_same_file(path, known.get(key))]
        left = sum(known[key].size for key, _ in safe)
        for key, path in safe:
            if left <= self._rules.keep_local:
                break
            if not is_still_there(storage, key, known[key]):
                journal.forget(key)
                raise Unavailable(f"{key} is not at {hide_secrets(self._rules.place)} any more; it is uploaded again")
            with os_errors(str(path)):
                path.unlink(missing_ok=True)
            left -= known[key].size
            report.dropped += 1

    def _tell(self, journal: UploadJournal, report: UploadReport) -> None:
        """Note why files wait, for `status` and `problems`."""
        now, before = self._clock(), self._trouble
        told = None
        if report.problem and not self._stop.is_set():
            since = before.since if before else now
            told = UploadTrouble(message=report.problem, since=since, last=now, waiting=report.waiting)
            log.warning("cannot upload", extra={"why": report.problem, "waiting": report.waiting})
        if told or before or not self._stop.is_set():
            journal.tell_trouble(told)
        self._trouble = told


class _Stoppable:
    """A file whose reading ends with an error once the crawl is to end: an upload must not hold it up."""

    def __init__(self, stream: BinaryIO, stop: threading.Event) -> None:
        self._stream, self._stop = stream, stop

    def read(self, size: int = -1) -> bytes:
        if self._stop.is_set():
            raise Conflict("stopped")
        return self._stream.read(size)

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, at: int, whence: int = 0) -> int:
        return self._stream.seek(at, whence)


def absolute_place(place: str) -> str:
    """Return the address of a place that is the same from every folder."""
    scheme, rest = scheme_of(place)
    return str(Path(rest).absolute()) if scheme == "file" else place


def is_same_file(path: Path, file: UploadedFile | None) -> bool:
    """Return whether this file is the one that was uploaded."""
    if file is None:
        return False
    try:
        return msgspec.json.encode(inspect_file(path)).decode() == file.looks
    except OSError:
        return False


def is_still_there(storage: Storage, key: str, file: UploadedFile) -> bool:
    try:
        stat = storage.stat(key)
    except NotFound:
        return False
    return (stat.size, stat.etag) == (file.size, file.etag)


class UploadThread:
    """Uploads the archives of a crawl while it runs, and measures what waits. It never ends a crawl, nor is waited for
    at its end."""

    def __init__(self, collection: Collection, rules: UploadRules) -> None:
        self._collection, self._stop = collection, threading.Event()
        self.backlog = UploadBacklog()
        self._measure()
        uploader = ArchiveUploader(collection, rules, stop=self._stop)
        self._thread = threading.Thread(target=_run, args=(uploader, self._stop), name="upload", daemon=True)
        self._ticker = Ticker(LOOK_EVERY, self._measure, name="upload-backlog")
        self._thread.start()
        self._ticker.__enter__()

    def end(self) -> None:
        """Stop what is under way: the next run begins that file anew."""
        self._stop.set()
        self._ticker.__exit__()
        self._thread.join(LAST_PATIENCE)

    def _measure(self) -> None:
        try:
            backlog = measure_backlog(self._collection)
            if backlog != self.backlog or not backlog.files:
                record_backlog(self._collection.root, backlog)
            self.backlog = backlog
        except (WebmillError, OSError) as error:  # the next look may succeed
            log.warning("cannot measure what waits for upload", extra={"why": str(error)})


class UploadsLeft(msgspec.Struct, frozen=True, kw_only=True):
    """The finished files that the store does not have when a run has ended, and why."""

    files: int = 0
    bytes: int = 0
    place: str = ""
    why: str = ""


def finish_uploads(
    collection: Collection,
    rules: UploadRules,
    *,
    notice: Callable[[str], None],
    is_stopped: Callable[[], bool] = lambda: False,
) -> UploadsLeft:
    """Upload what is finished by now, until somebody stops it. What cannot be uploaded waits for the next run."""
    backlog, place = measure_backlog(collection), hide_secrets(rules.place)
    stop, problems = threading.Event(), list[str]()
    uploader = ArchiveUploader(collection, rules, stop=stop)
    if backlog.files and not is_stopped():
        notice(f"uploading to {place}: {describe_backlog(backlog)}; Ctrl-C leaves the rest to the next run")
    # In a thread: a signal is seen here while a store does not answer there.
    thread = threading.Thread(target=_upload_once, args=(uploader, stop, problems), name="upload", daemon=True)
    if not is_stopped():
        thread.start()
    while thread.is_alive() and not is_stopped():
        thread.join(STOP_EVERY)
    if thread.is_alive():
        stop.set()
        thread.join(LAST_PATIENCE)
    backlog = measure_backlog(collection)
    record_backlog(collection.root, backlog)
    if not backlog.files:
        return UploadsLeft()
    why = "it was stopped" if is_stopped() else "".join(problems[-1:]) or "they were finished meanwhile"
    return UploadsLeft(files=backlog.files, bytes=backlog.bytes, place=place, why=why)


def _upload_once(uploader: ArchiveUploader, stop: threading.Event, problems: list[str]) -> None:
    while not stop.is_set():
        try:
            problems.append(uploader.step().problem)
            return
        except Conflict:  # another node of this folder is at it
            stop.wait(0.5)
        except Exception as error:  # the crawl is over, and the files stay
            log.exception("uploading failed")
            problems.append(str(error))
            return


def _run(uploader: ArchiveUploader, stop: threading.Event) -> None:
    wait = LOOK_EVERY
    while not stop.wait(wait):
        try:
            report = uploader.step()
        except Conflict:
            continue
        except Exception:  # whatever it is, the crawl goes on, and the files stay
            log.exception("uploading failed")
            wait = LONGEST_RETRY
            continue
        wait = min(2 * wait, LONGEST_RETRY) if report.problem else LOOK_EVERY
