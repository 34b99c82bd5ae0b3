"""Abusive clients beside well-behaved ones, kind by kind: what do the well-behaved lose?

python -m tests.load.starvation [KIND …] --seconds 5 > FILE     a part of what `make starvation` does
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.load.abuse import ABUSES
from tests.load.measure import LoadFigures, LoadPlan, measure
from tests.load.served_collection import Targets, built_collection, targets_of
from tests.serve.server_process import serving

READERS, THINK, ABUSERS = 80, 1.0, 40


def table(wanted: list[str], seconds: float) -> Iterator[str]:
    root = built_collection()
    there = targets_of(root)
    alone = max((figures_of(root, there, "", seconds) for _ in range(2)), key=lambda one: one.tally.answered)
    yield "\n## Hostile clients of `webmill serve` beside well-behaved ones\n"
    yield f"{READERS} well-behaved clients ask for pages, searches, captures and files, about one a second each,"
    yield f"alone and beside {ABUSERS} clients of one hostile kind, half of them with one address, half with their own."
    yield f"Each for {seconds:g} seconds, once; the clients share the cores with the server.\n"
    soon = f"99 % within {1000 * alone.quantile(0.99):.0f} ms"
    yield f"Alone: {alone.tally.answered} requests, {soon}, {alone.memory >> 20} MiB.\n"
    yield "| hostile clients | rate of the well-behaved | unanswered | 99 % within | memory | other programs |"
    yield "|---|--:|--:|--:|--:|--:|"
    for kind in wanted:
        beside = figures_of(root, there, kind, seconds)
        rate = f"{100 * beside.tally.answered / alone.tally.answered:.0f} %"
        yield (
            f"| {kind} | {rate} | {beside.tally.refused.total()} | {1000 * beside.quantile(0.99):.0f} ms "
            f"| {beside.memory >> 20} MiB | {beside.others:.1f} |"
        )


def figures_of(root: Path, there: Targets, kind: str, seconds: float) -> LoadFigures:
    plan = LoadPlan(readers=READERS, think=THINK, abuses=(kind,) * ABUSERS if kind else (), seconds=seconds)
    with tempfile.TemporaryDirectory() as folder, serving(root, Path(folder) / "errors") as server:
        return measure(server, there, plan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help="only these")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    for line in table(options.kinds or sorted(ABUSES), options.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
