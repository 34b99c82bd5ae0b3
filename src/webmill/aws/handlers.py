"""The functions of a publisher on Lambda, as deploy/aws/template.yaml calls them.

    schedule ─▶ orchestrate ─▶ SQS ─▶ work ─▶ fragments in S3 ─▶ aggregate ─▶ latest.json ─▶ index ─▶ search server
                                               end-of-batch.json ─┘ └─ every minute

S3 tells of two files: the last worker of a run writes `end-of-batch.json`, which calls the aggregator, and
`latest.json` calls the indexer. The aggregator is called every minute as well: a run may end by its deadline.

Boards of one host are one group of the queue, so that two environments never read one host at the same time: between
requests to a host there is its delay, here by the gates in /tmp, and from one environment to the next by a pause.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from webmill.aws import settings as environment
from webmill.boards.aggregator import aggregate as put_together
from webmill.boards.board_list import BoardList, read_board_list
from webmill.boards.jobs import broken_entries, parse_job
from webmill.boards.listing import selector_error
from webmill.boards.orchestrator import RunOptions, facet_names
from webmill.boards.orchestrator import start_run as begin
from webmill.boards.reader import BoardReader
from webmill.boards.types import BoardLimits, ReaderOptions, board_manners
from webmill.boards.workers import BoardWorkerOptions, BoardWorkers
from webmill.crawl.options import NetworkAccess
from webmill.errors import BadInput, Conflict, NotFound
from webmill.formats.url.normalise import host_of
from webmill.infra import log as logs
from webmill.infra import waiting
from webmill.infra.queue.base import Delivery, Message
from webmill.infra.queue.sqs import SqsQueue
from webmill.infra.storage.backends import open_versions
from webmill.infra.storage.base import Storage
from webmill.infra.user_agent import user_agent
from webmill.pipeline.progress import progress_to
from webmill.pipeline.publish.due import confirmed_at, record_check
from webmill.pipeline.search.collection import update_index
from webmill.publish.fragments import announce_end, open_runs
from webmill.publish.publication import PublishOptions, utc_now

log = logging.getLogger(__name__)

Event = Mapping[str, Any]
Answer = dict[str, Any]
METRICS = "webmill"  # the namespace in CloudWatch
LAST_SECONDS = 30.0  # of an invocation, to settle what is at hand


class EventQueue:
    """The messages of one Lambda event as a queue, and its consumer. For one thread at a time, as in a worker pool."""

    def __init__(self, queue: SqsQueue, records: Sequence[Event]) -> None:
        self._records = records
        self._done: set[str] = set()
        self._consumer = queue.consume_event(records, deleted=self._done.add)

    def consume(self) -> Self:
        return self

    def receive(self, *, timeout: float) -> Delivery | None:
        return self._consumer.receive(timeout=timeout)

    def close(self) -> None:
        """Do nothing: Lambda itself returns to the queue what is unsettled at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def unsettled(self) -> Iterator[str]:
        """Yield the ids of messages that Lambda must not delete: they came too early, were lost, or failed."""
        return (record["messageId"] for record in self._records if record["receiptHandle"] not in self._done)


class LambdaContext(Protocol):
    """The part of Lambda's context that is used."""

    def get_remaining_time_in_millis(self) -> int: ...


class LambdaResources(NamedTuple):
    """What an environment keeps between invocations."""

    around: environment.LambdaEnvironment
    storage: Storage
    queue: SqsQueue


@cache
def open_resources() -> LambdaResources:
    logs.configure(verbosity=1, form="json")
    around = environment.check_publisher(environment.read_environment(os.environ))
    queue = SqsQueue(
        around.queue.url, max_attempts=around.queue.attempts, lease=around.queue.lease, group_of=host_of_job
    )
    return LambdaResources(around, open_versions(around.settings.storage), queue)


def host_of_job(message: Message) -> str:
    return host_of(parse_job(message.body).board.url)


def orchestrate(event: Event, context: LambdaContext) -> Answer:  # noqa: ARG001
    """Begins a run. `{"force": true}` publishes also what a run that was left behind lost."""
    around, storage, queue = open_resources()
    found = read_boards(around, storage)
    for complaint in found.problems:
        log.warning("the board list", extra={"path": complaint.path, "why": complaint.message})
    planning = RunOptions(
        deadline=timedelta(seconds=around.settings.deadline), publish=publish_options(around, found, event)
    )
    try:
        plan = begin(storage, queue, found.boards, broken=broken_entries(found), options=planning)
    except Conflict as error:
        log.info("no run is begun", extra={"why": str(error)})
        return {"run": None, "why": str(error)}
    return {"run": plan.run, "jobs": len(plan.jobs), "left_out": sum(one.is_dropped for one in found.problems)}


def work(event: Event, context: LambdaContext) -> Answer:
    """Reads the boards of these messages. What is not settled is named, and comes again."""
    around, storage, queue = open_resources()
    records: Sequence[Event] = event["Records"]
    handed = EventQueue(queue, records)
    beat = min(15.0, around.queue.lease / 4)
    labour = BoardWorkerOptions(threads=len(records), attempts=around.queue.attempts, heartbeat_interval=beat)
    waiting.sleep(around.settings.delay)  # another environment may have asked these hosts a moment ago
    with BoardReader(reader_options(around, seconds=context.get_remaining_time_in_millis() / 1000)) as reader:
        workers = BoardWorkers(storage, handed, reader, labour)
        results = workers.run(stop=threading.Event(), is_over=lambda: True)
    log.info("boards were read", extra=dict(results))
    announce_ends(storage, queue)
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in handed.unsettled()]}


def announce_ends(storage: Storage, queue: SqsQueue) -> None:
    """Announce runs whose jobs are all done. Looked for once the queue seems empty: listing fragments costs money."""
    waiting = queue.stats()
    if waiting.ready or waiting.delayed:
        return
    for run in open_runs(storage):
        try:
            announce_end(storage, run)
        except (NotFound, Conflict):  # published meanwhile; or its end was announced already
            continue


def aggregate(event: Event, context: LambdaContext) -> Answer:  # noqa: ARG001
    """Publishes the runs that are complete or late. `{"force": true}`: also what lost too much to be believed."""
    around, storage, queue = open_resources()
    ended: list[Any] = []
    waiting: list[str] = []
    runs = open_runs(storage)
    options = publish_options(around, read_boards(around, storage), event) if runs else PublishOptions()
    for run in runs:
        try:
            outcome = put_together(storage, queue, run, options=options)
        except NotFound:
            continue  # another invocation was first
        except BadInput as error:
            log.error("a run cannot be read", extra={"run": run, "why": str(error)})
            continue
        if outcome is None:
            waiting.append(run)
        else:
            ended.append(msgspec.json.decode(msgspec.json.encode(outcome)))
            if outcome.version and not outcome.is_new:
                record_check(storage, utc_now())
            log.info("a run has ended", extra={"run": run, "version": outcome.version, "refused": outcome.refused})
    report_age(storage, stack=around.settings.stack)
    return {"ended": ended, "waiting": waiting}


def report_age(storage: Storage, *, stack: str) -> None:
    """Log the seconds since `latest.json` was written or found up to date, as a metric of CloudWatch (EMF)."""
    now, confirmed = utc_now(), confirmed_at(storage)
    if not stack or confirmed is None:
        return
    metric = {"Namespace": METRICS, "Dimensions": [["Stack"]], "Metrics": [{"Name": "LatestAge", "Unit": "Seconds"}]}
    about = {"Timestamp": int(now.timestamp() * 1000), "CloudWatchMetrics": [metric]}
    age = max(0.0, (now - confirmed).total_seconds())
    log.info("age of latest.json", extra={"_aws": about, "Stack": stack, "LatestAge": age})


def index(event: Event, context: LambdaContext) -> Answer:  # noqa: ARG001
    """Brings the search index to the live version: what changed since the version that it has is sent."""
    logs.configure(verbosity=1, form="json")
    around = environment.check_indexer(environment.read_environment(os.environ))
    scratch = Path(around.settings.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    done = update_index(scratch, around.search, progress=progress_to(None), storage=around.settings.storage)
    fed = done.fed
    log.info("the search index is up to date", extra={"version": fed.version, "documents": done.documents})
    told = {"version": fed.version, "changed": fed.changed, "removed": fed.removed, "skipped": len(fed.skipped)}
    return {**told, "documents": done.documents}


def read_boards(around: environment.LambdaEnvironment, storage: Storage) -> BoardList:
    key = around.settings.site_map
    return read_board_list(storage.read(key), source=key, selector_error=selector_error)


def publish_options(around: environment.LambdaEnvironment, found: BoardList, event: Event) -> PublishOptions:
    """Indexed by all that boards have in common; there are too many boards to be worth a file each."""
    return PublishOptions(
        facets=facet_names(found),
        force=event.get("force") is True,
        most_lost=around.settings.most_lost,
        layout=around.layout,
    )


def reader_options(around: environment.LambdaEnvironment, *, seconds: float) -> ReaderOptions:
    settings = around.settings
    scratch = Path(settings.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    return ReaderOptions(
        politeness=board_manners(user_agent(around.contact), delay=settings.delay),
        gates=scratch / "gates.sqlite",
        cache=scratch / "cache.sqlite",
        limits=BoardLimits(pages=settings.pages, seconds=max(1.0, min(300.0, seconds - LAST_SECONDS))),
        network=NetworkAccess(allow_private=settings.allow_private),
        zone=settings.zone,
    )
