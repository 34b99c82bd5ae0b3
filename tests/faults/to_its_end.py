"""A program on a disk whose power will be cut: `to_its_end TEMPLATE FOLDER LIBRARY AT MODULE ARGUMENTS…`.

The template's files are put into the folder first, and synced. When the program has ended, or has died before its
durable call number AT on files of the folder, it prints `ended CODE`, and waits. The library is preloaded: `killer.c`,
which logs the calls into `calls` beside the disk, or `lying.c`.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path


def main() -> None:
    template, folder, library, at, module, *arguments = sys.argv[1:]
    shutil.copytree(template, folder, dirs_exist_ok=True)
    subprocess.run(["sync", "-f", folder], check=True)
    calls = Path(folder).parents[1] / "calls"
    chosen = {"LD_PRELOAD": library, "KILLER_AT": at, "KILLER_UNDER": folder, "KILLER_LOG": str(calls)}
    command = [sys.executable, "-c", f"from tests.faults.to_its_end import run; run({module!r})", *arguments]
    ended = subprocess.run(command, env=os.environ | chosen, stdout=subprocess.DEVNULL, check=False)
    print("ended", ended.returncode, flush=True)
    signal.pause()


def run(module: str) -> None:
    importlib.import_module(module).main()


if __name__ == "__main__":
    main()
