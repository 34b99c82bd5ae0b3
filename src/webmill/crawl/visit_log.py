"""The log of a crawl: one line of JSON for each URL that was visited, as Heritrix's crawl.log has them.

    DIR/frontier/log/NN-000001.jsonl      NN: the shard, or `saved` for `webmill save`; numbered, the newest last

A file that is full is followed by the next; the oldest are removed, so that a shard keeps at most `KEPT_FILES` files. A
batch of the crawl is one write, without a sync: a kill loses nothing, a power cut may take the last lines, and a line
that was cut is skipped and counted. A log that cannot be written never stops a crawl.
"""

from __future__ import annotations

import heapq
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import msgspec

from webmill.crawl.frontier.base import LastVisit, RetryLater, VisitDone
from webmill.crawl.visit.outcome import VisitResult
from webmill.formats.url.normalise import host_of
from webmill.formats.warc.capture import Capture
from webmill.infra import waiting
from webmill.infra.files import as_webmill_error

log = logging.getLogger(__name__)

FOLDER = "log"
FILE_BYTES, KEPT_FILES = 32 << 20, 8  # some 100,000 lines each
LONGEST_LINE = 1 << 16
LONGEST_ERROR, LONGEST_TYPE = 300, 100  # characters
FOLLOW_INTERVAL = 0.5
_NAME = re.compile(r"([A-Za-z0-9_-]{1,40})-([0-9]{6,12})\.jsonl")
_LINKS = "L" * 50
_STATUS = re.compile(r"status_([0-9]{3})")


class VisitLogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One visit. `path` is how the URL was reached from a seed: L for a link, R a redirect, E a page resource, M a
    sitemap, P robots.txt; empty for a seed."""

    time: float
    url: str
    status: int = 0  # 0: there was no answer
    size: int = 0  # bytes of the response, as they came
    seconds: float = 0.0
    path: str = ""
    via: str = ""  # the page that had the link, where this process has met it of late
    mime: str = ""  # as the server says
    digest: str = ""  # of the payload
    error: str = ""  # a code of a fixed set, then a colon and words
    note: str = ""  # retry: it will be asked again; unchanged: the content was archived before; gone

    @property
    def host(self) -> str:
        return host_of(self.url)

    @property
    def kind(self) -> str:
        """Return the kind of error, such as `connect_refused` or `http_404`; empty when it went well."""
        if self.error:
            return self.error.partition(":")[0]
        return f"http_{self.status}" if self.status >= 400 else ""


_encode = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder(VisitLogLine).decode


# --- writing ---


class VisitLog:
    """Writes the visits of one process. `find_via` returns the page that had the link to a URL, or ""."""

    def __init__(self, folder: Path, stem: str) -> None:
        self._folder, self._stem = folder / FOLDER, stem
        self.find_via: Callable[[str], str] = lambda _: ""
        self._fd, self._size, self._number = -1, 0, 0
        self._has_failed = False

    def write(self, results: Iterable[VisitResult], *, now: float) -> None:
        """Add the visits of a batch whose outcomes are durable."""
        lines: list[VisitLogLine] = []
        for result in results:
            self._add_lines(result, now, lines)
        if not lines:
            return
        try:
            self._append(_encode(lines))
        except OSError as error:
            if not self._has_failed:
                log.warning("the log of the crawl is not written", extra={"why": error.strerror or str(error)})
            self._has_failed = True
            self.close()
        else:
            self._has_failed = False

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _add_lines(self, result: VisitResult, now: float, lines: list[VisitLogLine]) -> None:
        outcome, own = result.outcome, None
        url = outcome.url if outcome else ""
        for capture in result.captures:
            if capture.exchange.url == url:
                own = capture
            else:
                lines.append(describe_capture(capture, path="P"))
        if isinstance(outcome, VisitDone):
            lines.append(describe_visit(outcome.visit, own, via=self.find_via(url)))
        elif isinstance(outcome, RetryLater):
            found = _STATUS.match(outcome.error)
            status, error = (int(found[1]), "") if found else (0, outcome.error[:LONGEST_ERROR])
            lines.append(VisitLogLine(now, url, status, via=self.find_via(url), error=error, note="retry"))

    def _append(self, data: bytes) -> None:
        if self._fd < 0 or self._size + len(data) > FILE_BYTES:
            self._open_next(len(data))
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self._size += len(data)

    def _open_next(self, size: int) -> None:
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        numbers = [number for stem, number, _ in log_files(self._folder.parent) if stem == self._stem]
        self._number = max([self._number, *numbers, 1])
        path = self._path(self._number)
        if path.exists() and path.stat().st_size + size > FILE_BYTES:
            self._number += 1
            path = self._path(self._number)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o666)
        self._size = os.fstat(self._fd).st_size
        if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":  # a power cut has taken the end
            self._size += os.write(self._fd, b"\n")
        for number in numbers:
            if number <= self._number - KEPT_FILES:
                self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._stem}-{number:06}.jsonl"


def describe_visit(visit: LastVisit, capture: Capture | None, *, via: str) -> VisitLogLine:
    note = "gone" if visit.gone else "unchanged" if visit.status == 304 else ""
    error = visit.error[:LONGEST_ERROR] if visit.error else ""
    if capture is None:
        return VisitLogLine(visit.time, visit.url, visit.status, path=path_of(visit), via=via, error=error, note=note)
    exchange = capture.exchange
    return VisitLogLine(
        visit.time,
        visit.url,
        visit.status,
        len(exchange.response),
        round(exchange.seconds, 3),
        path_of(visit),
        via,
        type_of(capture),
        visit.digest,
        error,
        note,
    )


def describe_capture(capture: Capture, *, path: str) -> VisitLogLine:
    exchange = capture.exchange
    status = exchange.response[9:12]
    return VisitLogLine(
        exchange.date.timestamp(),
        exchange.url,
        int(status) if status.isdigit() else 0,
        len(exchange.response),
        round(exchange.seconds, 3),
        path,
    )


def path_of(visit: LastVisit) -> str:
    """Return how a URL was reached, as far as the frontier keeps it: the kinds and numbers of steps."""
    if not (visit.redirects or visit.sitemap_depth or visit.resource_steps or visit.resource_share):
        return _LINKS[: visit.depth]
    embedded = visit.resource_steps + 1 if visit.resource_steps or visit.resource_share else 0
    return "L" * min(visit.depth, 50) + "M" * visit.sitemap_depth + "R" * visit.redirects + "E" * embedded


def type_of(capture: Capture) -> str:
    return media_type((capture.headers.get("Content-Type") if capture.headers else None) or "")


@lru_cache(maxsize=256)  # nearly all pages of a crawl have one of a few
def media_type(written: str) -> str:
    return written.partition(";")[0].strip().lower()[:LONGEST_TYPE]


# --- reading ---


class LogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which visits are wanted. `status` is a code or a class (`404`, `4xx`), `error` a kind (`dns_notfound`)."""

    url: str = ""
    host: str = ""  # with the hosts below it
    status: str = ""
    error: str = ""
    since: float = 0.0

    def wants(self, visit: VisitLogLine) -> bool:
        if visit.time < self.since or (self.url and visit.url != self.url):
            return False
        if self.status and not (str(visit.status) == self.status or self.status == f"{visit.status // 100}xx"):
            return False
        if self.error and not (visit.kind.startswith(self.error) or (self.error == "any" and visit.kind)):
            return False
        return not self.host or visit.host == self.host or visit.host.endswith(f".{self.host}")

    @property
    def needle(self) -> bytes:
        """Return bytes that are in every line that is wanted."""
        return msgspec.json.encode(self.url)[1:-1] if self.url else self.host.encode()


class VisitLogReader:
    """Reads the log of the crawl in `folder`, its `frontier/`. `unreadable` counts lines that were skipped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.unreadable = 0

    def visits(self, wanted: LogFilter | None = None, *, newest_bytes: int | None = None) -> Iterator[VisitLogLine]:
        """Yield the visits that are wanted, of all shards, in about the order of their time. `newest_bytes`: only what
        is in so many bytes at the end of each shard's log."""
        chosen = wanted or LogFilter()
        by_stem: dict[str, list[Path]] = {}
        for stem, _, path in sorted(log_files(self._folder)):
            by_stem.setdefault(stem, []).append(path)
        streams = [self._read_files(paths, chosen, newest_bytes) for paths in by_stem.values()]
        return heapq.merge(*streams, key=lambda visit: visit.time)

    def follow(self, wanted: LogFilter, *, sleep: Callable[[float], None] = waiting.sleep) -> Iterator[VisitLogLine]:
        """Yield visits that are added from now on, for ever."""
        ends = {path: path.stat().st_size for _, _, path in log_files(self._folder)}
        while True:
            for _, _, path in sorted(log_files(self._folder)):
                start = ends.get(path, 0)
                with _open(path) as file:
                    file.seek(start)
                    data = file.read()
                whole = data[: data.rfind(b"\n") + 1]
                ends[path] = start + len(whole)
                yield from self._decode_lines(whole.splitlines(), wanted)
            sleep(FOLLOW_INTERVAL)

    def _read_files(self, paths: Sequence[Path], wanted: LogFilter, newest: int | None) -> Iterator[VisitLogLine]:
        left = newest
        starts: list[tuple[Path, int]] = []
        for path in reversed(paths):
            try:
                size = path.stat().st_size
            except FileNotFoundError:  # rotated away
                continue
            if left is not None and left <= 0:
                break
            starts.insert(0, (path, 0 if left is None else max(0, size - left)))
            left = None if left is None else left - size
        for path, start in starts:
            with _open(path) as file:
                if start:
                    file.seek(start)
                    file.readline(LONGEST_LINE)
                yield from self._decode_lines(_lines_of(file), wanted)

    def _decode_lines(self, lines: Iterable[bytes], wanted: LogFilter) -> Iterator[VisitLogLine]:
        needle = wanted.needle
        for line in lines:
            if needle and needle not in line:
                continue
            try:
                visit = _decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self.unreadable += bool(line.strip())
                continue
            if wanted.wants(visit):
                yield visit


def log_files(folder: Path) -> list[tuple[str, int, Path]]:
    """Return the files of a log: stem, number and path."""
    try:
        with os.scandir(folder / FOLDER) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = ((match, name) for name in names if (match := _NAME.fullmatch(name)))
    return [(match[1], int(match[2]), folder / FOLDER / name) for match, name in found]


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise as_webmill_error(error, str(path)) from error


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines; one that is too long comes in pieces, none of which can be read."""
    while line := file.readline(LONGEST_LINE):
        yield line
