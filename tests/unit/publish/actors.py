"""Programs that go on by one storage call at a time, so that a test can pause them, interleave them and kill them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from webmill.errors import WebmillError
from webmill.infra.storage.base import Condition, Data, Stat, Storage


class Killed(BaseException):
    """Nothing that the killed one does from here on reaches the storage."""


class Actor:
    """Runs `work(storage)` in a thread of its own, which waits before each call until `step` lets it go on."""

    def __init__(self, storage: Storage, work: Callable[[Storage], object]) -> None:
        self.error: WebmillError | None = None
        self.done = False
        self._bug: BaseException | None = None
        self._go, self._arrived = threading.Semaphore(0), threading.Semaphore(0)
        self._killed = False
        self._thread = threading.Thread(target=self._run, args=(Gated(storage, self._wait), work))
        self._thread.start()
        self._arrived.acquire()

    def step(self, calls: int = 1) -> None:
        for _ in range(calls):
            if self.done:
                return
            self._go.release()
            self._arrived.acquire()
        if self._bug:
            raise self._bug

    def finish(self) -> None:
        while not self.done:
            self.step()
        self._thread.join()

    def kill(self) -> None:
        self._killed = True
        self.finish()

    def _wait(self) -> None:
        if self._killed:
            raise Killed
        self._arrived.release()
        self._go.acquire()
        if self._killed:
            raise Killed

    def _run(self, storage: Storage, work: Callable[[Storage], object]) -> None:
        try:
            work(storage)
        except Killed:
            pass
        except WebmillError as error:
            self.error = error
        except BaseException as bug:  # the test must see it
            self._bug = bug
        finally:
            self.done = True
            self._arrived.release()


class Gated:
    def __init__(self, inner: Storage, wait: Callable[[], None]) -> None:
        self._inner, self._wait = inner, wait

    def stat(self, key: str) -> Stat:
        self._wait()
        return self._inner.stat(key)

    def read(self, key: str, **options: Any) -> bytes:
        self._wait()
        return self._inner.read(key, **options)

    def open(self, key: str, **options: Any) -> BinaryIO:
        self._wait()
        return self._inner.open(key, **options)

    def write(self, key: str, data: Data, *, condition: Condition | None = None) -> Stat:
        self._wait()
        return self._inner.write(key, data, condition=condition)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[Stat]:
        self._wait()
        return self._inner.list(prefix, start_after=start_after)

    def delete(self, key: str) -> None:
        self._wait()
        self._inner.delete(key)
