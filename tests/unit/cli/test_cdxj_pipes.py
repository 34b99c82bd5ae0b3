"""Real processes in real pipes: readers that go away, stages that die, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.command import PROGRAM, started, webmill
from tests.unit.index.samples import capture, write
from webmill.cli.cdxj.pipes import pipe_end
from webmill.cli.cdxj.streams import BROKEN

LINES = [capture(f"com,h{number:05d})/", status="200") for number in range(20_000)]


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("flat") / "all.cdxj", LINES)


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Bash with `webmill` on its path."""
    command = f'set -o pipefail; webmill() {{ "{sys.executable}" -m webmill "$@"; }}; {script}'
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "command",
    [
        ["cdxj", "merge"],
        ["cdxj", "add-field", "-f", "a=b"],
        ["cdxj", "field", "-f", "url"],
        ["cdxj", "excessive", "auto"],
    ],
    ids=lambda command: command[1],
)
def test_a_reader_that_goes_away_ends_a_tool_quietly(flat: Path, command: list[str]) -> None:
    with started(*command, flat) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


def test_head_ends_a_whole_pipe_quietly(flat: Path, tmp_path: Path) -> None:
    done = shell(f"webmill cdxj merge {flat} | webmill cdxj add-field -f a=b | head -1", tmp_path)
    assert done.stdout.startswith("com,h00000)/ ")
    assert done.stderr == ""


def test_half_of_a_merge_does_not_become_an_index(flat: Path, tmp_path: Path) -> None:
    """The reader of a pipe sees an end, not a failure: the tool that fails must say so."""
    bad = write(tmp_path / "bad.cdxj", [*LINES[10_000:], LINES[0]])
    done = shell(f"webmill cdxj merge {flat} {bad} | webmill cdxj zipnum -o index", tmp_path)
    assert done.returncode == 1
    assert f"{bad}:10001" in done.stderr
    assert "the command before this one in the pipe failed" in done.stderr
    assert [path.name for path in (tmp_path / "index").iterdir() if not path.name.startswith(".")] == []


def test_a_failure_travels_through_all_stages_and_no_final_file_appears(flat: Path, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.cdxj", [*LINES[10_000:], LINES[0]])
    write(tmp_path / "rules", [b"^com,h00001\n"])
    stages = f"webmill cdxj merge {bad} | webmill cdxj block -b rules | webmill cdxj excessive auto -o final.cdxj"
    assert shell(stages, tmp_path).returncode == 1
    assert not (tmp_path / "final.cdxj").exists()


def test_a_good_index_survives_a_pipe_that_fails(flat: Path, tmp_path: Path) -> None:
    assert webmill("cdxj", "zipnum", flat, "-o", tmp_path / "index").code == 0
    write(tmp_path / "cut.gz", [b"\x1f\x8b\x08\x00"])
    assert shell("webmill cdxj merge cut.gz | webmill cdxj zipnum -o index", tmp_path).returncode == 1
    assert webmill("cdxj", "flatten", tmp_path / "index").lines == LINES


def test_a_tool_that_fails_says_so_only_into_a_pipe(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.cdxj", LINES[1::-1])
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run([*PROGRAM, "cdxj", "merge", str(bad)], stdout=out, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert BROKEN not in (tmp_path / "out").read_bytes()
    piped = subprocess.run([*PROGRAM, "cdxj", "merge", str(bad)], capture_output=True, check=False)
    assert piped.stdout.endswith(BROKEN)


@pytest.mark.parametrize("shards", [[], ["--shards", "2"]], ids=["stream", "shards"])
def test_ctrl_c_leaves_neither_a_shard_nor_a_temporary_file(tmp_path: Path, shards: list[str]) -> None:
    with started(
        "cdxj", "zipnum", "-o", tmp_path / "index", "--lines", "10", *shards, stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(LINES[:5000]))
        process.stdin.flush()
        while not list((tmp_path / "index").glob(".webmill-tmp-*")):  # its draft proves that it is at work
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert [path.name for path in (tmp_path / "index").iterdir()] == [".webmill-zipnum-lock"]


def test_what_a_killed_run_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    with started("cdxj", "zipnum", "-o", tmp_path, "--lines", "10", "--shards", "2", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(LINES[:5000]))
        process.stdin.flush()
        while not list(tmp_path.glob(".webmill-tmp-*")):
            assert process.poll() is None
        process.kill()
        process.communicate(timeout=60)
    assert len(list(tmp_path.glob(".webmill-tmp-*"))) == 1
    assert webmill("cdxj", "zipnum", "-o", tmp_path, stdin=b"".join(LINES)).code == 0
    assert list(tmp_path.glob(".webmill-tmp-*")) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a pipe say how its writer ended")
@pytest.mark.parametrize("stage", [["merge", "/dev/stdin"], ["block", "-b", "/dev/null"], ["sort"]], ids=lambda s: s[0])
def test_a_stage_that_is_killed_leaves_no_index(flat: Path, tmp_path: Path, stage: list[str]) -> None:
    """Whether it has written something (merge, block) or not (sort)."""
    with started("cdxj", *stage, stdin=subprocess.PIPE) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        with started("cdxj", "zipnum", "-o", tmp_path / "index", stdin=first.stdout) as last:
            first.stdin.write(flat.read_bytes()[: 1 << 20])
            while pipe_end(first.stdout) != "writing":
                assert first.poll() is None
            first.stdout.close()
            first.kill()
            _, errors = last.communicate(timeout=60)
    assert last.returncode == 1
    assert b"failed or was killed" in errors
    assert [path.name for path in (tmp_path / "index").iterdir() if not path.name.startswith(".")] == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a pipe say how its writer ended")
def test_a_merge_of_a_pipe_whose_writer_was_killed_is_refused(flat: Path, tmp_path: Path) -> None:
    with started("cdxj", "sort", stdin=subprocess.PIPE) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        with started("cdxj", "merge", "/dev/stdin", flat, "-o", tmp_path / "all", stdin=first.stdout) as last:
            while pipe_end(first.stdout) != "writing":
                assert first.poll() is None
            first.stdout.close()
            first.kill()
            _, errors = last.communicate(timeout=60)
    assert (last.returncode, (tmp_path / "all").exists()) == (1, False)
    assert b"failed or was killed" in errors


def test_a_pipe_that_never_said_anything_is_no_index(tmp_path: Path) -> None:
    """A command may be killed before it begins, and a foreign one says nothing."""
    done = shell("sh -c 'kill -9 $$' | webmill cdxj block -b /dev/null | webmill cdxj zipnum -o index", tmp_path)
    assert done.returncode != 0
    assert "the command before" in done.stderr
    assert not (tmp_path / "index" / "cluster.idx").exists()
    assert shell("true | webmill cdxj sort -o out.cdxj", tmp_path).returncode == 1
    assert not (tmp_path / "out.cdxj").exists()


def test_an_empty_result_of_ours_is_an_empty_index(flat: Path, tmp_path: Path) -> None:
    write(tmp_path / "rules", [b"^com,\n"])
    stages = f"webmill cdxj merge {flat} | webmill cdxj block -b rules | webmill cdxj zipnum -o index"
    assert shell(stages, tmp_path).returncode == 0
    assert (tmp_path / "index" / "cluster.idx").read_bytes() == b""


def test_a_killed_sort_leaves_nothing_behind(flat: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with started(
        "cdxj", "sort", "--memory", "1", "--temp-dir", work, "-o", work / "out", stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(flat.read_bytes())
        process.stdin.flush()
        while not [link for link in Path(f"/proc/{process.pid}/fd").iterdir() if str(work) in str(link.readlink())]:
            assert process.poll() is None
        process.kill()
        process.communicate(timeout=60)
    assert list(work.iterdir()) == []
