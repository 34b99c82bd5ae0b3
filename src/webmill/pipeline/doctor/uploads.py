"""Whether the store that archives were uploaded to still has them, as they were when they were dropped here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from webmill.collection import Collection
from webmill.errors import NotFound, WebmillError
from webmill.infra.storage.backends import open_storage
from webmill.infra.storage.base import CHUNK, Storage
from webmill.infra.storage.uploads import UploadedFile, refuse_untrusted_place, uploaded_files
from webmill.masking import hide_secrets
from webmill.pipeline.doctor.findings import DoctorFinding
from webmill.pipeline.progress import format_count

MAX_NAMED = 5


def check_uploads(crawl: Collection, *, read_data: bool) -> Iterator[DoctorFinding]:
    """Ask the store for every archive that is there; with `read_data`, for all its bytes."""
    files = {key: file for key, file in uploaded_files(crawl.root).items() if crawl.owns(key)}
    if not files:
        return
    part, dropped = f"uploads of {crawl.name}", sum(not (crawl.root / key).exists() for key in files)
    try:
        places = sorted({file.place for file in files.values()})
        for place in places:
            refuse_untrusted_place(crawl.root, place)
        storages = {place: open_storage(place) for place in places}
        faults = [
            fault
            for key, file in files.items()
            if (fault := find_fault(storages[file.place], key, file, read_data=read_data))
        ]
    except WebmillError as error:
        yield DoctorFinding(
            part=part,
            state="doubt",
            found=hide_secrets(str(error)),
            promise="archives that are there alone can be read",
            repair=f"webmill doctor {crawl.root}",
        )
        return
    if faults:
        named = "; ".join(faults[:MAX_NAMED])
        yield DoctorFinding(
            part=part,
            state="bad",
            found=f"{format_count(len(faults), 'archive', 'are')} not as uploaded: {named}",
            promise="archives that are there alone can be read",
            repair="restore them in the store from its own versions or backups",
        )
        return
    seen = "every byte read" if read_data else "sizes compared"
    where = ", ".join(map(hide_secrets, places))
    yield DoctorFinding(
        part=part,
        state="good",
        found=f"{format_count(len(files), 'archive')} at {where}, {dropped:,} only there; {seen}",
    )


def find_fault(storage: Storage, key: str, file: UploadedFile, *, read_data: bool) -> str:
    """Return what is wrong with an archive in the store, or an empty string."""
    try:
        size = storage.stat(key).size
        if size != file.size:
            return f"{key} has {size:,} bytes instead of {file.size:,}"
        if read_data:
            digest = hashlib.sha256()
            with storage.open(key) as stream:
                while piece := stream.read(CHUNK):
                    digest.update(piece)
            if digest.hexdigest() != file.sha256:
                return f"{key} has other bytes"
    except NotFound:
        return f"{key} is gone"
    return ""
