"""Digests: changes that wait for the message in which they are told.

A digest of a run is due when its version has been read, one of an hour or a day when a new hour or day (UTC) begins. A
message lists at most `LISTED` changes. To a program all are told, in several messages where there are more; to a person
one message, which counts the others.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from webmill.infra.queue.base import Message
from webmill.pipeline.alerts.types import AlertChange, AlertMessage, Digest, message_id

LISTED = 100
SECONDS = {"run": 0.0, "hour": 3600.0, "day": 86400.0}


class PendingDigest(msgspec.Struct):
    """Changes that are not told yet, since the first of them came. `omitted`: counted, but not listed."""

    since: float
    changes: list[AlertChange] = msgspec.field(default_factory=list)
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    omitted: int = 0

    def add(self, change: AlertChange) -> None:
        self.counts[change.kind] = self.counts.get(change.kind, 0) + 1
        if len(self.changes) < LISTED:
            self.changes.append(change)
        else:
            self.omitted += 1

    def due(self, digest: Digest) -> float:
        """Return when it is to be told."""
        length = SECONDS[digest]
        return (self.since // length + 1) * length if length else self.since


class TargetState(msgspec.Struct):
    """How far a target has been told, and what waits for its digest. `version`: the last one that was read. `target`:
    its name without secrets."""

    version: str | None
    target: str = ""
    pending: dict[Digest, PendingDigest] = msgspec.field(default_factory=dict)

    def add(self, change: AlertChange, digest: Digest, *, now: float) -> PendingDigest:
        waiting = self.pending.setdefault(digest, PendingDigest(now))
        waiting.add(change)
        return waiting


def make_message(target: str, digest: Digest, pending: PendingDigest, *, collection: str, now: float) -> Message:
    """Return the message that tells a digest."""
    id_ = message_id(target, digest, pending.changes)
    body = AlertMessage(
        id=id_,
        collection=collection,
        created=datetime.fromtimestamp(int(now), UTC),
        digest=digest,
        counts=pending.counts,
        changes=pending.changes,
        omitted=pending.omitted,
    )
    return Message(id_, msgspec.json.encode(body))
