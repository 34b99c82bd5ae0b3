"""The stage `alert`: reads the changes of new versions, keeps what the rules choose in outboxes, and delivers it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from webmill.errors import NotFound
from webmill.infra import atomic
from webmill.infra.lock import exclusive
from webmill.infra.notify.backends import open_sender
from webmill.infra.notify.base import Notification
from webmill.infra.queue.base import Message
from webmill.infra.storage.backends import open_storage
from webmill.infra.storage.base import Storage
from webmill.pipeline.alerts.digests import LISTED, TargetState, make_message
from webmill.pipeline.alerts.links import server_address, to_alert_change
from webmill.pipeline.alerts.matching import match_changes
from webmill.pipeline.alerts.outbox import TargetOutbox
from webmill.pipeline.alerts.targets import AlertTarget, find_targets, list_targets, notify_options, outbox_folder
from webmill.pipeline.alerts.types import Digest
from webmill.pipeline.plugins import alert_rules
from webmill.publish import history
from webmill.publish.changes import PageChange, read_changes, read_summary, versions_since
from webmill.publish.types import Version
from webmill.settings import Settings

log = logging.getLogger(__name__)

LOCK, PATIENCE = "alerts", 30.0  # seconds to wait for another process that delivers
MESSAGES_AT_ONCE = 20  # that are made before they are kept


class TargetReport(msgspec.Struct, kw_only=True):
    """What a run did for a target. `chosen`: changes that its rules chose; the messages are sent, or wait, or were
    given up (`dead`). `missed`: versions were removed before they were told."""

    target: str
    chosen: int = 0
    sent: int = 0
    failed: int = 0
    waiting: int = 0
    dead: int = 0
    reason: str = ""
    missed: bool = False


class AlertReport(msgspec.Struct):
    targets: list[TargetReport]

    @property
    def rejected(self) -> int:
        return sum(one.failed + one.missed for one in self.targets)


def register_targets(root: Path, settings: Settings) -> None:
    """Begin to tell new targets what changes from now on: called before anything is published that they should hear."""
    if not alert_rules(settings):
        return
    live = _live_version(open_storage(str(root)))
    with _locked(root):
        for outbox in _outboxes(root, settings, list_targets(alert_rules(settings))):
            outbox.register(live)


def send_alerts(root: Path, settings: Settings, *, clock: Callable[[], float] = time.time) -> AlertReport:
    """Tell every target what changed since it was told last, as far as its digests are due."""
    register_targets(root, settings)
    storage, reports = open_storage(str(root)), []
    with _locked(root):
        for outbox in _outboxes(root, settings, list_targets(alert_rules(settings)), clock=clock):
            report = _collect(root, settings, storage, outbox, now=clock())
            reports.append(_deliver(settings, outbox, report))
    return AlertReport(reports)


def retry_alerts(root: Path, settings: Settings, names: Iterable[str] = ()) -> AlertReport:
    """Deliver again, now, what failed and what was given up."""
    reports = []
    with _locked(root):
        for outbox in _outboxes(root, settings, find_targets(alert_rules(settings), [*names])):
            outbox.retry()
            reports.append(_deliver(settings, outbox, TargetReport(target=outbox.target.shown)))
    return AlertReport(reports)


def next_alert(root: Path, settings: Settings) -> float | None:
    """Return when a digest or the next attempt of a message is due, in seconds since 1970. None: nothing waits."""
    times = []
    for target in list_targets(alert_rules(settings)):
        if outbox_folder(root).is_dir():
            with _open(root, settings, target) as outbox:
                times.append(outbox.next_due())
    return min((one for one in times if one is not None), default=None)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    folder = outbox_folder(root)
    atomic.make_folder(folder)
    with exclusive(folder, LOCK, doing="sending alerts", patience=PATIENCE):
        yield


def _outboxes(
    root: Path, settings: Settings, targets: Iterable[AlertTarget], *, clock: Callable[[], float] = time.time
) -> Iterator[TargetOutbox]:
    for target in targets:
        with _open(root, settings, target, clock=clock) as outbox:
            yield outbox


def _open(
    root: Path, settings: Settings, target: AlertTarget, *, clock: Callable[[], float] = time.time
) -> TargetOutbox:
    alerts = settings.alerts
    return TargetOutbox(root, target, attempts=alerts.attempts, retry_wait=alerts.retry_wait, clock=clock)


def _live_version(storage: Storage) -> str | None:
    try:
        return history.live_version(storage).version
    except NotFound:
        return None


# --- from versions to the outbox ---


def _collect(root: Path, settings: Settings, storage: Storage, outbox: TargetOutbox, *, now: float) -> TargetReport:
    """Read the versions that the target has not been told of, and keep what its rules choose."""
    report = TargetReport(target=outbox.target.shown)
    state = outbox.state() or TargetState(None)
    for version in versions_since(storage, state.version):
        report.missed |= _is_behind_a_gap(storage, state.version, version)
        _collect_version(root, settings, storage, outbox, state, version, report, now=now)
    due = [
        digest for digest, waiting in state.pending.items() if _is_due(outbox.target, digest, waiting.due(digest), now)
    ]
    if due:
        outbox.put([*_seal(outbox.target, state, due, collection=root.name, now=now)], state)
    return report


def _collect_version(
    root: Path,
    settings: Settings,
    storage: Storage,
    outbox: TargetOutbox,
    state: TargetState,
    version: Version,
    report: TargetReport,
    *,
    now: float,
) -> None:
    target, server, messages = outbox.target, server_address(settings.serve), list[Message]()
    for change, digest in _chosen(storage, target, read_changes(storage, version)):
        report.chosen += 1
        waiting = state.add(to_alert_change(change, server), digest, now=now)
        if target.is_webhook and len(waiting.changes) == LISTED:  # a program is told all, in several messages
            messages += _seal(target, state, [digest], collection=root.name, now=now)
        if len(messages) == MESSAGES_AT_ONCE:
            outbox.put_early(messages)
            messages.clear()
    messages += _seal(target, state, ["run"] if "run" in state.pending else [], collection=root.name, now=now)
    state.version = version.version
    outbox.put(messages, state)


def _chosen(
    storage: Storage, target: AlertTarget, changes: Iterable[PageChange]
) -> Iterator[tuple[PageChange, Digest]]:
    """Yield the changes that a rule of the target chooses, with the digest of the first that does."""
    for change, answers in match_changes(storage, changes, target.queries):
        for rule, does_match in zip(target.rules, answers, strict=True):
            if does_match and change.kind in rule.kinds:
                yield change, rule.digest
                break


def _seal(
    target: AlertTarget, state: TargetState, digests: Iterable[Digest], *, collection: str, now: float
) -> Iterator[Message]:
    """Take digests from the state and yield their messages."""
    for digest in digests:
        yield make_message(target.key, digest, state.pending.pop(digest), collection=collection, now=now)


def _is_due(target: AlertTarget, digest: Digest, when: float, now: float) -> bool:
    """Return whether a digest is to be told now; one that no rule has any more is told at once."""
    return when <= now or all(rule.digest != digest for rule in target.rules)


def _is_behind_a_gap(storage: Storage, told: str | None, version: Version) -> bool:
    """Return whether versions between the last that was told and this one were removed by gc."""
    summary = read_summary(storage, version)
    parent = summary.parent if summary else None
    is_missing = bool(told and parent and _order(parent) > _order(told))
    if is_missing:
        log.warning("versions were removed before they were told", extra={"after": told, "before": version.version})
    return is_missing


def _order(version: str) -> int:
    return int(version.partition("-")[0])


# --- from the outbox to the target ---


def _deliver(settings: Settings, outbox: TargetOutbox, report: TargetReport) -> TargetReport:
    done = outbox.deliver(_sender_of(settings, outbox.target))
    stats = outbox.stats()
    report.sent, report.failed, report.reason = done.sent, done.failed, done.reason
    report.waiting, report.dead = stats.waiting, stats.buried
    return report


def _sender_of(settings: Settings, target: AlertTarget) -> Callable[[Notification], None]:
    """Return a function that sends. The sender is made when there is something to send: it may be that it cannot be."""

    def send(notification: Notification) -> None:
        open_sender(target.to, notify_options(settings, target)).send(notification)

    return send
