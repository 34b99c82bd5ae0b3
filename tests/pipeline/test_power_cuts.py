"""The power is cut under whole commands: what one has done when it ends is there; what it has not, the next run does.

After the end, before some of its durable calls, and after the end on a disk that lies about its syncs, which is the
negative control. The disk is a small ext4 file system: see `tests.faults.power`.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tests.faults import built, needs_killer
from tests.faults.matrix import record, seed
from tests.faults.power import DISK, cut_power
from tests.pipeline import test_add_kills, test_cc_kills, test_dataset_kills, test_extract_own, test_search_feed
from tests.pipeline.cc_pages import index_crawl, lines_of_index, write_crawl
from tests.pipeline.crawling import Linked
from tests.pipeline.datasets import create, write_files
from tests.pipeline.datasets import run as run_dataset
from tests.pipeline.dispatch_samples import captures, in_blocks, messages_of, read_plainly, write_index
from tests.pipeline.index_samples import NAME, index, index_from_scratch, published, put, warc
from tests.pipeline.test_crawl_durable_kills import HOSTS, PAGES
from tests.pipeline.test_crawl_durable_kills import Scene as Crawl
from tests.serve.sample_collection import archive
from tests.thoroughness import kills
from webmill.errors import WebmillError
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.local import LocalStorage
from webmill.search.embedded.engine import EmbeddedEngine
from webmill.testing import TestWeb

pytestmark = [needs_killer, pytest.mark.crash, pytest.mark.soak, pytest.mark.timeout(900)]
WEBMILL = ("webmill.cli.main", "-q")


class Weighed(NamedTuple):
    promised: int
    lost: int


class Scene(NamedTuple):
    """A command, and what is known of it. In `command` DISK is the folder that `weigh` is given afterwards."""

    component: str
    command: tuple[str, ...]
    weigh: Callable[[Path], Weighed]


Setting = Callable[[Path, Path], Iterator[Scene]]  # is given what will be on the disk, and a folder beside it


def extracting(root: Path, _: Path) -> Iterator[Scene]:
    pages = test_extract_own.FIRST
    archive(root, pages)
    yield Scene(
        "extract", (*WEBMILL, "extract", DISK), lambda left: Weighed(len(pages), test_extract_own.weigh(left)[0])
    )


def making_a_dataset(root: Path, beside: Path) -> Iterator[Scene]:
    lines = write_files(beside / "in", files=2, count=30)
    calm, folder = (create(place, lines, source=beside / "in", write={"pages_per_part": 3}) for place in (beside, root))
    run_dataset(calm)
    wanted = {*test_dataset_kills.urls_of(calm)}

    def weigh(left: Path) -> Weighed:
        found = msgspec.structs.replace(folder, path=left / folder.path.name)
        return Weighed(len(wanted), test_dataset_kills.weigh(found, wanted)["lost"])

    yield Scene("datasets", (*WEBMILL, "dataset", "run", f"{DISK}/{folder.path.name}"), weigh)


def indexing(root: Path, beside: Path) -> Iterator[Scene]:
    """One archive more."""
    for number in range(3):
        put(root, f"{number}.warc.gz", warc(*range(number * 30, number * 30 + 40)))
    index(root)
    put(root, "new.warc.gz", warc(*range(500, 540)))
    expected = index_from_scratch(root, beside / "elsewhere")

    def weigh(left: Path) -> Weighed:
        found = published(left)
        return Weighed(len(expected), sum(found.get(name) != data for name, data in expected.items()))

    yield Scene("index", (*WEBMILL, "index", DISK, "--shards", "3", "--lines", "5", "--name", NAME), weigh)


def batching(_: Path, beside: Path) -> Iterator[Scene]:
    cluster = write_index(beside / "index", in_blocks(captures(600), 10), shards=6)
    wanted = [item for item in read_plainly(cluster) if item[2]["status"] == "200"]

    def weigh(left: Path) -> Weighed:
        bodies, queue = [], SqliteQueue(left / "queue.sqlite")
        with queue.consume(prefetch=50) as consumer:
            while delivery := consumer.receive(timeout=0):
                bodies.append(delivery.body)
        queue.close()
        found = messages_of(bodies)
        return Weighed(len(wanted), sum(item not in found for item in wanted))

    flags = ("--cluster-idx", str(cluster), "--status", "200", "--batch-size", "4", "--no-metrics")
    yield Scene("dispatch", (*WEBMILL, "cc", "batch", *flags, "--queue", f"sqlite:{DISK}/queue.sqlite"), weigh)


def working(_: Path, beside: Path) -> Iterator[Scene]:
    write_crawl(beside / "crawl", pages=60, files=2)
    index_crawl(beside / "crawl")
    lines = [(fields, timestamp) for _, timestamp, fields in lines_of_index(beside / "crawl")]
    wanted = [
        (fields["url"], timestamp, f"sha1:{fields['digest']}")
        for fields, timestamp in lines
        if fields["status"] == "200"
    ]
    chosen = ("--crawl", "TEST-2024", "--status", "200", "--base-url", str(beside / "crawl"), "--batch-size", "5")
    flags = (*test_cc_kills.FLAGS[2:], "--processes", "1", "--extractor", "none")
    yield Scene(
        test_cc_kills.PART,
        (*WEBMILL, "cc", "run", *chosen, *flags, "--out", f"{DISK}/out"),
        lambda left: Weighed(len(wanted), test_cc_kills.weigh(left / "out", wanted)[0]),
    )


def feeding_search(root: Path, _: Path) -> Iterator[Scene]:
    test_search_feed.publish(LocalStorage(root), {f"d{number}": f"text of {number}" for number in range(40)})

    def weigh(left: Path) -> Weighed:
        with closing(EmbeddedEngine(left / "search")) as engine:
            numbers = test_search_feed.weigh(LocalStorage(left), engine)
        return Weighed(numbers["acknowledged"], numbers["lost"])

    yield Scene("search (embedded)", (*WEBMILL, "search", "update", DISK), weigh)


def crawling(_: Path, beside: Path) -> Iterator[Scene]:
    with TestWeb(hosts=0, sites={host: Linked(PAGES) for host in HOSTS}) as web:
        setup = msgspec.json.encode(Crawl(web, beside, pages=None).setup).decode()

        def weigh(left: Path) -> Weighed:
            wanted, lost = Crawl(web, left, pages=None).weigh()
            return Weighed(len(wanted), len(lost))

        yield Scene("crawl", ("tests.pipeline.crawl_program", f"{DISK}/collection", setup, "here"), weigh)


def adding(_: Path, beside: Path) -> Iterator[Scene]:
    files, wanted = test_add_kills.Scene(beside).files, test_add_kills.WHOLE

    def weigh(left: Path) -> Weighed:
        found = {path.read_bytes() for path in left.rglob("[!.]*.warc.gz")}
        return Weighed(len(wanted), len(wanted - found) + len(found - wanted))

    yield Scene("add", (*WEBMILL, "add", f"{DISK}/news", *map(str, files)), weigh)


SETTINGS: tuple[Setting, ...] = (
    *(extracting, making_a_dataset, indexing, batching),
    *(working, feeding_search, crawling, adding),
)


@pytest.fixture(params=SETTINGS, ids=lambda setting: setting.__name__)
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("WEBMILL_EXECUTOR_URL", "inline")  # a process that lives on would hold the disk
    for name in ("template", "beside"):
        (tmp_path / name).mkdir()
    with contextmanager(request.param)(tmp_path / "template", tmp_path / "beside") as scene:
        yield scene


class Cut(NamedTuple):
    root: Path
    code: int
    calls: int


def cut(scene: Scene, tmp_path: Path, *, library: str = "killer.c", at: int = 0) -> Cut:
    """When it has ended, or before its durable call number `at`."""
    place = Path(tempfile.mkdtemp(dir=tmp_path)) / "cut"
    arguments = (str(tmp_path / "template"), DISK, str(built(library)), str(at), *scene.command)
    left = cut_power(place, "tests.faults.to_its_end", *arguments, after=1)
    log = place / "calls"
    return Cut(left.folder, int(left.printed[0].split()[1]), log.read_bytes().count(b"\n") if log.exists() else 0)


def run_again(scene: Scene, root: Path) -> None:
    module, *arguments = (word.replace(DISK, str(root)) for word in scene.command)
    command = [sys.executable, "-c", f"from {module} import main; main()", *arguments]
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr


def counted(scene: Scene, root: Path) -> Weighed:
    """All is lost of what cannot even be opened."""
    try:
        return scene.weigh(root)
    except (OSError, WebmillError):
        return Weighed(1, 1)


def test_a_power_cut_costs_no_more_than_a_second_run(scene: Scene, tmp_path: Path) -> None:
    """Nothing at the end; before it what was not done yet."""
    whole = cut(scene, tmp_path)
    assert whole.code == 0
    cuts, (promised, lost) = 1, counted(scene, whole.root)
    for at in random.Random(seed(9)).sample(range(1, whole.calls), min(kills(2), 6)):
        died = cut(scene, tmp_path, at=at)
        assert died.code in (-signal.SIGKILL, 0)  # runs differ a little: it may have ended before
        run_again(scene, died.root)
        weighed = counted(scene, died.root)
        cuts, promised, lost = cuts + 1, promised + weighed.promised, lost + weighed.lost
    record(scene.component, "power cut", injected=cuts, acknowledged=promised, lost=lost)
    assert not lost


def test_a_disk_that_lies_is_seen(scene: Scene, tmp_path: Path) -> None:
    """The negative control."""
    ended = cut(scene, tmp_path, library="lying.c")
    promised, lost = counted(scene, ended.root)
    assert ended.code == 0
    fault = "power cut, and the disk lies"
    record(scene.component, fault, injected=1, acknowledged=promised, lost=lost, control=True)
    assert lost
