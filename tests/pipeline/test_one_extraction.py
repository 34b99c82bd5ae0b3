"""Whichever way a capture comes, its document is the same: out of a whole WARC file, or chosen from an index.

And what lies in an output can be read by anybody's tools as it lies there.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from tests.faults.matrix import seed
from tests.pipeline.cc_commands import DEADLINE, environment
from tests.pipeline.cc_pages import RUN, batches, index_crawl, rows, write_crawl
from tests.pipeline.cc_workers import output_at, queue_of, work_all
from tests.pipeline.index_samples import no_progress
from tests.services.ray_cluster import FAULTY
from tests.thoroughness import kills
from tests.unit.cli.command import webmill
from webmill.commoncrawl.batch import batch_id, encode_batch
from webmill.errors import Misconfigured
from webmill.infra.executor.base import Executor
from webmill.infra.executor.pool import PoolExecutor
from webmill.infra.executor.ray import RayExecutor
from webmill.infra.queue.base import Message
from webmill.infra.storage.local import LocalStorage
from webmill.model import Document
from webmill.pipeline.extract.collection import extract_collection, extract_job, extract_plan, output_shape
from webmill.pipeline.extract.jobs import run_job
from webmill.pipeline.extract.totals import ExtractReport
from webmill.settings import ExecutorSettings, ExtractSettings, Settings

KILLS = kills(3)
SETTINGS = Settings(
    extract=ExtractSettings(extractor="plain", all_captures=True, links=True), executor=ExecutorSettings(url="inline")
)
Rows = dict[str, dict[str, Any]]


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """A collection with pages, and with lines of an index that name them."""
    write_crawl(tmp_path / "crawl", pages=40)
    return tmp_path / "crawl"


def messages(crawl: Path) -> list[Message]:
    return list(batches(write_crawl(crawl, pages=40)))  # the same bytes again


# --- the two ways -----------------------------------------------------------------------------------------------------


def refuse(path: str, reason: str, message: str) -> None:
    pytest.fail(f"{path}: {reason}: {message}")


def extract_whole(root: Path, settings: Settings = SETTINGS, *, executor: Executor | None = None) -> Rows:
    """Of all captures of a collection's archives."""
    if executor is None:
        report = extract_collection(root, settings, progress=no_progress, refuse=refuse)
    else:
        report = run_on(executor, root, settings)
    assert (report.failed, report.left) == (0, 0)
    return by_id(documents_in(root / "documents"))


def run_on(executor: Executor, root: Path, settings: Settings) -> ExtractReport:
    shape = output_shape(settings.extract)
    plan = extract_plan(root, msgspec.structs.replace(settings, executor=ExecutorSettings()), shape)
    return run_job(extract_job(root, shape, plan, refuse=refuse), executor, progress=no_progress)


def extract_chosen(root: Path, out: Path, chosen: list[Message], *, executor: Executor | None = None) -> Rows:
    """Of the captures that batches name."""
    shape = msgspec.structs.replace(output_shape(SETTINGS.extract), format="jsonl")
    report = work_all(queue_of(*chosen), root, output_at(out, shape), executor=executor)
    assert report.failures == []
    return by_id(rows(out))


def documents_in(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.jsonl.gz")):
        yield from map(json.loads, gzip.decompress(file.read_bytes()).splitlines())


def by_id(found: Any) -> Rows:
    listed = list(found)
    assert len({row["id"] for row in listed}) == len(listed)
    return {row["id"]: row for row in listed}


def test_made_pages_give_the_same_rows_both_ways(crawl: Path, tmp_path: Path) -> None:
    chosen = extract_chosen(crawl, tmp_path / "out", messages(crawl))
    assert extract_whole(crawl) == chosen
    assert len(chosen) == 40
    assert {row["outcome"] for row in chosen.values()} == {"ok"}
    assert all(row["text"] and row["title"] and row["links"] for row in chosen.values())
    assert [*next(iter(chosen.values()))] == [*Document.__struct_fields__]


def test_a_pool_gives_the_rows_of_one_process(crawl: Path, tmp_path: Path) -> None:
    inline = extract_chosen(crawl, tmp_path / "inline", messages(crawl))
    with closing(PoolExecutor(workers=2)) as executor:
        assert extract_chosen(crawl, tmp_path / "pool", messages(crawl), executor=executor) == inline
        assert extract_whole(crawl, executor=executor) == inline


@FAULTY
@pytest.mark.server("ray")
def test_a_cluster_gives_the_rows_of_one_process(crawl: Path, tmp_path: Path, ray_executor: RayExecutor) -> None:
    inline = extract_chosen(crawl, tmp_path / "inline", messages(crawl))
    assert extract_chosen(crawl, tmp_path / "ray", messages(crawl), executor=ray_executor) == inline
    assert extract_whole(crawl, executor=ray_executor) == inline


@pytest.mark.slow
@pytest.mark.timeout(900)  # for a machine that is busy with other things
def test_a_real_crawl_gives_the_same_rows_both_ways(shared_data: Path, tmp_path: Path) -> None:
    (archive,), (index,) = (list((shared_data / "triple").glob(f"*{end}")) for end in ("0.warc.gz", ".cdx.gz"))
    lines = [as_indexed(line) for line in gzip.decompress(index.read_bytes()).splitlines()]
    root = tmp_path / "crawl"
    place = root / json.loads(lines[0].split(b" ", 2)[2])["filename"]
    place.parent.mkdir(parents=True)
    shutil.copy(archive, place)
    starts = range(0, len(lines), 250)
    chosen = [Message(batch_id(RUN, n), encode_batch(lines[at : at + 250])) for n, at in enumerate(starts, 1)]
    with closing(PoolExecutor(workers=2)) as executor:
        by_index = extract_chosen(root, tmp_path / "out", chosen, executor=executor)
        whole = extract_whole(root, executor=executor)
    assert len(by_index) == len(lines)
    assert whole == by_index
    assert sum(row["outcome"] == "ok" for row in whole.values()) > 1000


def as_indexed(line: bytes) -> bytes:
    """The keys of this sample have spaces in them at times."""
    found = re.fullmatch(rb"(.*?)\s+(\d{14}) (\{.*\})", line)
    assert found
    return b"%b %b %b\n" % (found[1].replace(b" ", b"%20"), found[2], found[3])


# --- after kills ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(300 + 60 * KILLS)
def test_killed_at_random_both_ways_still_give_the_same_rows(memory_folder: Path) -> None:
    root, out = memory_folder / "crawl", memory_folder / "out"
    write_crawl(root, pages=200, files=4)
    index_crawl(root)
    common = ("--extractor", "trafilatura", "--executor", "pool", "--processes", "2")
    kill_again_and_again("extract", root, "--all-captures", *common)
    chosen = ("--crawl", "TEST-2024", "--base-url", root, "--batch-size", "10", "--format", "jsonl", "--no-metrics")
    kill_again_and_again("cc", "run", *chosen, *common, "-o", out)
    whole = by_id(documents_in(root / "documents"))
    assert whole == by_id(rows(out))
    assert len(whole) == 200
    assert [*stray(root / "documents", ".jsonl.gz"), *stray(out, ".jsonl.zst")] == []


def kill_again_and_again(*arguments: str | Path) -> None:
    """Some die while they start, some at work; the last is let run to its end."""
    command = [sys.executable, "-m", "webmill", "--quiet", *map(str, arguments)]
    settings = environment(WEBMILL_QUEUE_ATTEMPTS="1000", WEBMILL_QUEUE_LEASE="2")
    dice = random.Random(seed(5))
    for _ in range(KILLS):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=settings)
        time.sleep(dice.uniform(0.5, 4))  # a moment, not a condition: any will do
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3 * DEADLINE, env=settings)
    assert done.returncode == 0, done.stderr


# --- outputs for anybody's tools --------------------------------------------------------------------------------------


def stray(folder: Path, *endings: str) -> list[str]:
    """Files that are neither data nor hidden."""
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    shown = [path for path in found if not any(part.startswith(".") for part in path.parts)]
    assert shown
    return [str(path) for path in shown if not path.name.endswith(endings)]


def test_an_output_has_nothing_but_data_files_and_is_read_as_it_lies(crawl: Path, tmp_path: Path) -> None:
    import pyarrow.dataset

    out = tmp_path / "out"
    wanted = extract_whole(crawl)  # jsonl
    assert stray(crawl / "documents", ".jsonl.gz") == []
    count = duckdb.sql(f"SELECT count(DISTINCT id) FROM read_json('{crawl}/documents/*.jsonl.gz')").fetchall()
    assert count == [(40,)]
    settings = msgspec.structs.replace(SETTINGS, extract=msgspec.structs.replace(SETTINGS.extract, format="parquet"))
    parquet = output_shape(settings.extract)
    extract_collection(crawl, settings, progress=no_progress, refuse=refuse, from_scratch=True)
    work_all(queue_of(*messages(crawl)), crawl, output_at(out, parquet))
    texts = {id_: row["text"] for id_, row in wanted.items()}
    for folder, pattern in ((crawl / "documents", "*.parquet"), (out, "**/*.parquet")):
        assert stray(folder, ".parquet") == []
        table = pyarrow.dataset.dataset(folder, format="parquet").to_table()
        assert table.column_names == [*Document.__struct_fields__]
        assert {row["id"]: row["text"] for row in table.to_pylist()} == {
            id_: row["text"] for id_, row in wanted.items()
        }
        found = duckdb.sql(f"SELECT id, text FROM read_parquet('{folder}/{pattern}')").fetchall()
        assert dict(found) == texts
        assert len(found) == 40


# --- what an earlier webmill made -------------------------------------------------------------------------------------


def old_collection(root: Path) -> None:
    """As it was: a dataset for each time, receipts among the documents."""
    (root / "extract" / "20240101").mkdir(parents=True)
    (root / "extract" / "20240101" / "dataset.json").write_text('{"webmill": "0.1"}')
    (root / "documents" / "receipts" / "a-1").mkdir(parents=True)
    (root / "documents" / "a-1-00000.jsonl.gz").write_bytes(gzip.compress(b'{"id": "old"}\n'))
    (root / "documents" / "mine.jsonl.gz").write_bytes(gzip.compress(b'{"id": "mine"}\n'))
    delivered = {"name": "a-1-00000.jsonl.gz", "rows": 1, "size": 5, "digest": ""}
    receipt = {"number": 0, "resume": {"WARC": 5}, "output": delivered, "errors": None, "pages": 1, "last": True}
    (root / "documents/receipts/a-1/00000.json").write_text(json.dumps({"checksum": "0", "receipt": receipt}))


def test_an_old_collection_is_refused_and_made_anew_on_demand(crawl: Path) -> None:
    old_collection(crawl)
    refused = webmill("extract", crawl, "--executor", "inline", "--extractor", "plain")
    assert refused.code == 1
    assert f"`webmill extract {crawl} --from-scratch` makes them again" in refused.err
    assert (crawl / "documents" / "a-1-00000.jsonl.gz").exists()
    seen = json.loads(webmill("status", crawl, "--json").out)
    assert [one["part"] for one in seen["problems"]] == ["extract"], "what the next run would say"
    assert not [one for one in seen["due"] if one["stage"] == "extract"]
    done = webmill("extract", crawl, "--executor", "inline", "--extractor", "plain", "--from-scratch")
    assert done.code == 0, done.err
    assert not (crawl / "extract").exists()
    assert not (crawl / "documents" / "a-1-00000.jsonl.gz").exists()
    assert not (crawl / "documents" / "receipts").exists()
    ids = [row["id"] for row in documents_in(crawl / "documents")]
    assert (len(ids), ids.count("mine"), ids.count("old")) == (41, 1, 0)  # only what receipts name was removed


def test_what_is_not_a_dataset_of_ours_is_left_alone(crawl: Path) -> None:
    old_collection(crawl)
    (crawl / "extract" / "notes").mkdir()
    (crawl / "extract" / "notes" / "read.me").touch()
    assert webmill("extract", crawl, "--executor", "inline", "--extractor", "plain", "--from-scratch").code == 0
    assert [path.name for path in (crawl / "extract").rglob("*")] == ["notes", "read.me"]


def test_an_old_output_of_batches_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    LocalStorage(out).write("settings.json", b'{"extractor": "resiliparse"}')
    with pytest.raises(Misconfigured, match="made by an earlier webmill: choose another --output"):
        output_at(out)
    assert [path.name for path in out.iterdir() if not path.name.startswith(".")] == ["settings.json"]
    reported = webmill("cc", "work", "--queue", f"sqlite:{tmp_path}/q.sqlite", "-o", out, "--extractor", "plain")
    assert (reported.code, "made by an earlier webmill" in reported.err) == (1, True)


# --- a function of yours ----------------------------------------------------------------------------------------------

FUNCTION = """
import msgspec

class Titled(msgspec.Struct):
    id: str
    title: str | None
    size: int

def document(page) -> Titled | None:
    return Titled(page.record_id, page.title, len(page.http.content.data))
"""


def test_a_function_of_yours_gives_the_same_rows_both_ways(crawl: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FUNCTION, encoding="utf-8")
    flags = ("--function", tmp_path / "mine.py:document", "--format", "parquet", "--executor", "inline")
    index_crawl(crawl)
    ended = webmill("extract", crawl, *flags, "--json")
    assert ended.code == 0, ended.err
    chosen = ("--base-url", crawl, "--crawl", "TEST-2024", "--no-metrics", "--output", tmp_path / "out")
    ended = webmill("cc", "run", *chosen, *flags)
    assert ended.code == 0, ended.err
    whole, parts = (table_of(folder) for folder in (crawl / "documents", tmp_path / "out"))
    assert whole == parts
    assert len(whole) == 40
    assert all(type(size) is int for _, _, size in whole)


def test_no_code_of_a_folder_is_run_to_go_on_in_it(crawl: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FUNCTION, encoding="utf-8")
    flags = ("--function", tmp_path / "mine.py:document", "--executor", "inline")
    assert webmill("extract", crawl, *flags).code == 0
    refused = webmill("extract", crawl, "--executor", "inline")
    assert refused.code == 1
    assert "--function document" in refused.err


def table_of(folder: Path) -> list[tuple[str, str | None, int]]:
    with duckdb.connect() as database:
        return database.execute(f"select id, title, size from '{folder}/**/*.parquet' order by id").fetchall()
