"""Pages that are being saved for somebody who waits on a web page: one process for each, at most a few at once.

    DIR/.webmill/saves/ID.json       how a job stands: written by its process, read by any process of a server
    DIR/.webmill/saves/…slot-N-lock  held by the process of a job that runs; the kernel frees it, however it ends

The process is `webmill save --job ID`: a server that is stopped does not stop it, and its costs are its own.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from webmill.collection import STATE_FOLDER
from webmill.crawl.seeds import parse_seed
from webmill.errors import Conflict, NotFound, Unavailable, WebmillError
from webmill.infra import atomic
from webmill.infra.detached import start_detached
from webmill.infra.lock import exclusive, is_locked
from webmill.masking import hide_secrets
from webmill.pipeline.save import SaveReport

AT_ONCE = 4  # saves of one collection
KEPT = 50  # jobs whose end can be looked up
START_PATIENCE = 30.0  # seconds until a job that has not begun is taken for dead
FOLDER = "saves"

_ID = re.compile(r"[0-9a-f]{16}")

JobState = Literal["waiting", "running", "saved", "failed"]


class SaveJob(msgspec.Struct, frozen=True, kw_only=True):
    """How a job stands. `message` is a sentence: what it does now, or why it failed."""

    id: str
    url: str
    created: float
    state: JobState = "waiting"
    slot: int = 0
    message: str = "starting"
    report: SaveReport | None = None


def start_job(root: Path, url: str, *, page_resources: bool, now: float) -> SaveJob:
    """Start a process that saves a page. `BadInput`: no URL of the web. `Unavailable`: too many run already."""
    folder = jobs_folder(root)
    job = SaveJob(id=secrets.token_hex(8), url=parse_seed(url), created=now)
    atomic.make_folder(folder)
    forget_old_jobs(folder)
    busy = [number for number in range(AT_ONCE) if is_locked(folder, slot_name(number))]
    starting = [one for one in read_jobs(folder) if one.state == "waiting" and now - one.created < START_PATIENCE]
    if len(busy) + len(starting) >= AT_ONCE:
        raise Unavailable(f"{AT_ONCE} pages are being saved at this moment: try again when one of them is done")
    write_job(folder, job)
    flags = ["--page-resources"] if page_resources else []
    start_detached(["--quiet", "save", str(root), *flags, "--job", job.id, "--", job.url])
    return job


def find_job(root: Path, id_: str, *, now: float) -> SaveJob:
    """Return a job as it stands. One whose process is gone has failed."""
    folder = jobs_folder(root)
    if not _ID.fullmatch(id_):
        raise NotFound("there is no such save")
    job = read_job(folder / f"{id_}.json")
    if job is None:
        raise NotFound("there is no such save; only the last ones are kept")
    is_late = job.state == "waiting" and now - job.created > START_PATIENCE
    if is_late or (job.state == "running" and not is_locked(folder, slot_name(job.slot))):
        newest = read_job(folder / f"{id_}.json") or job  # it may have ended in between
        if newest.state in ("waiting", "running"):
            return msgspec.structs.replace(newest, state="failed", message="its process has ended: save it again")
        return newest
    return job


@contextmanager
def running_job(root: Path, id_: str) -> Iterator[JobReporter]:
    """Run as the process of a job: hold one of the slots, and write down how it stands and ends."""
    folder = jobs_folder(root)
    job = read_job(folder / f"{id_}.json") if _ID.fullmatch(id_) else None
    if job is None:
        raise NotFound(f"no save job {id_} in {root}")
    with ExitStack() as held:
        reporter = JobReporter(folder, msgspec.structs.replace(job, state="running", slot=take_slot(folder, held)))
        try:
            yield reporter
        except WebmillError as error:
            reporter.fail(str(error))
            raise
        except BaseException as error:
            reporter.fail(f"internal error: {type(error).__name__}")
            raise


def take_slot(folder: Path, held: ExitStack) -> int:
    for number in range(AT_ONCE):
        try:
            held.enter_context(exclusive(folder, slot_name(number), doing="saving a page"))
            return number
        except Conflict:
            continue
    raise Unavailable(f"{AT_ONCE} pages are being saved at this moment")


class JobReporter:
    """Writes how the job of this process stands."""

    def __init__(self, folder: Path, job: SaveJob) -> None:
        self._folder, self._job = folder, job
        self.tell("fetching")

    def tell(self, message: str) -> None:
        self._write(msgspec.structs.replace(self._job, message=message))

    def end(self, report: SaveReport, *, error: str) -> None:
        """The job has ended: `error` says why nothing was saved."""
        state: JobState = "failed" if error else "saved"
        self._write(msgspec.structs.replace(self._job, state=state, message=error or "saved", report=report))

    def fail(self, message: str) -> None:
        self._write(msgspec.structs.replace(self._job, state="failed", message=hide_secrets(message)[:1000]))

    def _write(self, job: SaveJob) -> None:
        self._job = job
        write_job(self._folder, job)


# --- files ---


def jobs_folder(root: Path) -> Path:
    return root / STATE_FOLDER / FOLDER


def slot_name(number: int) -> str:
    return f"slot-{number}"


def write_job(folder: Path, job: SaveJob) -> None:
    atomic.write_bytes(folder / f"{job.id}.json", msgspec.json.encode(job))


def read_job(path: Path) -> SaveJob | None:
    """Return a job; None where there is none, or its file is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=SaveJob)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read_jobs(folder: Path) -> list[SaveJob]:
    """Return the jobs that are kept, newest first."""
    found = [job for path in folder.glob("*.json") if (job := read_job(path))]
    return sorted(found, key=lambda job: -job.created)


def forget_old_jobs(folder: Path) -> None:
    for job in read_jobs(folder)[KEPT:]:
        (folder / f"{job.id}.json").unlink(missing_ok=True)
