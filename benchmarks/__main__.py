"""`python -m benchmarks [NAME…]`: all races, or those named, as Markdown on stdout; each in a process of its own.

`--write` puts what they print into `benchmarks/RESULTS.md`, where it replaces what the same races said before.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path

from benchmarks import results

NOT_RACES = {
    "__main__",
    "frame",
    "results",
    "growth_plot",
    "crawling_webs",
    "ordering_webs",
    "watched_web",
    "curating_texts",
    "broad_web",
    "replay_rivals",
    "replay_visits",
}


def main(arguments: list[str]) -> None:
    known = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if not module.ispkg)
    races = sorted(set(known) - NOT_RACES)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Our hot paths beside the rivals'.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which races: {', '.join(races)}")
    parser.add_argument("--write", action="store_true", help="put the results into benchmarks/RESULTS.md")
    parser.add_argument("--here", action="store_true", help="in this process: for a profiler")
    given = parser.parse_args(arguments)
    unknown = set(given.names) - set(races)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(races)}")
    names = given.names or races
    if given.here:
        for name in names:
            importlib.import_module(f"benchmarks.{name}").main()
        return
    failed = [name for name in names if not results.run(name, write=given.write)]
    if failed:
        sys.exit(f"did not end well: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
