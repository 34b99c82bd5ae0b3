"""`webmill dataset`, as a person and a script meet it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.datasets import write_files
from tests.unit.cli.command import Ended, commands_of, webmill


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of datasets, with a description of one beside it."""
    lines = write_files(tmp_path / "in", files=2, count=5)
    (tmp_path / "manifest.txt").write_text("# two files\n" + "\n".join(lines) + "\n")
    (tmp_path / "news.toml").write_text('name = "news"\nread.from = "in"\n[write]\npages_per_part = 2\n')
    return tmp_path / "datasets"


def dataset(root: Path, command: str, *arguments: str | Path) -> Ended:
    return webmill("-q", "dataset", *command.split(), *arguments, "--in", root)


def made(root: Path) -> Path:
    ended = dataset(root, "create", root.parent / "news.toml")
    assert ended.code == 0, ended.err
    return root / "news"


def objects(ended: Ended) -> list[dict[str, object]]:
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.lines]


def test_from_a_description_to_documents(root: Path) -> None:
    made(root)
    assert dataset(root, "list").out == b"news: 2 tasks (2 planned, 0 running, 0 paused, 0 done, 0 failed)\n"
    assert [task["state"] for task in objects(dataset(root, "tasks", "news", "--json"))] == ["planned", "planned"]
    (report,) = objects(dataset(root, "run", "news", "--executor", "inline", "--json"))
    assert (report["documents"], report["failures"]) == (10, [])
    tasks = objects(dataset(root, "tasks", "news", "--json"))
    assert [(task["state"], task["progress"], task["attempts"]) for task in tasks] == [("done", 1.0, 1)] * 2
    assert tasks[0]["totals"]["documents"] == 5  # type: ignore[index,call-overload]
    assert tasks[0]["totals"]["seconds"] > 0  # type: ignore[index,call-overload]
    log = objects(dataset(root, "tasks log", "news", str(tasks[0]["id"]), "--json"))
    assert [part["captures"] for part in log] == [2, 2, 1]
    (view,) = objects(dataset(root, "view", "news", "--json"))
    assert view["state"]["counts"]["done"] == 2  # type: ignore[index,call-overload]
    (listed,) = objects(dataset(root, "list", "--json"))
    assert listed["tasks"] == 2
    assert dataset(root, "errors", "news").out == b""
    assert "nothing to do" in webmill("dataset", "run", "news", "--executor", "inline", "--in", root).err
    for command in ("tasks", "view", "tasks log"):
        extra = [str(tasks[0]["id"])] if command == "tasks log" else []
        assert dataset(root, command, "news", *extra).code == 0


def test_the_path_of_a_dataset_names_it_too(root: Path) -> None:
    path = made(root)
    assert webmill("dataset", "view", path).code == 0


def test_failed_tasks_end_the_run_with_code_3_and_are_redriven(root: Path) -> None:
    path = made(root)
    file = root.parent / "in" / "f1.warc.gz"
    aside = file.rename(root.parent / "aside")
    ended = dataset(root, "run", "news", "--executor", "inline")
    assert ended.code == 3
    assert "f1.warc.gz" in ended.err
    (failed,) = objects(dataset(root, "tasks", "news", "--state", "failed", "--json"))
    assert "f1.warc.gz" in str(failed["reason"])
    assert b"failed" in dataset(root, "tasks", "news").out
    again = dataset(root, "run", "news", "--executor", "inline")  # nothing to do, and one is still failed
    assert again.code == 3
    assert "1 task failed in earlier runs" in again.err
    aside.rename(file)
    assert "1 task will be retried by the next run" in webmill("dataset", "tasks", "redrive", "news", "--in", root).err
    assert dataset(root, "run", "news", "--executor", "inline").code == 0
    assert len(list((path / "output").glob("*.jsonl.gz"))) == 6


def test_documents_on_stdout_are_lines_of_json(root: Path) -> None:
    file = root.parent / "news.toml"
    file.write_text('name = "news"\nread.from = "in"\nwrite.to = "stdout"\n')
    made(root)
    command = [sys.executable, "-m", "webmill", "-q", "dataset", "run", "news", "--in", str(root)]
    ended = subprocess.run(command, capture_output=True, check=True)
    urls = {json.loads(line)["url"] for line in ended.stdout.splitlines()}
    assert urls == {f"https://example.org/{file}-{number}" for file in range(2) for number in range(5)}


def test_a_dataset_is_deleted_when_the_answer_is_yes(root: Path) -> None:
    path = made(root)
    assert webmill("dataset", "delete", "news", "--in", root, stdin=b"n\n").code == 130
    assert path.is_dir()
    assert dataset(root, "delete", "news", "--yes").code == 0
    assert not path.exists()
    assert dataset(root, "run", "news").code == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "a/b"', "use letters"),
        ('name = "x"\nwriting.to = "y"', "unknown field `writing`"),
        ('name = "x"\nwrite.format = "csv"', "Invalid enum value"),
        ('name = "x"\nwrite = {to = "stdout", format = "parquet"}', "Parquet goes to files"),
        ('name = "x"\nerrors.to = "stdout"', "cannot go to stdout"),
        ("name =", "Invalid value"),
        ('name = "x"\nwrite.pages_per_part = 0', ">= 1"),
        ('name = "x"\nmanifest = "none.txt"', "none.txt"),
        ('name = "x"\nwrite.to = "ftp://x"', "write.to 'ftp://x'"),
        ('name = "x"\ndocument.text = "magic"', "unknown extractor magic"),
        ('name = "x"\nread.from = "in"\ndocument = {min_text = 9, max_text = 3}', "no page can be kept"),
        ('name = "x"\nwrite.to = "memory:"', "write.to 'memory:'"),
        ('name = "x"\nerrors.to = "https://KEY:SECRET@x"', "errors.to 'https://***@x'"),
        ('name = "x"\nerrors.to = ""', "errors.to ''"),
        ('name = "x"\nread.from = "ftp://x"', "read.from 'ftp://x'"),
        ('name = "x"\ncompute.executor = "dask"', "compute.executor 'dask'"),
        ('name = "x"\ncompute.jobs = -1', "`$.compute.jobs`"),
        ('name = "x"\ncompute.jobs = 1_000_000', "`$.compute.jobs`"),
        ('name = "x"\ncompute.timeout = -0.5', "`$.compute.timeout`"),
        ('name = "x"\ncompute.timeout = 1e300', "`$.compute.timeout`"),
        ('name = "x"\ncompute.timeout = nan', "`$.compute.timeout`"),
        ('name = "x"\ncompute.memory = -1', "`$.compute.memory`"),
        ('name = "x"\ncompute.memory = 1180591620717411303424', "`$.compute.memory`"),
        ('name = "x"\ncompute.attempts = 1180591620717411303424', "`$.compute.attempts`"),
    ],
)
def test_a_wrong_description_is_told_in_a_sentence(root: Path, text: str, message: str) -> None:
    file = root.parent / "news.toml"
    file.write_text(text)
    ended = dataset(root, "create", file)
    assert ended.code == 1
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_the_scheme_of_an_address_may_be_written_in_capitals(root: Path) -> None:
    """It is not taken for a folder of that name."""
    (root.parent / "news.toml").write_text('name = "news"\nread.from = "in"\nwrite.to = "SQLITE:docs.q"\n')
    path = made(root)
    assert dataset(root, "run", "news", "--executor", "inline").code == 0
    assert sorted(file.name for file in path.iterdir() if file.suffix == ".q") == ["docs.q"]


def test_one_folder_that_is_no_dataset_does_not_hide_the_others(root: Path) -> None:
    made(root)
    (root / "a" / "dataset.json").mkdir(parents=True)
    ended = dataset(root, "list")
    assert ended.code == 0
    assert ended.lines == [b"news: 2 tasks (2 planned, 0 running, 0 paused, 0 done, 0 failed)\n"]
    assert str(root / "a") in ended.err


def test_what_is_not_there_is_told_before_anything_is_asked(root: Path) -> None:
    made(root)
    for command, *arguments in (("delete", ".."), ("tasks log", "news", "nope"), ("tasks redrive", "news", "nope")):
        ended = dataset(root, command, *arguments)
        assert ended.code == 1
        assert ("nope" if "nope" in arguments else "no dataset at") in ended.err
        assert "Remove" not in ended.err


def test_a_description_in_json(root: Path) -> None:
    file = root.parent / "news.json"
    file.write_text(json.dumps({"name": "other", "manifest": ["f0.warc.gz"], "read": {"from": "in"}}))
    assert objects(dataset(root, "create", file, "--json"))[0]["tasks"] == 1


def test_manifests_are_made_from_the_paths_of_a_crawl(tmp_path: Path) -> None:
    folder = tmp_path / "crawl-data" / "CC-MAIN-2024-30"
    folder.mkdir(parents=True)
    stem = "crawl-data/CC-MAIN-2024-30/segments/1/{0}/CC-MAIN-{1}.warc{2}.gz"
    with gzip.open(folder / "warc.paths.gz", "wt") as file:
        file.writelines(stem.format("warc", number, "") + "\n" for number in range(3))
    command = ("dataset", "manifest", "--crawl", "CC-MAIN-2024-30", "--from", tmp_path)
    warc, wat, wet = (stem.format(kind, 0, "" if kind == "warc" else f".{kind}") for kind in ("warc", "wat", "wet"))
    lines = webmill(*command).out.decode().splitlines()
    assert len(lines) == 3
    assert lines[0] == f"WARC:{warc}|WAT:{wat}|WET:{wet}"
    assert webmill(*command, "--kind", "warc", "--limit", "1").out.decode() == f"{warc}\n"
    assert webmill(*command[:3], "latest", *command[4:]).out.decode().splitlines() == lines
    wrong = webmill(*command[:3], "CC-MAIN-1999-01", *command[4:])
    assert (wrong.code, "`webmill cc crawls` with the same --base-url" in wrong.err) == (1, True)


@pytest.mark.parametrize("path", commands_of("dataset"), ids=" ".join)
def test_every_command_has_help_with_an_example_in_80_columns(path: tuple[str, ...]) -> None:
    ended = webmill(*path, "--help")
    assert ended.code == 0
    text = ended.out.decode()
    assert "Example" in text
    assert max(map(len, text.splitlines())) <= 80
