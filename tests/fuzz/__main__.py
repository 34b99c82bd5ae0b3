"""See `tests.fuzz`."""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.mutations import mutations
from tests.fuzz.targets import TARGETS, Target

HANGS = 20  # seconds for one input of at most 64 KiB
SAMPLES = Path(os.environ.get("WEBMILL_TEST_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
FOLDERS = {"warc": "warc", "robots": "robots", "html": "hostile", "url": "urls"}


class Hang(Exception):
    pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=sys.modules["tests.fuzz"].__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="all of them unless named")
    parser.add_argument("--seconds", type=float, default=60, help="for all together")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--guided", action="store_true", help="one target, by atheris")
    parser.add_argument("--crashes", type=Path, default=Path(".cache/fuzz"))
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    given = parser.parse_args()
    if given.list:
        print("\n".join(TARGETS))
        return
    chosen = [TARGETS[name] for name in given.targets] or list(TARGETS.values())
    given.crashes.mkdir(parents=True, exist_ok=True)
    if given.guided:
        guided(chosen[0], seconds=given.seconds, crashes=given.crashes)
        return
    print(f"seed {given.seed}")
    faults = sum(mutate(target, given.seconds / len(chosen), given.seed, given.crashes) for target in chosen)
    sys.exit(1 if faults else 0)


def mutate(target: Target, seconds: float, seed: int, crashes: Path) -> int:
    """How many inputs it did not survive."""
    signal.signal(signal.SIGALRM, alarm)
    dice, end, count = random.Random(f"{seed} {target.name}"), time.monotonic() + seconds, 0
    found: set[str] = set()
    for data in mutations((*target.seeds, *samples_for(target)), dice):
        count += 1
        signal.alarm(HANGS)
        try:
            target.survives(data)
        except Exception as error:  # every kind of it is a fault
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
            if kind not in found:
                found.add(kind)
                file = crashes / f"{target.name}-{hashlib.sha256(data).hexdigest()[:12]}"
                file.write_bytes(data)
                print(f"{target.name}: {kind}: {error}; input in {file}")
        finally:
            signal.alarm(0)
        if time.monotonic() > end:
            break
    print(f"{target.name}: {count:,} inputs, {len(found)} kinds of faults", flush=True)
    return len(found)


def alarm(*_: object) -> None:
    raise Hang(f"{HANGS} seconds")


def samples_for(target: Target) -> list[bytes]:
    """Real ones, where they are at hand; long ones are cut."""
    folder = SAMPLES / FOLDERS.get(target.name, "none")
    files = sorted(path for path in folder.rglob("*") if path.is_file())[:40] if folder.is_dir() else []
    return [file.open("rb").read(32 << 10) for file in files]


def guided(target: Target, *, seconds: float, crashes: Path) -> None:
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: run `make fuzz` (Linux)")
    corpus = crashes / "corpus" / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in (*target.seeds, *samples_for(target)):
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    atheris.instrument_all()
    flags = [f"-max_total_time={int(seconds)}", f"-artifact_prefix={crashes}/{target.name}-", f"-timeout={HANGS}"]
    atheris.Setup([sys.argv[0], str(corpus), *flags, "-max_len=65536", "-verbosity=0"], target.survives)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
