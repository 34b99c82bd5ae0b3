"""Whether what the parts of a collection say of each other is so: the index of archives, receipts of documents, the
state of a frontier of its files. What is deleted, cut or (`read_data`) flipped is named, with a command to repair it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from webmill.collection import Collection, PublishFolders
from webmill.crawl.frontier.check import find_frontier_faults
from webmill.crawl.layout import CrawlFolder, is_there, lost_files, read_layout, read_seeds
from webmill.crawl.status_file import read_status
from webmill.crawl.stored_settings import read_stored
from webmill.errors import BadInput, NotFound, WebmillError
from webmill.formats.cdx.zipnum import decode_block
from webmill.index.state import FILE_NAME, IndexedWarc, StoredState, read_state
from webmill.infra.checksums import crc32_of_file
from webmill.infra.lock import is_locked
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.uploads import uploaded_files
from webmill.pipeline.doctor.findings import DoctorFinding
from webmill.pipeline.extract.jobs import TASKS
from webmill.pipeline.extract.lost_parts import find_damaged_parts, find_lost_parts
from webmill.pipeline.extract.output import SETTINGS, read_shape
from webmill.pipeline.extract.receipts import FOLDER
from webmill.pipeline.index_publishing import PATH_LISTS, digest_of_file
from webmill.pipeline.progress import format_count
from webmill.pipeline.removed_files import find_removed_faults

MAX_NAMED = 5  # faults of one part that are named


def describe_faults(part: str, faults: Iterable[str], *, repair: str) -> Iterator[DoctorFinding]:
    found = list(faults)
    if found:
        named = "; ".join(found[:MAX_NAMED]) + ("…" if len(found) > MAX_NAMED else "")
        yield DoctorFinding(
            part=part, state="bad", found=f"{format_count(len(found), 'file', 'are')} damaged: {named}", repair=repair
        )


# --- the index ----------------------------------------------------------------------------------------------------


def check_indexed(crawl: Collection, *, read_data: bool) -> Iterator[DoctorFinding]:
    """Check that what was indexed is there, and what was made of it."""
    try:
        state = read_state(crawl.cdxj / FILE_NAME)
    except NotFound:
        if any(crawl.cdxj.glob("*.cdxj")):
            found = f"{crawl.cdxj / FILE_NAME} is missing"
            yield DoctorFinding(
                part=f"index of {crawl.name}", state="bad", found=found, repair=f"webmill index {crawl.root}"
            )
        return
    except WebmillError:
        return  # told by whoever looks into databases
    again = f"webmill index {crawl.root} --name {crawl.name} --from-scratch"
    known = {path: entry for path, entry in state.known.items() if crawl.owns(path)}
    archives = f"restore it from a copy; or drop its captures from the index: webmill index {crawl.root}"
    yield from describe_faults(f"archives of {crawl.name}", archive_faults(crawl, known), repair=archives)
    yield from describe_faults(f"cdxj of {crawl.name}", cdxj_faults(crawl, known, read_data=read_data), repair=again)
    faults = [
        *published_faults(crawl, state, read_data=read_data),
        *list_faults(crawl, state, read_data=read_data),
    ]
    yield from describe_faults(f"index files of {crawl.name}", faults, repair=again)


def archive_faults(crawl: Collection, known: dict[str, IndexedWarc]) -> Iterator[str]:
    uploaded = uploaded_files(crawl.root)  # `uploads.py` looks at these
    for path, entry in sorted(known.items()):
        file = crawl.root / path
        if not file.is_file() and path in uploaded:
            continue
        if not file.is_file():
            yield f"{path} is missing, and the index has {format_count(entry.captures, 'capture')} of it"
        elif file.stat().st_size < entry.looks.size:
            yield f"{path} has {file.stat().st_size:,} bytes instead of {entry.looks.size:,}"


def cdxj_faults(crawl: Collection, known: dict[str, IndexedWarc], *, read_data: bool) -> Iterator[str]:
    for entry in known.values():
        file = crawl.cdxj / entry.cdxj
        name = file.relative_to(crawl.root).as_posix()
        if not file.is_file():
            yield f"{name} is missing"
        elif file.stat().st_size != entry.cdxj_size:
            yield f"{name} has {file.stat().st_size:,} bytes instead of {entry.cdxj_size:,}"
        elif read_data and digest_of_file(file) != entry.cdxj_digest:
            yield f"{name} does not have its checksum"


def list_faults(crawl: Collection, state: StoredState, *, read_data: bool) -> Iterator[str]:
    """Yield lists of paths that are missing, or (`read_data`) damaged."""
    wanted = [crawl.paths_file(kind) for kind in PATH_LISTS] if crawl.name in state.published else []
    for path in sorted({*wanted, *crawl.crawl_data.glob("*.paths.gz")}):
        name = path.relative_to(crawl.root).as_posix()
        if not path.is_file():
            yield f"{name} is missing"
        elif read_data:
            try:
                decode_block(path.read_bytes())
            except BadInput as error:
                yield f"{name}: {error.message}"


def published_faults(crawl: Collection, state: StoredState, *, read_data: bool) -> Iterator[str]:
    made = state.published.get(crawl.name) if crawl.zipnum.is_dir() else None  # who removes all of it knows
    for key, (size, checksum) in sorted(made.files.items()) if made else ():
        file = crawl.root / key
        if not file.is_file():
            yield f"{key} is missing"
        elif file.stat().st_size != size:
            yield f"{key} has {file.stat().st_size:,} bytes instead of {size:,}"
        elif read_data and crc32_of_file(file) != checksum:
            yield f"{key} does not have its checksum"


# --- documents ----------------------------------------------------------------------------------------------------


def check_documents(root: Path, *, read_data: bool) -> Iterator[DoctorFinding]:
    """Check that each part of the documents that has a receipt is there, and (`read_data`) is what was written."""
    try:
        lost = [f"{part.file} {part.fault}" for part in find_lost_parts(root)]
        damaged = [part for part in find_damaged_parts(root) if read_data]
    except WebmillError as error:
        yield DoctorFinding(part="documents", state="bad", found=str(error), repair=f"webmill extract {root}")
        return
    yield from describe_faults("documents", extract_state_faults(root), repair=f"webmill extract {root} --from-scratch")
    yield from describe_faults("documents", lost, repair=f"webmill extract {root}")
    removed = [f"{one.file} {one.fault}" for one in find_removed_faults(root)]
    yield from describe_faults("removed pages", removed, repair=f"webmill crawl {root}")
    if damaged:
        rotten = " ".join(sorted({str(root / part.file) for part in damaged}))
        faults = [f"{part.file} {part.fault}" for part in damaged]
        yield from describe_faults("documents", faults, repair=f"rm {rotten} && webmill extract {root}")


def extract_state_faults(root: Path) -> Iterator[str]:
    """Yield what is wrong with the files that say how the documents were made."""
    folder = PublishFolders(root).extract_state
    if not (folder / FOLDER).is_dir():
        return
    if not (folder / TASKS).is_file():
        yield f"{folder / TASKS} is missing"
    try:
        read_shape(LocalStorage(folder))
    except NotFound:
        yield f"{folder / SETTINGS} is missing"
    except BadInput as error:
        yield f"{folder / SETTINGS}: {error.message}"


# --- the frontier -------------------------------------------------------------------------------------------------


def check_frontier(root: Path, crawl: Collection, *, read_data: bool) -> Iterator[DoctorFinding]:
    """Check that a crawl on one machine has the files that it had, and that its frontier has those of its state."""
    folder = CrawlFolder(crawl)
    if not folder.path.is_dir() or is_locked(folder.path, "crawl"):
        return
    restore = f"webmill frontier restore {root} BACKUP, from a backup"
    try:
        yield from describe_faults("frontier", small_file_faults(folder), repair=restore)
        if not folder.layout.exists() or read_layout(folder).on_nodes:
            return
        lost = [f"{path.relative_to(root)} is missing or empty" for path in lost_files(folder)]
        go_on = f"{restore}; or go on without: webmill crawl {root} --lost-files rebuild"
        yield from describe_faults("frontier", lost, repair=go_on)
        faults = [
            f"{fault.file.relative_to(root)} {fault.fault}"
            for shard in range(read_layout(folder).shards)
            if is_there(folder.shard(shard) / "state.sqlite")
            for fault in find_frontier_faults(folder.shard(shard), read_data=read_data)
        ]
        yield from describe_faults("frontier", faults, repair=restore)
    except WebmillError as error:
        yield DoctorFinding(part="frontier", state="bad", found=str(error), repair=restore)


def small_file_faults(folder: CrawlFolder) -> Iterator[str]:
    """Yield what is wrong with the small files of a frontier."""
    if not folder.layout.exists() and any(folder.path.glob("shard-*/*.sqlite")):
        yield f"{folder.layout.relative_to(folder.collection.root)} is missing"
    reads: dict[Path, Callable[[], object]] = {
        folder.layout: lambda: read_layout(folder),
        folder.seeds: lambda: read_seeds(folder.seeds),
        folder.path / "flags.json": lambda: read_stored(folder.path),
        folder.path / "status.json": lambda: read_status(folder.path),
    }
    for path, read in reads.items():
        if path.exists():
            try:
                read()
            except WebmillError as error:
                yield str(error)
