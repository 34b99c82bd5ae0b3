"""One collection: its disk, its databases, its files, and what dead processes have left in it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from webmill.archive.recovery import recover
from webmill.archive.segment import find_open_files
from webmill.archive.segment_file import lock_segment
from webmill.collection import Collection, PublishFolders, default_crawl_name, list_archived_crawls
from webmill.crawl.status_file import read_status
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.formats.warc.reader import read_records
from webmill.index.zipnum.verify import verify as verify_index
from webmill.infra import atomic
from webmill.infra.files import RESERVED, os_errors
from webmill.infra.sqlite import NETWORK_FILE_SYSTEMS, file_system_of, open_read_only
from webmill.infra.storage.local import LocalStorage
from webmill.infra.tree import Refuse, files_below, warn
from webmill.model import Damage
from webmill.pipeline.doctor.findings import DoctorFinding
from webmill.pipeline.doctor.references import check_documents, check_frontier, check_indexed
from webmill.pipeline.doctor.uploads import check_uploads
from webmill.pipeline.problems import collect_problems, count_problems
from webmill.pipeline.progress import format_count
from webmill.publish.verify import verify as verify_versions
from webmill.search.embedded.engine import EmbeddedEngine
from webmill.search.words_engine import WordsEngine

LOW_SPACE, NO_SPACE = 5 << 30, 256 << 20  # bytes of free disk
MAX_CLOCK_SKEW = 120.0  # seconds between the clocks of the machine and of a file system
MAX_EXAMPLES = 3  # examples of each kind


def check_collection(root: Path, *, read_data: bool) -> Iterator[DoctorFinding]:
    """Yield the findings of a collection. With `read_data`, every byte of archives, indexes and blobs is read."""
    yield from check_disk(root)
    for file in find_databases(root):
        yield check_database(file, root=root)
    yield from check_leftovers(root)
    for crawl in list_archived_crawls(root):
        if read_data:
            yield check_archives(crawl)
        yield from check_uploads(crawl, read_data=read_data)
        yield from check_index(crawl, read_data=read_data)
        yield from check_indexed(crawl, read_data=read_data)
    yield from check_frontier(root, crawl_of_frontier(root), read_data=read_data)
    yield from check_documents(root, read_data=read_data)
    yield from check_versions(root, read_data=read_data)
    yield check_problems(root)


def check_problems(root: Path) -> DoctorFinding:
    """Return what went wrong in any stage: it breaks no promise, but somebody should look at it."""
    report = collect_problems(root)
    found = count_problems(report)
    return DoctorFinding(
        part="problems",
        state="doubt" if report.errors else "good",
        found=found or "no stage has reported an error",
        repair=f"webmill problems {root}" if report.errors else "",
    )


def crawl_of_frontier(root: Path) -> Collection:
    """Return the crawl that the frontier is of, by the name that it has recorded."""
    try:
        return Collection(root, read_status(root / "frontier").name)
    except WebmillError:
        return Collection(root, default_crawl_name(root))


# --- the disk ----------------------------------------------------------------------------------------------------


def check_disk(root: Path) -> Iterator[DoctorFinding]:
    probe = root / f"{RESERVED}doctor"
    try:
        atomic.write_bytes(probe, b"")
        skew = probe.stat().st_mtime - time.time()
        probe.unlink()
    except (WebmillError, OSError) as error:
        if os.statvfs(root).f_flag & os.ST_RDONLY:
            found = "is mounted read-only: it can be read, searched and served"
            yield DoctorFinding(
                part="disk", state="doubt", found=found, repair=f"to write to it: mount {root} for that"
            )
            return
        yield DoctorFinding(
            part="disk", state="bad", found=f"cannot be written to: {error}", repair=f"chown or mount {root}"
        )
        return
    free = shutil.disk_usage(root).free
    state = "good" if free >= LOW_SPACE else "doubt" if free >= NO_SPACE else "bad"
    yield DoctorFinding(
        part="disk",
        state=state,  # type: ignore[arg-type]
        found=f"{free / 1e9:,.1f} GB are free",
        promise="what was acknowledged stays; a crawl waits while the disk is full",
        repair="" if state == "good" else "make room: `webmill publish gc`, or move the collection",
    )
    if abs(skew) > MAX_CLOCK_SKEW:
        found = f"its clock is {skew:+.0f} s from this machine's"
        yield DoctorFinding(part="disk", state="doubt", found=found, repair="set both by NTP")
    kind = file_system_type(root)
    if kind in NETWORK_FILE_SYSTEMS:
        yield DoctorFinding(
            part="disk",
            state="bad",
            found=f"is on {kind}",
            promise="archives and versions can be read; SQLite cannot keep a queue or a frontier there",
            repair="keep the collection on a local disk, or use Redis, RabbitMQ and s3://",
        )


def file_system_type(root: Path) -> str:
    mounts = Path("/proc/self/mounts")
    return file_system_of(root.resolve(), mounts=mounts.read_text(errors="replace")) if mounts.exists() else ""


# --- databases ---------------------------------------------------------------------------------------------------


def find_databases(root: Path) -> Iterator[Path]:
    """Yield the SQLite files of a collection: at the top, and in the folders of crawls, publishers and indexes."""
    yield from sorted(root.glob("*.sqlite"))
    for folder in ("frontier", "publish", "cdxj", "documents", "extract", "rejected", ".webmill"):
        yield from sorted((root / folder).rglob("*.sqlite"))


def check_database(file: Path, *, root: Path) -> DoctorFinding:
    part = file.relative_to(root).as_posix()
    try:
        with open_read_only(file) as read:
            faults = [str(row[0]) for row in read(f"PRAGMA quick_check({MAX_EXAMPLES})")]
        journal = journal_mode(file)
    except Unavailable:
        return DoctorFinding(part=part, state="good", found="is in use: not looked into")
    except WebmillError as error:
        faults, journal = [str(error)], ""
    if faults != ["ok"]:
        return DoctorFinding(
            part=part,
            state="bad",
            found=f"{file} is damaged: {'; '.join(faults)}",
            repair=repair_for(file),
        )
    return DoctorFinding(part=part, state="good", found=f"whole, journal mode {journal}")


def journal_mode(file: Path) -> str:
    """Return the mode in the file header (https://sqlite.org/fileformat2.html), without opening a journal."""
    with os_errors(str(file)), file.open("rb") as stream:
        return "wal" if stream.read(19)[18:] == b"\x02" else "delete"


def is_schedule_of_boards(file: Path) -> bool:
    """Return whether this is the host schedule of boards, which is where a crawl has its own."""
    return file.name == "gates.sqlite" and not file.with_name("seeds.txt").exists()


def repair_for(file: Path) -> str:
    if "cdxj" in file.parts:
        return f"remove {file}: `webmill index` makes it again"
    if "frontier" in file.parts and not is_schedule_of_boards(file):
        return "`webmill frontier restore`, from a backup"
    if file.name in ("cache.sqlite", "gates.sqlite"):
        return f"remove {file}: the next run begins it anew"
    return f"keep a copy of {file}, remove it, and begin the work it was for again: what is done is not done twice"


# --- what dead processes have left -------------------------------------------------------------------------------


def check_leftovers(root: Path) -> Iterator[DoctorFinding]:
    closed: list[OSError] = []
    stale = find_stale_temps(root, refuse=closed.append)
    for error in closed[:MAX_EXAMPLES]:
        yield DoctorFinding(
            part="files",
            state="bad",
            found=f"{os.fsdecode(error.filename)} cannot be looked into: {error.strerror}",
            promise="what lies in it is not read, indexed or published",
            repair="chown or chmod it, or move it out of the collection",
        )
    if stale:
        yield DoctorFinding(
            part="leftovers",
            state="doubt",
            found=f"{format_count(len(stale), 'unfinished file')} of dead processes: {name_examples(stale)}",
            promise="nobody reads them",
            repair=f"webmill doctor {root} --sweep",
        )
    torn = find_abandoned_warcs(root)
    if torn:
        yield DoctorFinding(
            part="archives",
            state="doubt",
            found=f"{format_count(len(torn), 'WARC file', 'were')} left open: {name_examples(torn)}",
            promise="every acknowledged capture in them is whole",
            repair=f"webmill doctor {root} --sweep, or go on with the crawl: either seals them",
        )


def find_stale_temps(root: Path, *, refuse: Refuse = warn) -> list[Path]:
    ours = (entry for entry in files_below(root, refuse=refuse) if entry.name.startswith(RESERVED))
    return [path for path in (Path(entry.path) for entry in ours) if is_stale(path)]


def is_stale(path: Path) -> bool:
    try:
        return atomic.is_stale_temp(path)
    except NotFound:  # its folder has gone meanwhile
        return False


def find_abandoned_warcs(root: Path) -> list[Path]:
    return [path for crawl in list_archived_crawls(root) for path in find_open_files(crawl) if is_abandoned(path)]


def describe_sweep(root: Path) -> Iterator[str]:
    """Yield what `sweep` would do, in sentences."""
    stale, torn = find_stale_temps(root), find_abandoned_warcs(root)
    size = sum(map(size_of, stale))
    removed = f"{format_count(len(stale), 'unfinished file')}, {format_count(size, 'byte')}"
    yield f"would be removed: {removed}" + f": {name_examples(stale)}" * bool(stale)
    yield f"would be sealed: {format_count(len(torn), 'WARC file')}" + f": {name_examples(torn)}" * bool(torn)


def sweep(root: Path) -> Iterator[str]:
    """Remove and seal what killed processes left behind. Yield what was done, in sentences."""
    removed = LocalStorage(root).sweep()
    if removed:
        yield f"removed {format_count(removed, 'unfinished file')}"
    for crawl in list_archived_crawls(root):
        for repair in recover(crawl):
            kept = f", {format_count(repair.cut, 'byte')} behind them kept in {repair.saved}" if repair.saved else ""
            yield f"sealed {repair.file}: {format_count(repair.captures, 'capture')}{kept}"


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # somebody else has swept
        return 0


def is_abandoned(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return lock_segment(file.fileno(), what=str(path))
    except OSError:
        return False


def name_examples(paths: list[Path]) -> str:
    names = ", ".join(path.name for path in paths[:MAX_EXAMPLES])
    return f"{names}…" if len(paths) > MAX_EXAMPLES else names


# --- archives, indexes, versions, search -------------------------------------------------------------------------


def check_archives(crawl: Collection) -> DoctorFinding:
    records, damage = 0, []
    for file in sorted(crawl.segments.rglob("*.warc.gz")):
        with file.open("rb") as stream:
            for item in read_records(stream):
                if isinstance(item, Damage):
                    damage.append(f"{file.name} at byte {item.offset}: {item.reason}")
                else:
                    records += 1
    part = f"archives of {crawl.name}"
    if damage:
        first = "; ".join(damage[:MAX_EXAMPLES])
        repair = "`webmill warc check` names every place; records around them can be read"
        return DoctorFinding(
            part=part, state="bad", found=f"{format_count(len(damage), 'damaged place')}: {first}", repair=repair
        )
    return DoctorFinding(part=part, state="good", found=f"{format_count(records, 'record')}, every byte read")


def check_index(crawl: Collection, *, read_data: bool) -> Iterator[DoctorFinding]:
    part = f"index of {crawl.name}"
    again = f"webmill index {crawl.root}"
    if not (crawl.zipnum / "cluster.idx").is_file():
        yield DoctorFinding(
            part=part, state="doubt", found="there is none", promise="nothing of it is found", repair=again
        )
        return
    made = (crawl.zipnum / "cluster.idx").stat().st_mtime
    newer = [file for file in sorted(crawl.segments.rglob("*.warc.gz")) if file.stat().st_mtime > made]
    if newer:
        found = f"{format_count(len(newer), 'WARC file', 'are')} newer: {name_examples(newer)}"
        yield DoctorFinding(part=part, state="doubt", found=found, promise="their captures are not found", repair=again)
    faults = [fault for fault in verify_index(crawl.zipnum) if fault.severity == "error"] if read_data else []
    if faults:
        found = "; ".join(f"{fault.where}: {fault.message}" for fault in faults[:MAX_EXAMPLES])
        yield DoctorFinding(
            part=part, state="bad", found=f"{format_count(len(faults), 'fault')}: {found}", repair=again
        )
    elif not newer:
        yield DoctorFinding(
            part=part, state="good", found="every block read" if read_data else "is as new as the archives"
        )


def check_versions(root: Path, *, read_data: bool) -> Iterator[DoctorFinding]:
    storage = LocalStorage(root)
    try:
        verdict = verify_versions(storage, read_data=read_data)
    except NotFound:
        return
    except (BadInput, Conflict) as error:
        yield DoctorFinding(part="versions", state="bad", found=str(error), repair=f"webmill publish verify {root}")
        return
    if not verdict.versions and not verdict.findings:
        return
    looked = "every byte read" if read_data else "every blob is there"
    if verdict.findings:
        first = "; ".join(f"{fault.key}: {fault.message}" for fault in verdict.findings[:MAX_EXAMPLES])
        yield DoctorFinding(
            part="versions",
            state="bad",
            found=f"{len(verdict.findings):,} damaged: {first}",
            repair=f"webmill publish verify {root} --repair",
        )
    else:
        found = f"{format_count(verdict.versions, 'version')}, {format_count(verdict.blobs, 'blob')}, {looked}"
        promise = "a reader sees one whole version, the live one or the one before it"
        yield DoctorFinding(part="versions", state="good", found=found, promise=promise)
    yield check_search(root, live=verdict.live, read_data=read_data)
    yield from check_vectors(root, read_data=read_data)


def check_vectors(root: Path, *, read_data: bool) -> Iterator[DoctorFinding]:
    """Check what search by meaning keeps, if anything, without its model."""
    for folder in sorted(PublishFolders(root).meaning.glob("[!.]*")):
        try:
            count = check_store(folder, read_data=read_data)
        except WebmillError as error:
            yield DoctorFinding(part="meaning", state="bad", found=str(error), repair=f"webmill search check {root}")
        else:
            yield DoctorFinding(part="meaning", state="good", found=f"vectors of {format_count(count, 'passage')}")


def check_store(folder: Path, *, read_data: bool) -> int:
    """Return how many passages a store has. `Misconfigured` without the extra that reads it."""
    try:
        from webmill.search.meaning.vector_store import VectorReader
    except ImportError as missing:
        raise Misconfigured("vectors cannot be checked: pip install 'webmill[meaning]'") from missing
    reader = VectorReader(folder)
    if read_data:
        reader.verify()
    return sum(len(rows) for rows in reader.files)


def check_search(root: Path, *, live: str, read_data: bool) -> DoctorFinding:
    try:
        with closing(EmbeddedEngine(PublishFolders(root).search, create=False)) as opened:
            if read_data:
                opened.verify()
            count, cursor = opened.count(), WordsEngine(opened).cursor()
    except NotFound:
        return DoctorFinding(
            part="search", state="good", found="nothing is indexed", repair=f"webmill search update {root}"
        )
    except WebmillError as error:
        return DoctorFinding(part="search", state="bad", found=str(error), repair=f"webmill search rebuild {root}")
    if cursor == live:
        return DoctorFinding(
            part="search", state="good", found=f"{format_count(count, 'document')}, up to the live version"
        )
    return DoctorFinding(
        part="search",
        state="doubt",
        found=f"{format_count(count, 'document')}, of {cursor or 'no version'}; live is {live}",
        promise="what is found was published, but not the newest",
        repair=f"webmill search update {root}",
    )
