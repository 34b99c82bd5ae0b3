"""A thread that does something at regular intervals beside the work of others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self


class Ticker:
    """Calls `action` every `interval` seconds while the block runs, first after one interval."""

    def __init__(self, interval: float, action: Callable[[], None], *, name: str) -> None:
        self._interval, self._action = interval, action
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"webmill-{name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            self._action()
