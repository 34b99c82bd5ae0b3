"""Runs over boards that stand in memory: the same on every storage and every queue."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.boards.publishing import LONG, QUICK, MemoryBoardReader, boards, changes, cycle, file_of, working
from tests.unit.publish.publications import closure
from webmill.boards.aggregator import aggregate, check_progress, end_run
from webmill.boards.board_list import Board
from webmill.boards.jobs import parse_job
from webmill.boards.orchestrator import RunOptions, start_run
from webmill.boards.process_job import PreviousVersion, process_job
from webmill.boards.run_loop import RunContext, run_every, run_once
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.infra.queue.base import Delivery, Queue
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.base import Storage
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.memory import MemoryStorage
from webmill.infra.storage.s3 import S3Options, S3Storage
from webmill.publish import history, leases, run_lock
from webmill.publish.fragments import open_runs, read_fragments, read_progress
from webmill.publish.gc import collect_garbage
from webmill.publish.publication import PublishOptions
from webmill.publish.verify import verify

S3 = pytest.mark.server("s3")
ATTEMPTS = QUICK.attempts
START = datetime(2024, 1, 1, tzinfo=UTC)
Take = Callable[[Queue, int], list[Delivery]]
D = "Seoul/d{:03d}/notice".format


@pytest.fixture(
    params=[
        "memory-memory",
        "local-sqlite",
        pytest.param("s3-sqlite", marks=S3),
        pytest.param("memory-amqp", marks=pytest.mark.server("rabbitmq")),
        pytest.param("memory-sqs", marks=[pytest.mark.server("aws"), pytest.mark.soak]),
    ]
)
def kinds(request: pytest.FixtureRequest) -> tuple[str, str]:
    storage, _, queue = request.param.partition("-")
    return storage, queue


@pytest.fixture
def storage(kinds: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if kinds[0] == "memory":
        return MemoryStorage()
    if kinds[0] == "local":
        return LocalStorage(tmp_path / "root")
    bucket, question, options = request.getfixturevalue("s3_url").partition("?")
    return S3Storage(S3Options.from_url(f"{bucket}/{secrets.token_hex(6)}{question}{options}"))


@pytest.fixture
def queue(kinds: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Queue]:
    opened: Queue
    if kinds[1] == "memory":
        opened = MemoryQueue(max_attempts=ATTEMPTS)
    elif kinds[1] == "sqlite":
        opened = SqliteQueue(tmp_path / "queue.sqlite", max_attempts=ATTEMPTS)
    elif kinds[1] == "sqs":
        opened = sqs_queue(request.getfixturevalue("aws_url"))
    else:
        from webmill.infra.queue.rabbitmq import RabbitQueue

        url = request.getfixturevalue("amqp_url")
        opened = RabbitQueue(url, name=f"publish-{secrets.token_hex(6)}", max_attempts=ATTEMPTS, new_queue_pause=0)
    yield opened
    opened.close()


def sqs_queue(endpoint: str, **options: Any) -> Queue:
    from webmill.infra.queue.sqs import SqsQueue

    address = f"sqs://KEY:SECRET@publish-{secrets.token_hex(6)}.fifo?region=us-east-1&endpoint={endpoint}"
    return SqsQueue(address, max_attempts=ATTEMPTS, **options)


@pytest.fixture
def take() -> Iterator[Take]:
    """Deliveries in as many hands: a broker gives none a second message before the first is settled."""
    with ExitStack() as stack:

        def taken(queue: Queue, count: int) -> list[Delivery]:
            found = []
            for _ in range(count):
                delivery = stack.enter_context(queue.consume()).receive(timeout=60)
                assert delivery
                found.append(delivery)
            return found

        yield taken


def test_a_second_run_says_exactly_what_changed_and_writes_nothing_else(storage: Storage, queue: Queue) -> None:
    reader = MemoryBoardReader(boards(12))
    first = cycle(storage, queue, reader)
    assert first.counts
    assert (first.counts.added, first.counts.blobs_written) == (36, 36)
    assert closure(storage) == reader.content()
    reader.asked.clear()
    reader.texts[D(1)]["0"] = "edited"
    reader.texts[D(2)]["2"] = "edited, too"
    reader.texts[D(3)]["new"] = "new"
    del reader.texts[D(4)]["1"]
    second = cycle(storage, queue, reader)
    assert changes(storage, second) == {
        "added": [f"{D(3)}/new"],
        "changed": [f"{D(1)}/0", f"{D(2)}/2"],
        "removed": [f"{D(4)}/1"],
    }
    assert second.counts
    assert (second.counts.blobs_written, second.counts.counts["unchanged"]) == (3, 33)
    assert set(reader.asked) == {f"{D(1)}/0", f"{D(2)}/2", f"{D(3)}/new"}  # no body of an unchanged notice
    assert closure(storage) == reader.content()
    assert [*storage.list("snapshots/_runs/")] == []
    assert verify(storage, read_data=True).findings == ()


def test_a_run_that_finds_nothing_new_makes_no_version() -> None:
    storage, queue, reader = MemoryStorage(), MemoryQueue(max_attempts=ATTEMPTS), MemoryBoardReader(boards(4))
    first = cycle(storage, queue, reader)
    second = cycle(storage, queue, reader)
    assert (first.is_new, second.is_new) == (True, False)
    assert second.version == first.version
    assert second.counts
    assert (second.counts.items, second.counts.added, second.counts.blobs_written) == (12, 0, 0)
    reader.failing = {D(1): False}
    assert [cycle(storage, queue, reader).is_new for _ in range(2)] == [True, False]  # that it failed is told once
    assert cycle(storage, queue, reader, options=PublishOptions(facets=("campus",), force=True)).is_new
    assert len(history.list_versions(storage)) == 3
    assert [*storage.list("snapshots/_runs/")] == [*storage.list("snapshots/_leases/run-")] == []
    assert verify(storage, read_data=True).findings == ()


def test_a_failing_board_is_listed_and_stale_with_its_age_c09(storage: Storage, queue: Queue) -> None:
    reader = MemoryBoardReader(boards(6))
    first = cycle(storage, queue, reader)
    before = reader.content()
    reader.failing = {D(1): True, D(2): False}
    reader.texts[D(1)]["0"] = "nobody can see this"
    outcome = cycle(storage, queue, reader)
    assert sorted(outcome.failed) == [D(1), D(2)]
    assert closure(storage) == before
    sources = {one["source"]: one for one in file_of(storage, outcome, "meta/sources.json")}
    made = file_of(storage, first, "aux/stats.json")["finished_at"]
    assert [(sources[D(n)]["status"], sources[D(n)].get("since")) for n in (0, 1, 2)] == [
        ("fresh", None),
        ("stale", made),
        ("stale", made),
    ]
    errors = file_of(storage, outcome, "aux/errors.json")
    assert {(one["source"], one["stage"]) for one in errors} == {(D(1), "fetch"), (D(1), "job"), (D(2), "fetch")}
    assert reader.readings[D(1)] == 1 + ATTEMPTS
    assert reader.readings[D(2)] == 2  # it will never work: one look is enough
    assert [parse_job(letter.body).board.source for letter in queue.dead_letters()] == [D(1)]
    assert all("HTTP 500" in letter.reason for letter in queue.dead_letters())


def test_a_dead_letter_goes_when_its_board_is_read_again_and_a_board_that_is_back_is_fresh(
    storage: Storage, queue: Queue
) -> None:
    reader = MemoryBoardReader(boards(4))
    cycle(storage, queue, reader)
    reader.failing = {D(1): True}
    for _ in range(2):
        cycle(storage, queue, reader)
        assert len([*queue.dead_letters()]) == 1
    reader.failing = {}
    reader.texts[D(1)]["0"] = "back"
    outcome = cycle(storage, queue, reader)
    assert [*queue.dead_letters()] == []
    assert changes(storage, outcome) == {"changed": [f"{D(1)}/0"]}
    assert all(one["status"] == "fresh" for one in file_of(storage, outcome, "meta/sources.json"))


def test_an_empty_queue_is_no_end_a_job_in_slow_hands_is_waited_for_c07(
    storage: Storage, queue: Queue, take: Take
) -> None:
    reader = MemoryBoardReader(boards(3))
    plan = start_run(storage, queue, reader.boards)
    slow, *others = take(queue, 3)
    previous = PreviousVersion(storage)
    for delivery in others:
        process_job(storage, parse_job(delivery.body), reader=reader, previous=previous)
        delivery.ack()
    assert aggregate(storage, queue, plan.run) is None  # nothing is ready in the queue, and yet it is not over
    process_job(storage, parse_job(slow.body), reader=reader, previous=previous)
    slow.ack()
    assert aggregate(storage, queue, plan.run)
    assert closure(storage) == reader.content()


def test_a_second_delivery_a_paused_worker_and_a_late_one_have_no_effect_q13(
    storage: Storage, queue: Queue, take: Take
) -> None:
    reader = MemoryBoardReader(boards(3))
    plan = start_run(storage, queue, reader.boards)
    jobs = [parse_job(delivery.body) for delivery in take(queue, 3)]
    previous = PreviousVersion(storage)
    before = reader.content()
    for job in jobs:
        assert process_job(storage, job, reader=reader, previous=previous).result == "done"
    reader.texts[D(0)]["0"] = "read by the second worker, a minute later"
    assert process_job(storage, jobs[0], reader=reader, previous=previous).result == "over"

    def paused() -> None:
        """Its lease ran out while it read."""
        raise Conflict("in other hands")

    with pytest.raises(Conflict):
        process_job(storage, jobs[1], reader=reader, previous=previous, confirm=paused)
    assert aggregate(storage, queue, plan.run)
    pointer = storage.read("latest.json")
    readings = reader.readings.total()
    assert process_job(storage, jobs[2], reader=reader, previous=previous).result == "over"
    assert reader.readings.total() == readings  # nobody is asked for a run that is over
    assert closure(storage) == before
    assert storage.read("latest.json") == pointer
    assert [*storage.list("snapshots/_runs/")] == []
    with pytest.raises(NotFound):
        aggregate(storage, queue, plan.run)


@pytest.mark.server("aws")
def test_a_job_of_sqs_that_comes_again_after_its_lease_is_done_once_q13(aws_url: str) -> None:
    storage, queue, reader = MemoryStorage(), sqs_queue(aws_url, lease=1.0), MemoryBoardReader(boards(1))
    plan, previous = start_run(storage, queue, reader.boards), PreviousVersion(storage)
    before = reader.content()
    with queue.consume() as paused, queue.consume() as other:
        first = paused.receive(timeout=60)
        second = other.receive(timeout=60)  # when the first one's lease is over
        assert first
        assert second
        assert second.attempts == 2
        assert process_job(storage, parse_job(second.body), reader=reader, previous=previous).result == "done"
        reader.texts[D(0)]["0"] = "seen by the one that slept"
        with pytest.raises(Conflict):
            process_job(storage, parse_job(first.body), reader=reader, previous=previous, confirm=first.extend)
        with pytest.raises(Conflict):
            first.ack()
    assert aggregate(storage, queue, plan.run)
    assert closure(storage) == before
    queue.close()


def test_at_the_deadline_what_is_there_is_published_and_the_rest_is_told(
    storage: Storage, queue: Queue, take: Take
) -> None:
    reader = MemoryBoardReader(boards(4))
    cycle(storage, queue, reader)
    reader.texts[D(0)]["0"] = "new"
    reader.texts[D(1)]["0"] = "too late"
    plan = start_run(storage, queue, reader.boards, options=RunOptions(deadline=timedelta(hours=1)))
    for delivery in take(queue, 4):
        if parse_job(delivery.body).board.source != D(1):
            process_job(storage, parse_job(delivery.body), reader=reader, previous=PreviousVersion(storage))
    soon, late = plan.deadline - timedelta(seconds=1), plan.deadline
    assert aggregate(storage, queue, plan.run, now=lambda: soon) is None
    outcome = aggregate(storage, queue, plan.run, now=lambda: late)
    assert outcome
    assert (outcome.missing, changes(storage, outcome)) == (1, {"changed": [f"{D(0)}/0"]})
    assert [(one["stage"], one["source"]) for one in file_of(storage, outcome, "aux/errors.json")] == [
        ("deadline", D(1))
    ]


def test_too_little_is_refused_and_changes_nothing_unless_forced_c08(storage: Storage, queue: Queue) -> None:
    reader = MemoryBoardReader(boards(10))
    first = cycle(storage, queue, reader)
    pointer = storage.read("latest.json")
    for number in range(10):
        del reader.texts[D(number)]["0"]
    refused = cycle(storage, queue, reader)
    assert "33% are missing" in refused.refused
    assert refused.version is None
    reader.failing = dict.fromkeys(reader.texts, False)
    assert "found no items" in cycle(storage, queue, reader).refused
    assert storage.read("latest.json") == pointer
    reader.failing = {}
    forced = cycle(storage, queue, reader, options=PublishOptions(force=True))
    assert forced.counts
    assert forced.counts.items == 20
    assert closure(storage) == reader.content()
    assert history.find_version(storage, str(first.version)).count == 30


def test_one_run_at_a_time_and_one_that_was_left_behind_is_given_up(storage: Storage, queue: Queue) -> None:
    reader = MemoryBoardReader(boards(3))
    late = START + timedelta(hours=1)
    left = start_run(storage, queue, reader.boards, now=lambda: START)
    with pytest.raises(Conflict, match=left.run):
        start_run(storage, queue, reader.boards)
    run_lock.release(storage, left.run)  # as when its process is seen to be dead
    plan = start_run(storage, queue, reader.boards, now=lambda: START)
    assert open_runs(storage) == [plan.run]
    run_lock.release(storage, plan.run)
    with working(storage, queue, reader):
        around = RunContext(stop=threading.Event(), poll_interval=0.02)
        assert run_once(storage, queue, reader.boards, deadline=LONG, options=PublishOptions(), context=around).version
    assert closure(storage) == reader.content()
    assert open_runs(storage) == []
    assert late > START


def test_a_run_whose_aggregator_died_is_published_by_the_next_one(storage: Storage, queue: Queue, take: Take) -> None:
    reader = MemoryBoardReader(boards(3))
    left = start_run(storage, queue, reader.boards)
    for delivery in take(queue, 3):
        process_job(storage, parse_job(delivery.body), reader=reader, previous=PreviousVersion(storage))
        delivery.ack()
    assert check_progress(storage, queue, left).is_complete
    run_lock.release(storage, left.run)
    start_run(storage, queue, reader.boards)
    assert [version.run for version in history.list_versions(storage)] == [left.run]
    assert closure(storage) == reader.content()


def test_a_job_that_nobody_survives_is_final_without_waiting_for_the_deadline(
    storage: Storage, queue: Queue, take: Take
) -> None:
    reader = MemoryBoardReader(boards(3))
    cycle(storage, queue, reader)
    plan = start_run(storage, queue, reader.boards)
    for delivery in take(queue, 3):
        job = parse_job(delivery.body)
        if job.board.source == D(1):
            delivery.bury("lease expired 3 times: the worker died or hung")
        else:
            process_job(storage, job, reader=reader, previous=PreviousVersion(storage))
            delivery.ack()
    for _ in range(600):  # a broker tells of burials a moment later
        outcome = aggregate(storage, queue, plan.run)
        if outcome:
            break
        threading.Event().wait(0.1)
    assert outcome
    assert outcome.failed == (D(1),)
    assert "the worker died or hung" in outcome.problems[0].message
    assert closure(storage) == reader.content()


def test_while_a_job_that_may_kill_the_process_is_read_no_other_job_is_taken(storage: Storage, queue: Queue) -> None:
    """A job that is taken has lost an attempt if the process dies, even if it has only waited for its turn."""
    reader = MemoryBoardReader(boards(2))
    plan = start_run(storage, queue, reader.boards)
    for _ in reader.boards:
        with queue.consume() as consumer:
            delivery = consumer.receive(timeout=60)
            assert delivery
            delivery.retry("the process died")  # every attempt after the first is made alone
    wait_until(lambda: queue.stats().ready == 2)
    left = []

    def read_alone(_: Board) -> None:
        ready = len(reader.boards) - len(left) - 1
        wait_until(lambda: queue.stats().ready < ready, seconds=1.0)  # time enough for another thread to take it
        left.append(queue.stats().ready)

    reader.before = read_alone
    with working(storage, queue, reader):
        wait_until(lambda: check_progress(storage, queue, plan).is_complete)
    assert left == [1, 0]


def wait_until(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        threading.Event().wait(0.05)


def test_a_job_that_is_requeued_counts_as_long_as_its_run_is_open(storage: Storage, queue: Queue, take: Take) -> None:
    reader = MemoryBoardReader(boards(2))
    reader.failing = {D(1): True}
    plan = start_run(storage, queue, reader.boards)
    previous = PreviousVersion(storage)
    for delivery in take(queue, 2):
        worked = process_job(
            storage, parse_job(delivery.body), reader=reader, previous=previous, attempt=3, is_last=True
        )
        assert worked.result == ("given_up" if worked.source == D(1) else "done")
    assert read_progress(storage, plan).is_complete
    reader.failing = {}
    jobs = {job.source: job for job in plan.jobs}
    fragments = {job.source: fragment for job, fragment in read_fragments(storage, plan)}
    assert fragments[D(1)]
    assert fragments[D(1)].failed
    again = Board(source=D(1), board="notice", url="http://d001.test/")
    job = msg_job(plan.run, plan.deadline, again)
    assert process_job(storage, job, reader=reader, previous=previous).result == "done"
    outcome = aggregate(storage, queue, plan.run)
    assert outcome
    assert outcome.failed == ()
    assert jobs
    assert closure(storage) == reader.content()


def msg_job(run: str, deadline: datetime, board: Board) -> Any:
    from webmill.boards.jobs import BoardJob

    return BoardJob(run=run, deadline=deadline, board=board)


def test_gc_takes_nothing_from_a_run_that_is_under_way_c04(storage: Storage, queue: Queue, take: Take) -> None:
    reader = MemoryBoardReader(boards(3))
    cycle(storage, queue, reader)
    reader.texts[D(0)]["0"] = "new"
    plan = start_run(storage, queue, reader.boards)
    for delivery in take(queue, 3):
        process_job(storage, parse_job(delivery.body), reader=reader, previous=PreviousVersion(storage))
    now = datetime.now(UTC)
    assert collect_garbage(storage, keep=1, grace=timedelta(0), now=now).waiting_for == [plan.run]
    assert aggregate(storage, queue, plan.run)
    assert collect_garbage(storage, keep=1, grace=timedelta(0), now=now).waiting_for == []
    assert closure(storage) == reader.content()
    assert verify(storage, read_data=True).findings == ()


def test_a_run_that_gc_took_for_dead_publishes_nothing_that_is_gone_c04(take: Take) -> None:
    storage, queue = MemoryStorage(), MemoryQueue()
    reader = MemoryBoardReader(boards(2))
    cycle(storage, queue, reader)
    before = reader.content()
    reader.texts[D(0)]["0"] = "new"
    plan = start_run(storage, queue, reader.boards)
    for delivery in take(queue, 2):
        process_job(storage, parse_job(delivery.body), reader=reader, previous=PreviousVersion(storage))
    leases.release(storage, plan.run)  # as after a pause of days
    now = datetime.now(UTC)
    for _ in range(2):
        collect_garbage(storage, keep=1, grace=timedelta(0), now=now + timedelta(days=1))
    with pytest.raises((Conflict, NotFound)):
        aggregate(storage, queue, plan.run)
    assert closure(storage) == before
    assert verify(storage, read_data=True).findings == ()


def test_a_damaged_blob_of_a_known_notice_is_asked_for_again_and_repaired_c02() -> None:
    storage, queue = MemoryStorage(), MemoryQueue()
    reader = MemoryBoardReader(boards(2))
    first = cycle(storage, queue, reader)
    index = file_of(storage, first, "index/all.json")
    storage.delete(f"blobs/sha256/{index['items'][0]['hash']}.json")
    reader.asked.clear()
    outcome = cycle(storage, queue, reader)
    assert set(reader.asked) == {index["items"][0]["id"]}
    assert outcome.counts
    assert (outcome.counts.blobs_written, outcome.counts.changed) == (1, 0)
    assert verify(storage, read_data=True).findings == ()


def test_documents_and_boards_are_not_published_over_each_other() -> None:
    from tests.unit.publish.publications import publish
    from webmill.publish.runs import check_kind

    storage, queue = MemoryStorage(), MemoryQueue()
    publish(storage, {"a/1": "x"})
    check_kind(storage, "documents", force=False)  # of another program: whoever it was
    cycle(storage, queue, MemoryBoardReader(boards(2)))
    with pytest.raises(Misconfigured, match="boards"):
        check_kind(storage, "documents", force=False)
    check_kind(storage, "documents", force=True)


def test_runs_on_a_schedule_keep_one_schedule_for_all_machines_and_do_not_double_missed_ticks() -> None:
    storage, stop = MemoryStorage(), threading.Event()
    clock = [START]
    began: list[datetime] = []

    class Sleeper(threading.Event):
        """Time passes when somebody waits."""

        def wait(self, timeout: float | None = None) -> bool:
            clock[0] += timedelta(seconds=timeout or 0)
            return self.is_set()

    stop = Sleeper()

    def once() -> None:
        run_lock.acquire(storage, f"run-{len(began)}", at=clock[0], lasts=timedelta(minutes=1))
        run_lock.release(storage, f"run-{len(began)}")
        began.append(clock[0])
        clock[0] += timedelta(minutes=25 if len(began) == 2 else 1)  # the second one takes far too long
        if len(began) == 5:
            stop.set()

    run_every(once, storage, every=timedelta(minutes=10), stop=stop, now=lambda: clock[0])
    minutes = [(moment - START).total_seconds() / 60 for moment in began]
    assert minutes == [0, 10, 35, 45, 55]
    assert run_lock.time_until_due(storage, timedelta(minutes=10), now=clock[0]) == timedelta(
        minutes=9
    )  # another machine waits
    assert run_lock.time_until_due(storage, timedelta(minutes=10), now=START - timedelta(days=1)) == timedelta(
        minutes=10
    )


def test_an_aggregator_whose_run_ends_while_it_reads_publishes_nothing(take: Take) -> None:
    queue, reader = MemoryQueue(), MemoryBoardReader(boards(3))

    class Ending(MemoryStorage):
        """Another aggregator ends the run when this one has read its first fragment."""

        run = ""

        def read(self, key: str, **options: Any) -> bytes:
            data = super().read(key, **options)
            if self.run and "/fragments/" in key:
                run, self.run = self.run, ""
                end_run(self, run)
            return data

    storage = Ending()
    plan = start_run(storage, queue, reader.boards)
    for delivery in take(queue, 3):
        process_job(storage, parse_job(delivery.body), reader=reader, previous=PreviousVersion(storage))
    storage.run = plan.run
    with pytest.raises(NotFound):
        aggregate(storage, queue, plan.run)
    assert history.list_versions(storage) == []


def test_a_run_that_failed_does_not_keep_the_next_one_of_its_process_away() -> None:
    queue, reader = MemoryQueue(), MemoryBoardReader(boards(2))

    class Failing(MemoryStorage):
        """Out of reach when the version is written, and for a while after."""

        fails = False

        def write(self, key: str, data: Any, *, condition: Any = None) -> Any:
            if self.fails and ("/_manifest" in key or "turn.json" in key):
                raise BadInput("broken", reason="too_large")
            return super().write(key, data, condition=condition)

    storage = Failing()
    storage.fails = False
    around = RunContext(stop=threading.Event(), poll_interval=0.02)
    with working(storage, queue, reader):

        def once() -> str | None:
            return run_once(
                storage, queue, reader.boards, deadline=LONG, options=PublishOptions(), context=around
            ).version

        def break_it(_: Any) -> None:
            storage.fails = True

        breaking = RunContext(stop=threading.Event(), poll_interval=0.02, on_progress=break_it)
        with pytest.raises(BadInput):
            run_once(storage, queue, reader.boards, deadline=LONG, options=PublishOptions(), context=breaking)
        storage.fails = False
        assert once()
    assert len(history.list_versions(storage)) == 1  # the first run was complete, and the second has published that
    assert closure(storage) == reader.content()
