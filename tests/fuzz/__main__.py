"""See `tests.fuzz`."""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from tests.fuzz.fault import HANGS, fault_of
from tests.fuzz.growth import grows
from tests.fuzz.mutations import mutations
from tests.fuzz.target import Target


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=sys.modules["tests.fuzz"].__doc__)
    parser.add_argument("targets", nargs="*", help="all of them unless named")
    parser.add_argument("--seconds", type=float, default=60, help="for all together")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--guided", action="store_true", help="one target, by atheris")
    parser.add_argument("--growth", action="store_true", help="repeat pieces of inputs: who needs the square of them?")
    parser.add_argument("--crashes", type=Path, default=Path(".cache/fuzz"))
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    given = parser.parse_args()
    targets = instrumented() if given.guided else import_module("tests.fuzz.targets").TARGETS
    if given.list:
        print("\n".join(targets))
        return
    if unknown := set(given.targets) - set(targets):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    chosen: list[Target] = [targets[name] for name in given.targets or targets]
    given.crashes.mkdir(parents=True, exist_ok=True)
    if given.guided:
        guided(chosen[0], seconds=given.seconds, crashes=given.crashes)
        return
    print(f"seed {given.seed}")
    run = repeat if given.growth else mutate
    faults = sum(run(target, given.seconds / len(chosen), given.seed, given.crashes) for target in chosen)
    sys.exit(1 if faults else 0)


def mutate(target: Target, seconds: float, seed: int, crashes: Path) -> int:
    """How many kinds of inputs it did not survive."""
    dice, end, count = random.Random(f"{seed} {target.name}"), time.monotonic() + seconds, 0
    found: set[str] = set()
    for data in mutations(beginnings(target), dice):
        count += 1
        kind = fault_of(target, data)
        if kind and kind not in found:
            found.add(kind)
            print(f"{target.name}: {kind}; input in {keep(target, data, crashes)}")
        if time.monotonic() > end:
            break
    print(f"{target.name}: {count:,} inputs, {len(found)} kinds of faults", flush=True)
    return len(found)


def beginnings(target: Target) -> tuple[bytes, ...]:
    from tests.fuzz.samples import samples  # not before the targets: what it needs would not be watched

    return (*target.seeds, *samples(target.samples))


def repeat(target: Target, seconds: float, seed: int, crashes: Path) -> int:
    """How many inputs took three times as long, or more, when they were twice as long."""
    dice, found = random.Random(f"{seed} {target.name}"), 0
    for data, why in grows(target, dice, seconds=seconds):
        found += 1
        print(f"{target.name}: {why}: {data[:60]!r}…; input in {keep(target, data, crashes)}")
    print(f"{target.name}: {found} that grow", flush=True)
    return found


def keep(target: Target, data: bytes, crashes: Path) -> Path:
    file = crashes / f"{target.name}-{hashlib.sha256(data).hexdigest()[:12]}"
    file.write_bytes(data)
    return file


def instrumented() -> dict[str, Target]:
    """All targets. What is imported here for the first time is watched: our own modules are enough, and soon ready."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: run `make fuzz` (Linux)")
    with atheris.instrument_imports(include=["webmill"]):
        targets: dict[str, Target] = import_module("tests.fuzz.targets").TARGETS
    return targets


def guided(target: Target, *, seconds: float, crashes: Path) -> None:
    import atheris

    corpus = crashes / "corpus" / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in beginnings(target):
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    scratch = crashes / "tmp" / target.name  # libFuzzer ends the process without a word: nobody could remove it then
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    tempfile.tempdir = str(scratch.resolve())
    target.survives(target.seeds[0])  # what is made for the first input only is no part of it
    flags = [f"-max_total_time={int(seconds)}", f"-artifact_prefix={crashes}/{target.name}-", f"-timeout={HANGS}"]
    flags += ["-max_len=65536", "-verbosity=0", "-print_final_stats=1"]
    flags.append("-report_slow_units=5")  # not 1: what is watched is slower
    atheris.Setup([sys.argv[0], str(corpus), *flags], target.survives)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
