"""Run rivals in turn, several rounds, in one process tree; print CPU seconds and ratios.

A contestant is a function of no arguments that does the whole job and returns how many things it did (lines, records,
bytes…). All must agree on that number, or the race says so: a fast wrong answer is no answer.
"""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Contestant = Callable[[], int]


@dataclass(frozen=True)
class Result:
    name: str
    count: int
    cpu: float  # best of the rounds, this process and its children


def cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def as_installed() -> dict[str, str]:
    """Return the environment for a command as its users have it: Python keeps what it has compiled."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(contestant: Contestant) -> tuple[int, float]:
    gc.collect()
    before = cpu_seconds()
    count = contestant()
    return count, cpu_seconds() - before


def race(title: str, contestants: Mapping[str, Contestant], *, unit: str, rounds: int = 3) -> dict[str, Result]:
    """The first contestant is ours; ratios are rival's CPU time / our CPU time (2.0 = we need half of theirs)."""
    best: dict[str, Result] = {}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            count, cpu = measure(contestant)
            if name not in best or cpu < best[name].cpu:
                best[name] = Result(name, count, cpu)
    print_table(title, best, unit=unit)
    return best


def print_table(title: str, results: Mapping[str, Result], *, unit: str) -> None:
    ours = next(iter(results.values()))
    print(f"\n## {title}\n\n| | {unit} | {unit}/s of CPU | times our CPU |\n|---|---:|---:|---:|")
    for result in results.values():
        note = "" if result.count == ours.count else " (other count!)"
        rate, ratio = result.count / max(result.cpu, 1e-9), result.cpu / max(ours.cpu, 1e-9)
        print(f"| {result.name} | {result.count:,}{note} | {rate:,.0f} | {ratio:.2f} |")
