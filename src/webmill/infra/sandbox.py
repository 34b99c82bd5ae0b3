"""Run a parser on hostile bytes in a child with CPU, memory, time and output limits.

    with Sandbox("webmill.extract.page:read", returns=Page) as sandbox:
        page = sandbox.call(body, charset="utf-8")      # Page, or BadInput that says what happened

Guarantees
- A call gives a value of the type `returns`, or raises BadInput with one of these reasons (the parser's own BadInput
  passes unchanged):
    parse_limit   it passed a limit: CPU, wall time, memory, recursion, size of its result
    parse_crash   the process died, hung up or sent invalid data
    parse_error   the parser raised something that is not ours
- The next call works: whatever happened, a fresh child takes over.
- The answer is data, never code: it is decoded by msgspec to `returns`. Unpickling what a taken-over parser sends would
  hand it this process. (Arguments go out pickled: that direction is ours.)

It bounds accidents and resource attacks. It is no jail: the child keeps the user's rights on files and network, and
code that was taken over may lie about later pages until the child is recycled. It cannot stop the run: its answers
become a value or a BadInput, nothing else.
"""

from __future__ import annotations

import logging
import mmap
import threading
from pathlib import Path
from types import TracebackType
from typing import Generic, NoReturn, Self, TypeVar

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.infra.child import Child, ChildJob, ChildLimits, Codec, Death, Raised, Ready, Returned, pack_call

log = logging.getLogger(__name__)
T = TypeVar("T")

MIB = 1 << 20
PARSER = ChildLimits(cpu=10, wall=60, memory=1024 * MIB, output=64 * MIB, written=MIB, may_fork=False)
LIMIT_ERRORS = frozenset({"MemoryError", "RecursionError", "TooLarge"})


class Sandbox(Generic[T]):
    """One child, used again and again. Threads may share it and then take turns; for parallel work take several."""

    def __init__(
        self,
        function: str,
        *,
        returns: type[T],
        limits: ChildLimits = PARSER,
        recycle_calls: int = 10_000,
        recycle_memory: int = 512 * MIB,
    ) -> None:
        """`function` is "module:qualname" and takes the data, then options by keyword.

        A child is replaced after `recycle_calls` calls, or when it holds `recycle_memory` bytes: parsers leak.
        """
        self._job = ChildJob(function, limits)
        self._codec = Codec(msgspec.msgpack.Decoder(returns).decode, msgspec.msgpack.Decoder(Raised).decode)
        self._recycle_calls = recycle_calls
        self._recycle_memory = recycle_memory
        self._child: Child | None = None
        self._calls = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Return the pid of the child that would take the next call; None when it is yet to be started."""
        return self._child.pid if self._child else None

    def call(self, data: object, **options: object) -> T:
        with self._lock:
            child = self._ready_child()
            self._calls += 1
            try:
                child.send(pack_call(data, **options))
                answer = child.receive()
            except BaseException:  # Ctrl-C in the middle: its answer must not be taken for that of the next call
                self._replace()
                raise
            if isinstance(answer, Returned):
                self._recycle(child)
                return answer.value  # type: ignore[return-value]  # the decoder made it a T
            if isinstance(answer, Raised):
                self._raise_bad_input(answer)
            assert isinstance(answer, Death)
            self._child = None
            raise BadInput(f"the parser {answer.reason}", reason="parse_limit" if answer.over_limit else "parse_crash")

    def close(self) -> None:
        with self._lock:
            if self._child:
                self._child.close()
            self._child = None

    def _ready_child(self) -> Child:
        if self._child and self._child.is_alive():
            return self._child
        if self._child:
            log.warning("idle sandbox child died", extra={"pid": self._child.pid})
            self._replace()
        child = Child(self._job, self._codec)
        answer = child.receive()
        if isinstance(answer, Death):
            raise Misconfigured(f"the parser {self._job.function!r} does not load: its process {answer.reason}")
        assert isinstance(answer, Ready)
        self._child, self._calls = child, 0
        return child

    def _recycle(self, child: Child) -> None:
        if self._calls >= self._recycle_calls or resident(child.pid) > self._recycle_memory:
            self._replace()

    def _replace(self) -> None:
        if self._child:
            self._child.kill()
        self._child = None

    def _raise_bad_input(self, raised: Raised) -> NoReturn:
        if raised.kind == "MemoryError":
            self._replace()  # the state of its heap is unknown after that
        if raised.kind == "BadInput":
            raise BadInput(raised.message, reason=raised.reason)
        log.debug("parser raised", extra={"function": self._job.function, "trace": raised.trace})
        reason = "parse_limit" if raised.kind in LIMIT_ERRORS else "parse_error"
        raise BadInput(f"the parser raised {raised.kind}: {raised.message}", reason=reason)


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 where the system has no /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * mmap.PAGESIZE
