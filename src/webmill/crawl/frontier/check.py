"""Whether the files of a local frontier are those that its state names, by reading alone. Not while a crawl runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from webmill.crawl.frontier.file_frontier import QUEUES_FOLDER, SEEN_FOLDER
from webmill.crawl.frontier.local import STATE_FILE
from webmill.crawl.frontier.seen_urls import run_name
from webmill.crawl.frontier.sorted_hash_run import HashRun
from webmill.crawl.frontier.url_queue_files import FILE_SIZE, UrlQueue, decode_lines, hash_domain
from webmill.errors import BadInput, WebmillError
from webmill.infra.files import os_errors
from webmill.infra.sqlite import open_read_only


class FrontierFault(msgspec.Struct, frozen=True):
    """A file of a frontier, and what is wrong with it."""

    file: Path
    fault: str


def find_frontier_faults(folder: Path, *, read_data: bool) -> Iterator[FrontierFault]:
    """Yield the files of a shard's frontier that are missing, cut, or (`read_data`) not what was written."""
    with open_read_only(folder / STATE_FILE) as run:
        runs = [number for (number,) in run("SELECT number FROM run ORDER BY number")]
        domains = run("SELECT name, lanes FROM domain")
        is_settled = not run("SELECT 1 FROM journal LIMIT 1")  # else lines may be in the journal alone
    for number in runs:
        yield from run_faults(folder / SEEN_FOLDER / f"{run_name(number)}.run", read_data=read_data)
    for name, lanes in domains if is_settled else ():
        for priority, (read, end) in json.loads(lanes).items():
            yield from queue_faults(folder, UrlQueue(hash_domain(name), int(priority)), read, end, read_data=read_data)


def run_faults(path: Path, *, read_data: bool) -> Iterator[FrontierFault]:
    try:
        with closing(HashRun(path)) as run:
            if read_data:
                run.verify()
    except BadInput as error:
        yield FrontierFault(path, error.message)
    except WebmillError:
        yield FrontierFault(path, "is missing")


def queue_faults(folder: Path, queue: UrlQueue, read: int, end: int, *, read_data: bool) -> Iterator[FrontierFault]:
    """Yield the files of one queue of waiting URLs that do not have all lines."""
    data = b""
    for number in range(read // FILE_SIZE, -(-end // FILE_SIZE)) if read < end else ():
        path = folder / QUEUES_FOLDER / queue.file(number)
        first, last = max(read, number * FILE_SIZE), min(end, (number + 1) * FILE_SIZE)
        if not path.is_file():
            yield FrontierFault(path, "is missing")
            return
        if path.stat().st_size < last - number * FILE_SIZE:
            yield FrontierFault(path, f"has {path.stat().st_size:,} bytes instead of {last - number * FILE_SIZE:,}")
            return
        if read_data:
            with os_errors(str(path)), path.open("rb") as file:
                file.seek(first - number * FILE_SIZE)
                data += file.read(last - first)
            try:
                data = data[max((stop for stop, *_ in decode_lines(data)), default=0) :]
            except BadInput as error:
                yield FrontierFault(path, error.message)
                return
