"""Where WARC files lie: lists of their paths or addresses to pywb's path index, `FILENAME TAB PATH [TAB PATH …]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from webmill.errors import BadInput


class WarcLocation(msgspec.Struct, frozen=True):
    """A file by its name, and the places to look for it, in order."""

    name: bytes
    paths: tuple[bytes, ...]


def from_arclist(lines: Iterable[bytes], *, source: str = "input") -> Iterator[WarcLocation]:
    """One path or URL per line; blank lines and `#` comments are passed over. A URL's query is no part of the name."""
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
