"""`--dry-run` of every command that deletes or replaces: says how much would go, and changes not a byte."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.serve.sample_collection import NAME
from tests.unit.cli.command import webmill
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue

INDEX = f"news/cc-index/collections/{NAME}/indexes"
DATASET = """
name = "pages"
manifest = ["crawl-data/a.warc.gz"]
read.from = "news"
"""

# As typed, and what must be said.
USES = [
    ("index news --dry-run", "would be read: 2 of 2 archives, "),  # a copy has other inodes
    ("index news --from-scratch --dry-run", "would be replaced if the result differs: "),
    (f"cdxj zipnum all.cdxj -o {INDEX} --dry-run", f"would be replaced: the index in {INDEX} (3 files, "),
    ("cdxj zipnum all.cdxj -o new --dry-run", "would be created: new"),
    ("publish gc news --keep 1 --grace 0s --dry-run", "1 version would be kept, 1 would be removed"),
    ("publish dead drop news --all --dry-run", "would be dropped: 1 task, "),
    ("cc dead drop --all --queue sqlite:work.sqlite --dry-run", "would be dropped: 1 task, 5 B"),
    ("cc dead drop x --queue sqlite:work.sqlite --dry-run", "would be dropped: 1 task, 5 B"),
    ("cc dead show x --queue sqlite:work.sqlite", "it is bad"),
    ("dataset delete pages --dry-run", "would be deleted: "),
    ("search rebuild news --dry-run", "would be replaced: the index in "),
    ("search check news --dry-run", "would be indexed: 0 documents; would be removed: 0"),
    ("doctor news --sweep --dry-run", "would be removed: 1 unfinished file, 3 bytes: .webmill-tmp-"),
]


@pytest.fixture
def place(sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sample_root, "news")
    (tmp_path / "news" / f".webmill-tmp-{dead_process()}-{'0' * 16}").write_bytes(b"abc")
    (tmp_path / "all.cdxj").write_text('com,a)/ 20200101000000 {"url": "http://a.com/"}\n')
    (tmp_path / "pages.toml").write_text(DATASET)
    assert webmill("dataset", "create", "pages.toml").code == 0
    with closing(SqliteQueue(tmp_path / "work.sqlite", max_attempts=1)) as queue:
        queue.publish([Message("x", b"batch")])
        [delivery] = queue.claim(1)
        delivery.bury("it is bad")
    for file in (tmp_path / "work.sqlite", tmp_path / "news" / "publish" / "queue.sqlite"):
        with closing(SqliteQueue(file, lease=1.0, clock=lambda: 0.0)) as queue:  # a lease that is long over
            queue.publish([Message("late", b"body")])
            assert queue.claim(1)
    return tmp_path


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait(120)
    return child.pid


def tree(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(root.rglob("*")):
        yield str(path), path.read_bytes() if path.is_file() else b""


@pytest.mark.parametrize("typed", ["cc dead list --queue sqlite:work.sqlite", "publish dead list news"])
def test_to_list_what_is_buried_changes_nothing(typed: str, place: Path) -> None:
    before = [*tree(place)]
    ended = webmill(*typed.split())
    assert (ended.code, len(ended.out.splitlines())) == (0, 1)
    assert [*tree(place)] == before


@pytest.mark.parametrize(("typed", "printed"), USES, ids=[typed for typed, _ in USES])
def test_it_says_what_would_go_and_changes_nothing(typed: str, printed: str, place: Path) -> None:
    before = [*tree(place)]
    ended = webmill(*typed.split())
    assert printed in ended.err, ended
    assert ended.code == 0 or typed.startswith("doctor")
    assert [*tree(place)] == before


def test_a_dry_run_of_nothing_is_wrong_usage(tmp_path: Path) -> None:
    ended = webmill("doctor", tmp_path, "--dry-run")
    assert (ended.code, "--dry-run needs --sweep" in ended.err) == (2, True)


def test_a_dry_run_of_what_is_not_there_fails_as_the_run_does(tmp_path: Path) -> None:
    ended = webmill("cdxj", "zipnum", tmp_path / "none.cdxj", "-o", tmp_path / "index", "--dry-run")
    assert (ended.code, [*tmp_path.iterdir()]) == (1, [])
    assert "none.cdxj" in ended.err
