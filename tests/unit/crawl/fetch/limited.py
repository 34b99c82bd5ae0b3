"""Fetch in a process with little memory or few file descriptors: `python -m tests.unit.crawl.fetch.limited TASK`."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from tests.unit.crawl.fetch.fetching import PATIENCE, fetched, fetching, get
from webmill.crawl.fetch import DnsResolver, FetchedResponse, FetchFailure, FetchLimits, no_lookup, system_lookup

MIB = 1 << 20
SPARE = 160 * MIB
FREE = 6  # file descriptors


async def in_little_memory(urls: list[str], resolver: DnsResolver) -> dict[str, Any]:
    limits = FetchLimits(total=PATIENCE, window=PATIENCE, body=8 * MIB, memory=16 * MIB)
    async with fetching(resolver=resolver, limits=limits) as fetcher:
        await fetcher.locate(urls[0])
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + SPARE, used + SPARE))
        outcomes = [_word(await get(fetcher, url)) for url in urls]
        try:
            bytearray(SPARE)
        except MemoryError:
            return {"outcomes": outcomes, "limit_binds": True}
    return {"outcomes": outcomes, "limit_binds": False}


def _word(outcome: FetchedResponse | FetchFailure) -> str | None:
    if isinstance(outcome, FetchFailure):
        return outcome.reason
    return outcome.exchange.truncated or "".join(outcome.flaws)


async def with_few_files(urls: list[str], resolver: DnsResolver) -> dict[str, Any]:
    asked = 0

    def hear(event: str, _: object) -> None:
        nonlocal asked
        asked += event == "socket.__new__"

    async with fetching(resolver=resolver, limits=FetchLimits(total=PATIENCE, window=PATIENCE)) as fetcher:
        held = _hold_all()
        for each in held[:FREE]:
            os.close(each)
        sys.addaudithook(hear)
        outcomes = await asyncio.gather(*(get(fetcher, url) for url in urls))
        wanted = asked
        for each in held[FREE:]:
            os.close(each)
    statuses = [fetched(outcome).head.status for outcome in outcomes]
    return {"statuses": statuses, "free": FREE, "sockets_asked_for": wanted}


async def with_no_files(urls: list[str], _: DnsResolver) -> dict[str, Any]:
    async with fetching(resolver=DnsResolver(lookup=system_lookup), limits=FetchLimits(total=1.0)) as fetcher:
        held = _hold_all()
        outcomes = [await get(fetcher, url) for url in urls]
        for each in held:
            os.close(each)
        after = await get(fetcher, urls[0])
        assert isinstance(after, FetchFailure)
        return {
            "outcomes": [(each.reason, each.sent) for each in outcomes if isinstance(each, FetchFailure)],
            "afterwards": after.reason,
        }


def _hold_all() -> list[int]:
    """Every descriptor that this process may have."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (60, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = []
    while True:
        try:
            held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return held


TASKS = {"memory": in_little_memory, "files": with_few_files, "none": with_no_files}

if __name__ == "__main__":
    question = json.load(sys.stdin)
    fixed = {name: (ip, port) for name, (ip, port) in question["fixed"].items()}
    print(json.dumps(asyncio.run(TASKS[sys.argv[1]](question["urls"], DnsResolver(fixed=fixed, lookup=no_lookup)))))
