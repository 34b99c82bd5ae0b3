"""Archives go to another store while a crawl runs, are dropped once they are safe there, and are read from there."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from webmill.collection import Collection
from webmill.errors import Misconfigured, NotFound, Unavailable
from webmill.index.archives import find_archives
from webmill.infra.storage import uploads
from webmill.infra.storage.backends import open_readable, open_storage
from webmill.infra.storage.uploads import (
    UploadBacklog,
    UploadedFile,
    UploadJournal,
    record_backlog,
    upload_trouble,
    uploaded_files,
)
from webmill.pipeline import upload
from webmill.pipeline.doctor.uploads import check_uploads
from webmill.pipeline.problems.uploads import upload_problems
from webmill.pipeline.upload import ArchiveUploader, UploadReport, UploadRules
from webmill.pipeline.upload_backlog import UploadHold, measure_backlog

FOLDER = "crawl-data/X/segments/20260101000000/warc"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEBMILL_TRUST", str(tmp_path))
    return tmp_path / "collection"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def write_archive(root: Path, number: int, *, size: int = 5000) -> str:
    key = f"{FOLDER}/X-20260101000000-00-{number:05}.warc.gz"
    (root / key).parent.mkdir(parents=True, exist_ok=True)
    (root / key).write_bytes(random.Random(number).randbytes(size))
    return key


def step(root: Path, store: Path | str, *, keep: int | None = None) -> UploadReport:
    rules = UploadRules(place=str(store), keep_local=keep)
    return ArchiveUploader(Collection(root, "X"), rules, stop=threading.Event()).step()


def digest_there(store: Path | str, key: str) -> str:
    return hashlib.sha256(open_storage(str(store)).read(key)).hexdigest()


def test_finished_archives_are_copied_and_open_ones_are_not(root: Path, store: Path) -> None:
    key = write_archive(root, 0)
    (root / f"{FOLDER}/X-20260101000000-00-00001.warc.gz.open").write_bytes(b"being written")
    report = step(root, store)
    assert (report.uploaded, report.dropped, report.waiting, report.problem) == (1, 0, 0, "")
    known = uploaded_files(root)
    assert list(known) == [key]
    assert known[key].sha256 == digest_there(store, key) == hashlib.sha256((root / key).read_bytes()).hexdigest()
    assert step(root, store).uploaded == 0  # twice is once


def test_the_oldest_are_dropped_until_the_rest_fits(root: Path, store: Path) -> None:
    keys = [write_archive(root, number) for number in range(4)]
    assert step(root, store, keep=10_000).dropped == 2
    assert [(root / key).exists() for key in keys] == [False, False, True, True]
    assert sorted(find_archives(Collection(root, "X"), refuse=lambda *_: None)) == keys
    assert step(root, store, keep=0).dropped == 2
    files = open_readable(str(root))
    assert files.read(keys[0], start=10, length=20) == random.Random(0).randbytes(5000)[10:30]
    with files.open(keys[3], start=4990) as stream:
        assert stream.read() == random.Random(3).randbytes(5000)[4990:]


def test_each_file_may_be_dropped_before_the_next_one_is_uploaded(root: Path, store: Path) -> None:
    keys = [write_archive(root, number) for number in range(3)]
    open_storage(str(store)).write(keys[2], b"another one")
    left = list[bool]()

    class Looking(UploadJournal):
        def record(self, key: str, file: UploadedFile) -> None:
            left.append((root / keys[0]).exists())
            super().record(key, file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upload, "UploadJournal", Looking)
        assert "not overwritten" in step(root, store, keep=0).problem
    assert left == [True, False]


def test_what_waits_is_measured_and_holds_a_crawl(root: Path, store: Path) -> None:
    hold = UploadHold(root, "s3://bucket", 9000)
    assert hold.why() == ""
    keys = [write_archive(root, number) for number in range(2)]
    backlog = measure_backlog(Collection(root, "X"))
    first = min((root / key).stat().st_mtime for key in keys)
    assert (backlog.files, backlog.bytes, backlog.since) == (2, 10_000, first)
    record_backlog(root, backlog)
    assert UploadHold(root, "s3://bucket", 9000).why() == "for s3://bucket: 2 WARC files, 0.0 MB"
    assert UploadHold(root, "s3://bucket", 10_000).why() == ""
    assert UploadHold(root, "s3://bucket", None).why() == ""
    step(root, store)
    assert measure_backlog(Collection(root, "X")) == UploadBacklog()
    (root / keys[1]).write_bytes(b"changed")
    assert measure_backlog(Collection(root, "X")).files == 1


def test_nothing_is_dropped_that_the_store_does_not_give_back(
    root: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = write_archive(root, 0)

    class Lying:
        def __init__(self, inner: object) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

        def write(self, key: str, data: object) -> object:
            data.read()  # type: ignore[attr-defined]
            return self._inner.write(key, b"x" * 5000)  # type: ignore[attr-defined]

    monkeypatch.setattr(upload, "open_storage", lambda place: Lying(open_storage(place)))
    report = step(root, store, keep=0)
    assert "has another" in report.problem
    assert (root / key).exists()
    assert not uploaded_files(root)


def test_another_file_under_the_same_key_is_never_overwritten(root: Path, store: Path) -> None:
    first, second = write_archive(root, 0), write_archive(root, 1)
    open_storage(str(store)).write(first, b"somebody else's")
    report = step(root, store, keep=0)
    assert "not overwritten" in report.problem
    assert open_storage(str(store)).read(first) == b"somebody else's"
    assert (root / first).exists()
    assert not (root / second).exists()  # it holds nobody else up


def test_a_file_that_is_gone_from_the_store_is_not_dropped_but_uploaded_again(root: Path, store: Path) -> None:
    key = write_archive(root, 0)
    step(root, store)
    (store / key).unlink()
    report = step(root, store, keep=0)
    assert "uploaded again" in report.problem
    assert (root / key).exists()
    assert step(root, store, keep=0).dropped == 1
    assert (store / key).exists()


def test_what_was_copied_before_a_kill_is_compared_and_not_copied_again(root: Path, store: Path) -> None:
    key = write_archive(root, 0)
    open_storage(str(store)).write(key, (root / key).read_bytes())
    written = (store / key).stat().st_mtime_ns
    assert step(root, store).uploaded == 1
    assert (store / key).stat().st_mtime_ns == written


def test_a_store_that_is_down_is_told_and_everything_stays(
    root: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = write_archive(root, 0)

    def down(place: str) -> object:
        raise Unavailable("cannot connect to s3://KEY:SECRET@bucket")

    monkeypatch.setattr(upload, "open_storage", down)
    uploader = ArchiveUploader(
        Collection(root, "X"), UploadRules(place=str(store), keep_local=0), stop=threading.Event()
    )
    assert uploader.step().problem
    assert (root / key).exists()
    trouble = upload_trouble(root)
    assert trouble
    assert "SECRET" not in trouble.message
    (group,) = upload_problems(root, folder="news/")
    assert (group.cause, group.command) == ("upload", "webmill crawl news/")
    monkeypatch.setattr(upload, "open_storage", open_storage)
    assert uploader.step().dropped == 1
    assert upload_trouble(root) is None


def test_the_journal_of_somebody_else_opens_no_store(root: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = write_archive(root, 0)
    step(root, store, keep=0)
    monkeypatch.delenv("WEBMILL_TRUST")
    with pytest.raises(Misconfigured, match="webmill trust"):
        open_readable(str(root)).read(key)
    (finding,) = check_uploads(Collection(root, "X"), read_data=True)
    assert finding.state == "doubt"


def test_the_journal_is_its_owners_alone_and_keeps_one_place_for_new_keys(root: Path, store: Path) -> None:
    write_archive(root, 0)
    step(root, store)
    path = uploads.journal_path(root)
    assert path.stat().st_mode & 0o077 == 0
    with uploads.UploadJournal(root, "s3://OLD:KEY@bucket/a") as journal:
        journal.record("a.warc.gz", uploads.UploadedFile(size=1, sha256="", etag="", verified=0.0))
    uploads.UploadJournal(root, "s3://NEW:KEY@bucket/a").close()
    assert uploaded_files(root)["a.warc.gz"].place == "s3://NEW:KEY@bucket/a"


def test_doctor_misses_what_the_store_has_lost(root: Path, store: Path) -> None:
    first, second = write_archive(root, 0), write_archive(root, 1)
    step(root, store, keep=0)
    (good,) = check_uploads(Collection(root, "X"), read_data=True)
    assert good.state == "good"
    assert "2 archives" in good.found
    (store / first).unlink()
    data = bytearray((store / second).read_bytes())
    data[100] ^= 1
    (store / second).write_bytes(data)
    (bad,) = check_uploads(Collection(root, "X"), read_data=True)
    assert bad.state == "bad"
    assert f"{first} is gone" in bad.found
    assert f"{second} has other bytes" in bad.found
    with pytest.raises(NotFound):
        open_readable(str(root)).read(first)


def test_the_collection_itself_is_no_place(root: Path) -> None:
    root.mkdir()
    with pytest.raises(Misconfigured, match="in the collection itself"):
        UploadRules(place=str(root / "there")).check(root)


def check_kills(root: Path, place: str, *, kills: int) -> None:
    """Kill an uploader at any moment: whatever is gone here is whole there, by the hashes taken before."""
    keys = {write_archive(root, number, size=300_000): number for number in range(12)}
    hashes = {key: hashlib.sha256((root / key).read_bytes()).hexdigest() for key in keys}
    dice = random.Random(5)
    command = [sys.executable, "-m", "tests.pipeline.upload_program", str(root), place, "0"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for _ in range(kills):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline()
            try:
                process.wait(timeout=dice.uniform(0.0, 0.3))
            except subprocess.TimeoutExpired:
                process.kill()
        gone = [key for key in keys if not (root / key).exists()]
        known = uploaded_files(root) if uploads.journal_path(root).exists() else {}
        assert set(gone) <= known.keys()
        assert all(digest_there(place, key) == hashes[key] for key in gone)
    assert step(root, place, keep=0).problem == ""
    assert {key: digest_there(place, key) for key in keys} == hashes
    assert not any((root / key).exists() for key in keys)


def test_killed_at_any_moment_nothing_is_lost_or_dropped_unverified(root: Path, store: Path) -> None:
    check_kills(root, str(store), kills=6)


@pytest.mark.server("s3")
def test_killed_while_uploading_to_s3_nothing_is_lost(root: Path, s3_url: str) -> None:
    address, _, query = s3_url.partition("?")
    check_kills(root, f"{address}/kills?{query}", kills=4)
