"""300 well-behaved clients of `webmill serve` beside 200 abusive ones: how many requests are answered, and how soon?

python -m tests.load --seconds 300 > FILE     what `make load` does

The server is started as a new user does, with no flag but the port. The clients are two processes on the same machine.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.load.abuse import ABUSES
from tests.load.measure import LoadFigures, LoadPlan, measure
from tests.load.reader import MIX
from tests.load.served_collection import Targets, built_collection, targets_of
from tests.serve.server_process import serving


def main() -> None:
    options = _options()
    root = built_collection()
    there = targets_of(root)
    kinds = sorted(ABUSES)
    abuses = tuple(kinds[number % len(kinds)] for number in range(options.abusers))
    alone = _measured(root, there, LoadPlan(readers=options.readers, think=options.think, seconds=options.seconds / 5))
    plan = LoadPlan(readers=options.readers, think=options.think, abuses=abuses, seconds=options.seconds)
    for line in table(plan, alone, _measured(root, there, plan)):
        print(line, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=300)
    parser.add_argument("--abusers", type=int, default=200)
    parser.add_argument("--think", type=float, default=4.0, help="seconds between two requests of a reader, on average")
    parser.add_argument("--seconds", type=float, default=300.0)
    return parser.parse_args()


def _measured(root: Path, there: Targets, plan: LoadPlan) -> LoadFigures:
    with tempfile.TemporaryDirectory() as folder, serving(root, Path(folder) / "errors") as server:
        return measure(server, there, plan)


def table(plan: LoadPlan, alone: LoadFigures, beside: LoadFigures) -> Iterator[str]:
    yield "# webmill serve under load\n"
    yield f"Made by `make load`: {plan.readers} well-behaved clients, alone for {alone.seconds:.0f} s and beside"
    yield f"{len(plan.abuses)} abusive ones for {beside.seconds:.0f} s, of a collection of 7,139 documents and 19,098"
    yield "captures. The server has its default settings. Each well-behaved client has an address of its own, keeps its"
    yield f"connection and asks every {plan.think:g} seconds. Half of the abusive ones have one address, the"
    yield f"others their own; there are {len(set(plan.abuses))} kinds ([each alone](starvation.md)), and few pause.\n"
    yield "| | alone | beside abusive clients |\n|---|--:|--:|"
    for name, cell in _rows():
        yield f"| {name} | {cell(alone)} | {cell(beside)} |"
    yield "\n| of these | requests | median | 99 % within |\n|---|--:|--:|--:|"
    for kind in MIX:
        times = beside.tally.seconds.get(kind, ())
        yield f"| {kind} | {len(times):,} | {_ms(beside.quantile(0.5, kind))} | {_ms(beside.quantile(0.99, kind))} |"
    yield "\nWithout an answer: " + (
        ", ".join(f"{why} {count}" for why, count in beside.tally.refused.most_common()) or "none"
    )
    yield f"\nThe machine has {os.cpu_count()} cores, which the server shares with its clients and with other programs."


def _rows() -> Iterator[tuple[str, Callable[[LoadFigures], str]]]:
    yield "requests of well-behaved clients", lambda one: f"{one.tally.asked:,}"
    yield "a second", lambda one: f"{one.tally.asked / one.seconds:.0f}"
    yield "**answered**", lambda one: f"**{100 * one.tally.answered / max(1, one.tally.asked):.2f} %**"
    yield "sent again, as the server had closed the idle connection", lambda one: f"{one.tally.again:,}"
    yield "median", lambda one: _ms(one.quantile(0.5))
    yield "95 % within", lambda one: _ms(one.quantile(0.95))
    yield "**99 % within**", lambda one: f"**{_ms(one.quantile(0.99))}**"
    yield "the longest", lambda one: _ms(one.quantile(1.0))
    yield "requests and connections of abusive clients", lambda one: f"{one.abused:,}"
    yield "cores used by the server", lambda one: f"{one.server_cpu / one.seconds:.2f}"
    yield "by its well-behaved clients", lambda one: f"{one.reader_cpu / one.seconds:.2f}"
    yield "by its abusive clients", lambda one: f"{one.abuser_cpu / one.seconds:.2f}"
    yield "by other programs", lambda one: f"{one.others:.2f}"
    yield "memory of all processes of the server", lambda one: f"{one.memory >> 20} MiB"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms"


if __name__ == "__main__":
    main()
