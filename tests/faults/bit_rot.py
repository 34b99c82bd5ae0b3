"""Bit rot: a whole collection, files of it flipped, cut and deleted, and every command that reads them.

    with TestWeb(…) as web: make_collection(root, web)
    answers = Answers(root)                     what every reading command says of the whole collection
    for mutation in choose_mutations(root, …):
        assert not list(answers.differences(mutation))

A reader must say the same as before, or fail with a message that names the file. Readers run in this process, and only
the mutated file is written and put back: hundreds of mutations take seconds. Commands that write get a copy.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import apsw

from tests.serve.asgi_client import asgi_client
from tests.serve.conftest import site_of
from tests.unit.cli.command import Ended, webmill
from webmill.collection import Collection
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.frontier.local import LocalFrontier
from webmill.crawl.layout import CrawlFolder, load_or_create_layout, read_seeds, refuse_lost_files
from webmill.crawl.stored_settings import parse_stored, read_stored
from webmill.errors import WebmillError
from webmill.formats.warc.reader import read_records
from webmill.infra.sqlite import open_read_only
from webmill.infra.sqlite_checksums import CHECKSUMMED, has_checksums
from webmill.pipeline.collection_reader import open_collection
from webmill.pipeline.crawl_archive import WarcArchive
from webmill.pipeline.documents import documents
from webmill.serve.app import application
from webmill.testing import TestWeb

NAME = "FULL"
CRAWL = (
    "--scope any --page-resources --delay 0s --address-delay 0s --allow-private --contact me@mill.example "
    f"--name {NAME} --processes 1 --max-pages"
).split()
UNSTABLE = re.compile(r'"(bytes|oldest)":[0-9.]+')  # sizes of files, ages


# --- a whole collection -------------------------------------------------------------------------------------------


def make_collection(root: Path, web: TestWeb, *, pages: int, rounds: int = 1) -> None:
    """Crawl, index, extract, publish and search a small web; `rounds` of it, between which the web changes."""
    hosts = sorted({page.url.split("/")[2].partition(":")[0] for page in web.pages()})
    resolve = [f"--resolve={host}={web.resolve[host][0]}:{web.port}" for host in hosts]
    done("crawl", root, web.home, *CRAWL, str(pages), *resolve)
    for number in range(rounds):
        if number:
            web.advance()
            done("crawl", root, "--refresh", "--refresh-every", "1s", *CRAWL, str((number + 2) * pages), *resolve)
        done("index", root)
        done("extract", root)
        if number:
            remove_one(root)
        done("publish", "documents", root, "--facet", "language", "--force")
        done("search", "update", root)


def remove_one(root: Path) -> None:
    """Note of a page that it is gone, as a crawl does that has not found it twice."""
    page = next(one for one in documents(root) if one.text)
    assert page.date
    gone = LastVisit(url=page.url, time=page.date.timestamp() + 3600, status=404, gone=True)
    WarcArchive(Collection(root, NAME), operator="", max_bytes=1, languages=False).record_removed([gone])


def done(*arguments: str | Path) -> Ended:
    ended = webmill("-q", *arguments)
    assert ended.code == 0, f"{arguments}: {ended.err}"
    return ended


# --- mutations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutation:
    """One change to one file. Times and inode stay: a disk that loses a bit tells nobody."""

    kind: str  # flip, cut, delete
    path: str  # in the collection
    at: int = 0  # the bit that is flipped, the length that is left

    @contextmanager
    def applied(self, root: Path) -> Iterator[None]:
        """Flip in place; replace what is cut: search engines of before have files mapped, and die of a shorter one."""
        file = root / self.path
        data, status = file.read_bytes(), file.stat()
        try:
            self._apply(file, data)
            if file.exists():
                os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            yield
        finally:
            if self.kind == "flip" and file.exists() and file.stat().st_ino == status.st_ino:
                write_byte(file, self.at // 8, data[self.at // 8])
            else:
                replace(file, data)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _apply(self, file: Path, data: bytes) -> None:
        if self.kind == "delete":
            file.unlink()
        elif self.kind == "cut":
            replace(file, data[: self.at])
        else:
            write_byte(file, self.at // 8, data[self.at // 8] ^ 1 << self.at % 8)


def write_byte(file: Path, at: int, value: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(at)
        stream.write(bytes([value]))


def replace(file: Path, data: bytes) -> None:
    file.with_name(".webmill-new").write_bytes(data)
    file.with_name(".webmill-new").replace(file)


def choose_mutations(root: Path, paths: Iterable[str], *, flips: int, cuts: int, seed: int) -> list[Mutation]:
    """Return flips and cuts of each file at random places, and its deletion; an archive is cut between records, too."""
    dice = random.Random(seed)
    chosen: list[Mutation] = []
    for path in paths:
        size = (root / path).stat().st_size
        chosen += [Mutation("flip", path, dice.randrange(8 * size)) for _ in range(flips)]
        chosen += [Mutation("cut", path, dice.randrange(size)) for _ in range(cuts)]
        chosen.append(Mutation("delete", path))
        if path.endswith(".warc.gz"):
            chosen.append(Mutation("cut", path, last_record(root / path)))
    return chosen


def last_record(archive: Path) -> int:
    with archive.open("rb") as stream:
        return max(one.offset for one in read_records(stream))


def one_of_each_kind(paths: Iterable[str]) -> list[str]:
    """Return the first file of each kind: names that differ in numbers and hashes alone are of one."""
    return list({re.sub(r"[0-9a-f]{8,}|[0-9]+", "#", path): path for path in paths}.values())


def files_of(root: Path) -> list[str]:
    """Return the files of a collection that hold data: not the locks, nor what is being written."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file() and path.stat().st_size)
    return [path.relative_to(root).as_posix() for path in found if not is_unread(path)]


def is_unread(path: Path) -> bool:
    """Return whether a file is a lock or being written, or a replaced shard that nobody reads any more."""
    replaced = path.name.startswith("cdx-") and path.name.encode() not in (path.parent / "cluster.idx").read_bytes()
    return replaced or any(part.startswith((".webmill-", ".tantivy-")) for part in path.parts)


# --- readers ------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """A reader failed, as it should when it cannot answer; its message names what is wrong."""


def say(*arguments: str | Path, and_also: Callable[[], str] = lambda: "") -> str:
    """Return what a command prints. `and_also`: what a message of it leads to, when it fails."""
    ended = webmill("-q", *arguments)
    if ended.code:
        raise Refused(ended.err + ended.out.decode(errors="replace") + and_also())
    return ended.out.decode()


def read_status(root: Path) -> str:
    """Return what the status says of each part. Damage is a problem, and the exit code stays 0.

    Sizes, times and counts of files are those that are there.
    """
    found = json.loads(say("status", root, "--json"))
    if found["problems"]:
        raise Refused(json.dumps(found["problems"]))
    found["publish"] = {name: value for name, value in (found["publish"] or {}).items() if name != "blobs"}
    return json.dumps({name: found[name] for name in ("crawls", "extract", "publish", "search", "queues", "rejects")})


def read_captures(root: Path) -> str:
    with open_collection(root) as collection:
        lines = list(collection.lines("*.example"))
        return repr((lines, [collection.read(line.capture) for line in lines]))


def read_documents(root: Path) -> str:
    return repr(list(documents(root)))


def read_items(root: Path) -> str:
    return say("publish", "show", root, "--items", "--json")


def read_contents(root: Path) -> str:
    """Return the content of every published document, as the server sends it."""
    with asgi_client(application(site_of(root))) as ask:
        paths = [
            "/latest.json",
            *(f"/blobs/sha256/{json.loads(line)['hash']}.json" for line in read_items(root).splitlines()),
        ]
        replies = [ask(path) for path in paths]
    if failed := [path for path, reply in zip(paths, replies, strict=True) if reply.status != 200]:
        raise Refused(str(failed))
    return repr([reply.body for reply in replies])


def read_flat(root: Path) -> str:
    return say("cdxj", "flatten", root / "cc-index/collections" / NAME / "indexes")


def in_copy(root: Path, *folders: str, read: Callable[[Path], str]) -> str:
    """Return what `read` reads of a copy, which it may change; of `folders` alone, if any are named."""
    with tempfile.TemporaryDirectory(prefix="bit-rot-", dir=root.parent, ignore_cleanup_errors=True) as parent:
        copy = Path(parent, root.name)
        for folder in folders or [""]:
            shutil.copytree(root / folder, copy / folder)
        return read(copy)


def index_again(copy: Path) -> str:
    """Index, and return the index. An archive that was deleted leaves it, and is named."""
    rejects = copy / "rejected" / "index.jsonl"
    report = json.loads(say("index", copy, "--json", and_also=lambda: rejects.read_text() if rejects.exists() else ""))
    if report["removed"]:
        raise Refused(str(report["gone"]))
    return read_flat(copy)


def extract_again(copy: Path) -> str:
    say("extract", copy)
    return read_documents(copy)


def publish_again(copy: Path) -> str:
    say("publish", "documents", copy, and_also=lambda: str(webmill("publish", "show", copy, "--errors").out))
    return read_items(copy)


def update_search(copy: Path) -> str:
    say("search", "update", copy)
    return say("search", copy, "mill", "--json")


def go_on_crawling(copy: Path) -> str:
    """Return all that a crawl goes on with: its flags, seeds, inboxes, budgets, schedules, known URLs."""
    folder = CrawlFolder(Collection(copy, NAME))
    shards = load_or_create_layout(folder, None)
    refuse_lost_files(folder)
    found = [shards, read_seeds(folder.seeds), parse_stored(read_stored(folder.path), source="")]
    for file in sorted(folder.path.rglob("*.sqlite")):
        with open_read_only(file) as run:
            tables = [name for (name,) in run("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
            found += [(name, run(f'SELECT * FROM "{name}"')) for name in tables]
    with LocalFrontier(folder.shard(0)) as frontier:
        found += [frontier.stats(), sorted(frontier._seen), list(frontier.waiting())]
    return repr(found)


def frontier(*arguments: str) -> Callable[[Path], str]:
    """Return a reader of the frontier: to open it is to end the leases of whoever had it."""
    return lambda root: in_copy(root, "frontier", read=lambda copy: say("frontier", arguments[0], copy, *arguments[1:]))


READERS: dict[str, Callable[[Path], str]] = {
    "status": read_status,
    "captures": read_captures,
    "flatten": read_flat,
    "documents": read_documents,
    "search": lambda root: "".join(say("search", root, words, "--json") for words in ("mill", "the page", "")),
    "search check": lambda root: say("search", "check", root, "--dry-run", "--json"),
    "publish list": lambda root: say("publish", "list", root, "--json"),
    "publish items": read_items,
    "publish diff": lambda root: say("publish", "diff", root, "previous", "live", "--json"),
    "serve": read_contents,
    "waiting": frontier("export"),
    "visited": frontier("export", "--visited"),
    "frontier stats": lambda root: UNSTABLE.sub("", frontier("stats", "--json")(root)),
    "dead": lambda root: say("dead", "list", root, "--json"),
    "crawl": lambda root: in_copy(root, "frontier", read=go_on_crawling),
    "index": lambda root: in_copy(root, read=index_again),
    "extract": lambda root: in_copy(root, read=extract_again),
    "publish": lambda root: in_copy(root, read=publish_again),
    "search update": lambda root: in_copy(root, read=update_search),
}


# --- what they say ------------------------------------------------------------------------------------------------


OF_FOLDER = {  # the readers of the files of a folder; of another one, all
    "frontier": ("status", "waiting", "visited", "frontier stats", "crawl"),
    "search": ("status", "search", "search check", "search update"),
    "blobs": ("publish items", "serve", "search check", "publish"),
    "snapshots": ("status", "publish list", "publish items", "publish diff", "serve", "search check", "publish"),
    "cc-index": ("captures", "flatten", "index"),
    "cdxj": ("status", "index"),
    "crawl-data": ("captures", "index", "extract"),
    "documents": ("documents", "extract", "publish"),
    ".webmill": ("status", "documents", "extract", "publish", "dead"),
}
UNCHECKED = re.compile(  # what may be gone without a word of the doctor: readers restore it, or nobody reads it
    r"search/(\.managed|checksums)\.json|cluster\.idx\.crc32|frontier/status\.json|(robotstxt|non200responses)\.paths\.gz"
    r"|latest\.json|\.webmill/publish/newest\.sqlite"
    r"|frontier/log/|frontier/shard-\d\d/((cookies|usage)\.db|(yields|scores)\.sqlite)"  # nothing is promised of them
)


class Answers:
    """What every reader says of the whole collection, to be compared with what it says of a mutated one."""

    def __init__(self, root: Path, readers: Iterable[str] = READERS) -> None:
        self.root = root
        self.whole = {name: READERS[name](root) for name in readers}

    def differences(self, mutation: Mutation, *, all_readers: bool) -> Iterator[str]:
        """Yield what is wrong: a reader that answers otherwise without an error, or whose error names no file; and
        what the doctor does not name, though it hinders somebody or is gone.
        """
        names = self.whole if all_readers else OF_FOLDER.get(mutation.path.partition("/")[0], self.whole)
        with mutation.applied(self.root):
            hinders = mutation.kind != "flip" and not UNCHECKED.search(mutation.path)
            for name in names:
                try:
                    answer = READERS[name](self.root)
                except (Refused, WebmillError) as error:
                    hinders = True
                    if not is_named(mutation, str(error)):
                        yield f"{mutation}: {name} does not name the file: {error}"
                else:
                    if answer != self.whole[name] and not lacks_parts(name, mutation, answer):
                        yield f"{mutation}: {name} answers otherwise"
            if hinders and len(self.whole) == len(READERS) and not is_named(mutation, examine(self.root)):
                yield f"{mutation}: the doctor does not name it"


def examine(root: Path) -> str:
    """Return what the doctor finds wrong."""
    found = [json.loads(line) for line in webmill("doctor", root, "--read-data", "--json").lines]
    return "\n".join(one["found"] for one in found if one["state"] != "good")


def is_named(mutation: Mutation, message: str) -> bool:
    """What is deleted may be named by its folder, or as the whole that is not there."""
    path = Path(mutation.path)
    folder = mutation.kind == "delete" and path.parent.as_posix() in message
    return folder or path.name in message or (path.name == "tasks.sqlite" and "no queue in" in message)


def lacks_parts(reader: str, mutation: Mutation, answer: str) -> bool:
    """Of a collection without a file, the status tells a part as not there, rather than otherwise."""
    return reader == "status" and mutation.kind == "delete" and any(not part for part in json.loads(answer).values())


# --- as an earlier webmill wrote it -------------------------------------------------------------------------------


def remove_checksums(root: Path) -> None:
    """Make a collection what it would be if an earlier webmill had written it: without checksums."""
    last = max(root.glob("snapshots/_history/*.json"))  # the hashes of the others are in the records after them
    for path in [*root.glob("frontier/*.json"), root / ".webmill/extract/settings.json", last, root / "latest.json"]:
        path.write_bytes(re.sub(rb',\s*"crc32":"[0-9a-f]{8}"\}', b"}", path.read_bytes()))
    for name in ("search/checksums.json", f"cc-index/collections/{NAME}/indexes/cluster.idx.crc32"):
        (root / name).unlink()
    seeds = root / "frontier" / "seeds.txt"
    seeds.write_text(seeds.read_text().partition("\n")[2])
    layout = json.loads((root / "frontier" / "crawl.json").read_bytes())
    (root / "frontier" / "crawl.json").write_text(json.dumps(layout | {"files": []}))
    for run in root.glob("frontier/shard-*/seen/*.run"):
        run.write_bytes(run.read_bytes().replace(b"wmrun\x00\x00\x02", b"wmrun\x00\x00\x01", 1))
    for file in root.rglob("*.sqlite"):
        remove_page_checksums(file)


def remove_page_checksums(file: Path) -> None:
    """Write a database anew, since room that pages have reserved cannot be given back."""
    old = file.rename(file.with_name("old"))
    with closing(apsw.Connection(str(file), vfs="unix")) as connection:
        run = partial(connection.execute)
        run("PRAGMA journal_mode=wal").fetchall()
        run("ATTACH ? AS old", (str(old),)).fetchall()
        made = run("SELECT type, name, sql FROM old.sqlite_schema WHERE sql NOT NULL ORDER BY type DESC").fetchall()
        for _, name, sql in made:
            if not str(name).startswith("sqlite_"):
                run(str(sql)).fetchall()
        for kind, name, _ in made:
            if kind == "table":
                run(f'INSERT INTO main."{name}" SELECT * FROM old."{name}"').fetchall()
        for pragma, change in (("user_version", -CHECKSUMMED), ("application_id", 0)):
            (found,) = run(f"PRAGMA old.{pragma}").fetchall()[0]
            run(f"PRAGMA main.{pragma}={int(str(found)) + change}").fetchall()
        run("DETACH old").fetchall()
    old.unlink()
    assert not has_checksums(file)
