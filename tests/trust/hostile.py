"""A collection that somebody else sent, whose files give orders, and a folder of the user's that it is after."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.unit.cli.command import Ended, webmill
from webmill.pipeline.dataset.config import Dataset
from webmill.pipeline.dataset.folder import create_dataset

FUNCTION = """
import pathlib
pathlib.Path({marker!r}).write_text("owned")
def document(page):
    return None
"""
SETTINGS = """
[executor]
url = "ray://127.0.0.1:{port}"
[search]
url = "../home/index"
[queue]
url = "amqp://127.0.0.1:{port}/"
[serve]
host = "0.0.0.0"
access_log = "{home}/access.log"
[crawl]
allow_private = true
resolve = ["town.example=127.0.0.1:{port}"]
robots = false
frontier = "redis://127.0.0.1:{port}/0"
[index]
blocklist = "../home/thesis.txt"
"""
STORED = {
    "frontier": "redis://127.0.0.1:{port}/0",
    "allow_private": True,
    "resolve": {"town.example": ["127.0.0.1", 1]},
}
FOLDERS = (
    ".webmill",
    "blobs",
    "cc-index",
    "cdxj",
    "crawl-data",
    "documents",
    "frontier",
    "publish",
    "search",
    "snapshots",
)


@dataclass
class Attacker:
    """Listens on a port that the collection names, and counts who comes."""

    socket: socket.socket
    visitors: int = 0
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    def listen(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.visitors += 1
            connection.close()


@dataclass(frozen=True)
class Scene:
    """`theirs` is the collection, `home` a folder of the user's beside it."""

    theirs: Path
    home: Path
    attacker: Attacker

    @property
    def marker(self) -> Path:
        return self.home / "owned"

    def use(self, name: str, arguments: tuple[str, ...]) -> Ended:
        filled = [one.format(dir=self.theirs, out=self.theirs.parent / "out") for one in arguments]
        return webmill(*name.split(), *filled)

    def home_files(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.home)): path.read_bytes() for path in self.home.rglob("*") if path.is_file()}

    def order_by_settings(self) -> None:
        settings = SETTINGS.format(port=self.attacker.port, home=self.home)
        (self.theirs / "webmill.toml").write_text(settings)
        (self.theirs / "seeds.txt").write_text("https://town.example/\n")

    def order_by_crawl(self) -> None:
        stored = json.dumps(STORED).replace("{port}", str(self.attacker.port))
        (self.theirs / "frontier").mkdir(exist_ok=True)
        (self.theirs / "frontier" / "flags.json").write_text(stored)
        (self.theirs / "frontier" / "crawl.json").write_text(json.dumps({"shards": 1, "name": "theirs"}))
        (self.theirs / "frontier" / "seeds.txt").write_text("https://town.example/\n")

    def order_by_function(self) -> None:
        """A whole dataset whose function writes the marker, where earlier versions looked for one; made elsewhere."""
        elsewhere = self.theirs.parent / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "function.py").write_text(FUNCTION.format(marker=str(self.marker)))
        table = {"name": "theirs", "manifest": ["warc/a.warc.gz"], "document": {"function": "function.py:document"}}
        dataset = msgspec.convert(table, Dataset)
        made, _ = create_dataset(dataset, elsewhere, beside=elsewhere, read_lines=lambda _: [])
        self.marker.unlink()  # who makes a dataset runs its function
        (self.theirs / "extract").mkdir()
        made.path.rename(self.theirs / "extract" / "theirs")

    def order_by_links(self) -> None:
        for name in FOLDERS:
            if (self.theirs / name).exists():
                shutil.rmtree(self.theirs / name)
            (self.theirs / name).symlink_to(self.home)

    def order_by_deep_links(self) -> None:
        """Files that commands open for writing are links to files of the user's, or to names that are free."""
        for place, target in {
            "cdxj/state.sqlite": "made.sqlite",
            "frontier/gates.sqlite": "made-too.sqlite",
            "publish/queue.sqlite": "made-as-well.sqlite",
            ".webmill/extract/tasks.sqlite": "made-tasks.sqlite",
            "crawl-data/TOWN-2024/segments/1/warc/a.warc.gz.open": "thesis.txt",
            "rejected/index.jsonl": "thesis.txt",
        }.items():
            path = self.theirs / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.symlink_to(self.home / target)


def make_scene(folder: Path, sample_root: Path, attacker: Attacker) -> Scene:
    home = folder / "home"
    home.mkdir()
    (home / "thesis.txt").write_text("years of work\n")
    (home / "latest.json").write_text("{}\n")
    (folder / "out").mkdir()
    shutil.copytree(sample_root, folder / "theirs", symlinks=True)
    return Scene(folder / "theirs", home, attacker)


def start_attacker() -> Attacker:
    attacker = Attacker(socket.create_server(("127.0.0.1", 0)))
    attacker.threads.append(threading.Thread(target=attacker.listen, daemon=True))
    attacker.threads[0].start()
    return attacker
