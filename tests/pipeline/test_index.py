"""`webmill index`: what it makes of archives of all sorts and with all options."""

from __future__ import annotations

import functools
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.pipeline.index_samples import (
    NAME,
    at_rest,
    index,
    index_from_scratch,
    indexes,
    leftovers,
    lines_of,
    no_progress,
    published,
    put,
    record,
    rejects,
    shard_names,
    tables,
    warc,
    webmill,
)
from tests.unit.infra.processes import nothing_left_behind
from webmill.archive.segment import write_paths_files
from webmill.collection import Collection
from webmill.errors import Misconfigured
from webmill.formats.warc.writer import encode_record
from webmill.index import jobs
from webmill.index.cdxj.excessive import ExcessPolicy
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.executor.pool import PoolExecutor
from webmill.pipeline.index import IndexingOptions, index_collection

SMALL = IndexingOptions(shards=3, lines=5)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "c").mkdir()
    return tmp_path / "c"


# --- faults of the tools before us ------------------------------------------------------------------------------------


def test_the_whole_pipeline_runs_in_one_command_and_leaves_all_it_promises(root: Path, tmp_path: Path) -> None:
    """The script of old could not succeed: two of its stages were called with arguments they refuse."""
    put(root, "a.warc.gz", warc(*range(50), 700, 1400))
    blocklist = put(tmp_path, "blocklist", b"^org,example,h3)\n\n# blank lines and comments block nothing\n")
    options = ("--blocklist", blocklist, "--max-captures", "2", "--name", NAME, "--lines", "5", "--shards", "2")
    done = webmill("index", root, *options)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    lines = lines_of(root)
    assert lines
    assert not [line for line in lines if line.startswith(b"org,example,h3)")]
    assert not [line for line in lines if b"h0.example.org/000" in line], "three captures are too many"
    assert all(json.loads(line.split(b" ", 2)[2])["collection"] == NAME for line in lines)
    paths = gzip.decompress((root / f"crawl-data/{NAME}/warc.paths.gz").read_bytes())
    assert paths == b"a.warc.gz\n"
    for kind in ("cc-index", "cc-index-table"):
        names = gzip.decompress((root / f"crawl-data/{NAME}/{kind}.paths.gz").read_bytes()).decode().splitlines()
        assert names
        assert all((root / name).is_file() for name in names)


def test_records_out_of_order_in_archives_are_in_order_in_the_index(root: Path) -> None:
    """`cdx-indexer` without `--sort`, and a merge that takes that for sorted."""
    put(root, "a.warc.gz", warc(90, 3, 55, 4, 0))
    put(root, "b.warc.gz", warc(91, 2, 56, 3, 1))
    index(root)
    for cdxj in root.glob("cdxj/*.cdxj"):
        assert cdxj.read_bytes().splitlines() == sorted(cdxj.read_bytes().splitlines())
    assert len(lines_of(root)) == 10  # which are checked to be in order


def test_archives_of_one_name_in_different_folders_do_not_overwrite_each_other(root: Path) -> None:
    for number in range(3):
        put(root, f"{number}/same.warc.gz", warc(number))
    index(root)
    files = {json.loads(line.split(b" ", 2)[2])["filename"] for line in lines_of(root)}
    assert files == {"0/same.warc.gz", "1/same.warc.gz", "2/same.warc.gz"}


def test_deleted_archives_leave_the_index(root: Path) -> None:
    put(root, "a.warc.gz", warc(1, 2))
    gone = put(root, "b.warc.gz", warc(3))
    index(root)
    gone.unlink()
    report = index(root)
    assert (report.removed, report.captures, len(lines_of(root))) == (1, 2, 2)
    assert len(list(root.glob("cdxj/*.cdxj"))) == 1


def test_a_second_run_reads_nothing_again_and_changes_nothing(root: Path) -> None:
    """It was incremental only with `--keep-temp`."""
    put(root, "a.warc.gz", warc(1, 2))
    index(root, clock=at_rest)
    before = {file: file.stat() for file in root.rglob("*") if file.is_file() and "state" not in file.name}
    report = index(root, clock=at_rest)
    assert (report.indexed, report.published, report.shards) == (0, False, 2)
    after = {file: file.stat() for file in root.rglob("*") if file.is_file() and "state" not in file.name}
    assert {file: status.st_mtime_ns for file, status in before.items()} == {
        file: status.st_mtime_ns for file, status in after.items()
    }


@pytest.mark.parametrize("times", ["set back", "the same"])
def test_a_change_is_seen_whatever_its_time_says(root: Path, times: str) -> None:
    """`-nt` compares two times of modification, which `touch`, `rsync -t` and a clock set back make lie."""
    file = put(root, "a.warc", record(1, encode=encode_record))
    index(root, clock=at_rest)
    before = file.stat()
    with file.open("r+b") as out:
        out.write(record(2, encode=encode_record))
    assert file.stat().st_size == before.st_size
    os.utime(file, ns=(0, 0) if times == "set back" else (before.st_atime_ns, before.st_mtime_ns))
    assert index(root, clock=at_rest).indexed == 1
    assert b"/002" in lines_of(root)[0]


def test_a_torn_archive_is_indexed_as_far_as_it_goes_and_reported(root: Path) -> None:
    """A partial index was marked as done, and the message went to /dev/null."""
    whole = warc(1, 2, 3)
    put(root, "a.warc.gz", whole[:-40])
    done = webmill("index", root, "--name", NAME)
    assert done.returncode == 3
    assert "rejected/index.jsonl" in done.stderr
    (reject,) = rejects(root)
    assert (reject["file"], reject["reason"], reject["end"]) == ("a.warc.gz", "truncated_member", len(whole) - 40)
    assert len(lines_of(root)) == 2
    again = webmill("index", root, "--name", NAME)
    assert again.returncode == 3, "it is as torn as before"
    put(root, "a.warc.gz", whole)
    assert webmill("index", root, "--name", NAME).returncode == 0
    assert rejects(root) == []


# --- archives of all sorts --------------------------------------------------------------------------------------------


def test_a_folder_without_archives_is_told_and_left_as_it_is(root: Path) -> None:
    theirs = put(root, f"cc-index/collections/{NAME}/indexes/cluster.idx", b"from elsewhere")
    for flags in ((), ("--dry-run",), ("--from-scratch",)):
        done = webmill("index", root, "--name", NAME, *flags)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"no WARC files below {root}" in done.stderr
    assert [path for path in root.rglob("*") if path.is_file()] == [theirs]


def test_when_all_archives_have_gone_the_index_is_empty(root: Path) -> None:
    file = put(root, "a.warc.gz", warc(1))
    index(root)
    file.unlink()
    report = index(root)
    assert (report.warcs, report.removed, report.captures, report.shards) == (0, 1, 0, 0)
    assert published(root)[f"cc-index/collections/{NAME}/indexes/cluster.idx"] == b""


def test_empty_archives_and_such_without_captures_are_no_trouble(root: Path) -> None:
    put(root, "empty.warc.gz", b"")
    put(root, "empty.warc", b"")
    report = index(root)
    assert (report.warcs, report.captures, report.rejects) == (2, 0, [])


def test_archives_are_found_wherever_they_lie_but_not_in_our_own_folders_nor_another_crawls(root: Path) -> None:
    for path in ("a.warc.gz", "x/y/b.WARC.GZ", f"crawl-data/{NAME}/segments/1/warc/c.warc.gz"):
        put(root, path, warc(1))
    for path in (".hidden/a.warc.gz", "documents/a.warc.gz", "crawl-data/OTHER/a.warc.gz", "x/.open.warc.gz"):
        put(root, path, warc(2))
    for path in (f"crawl-data/{NAME}/segments/1/wat/c.warc.wat.gz", "notes.txt"):
        put(root, path, b"no archive")
    for _ in range(2):  # the first run makes folders of its own
        assert index(root).warcs == 3
        assert len(lines_of(root)) == 3


def test_two_crawls_in_one_folder_do_not_disturb_each_other(root: Path) -> None:
    put(root, f"crawl-data/{NAME}/a.warc.gz", warc(1))
    put(root, "crawl-data/OTHER/a.warc.gz", warc(2))
    other = Collection(root, "OTHER")

    def index_other() -> int:
        report = index_collection(other, SMALL, executor=InlineExecutor(), progress=no_progress, clock=at_rest)
        return report.indexed

    index(root, clock=at_rest)
    assert index_other() == 1
    assert index(root, clock=at_rest).indexed == index_other() == 0
    assert webmill("index", root).returncode == 2, "which of them?"


def test_links_to_archives_and_to_folders_are_followed_once(root: Path, tmp_path: Path) -> None:
    far = put(tmp_path, "disk/far.warc.gz", warc(1))
    (root / "file.warc.gz").symlink_to(far)
    (root / "folder").symlink_to(far.parent)
    (root / "loop").symlink_to(root)
    (root / "dangling.warc.gz").symlink_to(tmp_path / "nothing")
    report = index(root)
    assert [reject.file for reject in report.rejects] == ["dangling.warc.gz"]
    files = sorted(json.loads(line.split(b" ", 2)[2])["filename"] for line in lines_of(root))
    assert files == ["file.warc.gz", "folder/far.warc.gz"]


def test_names_that_a_list_of_paths_cannot_hold_are_refused(root: Path) -> None:
    for name in (b"a\nb.warc.gz", b"tab\t.warc.gz", b"caf\xe9/a.warc.gz", "ä b'\"\\é\u2028.warc.gz".encode()):
        put(root, os.fsdecode(name), warc(1))
    report = index(root)
    assert [reject.reason for reject in report.rejects] == ["bad_name"] * 3
    assert report.captures == 1
    assert len(rejects(root)) == 3
    assert published(root) == {**index_from_scratch(root, root.parent / "elsewhere")}


def test_names_as_long_as_a_file_system_allows_are_indexed(root: Path) -> None:
    names = ["x" * 247 + ".warc.gz", "ü" * 123 + ".warc.gz", "x" * 246 + "y.warc.gz"]
    for number, name in enumerate(names):
        put(root, name, warc(number))
    assert index(root).captures == 3
    assert len(list(root.glob("cdxj/*.cdxj"))) == 3


def test_an_archive_that_vanishes_before_its_turn_is_reported(root: Path) -> None:
    put(root, "a.warc.gz", warc(1))
    victim = put(root, "b.warc.gz", warc(2))

    class Meanwhile(InlineExecutor):
        def run(self, *arguments: object, **more: object) -> object:  # type: ignore[override]
            victim.unlink(missing_ok=True)
            return super().run(*arguments, **more)  # type: ignore[arg-type]

    report = index(root, executor=Meanwhile())
    assert [(reject.file, reject.reason) for reject in report.rejects] == [("b.warc.gz", "failed")]
    assert len(lines_of(root)) == 1
    assert index(root).rejects == []


def test_an_archive_that_changes_while_it_is_read_is_reported_and_read_again(root: Path) -> None:
    victim = put(root, "a.warc.gz", warc(*range(300)))

    class Meddling(InlineExecutor):
        def run(self, function: object, items: object, **more: object) -> object:  # type: ignore[override]
            return super().run(functools.partial(meddle, function, victim), items, **more)  # type: ignore[arg-type]

    report = index(root, executor=Meddling(), clock=at_rest)
    assert [reject.reason for reject in report.rejects] == ["changed"]
    again = index(root, clock=at_rest)
    assert (again.indexed, again.captures, again.rejects) == (1, 301, [])


def meddle(function: Callable[[object], object], victim: Path, job: object) -> object:
    """Appends to the archive when it is opened for reading."""
    if not isinstance(job, jobs.WarcJob):
        return function(job)
    real = jobs.open_input

    def open_and_change(path: Path) -> BinaryIO:
        file = real(path)
        with victim.open("ab") as out:
            out.write(record(7))
        return file

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "open_input", open_and_change)
        return function(job)


def test_files_just_changed_are_read_again_by_the_next_run(root: Path) -> None:
    """A change within one tick of the clock after the look could hide."""
    file = put(root, "a.warc.gz", warc(1))
    assert index(root, clock=lambda: file.stat().st_ctime_ns).indexed == 1
    assert index(root, clock=at_rest).indexed == 1
    assert index(root, clock=at_rest).indexed == 0


# --- options ----------------------------------------------------------------------------------------------------------


def test_a_blocklist_that_removes_too_much_leaves_the_old_index(root: Path, tmp_path: Path) -> None:
    put(root, "a.warc.gz", warc(*range(20)))
    index(root, SMALL)
    before = published(root)
    put(root, "b.warc.gz", warc(30))
    rules = put(tmp_path, "rules", b"^org\n")
    with pytest.raises(Misconfigured, match=r"removes 21 of 21 lines.*old index stays"):
        index(root, IndexingOptions(shards=3, lines=5, blocklist=rules, max_removed_share=0.5))
    assert published(root) == before
    assert leftovers(root) == []
    assert {file.name for file in indexes(root).glob("cdx-*")} == set(shard_names(root))


def test_options_changed_and_changed_back_give_what_they_gave(root: Path, tmp_path: Path) -> None:
    put(root, "a.warc.gz", warc(*range(30), 100))
    seen = {}
    kinds = {
        "plain": SMALL,
        "no tables": IndexingOptions(shards=3, lines=5, parquet=False),
        "few": IndexingOptions(shards=1, lines=5, max_captures=1, keep=ExcessPolicy(count=1)),
        "no field": IndexingOptions(shards=3, lines=5, collection_field=False),
    }
    for name in [*kinds, *reversed(kinds), *kinds]:
        index(root, kinds[name], clock=at_rest)
        assert seen.setdefault(name, published(root)) == published(root)
    assert not tables(root).exists() or seen["no tables"] != seen["plain"]
    assert not [key for key in seen["no tables"] if "/table/" in key]


def test_the_name_stays_when_the_folder_is_renamed(tmp_path: Path) -> None:
    put(tmp_path, "old/a.warc.gz", warc(1))
    assert webmill("index", tmp_path / "old").returncode == 0
    (tmp_path / "old").rename(tmp_path / "new")
    assert webmill("index", tmp_path / "new").returncode == 0
    assert [path.name for path in (tmp_path / "new/cc-index/collections").iterdir()] == ["old"]


def test_from_scratch_trusts_nothing(root: Path) -> None:
    put(root, "a.warc.gz", warc(1))
    index(root, clock=at_rest)
    report = index(root, IndexingOptions(shards=3, lines=5, from_scratch=True), clock=at_rest)
    assert (report.indexed, report.published) == (1, True)


@pytest.mark.parametrize("name", ["../x", "a/b", ".x", "", "a\nb"])
def test_names_that_lead_elsewhere_are_refused(root: Path, name: str) -> None:
    with pytest.raises(Misconfigured, match="cannot name a crawl"):
        Collection(root, name)


# --- the same bytes, however it is run --------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_processes_give_the_bytes_of_one(root: Path, workers: int) -> None:
    for number in range(6):
        put(root, f"{number}.warc.gz", warc(*range(number * 10, number * 10 + 30)))
    with nothing_left_behind():
        index(root, IndexingOptions(shards=4, lines=5), executor=PoolExecutor(workers=workers))
    assert published(root) == index_from_scratch(root, root.parent / "elsewhere", IndexingOptions(shards=4, lines=5))


def test_neither_hash_seed_nor_time_zone_nor_language_changes_a_byte(root: Path) -> None:
    for number in range(3):
        put(root, f"ä{number}.warc.gz", warc(*range(number * 10, number * 10 + 30)))
    sets = []
    for seed, zone, language in (("0", "UTC", "C"), ("12345", "Asia/Kathmandu", "tr_TR.UTF-8")):
        environment = {"PYTHONHASHSEED": seed, "TZ": zone, "LANG": language, "LC_ALL": language}
        done = webmill("index", root, "--from-scratch", "--name", NAME, "--shards", "2", **environment)
        assert done.returncode == 0, done.stderr
        sets.append(published(root))
    assert sets[0] == sets[1]


# --- what a person sees -----------------------------------------------------------------------------------------------


def test_the_report_is_json_when_asked_for(root: Path) -> None:
    put(root, "a.warc.gz", warc(1, 2)[:-5])
    done = webmill("index", root, "--json", "--name", NAME)
    report = json.loads(done.stdout)
    assert (report["warcs"], report["captures"], report["rejects"][0]["reason"]) == (1, 1, "truncated_member")


def test_wrong_use_is_told_in_a_sentence(root: Path) -> None:
    for arguments in (("--keep", "3"), ("--max-removed-share", "2"), ("--shards", "0")):
        done = webmill("index", root, *arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_error_pages_and_robots_files_of_a_crawl_are_indexed_but_not_in_the_list_of_its_archives(root: Path) -> None:
    """They have lists of their own, which the crawl writes; both writers of `warc.paths.gz` say the same."""
    segment = f"crawl-data/{NAME}/segments/20240712094214"
    for number, subset in enumerate(("warc", "crawldiagnostics", "robotstxt")):
        put(root, f"{segment}/{subset}/{NAME}-20240712094214-00-00000.warc.gz", warc(number))
    index(root)
    listed = root / f"crawl-data/{NAME}/warc.paths.gz"
    assert gzip.decompress(listed.read_bytes()).decode().splitlines() == [
        f"{segment}/warc/{NAME}-20240712094214-00-00000.warc.gz"
    ]
    assert len(lines_of(root)) == 3
    before = listed.read_bytes()
    write_paths_files(Collection(root, NAME))
    assert listed.read_bytes() == before
    assert not index(root).published
