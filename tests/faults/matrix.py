"""The crash matrix: what every crash test did and saw, as lines of one table.

    from tests.faults.matrix import record, seed

    dice = random.Random(seed(11))
    …
    record("queue (SQLite)", "kill -9 at random", injected=kills, acknowledged=len(acked), lost=0, duplicated=0)

A test records what it counted and asserts on the same numbers, after them: a row that says "lost 3" is written by a run
that fails. `control=True` is for negative controls: the same check with the promise broken on purpose must see a loss.
A run in which a component was weighed that has no control, or one whose control saw nothing, fails.

    python -m tests.faults.matrix run --minutes 30 --seed 7 --out FILE.jsonl     what `make crash-matrix` does
    python -m tests.faults.matrix table FILE.jsonl > docs/reference/crash-matrix.md
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

FILE, SEED = "WEBMILL_TEST_CRASH_MATRIX", "WEBMILL_TEST_SEED"
PAGE = """\
# The crash matrix

{when:%Y-%m-%d}, {about}. **{total[injected]:,} faults, {total[acknowledged]:,} acknowledged, {total[lost]:,} lost.**
{rot}
Made by `make crash-matrix`, which prints its seed; with the same numbers it plays a run again. A fault counts when it
was seen to happen. *Acknowledged* is what a program promised before it died (a record, a message, a URL, a version),
*lost* what of it was not there afterwards, *duplicated* what was there twice where once was promised, *quarantined*
what was set aside with its reason. The checkers share no code with the product. Which test stands for which row of the
fault list: [faults](faults.md). Whole crawls, killed beside those of Scrapy, crawlee and wget:
[killed beside others](crash-rivals.md).

{rows}

## Controls

The same checks with a promise broken on purpose: each must see a loss, or it could not see one.

{controls}
"""
BIT_ROT = "files of a collection"  # the component of tests/faults/test_bit_rot.py
NUMBERS = ("runs", "injected", "acknowledged", "lost", "duplicated", "quarantined")


def seed(default: int) -> int:
    """Of a test's dice: its own, or what the run was given, so that a failure can be played again."""
    given = os.environ.get(SEED)
    return default if given is None else int(given) + default


def record(
    component: str,
    fault: str,
    *,
    injected: int,
    acknowledged: int,
    lost: int = 0,
    duplicated: int = 0,
    quarantined: int = 0,
    control: bool = False,
) -> None:
    """`injected`: how often the fault was seen to happen; a run in which it did not happen proves nothing."""
    assert injected > 0, f"{fault} did not happen to {component}"
    file = os.environ.get(FILE)
    if file:
        numbers = {"injected": injected, "acknowledged": acknowledged, "lost": lost}
        numbers |= {"duplicated": duplicated, "quarantined": quarantined}
        line = json.dumps({"component": component, "fault": fault, "control": control, "runs": 1, **numbers})
        with Path(file).open("ab", buffering=0) as out:  # one write each: many processes append
            out.write(line.encode() + b"\n")


# --- a run -------------------------------------------------------------------------------------------------------


def run(out: Path, *, minutes: float, first: int, kills: int) -> int:
    """Rounds of all crash tests, each with the next seed, until the time is over; the first is always whole."""
    end, number = time.monotonic() + minutes * 60, 0
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("")
    while not number or time.monotonic() < end:
        given = {FILE: str(out.resolve()), SEED: str(first + number), "WEBMILL_TEST_KILLS": str(kills)}
        print(f"round {number + 1}: seed {first + number}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "crash", "-n", "2", "--dist", "loadgroup"]
        command += ["-o", "timeout=3600"]  # one that dies before every call of its own takes long on a busy machine
        code = subprocess.run(command, env=os.environ | given, check=False).returncode
        if code:
            print(f"play it again: make crash-matrix SEED={first + number}", file=sys.stderr)
            return code
        number += 1
    unproven = sorted(without_control(out.read_text().splitlines()))
    if unproven:
        print(f"without a control that saw a loss: {', '.join(unproven)}", file=sys.stderr)
    return int(bool(unproven))


def without_control(lines: Iterable[str]) -> set[str]:
    """Components of which nobody knows whether a loss would be seen."""
    rows = [json.loads(line) for line in lines]
    return {one["component"] for one in rows if not one["control"]} - {
        one["component"] for one in rows if one["control"] and one["lost"]
    }


# --- the table ---------------------------------------------------------------------------------------------------


def table(lines: Iterable[str], *, when: datetime, about: str) -> str:
    """The page of the docs."""
    rows: dict[tuple[bool, str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys(NUMBERS, 0))
    for line in lines:
        one = json.loads(line)
        row = rows[one["control"], one["component"], one["fault"]]
        for name in NUMBERS:
            row[name] += one[name]
    real = {(component, fault): row for (control, component, fault), row in rows.items() if not control}
    controls = {(component, fault): row for (control, component, fault), row in rows.items() if control}
    total = {name: sum(row[name] for row in real.values()) for name in NUMBERS}
    return PAGE.format(
        when=when, about=about, total=total, rows=_rows(real), controls=_rows(controls), rot=_bit_rot(real)
    )


def read_totals(page: str) -> str:
    """Return what the page counted in all, for others that say the same."""
    found = re.search(r"\*\*([0-9,]+ faults, [0-9,]+ acknowledged, [0-9,]+ lost)\.\*\*", page)
    if not found:
        raise ValueError("no totals in the page of the crash matrix")
    return found[1]


def _bit_rot(rows: dict[tuple[str, str], dict[str, int]]) -> str:
    """Return the sentence about files that were changed behind the program's back, if a run did so."""
    found = [row for (component, _), row in rows.items() if component == BIT_ROT]
    if not found:
        return ""
    changed, unseen = (sum(row[name] for row in found) for name in ("injected", "lost"))
    return (
        f"\n{changed:,} of the faults were files of a whole collection with a bit flipped, cut or deleted, and read"
        f"\nby every command: {unseen:,} times an answer changed, or an error did not name the file.\n"
    )


def _rows(rows: dict[tuple[str, str], dict[str, int]]) -> str:
    head = "| component | fault | runs | faults | acknowledged | lost | duplicated | quarantined |"
    body = [
        f"| {component} | {fault} | " + " | ".join(f"{row[name]:,}" for name in NUMBERS) + " |"
        for (component, fault), row in sorted(rows.items())
    ]
    return "\n".join([head, "|---|---|--:|--:|--:|--:|--:|--:|", *body])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--minutes", type=float, default=0, help="more rounds until this time is over")
    runs.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    runs.add_argument("--kills", type=int, default=20, help="of each test that kills at random")
    runs.add_argument("--out", type=Path, default=Path(".cache/crash-matrix.jsonl"))
    tables = commands.add_parser("table")
    tables.add_argument("file", type=Path)
    tables.add_argument("--about", default="one run")
    given = parser.parse_args()
    if given.command == "run":
        sys.exit(run(given.out, minutes=given.minutes, first=given.seed, kills=given.kills))
    print(table(given.file.read_text().splitlines(), when=datetime.now(UTC), about=given.about), end="")


if __name__ == "__main__":
    main()
