"""Read what crawlers wrote, as a stranger would: every record that can be read, and how many files cannot."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed


@dataclass(frozen=True)
class Output:
    records: list[tuple[str, bytes]]  # URL and body
    unreadable: int  # files that cannot be read to their end


def warc_files(folder: Path) -> Output:
    records: list[tuple[str, bytes]] = []
    unreadable = 0
    for file in sorted(folder.rglob("*.warc.gz")):
        unreadable += not is_whole_gzip(file)
        try:
            with file.open("rb") as stream:
                for record in ArchiveIterator(stream):
                    if record.rec_type == "response" and record.http_headers.get_statuscode() == "200":
                        url = record.rec_headers.get_header("WARC-Target-URI").strip("<>")  # wget's way to write it
                        records.append((url, record.content_stream().read()))
        except (ArchiveLoadFailed, EOFError, OSError, zlib.error, AttributeError):
            continue  # it is not a whole gzip file, and was counted
    return Output(records, unreadable)


def is_whole_gzip(file: Path) -> bool:
    try:
        with gzip.open(file) as stream:
            while stream.read(1 << 20):
                pass
    except (EOFError, OSError, zlib.error):
        return False
    return True


def json_lines(file: Path) -> Output:
    """One file: a line that cannot be read makes it unreadable for a program that reads it line by line."""
    records: list[tuple[str, bytes]] = []
    broken = 0
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            item = json.loads(line)
            records.append((item["url"], item["body"].encode()))
        except (ValueError, KeyError, TypeError):
            broken = 1
    return Output(records, broken)


def json_files(folder: Path) -> Output:
    records: list[tuple[str, bytes]] = []
    unreadable = 0
    for file in sorted(folder.rglob("*.json")):
        if file.name.startswith("__"):  # crawlee's own
            continue
        try:
            item = json.loads(file.read_bytes())
            records.append((item["url"], item["body"].encode()))
        except (ValueError, KeyError, TypeError):
            unreadable += 1
    return Output(records, unreadable)


def saved_files(folder: Path) -> Output:
    """Of wget: a folder for each host. There is nothing by which a file could be seen to be cut but its page."""
    files = [file for file in sorted(folder.rglob("*.html")) if file.is_file()]
    return Output([(f"http://{file.relative_to(folder)}", file.read_bytes()) for file in files], 0)
