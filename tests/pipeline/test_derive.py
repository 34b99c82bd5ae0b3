"""Many WARC files at once: places, lists of paths, damage, kills; and the command."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.faults import killer, needs_killer
from tests.unit.archive.made import info, request, response, write_warc
from webmill.archive.derive import DeriveJob, derive
from webmill.cli.context import Context
from webmill.cli.derive import derive as command
from webmill.errors import Misconfigured
from webmill.infra.executor.base import Executor
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.executor.pool import PoolExecutor
from webmill.infra.files import RESERVED
from webmill.pipeline.derive import DeriveOptions, DeriveSummary, derive_all
from webmill.pipeline.progress import ProgressBar

PAGE = b"<title>T</title><p>Hello <a href=/x>world</a>"
BOTH = ("wat", "wet")


class Count:
    def __init__(self) -> None:
        self.done = 0

    def advance(self, count: int = 1) -> None:
        self.done += count


class Watching:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int | None, Count]] = {}

    @contextmanager
    def __call__(self, title: str, *, total: int | None = None, unit: str) -> Iterator[ProgressBar]:
        self.counts[title] = total, Count()
        yield self.counts[title][1]


def run(
    *warcs: Path, executor: Executor | None = None, progress: Watching | None = None, **options: object
) -> DeriveSummary:
    return derive_all(
        warcs,
        DeriveOptions(**{"kinds": BOTH, **options}),  # type: ignore[arg-type]
        executor=executor or InlineExecutor(),
        progress=progress or Watching(),
    )


def make(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_warc(path, info(path.name), request("a"), response("a", PAGE))


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_several_warcs_are_derived_in_processes_with_progress(tmp_path: Path) -> None:
    warcs = [make(tmp_path / f"{number}.warc.gz") for number in range(3)]
    progress = Watching()
    report = run(*warcs, executor=PoolExecutor(workers=2), progress=progress, into=tmp_path / "out")
    assert (report.warcs, report.derived, report.records, report.pages, report.texts) == (3, 3, 9, 3, 3)
    total, count = progress.counts["Deriving"]
    assert (total, count.done) == (3, 3)
    assert files_in(tmp_path / "out") == [f"{number}.warc.{kind}.gz" for number in range(3) for kind in BOTH]


def test_in_a_collection_they_go_beside_the_warcs_and_into_the_lists_of_paths(tmp_path: Path) -> None:
    crawl = tmp_path / "crawl-data" / "TEST"
    warcs = [make(crawl / "segments" / str(number) / "warc" / "x.warc.gz") for number in (1, 2)]
    run(*warcs)
    assert gzip.decompress((crawl / "wat.paths.gz").read_bytes()).decode().splitlines() == [
        "crawl-data/TEST/segments/1/wat/x.warc.wat.gz",
        "crawl-data/TEST/segments/2/wat/x.warc.wat.gz",
    ]
    for line in gzip.decompress((crawl / "wet.paths.gz").read_bytes()).decode().splitlines():
        assert (tmp_path / line).is_file()


def test_a_warc_outside_a_warc_folder_cannot_be_derived_in_place(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="-o DIR"):
        run(make(tmp_path / "x.warc.gz"))


def test_two_warcs_that_would_overwrite_each_other_are_refused(tmp_path: Path) -> None:
    warcs = [make(tmp_path / folder / "x.warc.gz") for folder in "ab"]
    with pytest.raises(Misconfigured, match="both become"):
        run(*warcs, into=tmp_path / "out")


def test_damage_and_files_that_are_none_are_reported_and_the_rest_is_derived(tmp_path: Path) -> None:
    good, torn, none = (tmp_path / f"{name}.warc.gz" for name in ("good", "torn", "none"))
    make(good)
    torn.write_bytes(make(torn).read_bytes()[:-5])
    none.write_bytes(b"nothing")
    report = run(good, torn, none, into=tmp_path / "out")
    assert report.derived == 2
    assert {(reject.file, reject.reason) for reject in report.rejects} == {
        ("torn.warc.gz", "truncated_member"),
        ("none.warc.gz", "not_warc"),
    }
    assert "none.warc.wat.gz" not in files_in(tmp_path / "out")


@needs_killer
def test_killed_in_the_middle_it_leaves_nothing_half_and_the_next_run_is_whole(tmp_path: Path) -> None:
    warc = write_warc(tmp_path / "x.warc.gz", info(), *(response(str(number), PAGE) for number in range(9)))
    out = tmp_path / "out"
    out.mkdir()
    code = f"""
from pathlib import Path
from webmill.archive.derive import DeriveJob, derive
derive(DeriveJob(warc=Path({str(warc)!r}), outputs={{"wat": Path({str(out / "x.warc.wat.gz")!r})}}))
"""
    second_write = {"LD_PRELOAD": str(killer()), "KILLER_AT": "2", "KILLER_UNDER": str(out)}
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, **second_write}, check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = out.iterdir()
    assert left.name.startswith(RESERVED)
    assert left.stat().st_size > 0
    run(warc, into=out, kinds=("wat",))
    (whole,) = out.iterdir()
    derive(DeriveJob(warc=warc, outputs={"wat": tmp_path / "x.warc.wat.gz"}))
    assert whole.read_bytes() == (tmp_path / "x.warc.wat.gz").read_bytes()


# --- the command ------------------------------------------------------------------------------------------------------


def call(*arguments: object) -> Result:
    context = Context(quiet=False, verbosity=0, config=None, flags={"executor.url": "inline"})
    return CliRunner().invoke(command, [str(argument) for argument in arguments], obj=context)


def test_the_command_derives_and_tells_how_much(tmp_path: Path) -> None:
    done = call("all", make(tmp_path / "x.warc.gz"), "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "1 of 1 WARC file: 3 records, 1 page, 1 text" in done.stderr
    assert files_in(tmp_path / "out") == ["x.warc.wat.gz", "x.warc.wet.gz"]


def test_the_command_takes_a_date_and_gives_a_report(tmp_path: Path) -> None:
    warc = make(tmp_path / "x.warc.gz")
    done = call("wet", warc, "-o", tmp_path / "out", "--date", "2026-01-02", "--json")
    assert done.exit_code == 0
    assert msgspec.json.decode(done.stdout, type=DeriveSummary).texts == 1
    derive(DeriveJob(warc=warc, outputs={"wet": tmp_path / "x.warc.wet.gz"}, date=datetime(2026, 1, 2, tzinfo=UTC)))
    assert (tmp_path / "out" / "x.warc.wet.gz").read_bytes() == (tmp_path / "x.warc.wet.gz").read_bytes()


def test_the_command_says_where_a_warc_is_damaged_and_ends_with_3(tmp_path: Path) -> None:
    warc = make(tmp_path / "x.warc.gz")
    warc.write_bytes(warc.read_bytes()[:-5])
    done = call("wat", warc, "-o", tmp_path / "out")
    assert done.exit_code == 3
    assert "x.warc.gz: bytes " in done.stderr
    assert "truncated_member" in done.stderr


@pytest.mark.parametrize("arguments", [("wat",), ("wat", "-o", "out", "--in-place"), ("wot", "-o", "out")])
def test_the_command_refuses_wrong_usage(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    kind, *rest = arguments
    assert call(kind, make(tmp_path / "x.warc.gz"), *rest).exit_code == 2


def test_the_command_refuses_a_date_that_is_none(tmp_path: Path) -> None:
    done = call("wat", make(tmp_path / "x.warc.gz"), "-o", tmp_path / "out", "--date", "soon")
    assert done.exit_code == 2
    assert "--date" in done.stderr
