"""pywb's path index, which locates WARC files: `FILENAME TAB PATH [TAB PATH …]`, made of lists of paths or URLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from webmill.errors import BadInput


class WarcLocation(msgspec.Struct, frozen=True):
    """A WARC file by its name, and the paths to try, in order."""

    name: bytes
    paths: tuple[bytes, ...]


def from_arclist(lines: Iterable[bytes], *, source: str = "input") -> Iterator[WarcLocation]:
    """Parse a list of paths or URLs; blank lines and `#` comments are skipped. A URL's query is no part of a name."""
    for number, line in enumerate(lines, start=1):
        path = line.strip()
        if path and not path.startswith(b"#"):
            name = (path.partition(b"?")[0] if b"://" in path else path).rpartition(b"/")[2]
            if not name or b"\t" in path:
                message = f"not the path of a file: {path[:80]!r}"
                raise BadInput(message, reason="bad_path_line", source=f"{source}:{number}")
            yield WarcLocation(name, (path,))


def parse_path_index(lines: Iterable[bytes], *, source: str = "input") -> Iterator[WarcLocation]:
    for number, line in enumerate(lines, start=1):
        text = line.rstrip(b"\r\n")
        if not text or text.startswith(b"#"):
            continue
        name, *paths = text.split(b"\t")
        if not name or not any(paths):
            raise BadInput("not a file name, a TAB and a path", reason="bad_path_line", source=f"{source}:{number}")
        yield WarcLocation(name, tuple(path for path in paths if path))


def format_location(located: WarcLocation, *, separator: bytes = b"\t") -> bytes:
    return separator.join((located.name, *located.paths)) + b"\n"
