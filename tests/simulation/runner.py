"""Runs seeds: builds a world for each, plays a protocol in it, and tells what came of it."""

from __future__ import annotations

import gc
import importlib
import time
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from tests.simulation import seams
from tests.simulation.world import Violation, temporary_world

PROTOCOLS = {
    "frontier": "tests.simulation.frontier_protocol",
    "host-schedule": "tests.simulation.host_schedule_protocol",
    "cluster": "tests.simulation.cluster_protocol",
    "queue": "tests.simulation.queue_protocol",
    "publish": "tests.simulation.publish_protocol",
}

# Of the seeds of a run, by what a seed costs: one of the cluster as much as ten of the host schedule.
SHARES = {"frontier": 0.2, "host-schedule": 0.25, "cluster": 0.05, "queue": 0.25, "publish": 0.25}


class SeedResult(msgspec.Struct, frozen=True, kw_only=True):
    protocol: str
    seed: int
    digest: str
    simulated: float  # seconds
    events: int
    failure: str = ""
    counts: dict[str, int] = {}
    trace: list[str] = []


class Totals(msgspec.Struct, kw_only=True):
    seeds: int = 0
    simulated: float = 0.0
    cpu: float = 0.0
    events: int = 0
    counts: dict[str, int] = {}
    failures: list[SeedResult] = []
    digest: str = ""  # of all traces

    @property
    def speed(self) -> float:
        """Simulated hours per CPU hour."""
        return self.simulated / self.cpu if self.cpu else 0.0


def run_seed(protocol: str, seed: int, *, keep_trace: bool = False) -> SeedResult:
    simulate = importlib.import_module(PROTOCOLS[protocol]).simulate
    gc.disable()  # when an object dies depends on references alone, so on the seed alone
    try:
        with temporary_world(seed, keep_trace=keep_trace) as world:
            try:
                simulate(world)
            except Violation as error:
                world.fail(str(error))
            return SeedResult(
                protocol=protocol,
                seed=seed,
                digest=world.digest(),
                simulated=world.now - world.skipped,
                events=world.events,
                failure=world.failure,
                counts=dict(world.counts),
                trace=world.lines,
            )
    finally:
        seams.current = None
        gc.enable()


def run_seeds(protocol: str, seeds: Iterable[int], *, stop_at_failure: bool = False) -> Totals:
    totals, counts, traces, began = Totals(), Counter[str](), blake2b(digest_size=16), time.process_time()
    for seed in seeds:
        result = run_seed(protocol, seed)
        totals.seeds += 1
        totals.simulated += result.simulated
        totals.events += result.events
        counts.update(result.counts)
        traces.update(result.digest.encode())
        if result.failure:
            totals.failures.append(result)
            if stop_at_failure:
                break
    totals.cpu, totals.counts, totals.digest = time.process_time() - began, dict(counts), traces.hexdigest()
    return totals


def format_totals(everything: dict[str, Totals], *, as_json: bool) -> str:
    """Return what came of the seeds of each protocol, as a table for people or as JSON."""
    if as_json:
        return msgspec.json.encode(everything).decode()
    lines = [
        f"{'protocol':14}{'seeds':>8}{'failed':>8}{'events':>12}{'simulated h':>13}{'CPU s':>8}{'h per CPU h':>13}"
    ]
    for name, one in [*everything.items(), ("all", sum_totals(everything.values()))]:
        hours = one.simulated / 3600
        lines.append(
            f"{name:14}{one.seeds:>8,}{len(one.failures):>8}{one.events:>12,}{hours:>13,.0f}{one.cpu:>8.0f}{one.speed:>13,.0f}"
        )
    for name, one in everything.items():
        lines.append(f"{name}: " + ", ".join(f"{count:,} {what}" for what, count in sorted(one.counts.items())))
        replay = f"  python -m tests.simulation --protocol {name} --seed"
        lines += [f"{replay} {failure.seed}: {failure.failure}" for failure in one.failures]
    return "\n".join(lines)


def sum_totals(parts: Iterable[Totals]) -> Totals:
    total = Totals()
    for one in parts:
        total.seeds += one.seeds
        total.simulated += one.simulated
        total.cpu += one.cpu
        total.events += one.events
        total.failures += one.failures
    return total
