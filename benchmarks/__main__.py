"""`python -m benchmarks [NAME…]`: all races, or those named; as Markdown on stdout."""

from __future__ import annotations

import importlib
import pkgutil
import platform
import sys
from importlib.metadata import version
from pathlib import Path

NOT_RACES = {"__main__", "frame"}


def main(names: list[str]) -> None:
    known = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    races = [name for name in known if name not in NOT_RACES]
    unknown = set(names) - set(races)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(races)}")
    print(f"# webmill {version('webmill')} beside its rivals\n")
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}. Ratios count, times do not.")
    for name in names or races:
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
