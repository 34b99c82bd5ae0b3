"""Whether a crawl kept its delays, to the millisecond, on a machine however slow.

A server notes a request late when the machine is busy, so that two may look closer to each other than they were sent.
What a crawl must not do is to book a time before that of the request before it is over, and to send before it has
booked. So the crawl's own file of times gets a trigger that keeps every change of it and when it was made
(`keep_journal`), and afterwards `check_manners` holds the journal against the delay and the server's log against the
journal:

    booked(n + 1) >= free after n, which is when n was sent and the delay   to the millisecond
    arrived(n) >= booked(n)                                                 for each request that any server saw

Both hold however late the server looks. A request that was sent too early has arrived before its time was booked.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from runpy import run_path

import msgspec

from tests.pipeline.crawling import Seen
from webmill.crawl.frontier.base import domain_of
from webmill.infra import atomic
from webmill.infra.clock import Anchor, SteadyClock
from webmill.infra.host_schedule.sqlite_schedule import SCHEMA
from webmill.infra.sqlite import Database

JOURNAL = """
    CREATE TABLE reservation_journal (number INTEGER PRIMARY KEY, key TEXT, until REAL, expected REAL, at REAL);
    CREATE TRIGGER keep_journal AFTER INSERT ON gate BEGIN
        INSERT INTO reservation_journal (key, until, expected, at)
        VALUES (new.key, new.until, new.expected, unixepoch('subsec'));
    END;
"""
TRIGGER = Path(__file__).with_name("journal_trigger")
MERGED = 0.00001  # what two processes have reserved is this much later, at the most, than either of them said
TICK = 0.002  # SQLite's and nginx's clocks count milliseconds
DAY = 86400.0
Row = tuple[str, float, float, float]


def keep_journal(root: Path) -> None:
    """Before the crawl begins."""
    allow_trigger()
    atomic.make_folder(root / "frontier")
    with Database(_gates(root), schema=SCHEMA) as gates, gates.write() as run:
        run(JOURNAL)


def allow_trigger() -> None:
    """Let this process, and those that it starts from now on, open a file with the trigger."""
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(TRIGGER) not in folders:
        sys.path.insert(0, str(TRIGGER))  # some tests give their children this path
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TRIGGER), *folders]))
        run_path(str(TRIGGER / "sitecustomize.py"))


def check_manners(
    root: Path,
    seen: Sequence[Seen],
    *,
    host: float = 0.0,
    domain: float = 0.0,
    address: float = 0.0,
    soon_host: float = 0.0,
    soon_domain: float = 0.0,
) -> None:
    """The delays of these kinds were kept. Those that are soon over lie before requisites."""
    waits = {"host": host, "domain": domain, "addr": address, "soon-host": soon_host, "soon-domain": soon_domain}
    booked = {key: _bookings(key, rows, wait=waits[key.partition(":")[0]]) for key, rows in _journal(root).items()}
    arrived = _arrivals(root, seen, kinds=[kind for kind, wait in waits.items() if wait])
    assert arrived
    for key, times in arrived.items():
        before = booked.get(key, [])
        for number, moment in enumerate(times, 1):
            in_time = sum(booking <= moment + TICK for booking in before)
            assert in_time >= number, f"{key}: request {number} at {moment} of {times}, booked {before}"


def _bookings(key: str, rows: Iterable[Row], *, wait: float) -> list[float]:
    """When each was made: after the time of the one before was over, and that was its delay at least."""
    found: list[float] = []
    free = 0.0
    for _, until, expected, at in rows:
        if until - expected < MERGED:  # the request was sent, and this is what followed from it
            assert not found or until >= found[-1] + wait - TICK, f"{key} is free at {until}, booked at {found[-1]}"
        else:
            assert at >= free - TICK, f"{key} was booked at {at}, free at {free}"
            found.append(at)
        free = until
    return found


def _journal(root: Path) -> dict[str, list[Row]]:
    """Moments by the clock of the crawl."""
    with Database(_gates(root), schema=SCHEMA) as gates:
        rows = gates.read("SELECT key, until, expected, at FROM reservation_journal ORDER BY key, number")
    shift = _to_our_clock(root, time.time)
    moved = [(key, until, expected, _on_the_day(expected, at + shift)) for key, until, expected, at in rows]
    return {key: list(group) for key, group in groupby(moved, key=itemgetter(0))}


def _on_the_day(expected: float, at: float) -> float:
    """Crawls are told a wrong day by some tests; their own clock does not care."""
    return at + DAY * round((expected - at) / DAY)


def _arrivals(root: Path, seen: Sequence[Seen], *, kinds: Sequence[str]) -> dict[str, list[float]]:
    is_wall = any(one.started > 1e9 for one in seen)
    shift = _to_our_clock(root, time.time if is_wall else time.monotonic)
    found: dict[str, list[float]] = {}
    for one in seen:
        keys = {"host": one.host, "domain": domain_of(one.url), "addr": one.address}
        keys |= {"soon-host": keys["host"], "soon-domain": keys["domain"]}
        for kind in kinds:
            found.setdefault(f"{kind}:{keys[kind]}", []).append(one.started + shift)
    return {key: sorted(times) for key, times in found.items()}


def _to_our_clock(root: Path, other: Callable[[], float]) -> float:
    """What lies between another clock and that of the crawl."""
    with Database(_gates(root), schema=SCHEMA) as gates:
        clock = SteadyClock(msgspec.json.decode(gates.read("SELECT anchor FROM clock")[0][0], type=Anchor))
    looks = [(other(), clock(), other()) for _ in range(1000)]  # we may be put to sleep between two
    before, ours, after = min(looks, key=lambda three: three[2] - three[0])
    assert after - before < TICK / 2
    return ours - before


def _gates(root: Path) -> Path:
    return root / "frontier" / "gates.sqlite"
