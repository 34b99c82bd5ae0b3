"""Datasets that read messages of SQS and Kinesis, on a MiniStack: nothing is lost, and nothing is made twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.datasets import create, lines_of, run, views
from tests.services.aws_front import Forward, Front, Meddle, Request, fronting, honest
from tests.services.aws_streams import Streams, streams_of_ministack
from tests.unit.cli.command import webmill
from tests.unit.compat import letsdata_readers
from webmill.errors import Misconfigured
from webmill.pipeline.dataset.folder import DatasetFolder

pytestmark = pytest.mark.server("ministack")

READERS = Path(letsdata_readers.__file__)
ONCE = {"empty_receives": 1}


@pytest.fixture(scope="module")
def streams() -> Iterator[Streams]:
    with streams_of_ministack() as streams:
        yield streams


@pytest.fixture
def front() -> Iterator[Front]:
    with fronting() as front:
        yield front


def dataset(root: Path, address: str, reader: str = "", **more: Any) -> DatasetFolder:
    document = {"reader": f"{READERS}:{reader}"} if reader else {}
    read = {"from": address, **ONCE}
    return create(root, [], source=root, **{"read": read, "document": document, **more})


def words(folder: DatasetFolder) -> list[str]:
    return sorted(row["word"] for row in lines_of(folder.path / "output"))


@pytest.mark.parametrize("fifo", [False, True])
def test_messages_are_deleted_when_their_documents_are_durable(tmp_path: Path, streams: Streams, fifo: bool) -> None:
    address = streams.queue([f"w{n}" for n in range(23)], fifo=fifo)
    folder = dataset(tmp_path, address, "UpperCaseMessages", write={"pages_per_part": 10})
    report = run(folder)
    assert words(folder) == sorted(f"W{n}" for n in range(23))
    assert (report.documents, report.errors) == (23, 0)
    assert streams.count(address) == 0
    (view,) = views(folder)
    assert (view.state, view.totals.parts) == ("done", 3)


def test_a_later_run_reads_what_came_since(tmp_path: Path, streams: Streams) -> None:
    address = streams.queue(["one"])
    folder = dataset(tmp_path, address, "UpperCaseMessages")
    run(folder)
    streams.send(address, ["two"], color="red")
    run(folder)
    assert lines_of(folder.path / "output") == [{"word": "ONE", "color": ""}, {"word": "TWO", "color": "red"}]
    assert streams.count(address) == 0
    assert webmill("dataset", "delete", folder.path, "--yes").code == 0


def test_a_group_that_waits_for_its_first_messages_is_read_to_its_end(
    tmp_path: Path, streams: Streams, front: Front
) -> None:
    """A FIFO queue gives no more messages of a group while some are not deleted."""
    address = streams.queue([f"w{n}" for n in range(12)], fifo=True)
    folder = dataset(tmp_path, f"{address}&proxy={front.url}", "UpperCaseMessages")
    held: list[bool] = []

    def hold(name: str, request: Request, forward: Forward) -> tuple[int, Request]:
        if name == "ReceiveMessage" and held:
            return 200, {}
        status, answer = forward(request)
        if name == "ReceiveMessage" and answer.get("Messages"):
            held.append(True)
        elif name == "DeleteMessageBatch":
            held.clear()
        return status, answer

    front.meddle = hold
    run(folder)
    assert words(folder) == sorted(f"W{n}" for n in range(12))


def test_a_message_may_be_skipped_or_be_an_error(tmp_path: Path, streams: Streams) -> None:
    address = streams.queue(["good", "not this", "!"])
    folder = dataset(tmp_path, address, "UpperCaseMessages")
    report = run(folder)
    assert (report.documents, report.errors, report.left_out) == (1, 1, {"skipped": 1})
    (error,) = lines_of(folder.path / "errors")
    assert error["errorMessage"] == "no word"
    assert streams.count(address) == 0


def kill_at_delete(process: list[Any]) -> Meddle:
    """Kill the reader when it wants to delete its messages; their leases are short."""

    def answer(name: str, request: Request, forward: Forward) -> tuple[int, Request]:
        if name == "ReceiveMessage":
            request["VisibilityTimeout"] = 6
        for entry in request.get("Entries", ()) if name == "ChangeMessageVisibilityBatch" else ():
            entry["VisibilityTimeout"] = 6
        if name != "DeleteMessageBatch" or process[0].poll() is not None:
            return forward(request)
        process[0].kill()
        process[0].wait()
        return 500, {"__type": "killed"}

    return answer


@pytest.mark.crash
def test_a_run_killed_before_it_deletes_makes_nothing_twice(tmp_path: Path, streams: Streams, front: Front) -> None:
    """The documents are durable by then: a message that comes again is deleted, and no more; also when others came
    before it."""
    address = streams.queue([f"w{n}" for n in range(8)])
    folder = dataset(tmp_path, f"{address}&proxy={front.url}", "UpperCaseMessages")
    process: list[Any] = []
    front.meddle = kill_at_delete(process)
    process.append(started(folder))
    assert process[0].wait(timeout=60) == -signal.SIGKILL
    made = sorted(f"W{n}" for n in range(8))
    assert words(folder) == made
    front.meddle = honest
    streams.send(address, ["a"])
    run(folder)
    streams.send(address, ["b"])
    run(folder)
    wait_until(lambda: streams.visible(address) in (0, 8))
    run(folder)
    assert words(folder) == ["A", "B", *made]
    assert streams.count(address) == 0


def started(folder: DatasetFolder) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "webmill", "-q", "dataset", "run", str(folder.path), "--executor", "inline"]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def test_a_queue_that_is_not_there_is_said(tmp_path: Path, streams: Streams) -> None:
    folder = dataset(tmp_path, streams.address("sqs", "nobody"), "UpperCaseMessages")
    with pytest.raises(Misconfigured, match="sqs://nobody does not exist"):
        run(folder)


def test_a_shard_goes_on_behind_its_last_record(tmp_path: Path, streams: Streams) -> None:
    address = streams.stream([f"w{n}" for n in range(30)], shards=3)
    folder = dataset(tmp_path, address, "UpperCaseRecords", write={"pages_per_part": 7})
    run(folder)
    assert words(folder) == sorted(f"W{n}" for n in range(30))
    assert {view.files["SHARD"][:8] for view in views(folder)} == {"shardId-"}
    streams.put(address, ["late"])
    run(folder)
    run(folder)
    assert words(folder) == sorted(["LATE", *(f"W{n}" for n in range(30))])
    assert len(views(folder)) == 3


def test_a_stream_may_be_read_from_the_first_run_on(tmp_path: Path, streams: Streams) -> None:
    address = streams.stream(["old"], shards=1)
    time.sleep(1.1)  # positions in time are whole seconds for some servers
    folder = dataset(tmp_path, address, "UpperCaseRecords", read={"from": address, "start": "latest", **ONCE})
    run(folder)
    streams.put(address, ["new"])  # between two runs: nothing of it is lost
    run(folder)
    streams.put(address, ["newer"])
    run(folder)
    assert words(folder) == ["NEW", "NEWER"]


@pytest.mark.crash
def test_a_run_killed_between_parts_of_a_shard_makes_nothing_twice(
    tmp_path: Path, streams: Streams, front: Front
) -> None:
    address = streams.stream([f"w{n}" for n in range(50)], shards=1)
    folder = dataset(tmp_path, f"{address}&proxy={front.url}", "UpperCaseRecords", write={"pages_per_part": 15})
    process: list[Any] = []
    asked: list[str] = []

    def answer(name: str, request: Request, forward: Forward) -> tuple[int, Request]:
        asked.append(name)
        if name == "GetRecords":
            request["Limit"] = 10
        if asked.count("GetRecords") == 4 and process[0].poll() is None:
            process[0].kill()
            process[0].wait()
        return forward(request)

    front.meddle = answer
    process.append(started(folder))
    assert process[0].wait(timeout=60) == -signal.SIGKILL
    run(folder)
    assert words(folder) == sorted(f"W{n}" for n in range(50))


def test_without_a_reader_a_message_is_the_document(tmp_path: Path, streams: Streams) -> None:
    """What one dataset wrote to a queue another reads."""
    address = streams.queue([json.dumps({"id": "a", "n": 1}, indent=1), "no json"])
    folder = dataset(tmp_path, address)
    report = run(folder)
    assert lines_of(folder.path / "output") == [{"id": "a", "n": 1}]
    assert report.reasons == {"bad_json": 1}


def test_a_queue_is_followed_until_it_is_stopped(tmp_path: Path, streams: Streams) -> None:
    address = streams.queue(["one"])
    folder = dataset(tmp_path, address, "UpperCaseMessages", read={"from": address, "follow": True})
    with started(folder) as process:
        wait_until(lambda: words(folder) == ["ONE"])
        streams.send(address, ["two"])
        wait_until(lambda: words(folder) == ["ONE", "TWO"])
        assert process.poll() is None
        assert webmill("dataset", "stop", folder.path).code == 0
        assert process.wait(timeout=60) == 0
    assert streams.count(address) == 0


def wait_until(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
