"""The state of alerts, by reading alone; and test messages."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec

from webmill.errors import WebmillError
from webmill.infra.notify.backends import open_sender
from webmill.infra.queue.sqlite_reader import view_file
from webmill.pipeline.alerts.digests import TargetState
from webmill.pipeline.alerts.links import server_address, to_alert_change
from webmill.pipeline.alerts.messages import render_message
from webmill.pipeline.alerts.outbox import STATE
from webmill.pipeline.alerts.targets import AlertTarget, find_targets, list_targets, notify_options, outbox_folder
from webmill.pipeline.alerts.types import AlertChange, AlertMessage
from webmill.pipeline.plugins import alert_rules
from webmill.publish.changes import PageChange
from webmill.settings import ALERT_KINDS, AlertKind, AlertRule, Settings

LETTERS = 20  # shown of a target
MAX_OUTBOXES = 1000


class RuleStatus(msgspec.Struct, frozen=True):
    match: str
    kinds: tuple[str, ...]
    digest: str


class LetterStatus(msgspec.Struct, frozen=True):
    """A message that was given up."""

    id: str
    attempts: int
    reason: str
    when: float


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A target as `webmill alerts list` shows it, without secrets. `version`: the last one that it was told of."""

    target: str
    key: str
    rules: list[RuleStatus] = []
    version: str | None = None
    waiting: int = 0
    dead: int = 0
    pending: int = 0
    next_due: float | None = None
    reason: str = ""  # why the first that waits was not sent
    since: float | None = None  # when that was
    letters: list[LetterStatus] = []


def read_target_statuses(root: Path, settings: Settings) -> list[TargetStatus]:
    """Return the targets of the rules, and those that were in the settings earlier and still have messages."""
    outboxes = {one.key: one for one in read_outboxes(root)}
    found = []
    for target in list_targets(alert_rules(settings)):
        known = outboxes.pop(target.key, TargetStatus(target=target.shown, key=target.key))
        rules = [_rule_status(rule) for rule in target.rules]
        found.append(msgspec.structs.replace(known, target=target.shown, rules=rules))
    return found + [one for one in outboxes.values() if one.waiting or one.dead or one.pending]


def read_outboxes(root: Path) -> list[TargetStatus]:
    """Return the state of every outbox; what the rules are is not known here."""
    return [read_outbox(file) for file in outbox_files(root)]


def read_outbox(file: Path) -> TargetStatus:
    with view_file(file) as queue:
        stats, first = queue.stats(), next((one for one in queue.entries() if one.state != "buried"), None)
        mark, due = queue.mark(STATE), queue.next_due()
        letters = [
            LetterStatus(one.id, one.attempts, one.reason, one.when)
            for one in islice(queue.dead_letters() if stats.buried else (), LETTERS)
        ]
    state = msgspec.json.decode(mark, type=TargetState) if mark else TargetState(None)
    digests = [waiting.due(digest) for digest, waiting in state.pending.items()]
    return TargetStatus(
        target=state.target or file.stem,
        key=file.stem,
        version=state.version,
        waiting=stats.waiting,
        dead=stats.buried,
        pending=sum(sum(one.counts.values()) for one in state.pending.values()),
        next_due=min([*digests, *([due] if due is not None else [])], default=None),
        reason=first.reason if first else "",
        since=first.changed if first and first.reason else None,
        letters=letters,
    )


def outbox_files(root: Path) -> list[Path]:
    """Return the files of the outboxes; their number is limited, as anybody may have made the folder."""
    return sorted(islice(outbox_folder(root).glob("*.sqlite"), MAX_OUTBOXES))


def _rule_status(rule: AlertRule) -> RuleStatus:
    return RuleStatus(rule.match, rule.kinds, rule.digest)


# --- test messages ---


def send_test(root: Path, settings: Settings, names: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Send a test message to the targets of these names, or to all. Return each with its error, or an empty text."""
    return [(target.shown, _test(root, settings, target)) for target in find_targets(alert_rules(settings), names)]


def _test(root: Path, settings: Settings, target: AlertTarget) -> str:
    message = make_test_message(root.name, server_address(settings.serve), now=datetime.now(UTC))
    try:
        notification = render_message(msgspec.json.encode(message))
        open_sender(target.to, notify_options(settings, target)).send(notification)
    except WebmillError as error:
        return str(error)
    return ""


def make_test_message(collection: str, server: str, *, now: datetime) -> AlertMessage:
    """Return a message with one change of each kind, as a run would send them."""
    changes = [_sample(kind, server, now) for kind in ALERT_KINDS]
    return AlertMessage(
        id=f"test-{secrets.token_hex(12)}",
        collection=collection,
        created=now.replace(microsecond=0),
        digest="run",
        counts=dict.fromkeys(ALERT_KINDS, 1),
        changes=changes,
        is_test=True,
    )


def _sample(kind: AlertKind, server: str, now: datetime) -> AlertChange:
    change = PageChange(
        kind=kind,
        version="00000001-00000000",
        id=f"org,example)/{kind}",
        url=f"https://example.org/{kind}",
        at=now.replace(microsecond=0),
        title=f"A page that was {kind}",
        moved_to="https://example.org/new-place" if kind == "moved" else None,
        added="Open from nine to five" if kind != "removed" else "",
        removed="Open from ten to four" if kind != "added" else "",
    )
    return to_alert_change(change, server)
