"""Manifests: one line, one task. `WARC:path|WAT:path|WET:path`, or the path of a WARC file alone.

The file types may also be called Archive, Metadata and Conversion, with spaces around colons and bars. For a reader of
your own (`document.reader`) they have the names that it gives them; a path alone is of the type `FILE`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from webmill.errors import BadInput
from webmill.formats.warc.typed_records import FileType

TaskFiles = dict[str, str]  # paths by file type
ParseLine = Callable[[str], TaskFiles]
FILE = "FILE"  # the type of a file that has none
ALIASES = {"ARCHIVE": FileType.WARC, "METADATA": FileType.WAT, "CONVERSION": FileType.WET}  # of Common Crawl's kinds
TYPES: dict[str, FileType] = {**FileType.__members__, **ALIASES}
_TYPED = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)\s*:(?!//)\s*(.*)")  # not an address
ManifestKind = Literal["warc", "aligned"]
MAX_BYTES = 256 << 20  # a crawl of Common Crawl has 90,000 WARC files: 13 MB of lines


def parse_line(line: str) -> TaskFiles:
    """Return the files of a line: WARC, WAT and WET. BadInput: it names others, or no WARC file."""
    files: TaskFiles = {}
    for part in line.split("|"):
        name, colon, path = part.strip().partition(":")
        if not colon or name.strip().upper() not in TYPES:
            if "|" in line:
                raise BadInput(f"{part!r} names no WARC:, WAT: or WET: file", reason="bad_manifest")
            return {FileType.WARC: line}
        add_file(files, TYPES[name.strip().upper()], path.strip(), part)
    if FileType.WARC not in files:
        raise BadInput("no WARC: file, which the others are about", reason="bad_manifest")
    return files


def parse_own_line(line: str) -> TaskFiles:
    """Return the files of a line by the names that a reader of your own gives to file types."""
    files: TaskFiles = {}
    for part in line.split("|"):
        typed = _TYPED.fullmatch(part.strip())
        if not typed and "|" in line:
            raise BadInput(f"{part!r} has no file type; write TYPE:path|TYPE:path", reason="bad_manifest")
        add_file(files, typed[1] if typed else FILE, typed[2] if typed else line, part)
    return files


def add_file(files: TaskFiles, file_type: str, path: str, part: str) -> None:
    if file_type in files or not path:
        raise BadInput(f"{part!r}: each file type once, with a path", reason="bad_manifest")
    files[file_type] = path


def parse_manifest(lines: Iterable[str], *, source: str, parse: ParseLine = parse_line) -> list[TaskFiles]:
    """Return the files of each task. Empty lines and comments (#) are skipped. BadInput names the bad line."""
    tasks: list[TaskFiles] = []
    seen: dict[frozenset[tuple[str, str]], int] = {}  # by files: one task can be written in many ways
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            files = parse(line)
        except BadInput as error:
            raise BadInput(f"line {number}: {error.message}", reason=error.reason, source=source) from None
        first = seen.setdefault(frozenset(files.items()), number)
        if first != number:
            raise BadInput(f"line {number} is line {first} again", reason="bad_manifest", source=source)
        tasks.append(files)
    if not tasks:
        raise BadInput("no tasks in the manifest", reason="bad_manifest", source=source)
    return tasks


def manifest_line(files: TaskFiles) -> str:
    """Return the line that `parse_line` parses back to these files: an ambiguous path keeps its `WARC:`."""
    path = files.get(FileType.WARC, "")
    is_typed = path.partition(":")[0].strip().upper() in TYPES
    return path if len(files) == 1 and path and not is_typed and not path.startswith("#") else typed_line(files)


def own_manifest_line(files: TaskFiles) -> str:
    """Return the line that `parse_own_line` parses back to these files: an ambiguous path keeps its `FILE:`."""
    path = files.get(FILE, "")
    return path if path and not _TYPED.fullmatch(path) and not path.startswith("#") else typed_line(files)


def typed_line(files: TaskFiles) -> str:
    return "|".join(f"{file_type}:{path}" for file_type, path in files.items())


def aligned_files(warc: str) -> TaskFiles:
    """Return the WARC, WAT and WET files of Common Crawl that belong together, from the path of the WARC."""
    folder, slash, name = warc.rpartition("/warc/")
    if not slash or not name.endswith(".warc.gz"):
        raise BadInput(f"{warc!r} is no path of Common Crawl (…/warc/NAME.warc.gz)", reason="bad_manifest")
    stem = name.removesuffix(".gz")
    wat, wet = (f"{folder}/{kind}/{stem}.{kind}.gz" for kind in ("wat", "wet"))
    return {FileType.WARC: warc, FileType.WAT: wat, FileType.WET: wet}


def lines_from_paths(paths: Iterable[str], *, kind: ManifestKind) -> Iterator[str]:
    """Yield the lines of a manifest from a crawl's `warc.paths`."""
    for path in paths:
        if path := path.strip():
            yield manifest_line(aligned_files(path) if kind == "aligned" else {FileType.WARC: path})


def decode_lines(data: bytes, *, source: str) -> list[str]:
    """Return the lines of a text file, gzipped or not."""
    if data.startswith(b"\x1f\x8b"):
        data = _gunzip(data, source=source)
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise BadInput("not UTF-8 text", reason="bad_manifest", source=source, offset=error.start) from None


def _gunzip(data: bytes, *, source: str) -> bytes:
    plain = bytearray()
    while data:
        member = zlib.decompressobj(31)
        try:
            plain += member.decompress(data, MAX_BYTES - len(plain) + 1)
        except zlib.error as error:
            raise BadInput(f"gzip: {error}", reason="bad_gzip", source=source) from None
        if len(plain) > MAX_BYTES:
            raise BadInput(f"more than {MAX_BYTES:,} bytes of lines", reason="too_large", source=source)
        if not member.eof:
            raise BadInput("the gzip file ends too early", reason="truncated_member", source=source)
        data = member.unused_data
    return bytes(plain)
