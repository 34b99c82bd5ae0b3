"""What is told: the JSON of webhooks, which is also what the outbox keeps. Readers must ignore fields added later."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

Digest = Literal["run", "hour", "day"]


class ChangeLinks(msgspec.Struct, frozen=True):
    """Pages of `webmill serve` about a change."""

    diff: str
    archived: str


class AlertChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a page, as it is told. `id` names this change for ever. `added` and `removed` are excerpts."""

    id: str
    kind: Literal["added", "changed", "removed", "moved"]
    url: str
    title: str = ""
    version: str
    at: datetime
    moved_to: str | None = None
    share: float = 1.0
    added: str = ""
    removed: str = ""
    links: ChangeLinks


class AlertMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message. `id` is the same each time it is sent. `counts` are of all its changes, by kind; those that are not
    listed are `omitted`."""

    id: str
    collection: str
    created: datetime
    digest: Digest
    counts: dict[str, int]
    changes: list[AlertChange]
    omitted: int = 0
    is_test: bool = False


def message_id(target: str, digest: str, changes: Sequence[AlertChange]) -> str:
    """Return the id of a message: the same whenever it is made of the same changes for the same target."""
    said = "\n".join([target, digest, *(change.id for change in changes)])
    return hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()[:32]
