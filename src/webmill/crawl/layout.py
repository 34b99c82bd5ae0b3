"""Where the files of a crawl lie, and what may never change in its life: its name, and which shard has which domain."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated
from zlib import crc32

import msgspec

from webmill.collection import Collection
from webmill.errors import BadInput, Misconfigured
from webmill.infra import atomic
from webmill.infra.checksums import seal_json, unseal_json
from webmill.infra.files import os_errors

MAX_SHARDS = 256


class CrawlLayout(msgspec.Struct, frozen=True):
    """How a crawl is divided."""

    shards: Annotated[int, msgspec.Meta(ge=1, le=MAX_SHARDS)]
    name: str = ""
    version: int = 1
    on_nodes: bool = False  # its frontier is in Redis
    files: tuple[str, ...] = ()  # in the frontier's folder: what the crawl cannot go on without
    resharding: int = 0  # `webmill frontier reshard` is at work, to this many shards
    is_switching: bool = False  # and `shards` are the new ones, which are complete, but not all in their place


def load_or_create_layout(folder: CrawlFolder, processes: int | None) -> int:
    """Return the number of shards of a crawl on one machine. A new crawl gets as many as `processes`."""
    if not folder.layout.exists():
        refuse_lost_layout(folder)
        shards = processes or 1
        if shards > MAX_SHARDS:
            raise Misconfigured(f"{shards} processes: at most {MAX_SHARDS}")
        write_layout(folder, CrawlLayout(shards, folder.collection.name))
        return shards
    layout = read_layout(folder)
    if layout.on_nodes:
        raise Misconfigured(
            f"the crawl in {folder.collection.root} keeps its frontier in Redis: give --frontier redis://…"
        )
    if processes is not None and processes != layout.shards:
        raise Misconfigured(
            f"this crawl was begun with {layout.shards} processes, and its domains are divided among them: "
            f"leave --processes out, or give --processes {layout.shards}; "
            f"`webmill frontier reshard {folder.collection.root} {processes}` divides them anew"
        )
    return layout.shards


def refuse_lost_layout(folder: CrawlFolder) -> None:
    """Refuse to divide domains anew where there are shards already, but not the file that says how many."""
    if lost := next(iter(sorted(folder.path.glob("shard-*/*.sqlite"))), None):
        message = f"{folder.layout} is missing, and {lost} belongs to it"
        raise Misconfigured(f"{message}: put it back, or `webmill frontier restore` a backup")


def read_layout(folder: CrawlFolder) -> CrawlLayout:
    path, name = folder.layout, folder.collection.name
    try:
        layout = decode_layout(path.read_bytes(), source=str(path))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {error}: put the file back as it was, or begin in another folder") from error
    except BadInput as error:
        raise Misconfigured(f"{error}, or begin in another folder") from error
    if layout.name and layout.name != name:
        raise Misconfigured(f"this crawl is called {layout.name}: give --name {layout.name}, or crawl into another DIR")
    return layout


def decode_layout(data: bytes, *, source: str) -> CrawlLayout:
    """Return the layout of a crawl that is not being divided anew: until that is done, nobody knows its shards."""
    layout = decode_any_layout(data, source=source)
    if layout.resharding:
        command = f"webmill frontier reshard {Path(source).parent.parent} {layout.resharding}"
        raise Misconfigured(f"the crawl is being divided into {layout.resharding} shards: run `{command}` to its end")
    return layout


def decode_any_layout(data: bytes, *, source: str) -> CrawlLayout:
    return msgspec.json.decode(unseal_json(data, source=source, repair="put the file back as it was"), type=CrawlLayout)


def write_layout(folder: CrawlFolder, layout: CrawlLayout) -> None:
    atomic.write_bytes(folder.layout, seal_json(msgspec.json.encode(layout)))


# --- the files that belong together -------------------------------------------------------------------------------


def record_files(folder: CrawlFolder) -> None:
    """Record which files the crawl has: from now on it does not go on without one of them."""
    layout, files = read_layout(folder), tuple(name for name in belonging_files(folder) if is_there(folder.path / name))
    if files != layout.files:
        write_layout(folder, msgspec.structs.replace(layout, files=files))


def lost_files(folder: CrawlFolder) -> list[Path]:
    """Return the files that the crawl had, and that are gone or empty."""
    return [folder.path / name for name in read_layout(folder).files if not is_there(folder.path / name)]


def refuse_lost_files(folder: CrawlFolder) -> None:
    """Refuse to go on without a file that the crawl had: it would forget what is in it, and say nothing."""
    if folder.layout.exists() and (lost := lost_files(folder)):
        raise Misconfigured(
            f"{lost[0]} is missing or empty: `webmill frontier restore` brings back a backup; "
            "to go on without it, give --lost-files rebuild"
        )


def belonging_files(folder: CrawlFolder) -> list[str]:
    """Return the names of files that a crawl on one machine keeps its state in."""
    named = ("flags.json", folder.seeds.name, folder.host_schedule.name)
    found = [path for pattern in ("mail-*.sqlite", "shard-*/*.sqlite") for path in sorted(folder.path.glob(pattern))]
    return [*named, *(path.relative_to(folder.path).as_posix() for path in found)]


def is_there(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


# --- seeds --------------------------------------------------------------------------------------------------------

_CHECKSUM_LINE = "# crc32 "


def read_seeds(path: Path) -> list[str]:
    """Return the seeds of a crawl. `BadInput` if the list does not have its checksum; one of before has none."""
    with os_errors(str(path)):
        text = path.read_bytes().decode(errors="replace")
    first, _, rest = text.partition("\n")
    if not text or first.startswith("http"):  # as every seed does
        return text.split()
    if first != f"{_CHECKSUM_LINE}{crc32(rest.encode()):08x}":
        message = "does not have its checksum: put it back as it was, or name all seeds again in a new folder"
        raise BadInput(message, reason="corrupt", source=str(path))
    return rest.split()


def write_seeds(path: Path, seeds: Iterable[str]) -> None:
    lines = "".join(f"{url}\n" for url in seeds)
    atomic.write_bytes(path, f"{_CHECKSUM_LINE}{crc32(lines.encode()):08x}\n{lines}".encode())


class CrawlFolder(msgspec.Struct, frozen=True):
    """The paths of a crawl's own files."""

    collection: Collection

    @property
    def path(self) -> Path:
        return self.collection.root / "frontier"

    @property
    def seeds(self) -> Path:
        return self.path / "seeds.txt"

    @property
    def layout(self) -> Path:
        return self.path / "crawl.json"

    @property
    def host_schedule(self) -> Path:
        return self.path / "gates.sqlite"

    def shard(self, shard: int) -> Path:
        return self.path / f"shard-{shard:02d}"

    def inbox(self, shard: int) -> Path:
        return self.path / f"mail-{shard:02d}.sqlite"
