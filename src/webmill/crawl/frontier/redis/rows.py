"""The rows of a frontier in Redis: how domains and retries are written, and named in sorted sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from webmill.crawl.frontier.state import DomainState, UrlRow, encode_json

_queues = msgspec.json.Decoder(dict[int, tuple[int, int]])


class RetryRow(msgspec.Struct, array_like=True, frozen=True):
    """A URL that was in hand and waits again."""

    priority: int
    position: int  # in its queue
    attempts: int
    depth: int
    url: str
    hops: int = 0

    def as_url_row(self) -> UrlRow:
        return UrlRow(self.url, self.depth, self.priority, self.attempts, self.position, 0, self.hops)


def decode_domain(name: str, row: Sequence[Any]) -> DomainState:
    """Return a domain from what `domains.lua` answers."""
    id_, excluded, token, not_before, due, revisit_due, retries, revisits, queues, resource_due, rank, *_ = row
    return DomainState(
        int(id_),
        name,
        excluded=int(excluded or 0),
        token=int(token or 0),
        not_before=float(not_before or 0),
        due=as_number(due),
        revisit_due=as_number(revisit_due),
        resource_due=as_number(resource_due),
        retries=int(retries or 0),
        revisits=int(revisits or 0),
        rank=int(rank or 0),
        queues=_queues.decode(queues or "{}"),
    )


def escape_pattern(pattern: str) -> str:
    """Return a pattern of Redis that matches this text only."""
    return "".join("\\" + char if char in "\\*?[]^" else char for char in pattern)


def schedule_member(row: DomainState) -> str:
    """Return the domain's member of sorted sets: of two that are due at the same time the older domain is first."""
    return f"{row.id:08x} {row.name}"


def encode_domain(row: DomainState) -> list[str]:
    """Return names and values of the fields; of a new domain only what it has: most keep to that for long."""
    values: dict[str, tuple[float | None, float | None]] = {  # and what it means that there is none
        "next_fetch_time": (row.not_before, 0.0),
        "due": (row.due, None),
        "again": (row.revisit_due, None),
        "token": (row.token, 0),
        "retries": (row.retries, 0),
        "revisits": (row.revisits, 0),
        "is_excluded": (row.excluded, 0),
        "errand": (row.resource_due, None),
        "rank": (row.rank, 0),
    }
    fields = ["lanes", encode_json(row.queues)]
    if row.is_new:
        fields += ["id", str(row.id)]
    for name, (value, absent) in values.items():
        if not row.is_new or value != absent:
            fields += [name, "" if value is None else repr(value)]
    return fields


def member_name(member: bytes) -> str:
    return member.partition(b" ")[2].decode()


def as_number(value: str | None) -> float | None:
    return float(value) if value else None
