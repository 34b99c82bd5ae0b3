"""Starts a webmill command that outlives this process: its costs and its end are its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path


def start_detached(arguments: Sequence[str], *, log: Path | None = None) -> None:
    """Start `webmill ARGUMENTS`, which writes what it says to `log`, from its beginning, or nowhere."""
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb")) if log else subprocess.DEVNULL
        process = subprocess.Popen(
            # -P: nothing is imported from the folder in which this process was started.
            [sys.executable, "-P", "-m", "webmill", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    threading.Thread(target=process.wait, daemon=True).start()  # no zombie stays behind
