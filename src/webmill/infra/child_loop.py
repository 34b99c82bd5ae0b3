"""The child's end of `child.py`: read a call, run it, answer, until the parent hangs up.

Every child pays for this file's imports before its first call, so they are few (msgspec alone would double the start).
Reasons for the whole design: docs/decisions/0005-processes.md.
"""

from __future__ import annotations

import faulthandler
import fcntl
import importlib
import math
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from webmill.errors import WebmillError

HEADER = struct.Struct("<cQ")  # what kind of frame, how many bytes follow
CALL, READY, UNLOADABLE, VALUE, RAISED = b"C", b"R", b"U", b"V", b"E"
PIECE = 1 << 20


class ChildLimits(NamedTuple):
    """What one child may use; None is no limit. macOS keeps all but `memory`: its kernel ignores RLIMIT_AS."""

    cpu: float | None = None  # seconds per call; the kernel counts whole seconds, so up to one more
    wall: float | None = None  # seconds per call
    memory: int | None = None  # bytes of address space beyond what the loaded function needs
    output: int = 1 << 30  # bytes of one encoded result
    written: int | None = None  # bytes of any file the child writes
    may_fork: bool = True  # False: no new processes or threads (the kernel exempts root from it)


class ChildJob(NamedTuple):
    """`function` is a pickled callable, which answers in pickle, or "module:qualname", which answers in msgpack."""

    function: bytes | str
    limits: ChildLimits


class Raised(NamedTuple):
    """An exception, flattened: its class may not exist, or not be trusted, on the other side."""

    kind: str
    message: str
    trace: str
    reason: str = ""  # of a BadInput
    error: WebmillError | None = None  # only in pickled answers


class Hangup(Exception):
    """The other end of the pipe is closed."""


class ByteReceiver(Protocol):
    def recv(self, size: int, /) -> bytes: ...


def send_frame(pipe: socket.socket, kind: bytes, payload: bytes) -> None:
    """Send small frames in one system call, and large ones without copying them."""
    header = HEADER.pack(kind, len(payload))
    if len(payload) <= 65536:
        pipe.sendall(header + payload)
    else:
        pipe.sendall(header)
        pipe.sendall(payload)


def receive_frame(pipe: ByteReceiver) -> tuple[bytes, bytes]:
    kind, length = HEADER.unpack(receive_exactly(pipe, HEADER.size))
    return kind, receive_exactly(pipe, length)


def receive_exactly(pipe: ByteReceiver, length: int) -> bytes:
    """Read exactly `length` bytes. Memory grows with what really came, never by what was announced."""
    got = bytearray()
    while len(got) < length:
        piece = pipe.recv(min(PIECE, length - len(got)))
        if not piece:
            raise Hangup
        got += piece
    return bytes(got)


def main() -> None:
    pipe, life = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent; it decides about us
    faulthandler.enable(all_threads=False)  # a segfault leaves its Python stack in our recent output
    die_with_parent(life)
    try:
        serve(pipe, pickle.loads(receive_frame(pipe)[1]))  # noqa: S301 - written by our own parent
    except (Hangup, ConnectionError):
        pass


def die_with_parent(life: int) -> None:
    """Have the kernel kill us when the parent is gone: nobody writes to this pipe, so it only ever closes.

    It then kills our process group, even inside C code that never gives the interpreter back. PR_SET_PDEATHSIG
    would not do: it fires when the *thread* that started us ends, and spares processes that a task started.
    """
    if sys.platform == "linux":
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC)
        watch = select.poll()
        watch.register(life, select.POLLIN)
        if watch.poll(0):  # it closed before the kernel was asked to watch
            os._exit(1)
    else:
        threading.Thread(target=lambda: os.read(life, 1) or os._exit(1), daemon=True).start()


def serve(pipe: socket.socket, job: ChildJob) -> None:
    encode = encoder(job)
    try:
        function = load(job.function)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        send_frame(pipe, UNLOADABLE, encode(flatten_error(error)._replace(error=None)))
        return
    apply_limits(job.limits)
    send_frame(pipe, READY, b"")
    me = os.getpid()
    while True:
        _, call = receive_frame(pipe)
        if job.limits.cpu is not None:
            grant_cpu(job.limits.cpu)
        kind, answer = run(function, call, encode)
        if os.getpid() != me:  # the task forked, and the copy came back too: only one may answer
            os._exit(0)
        if len(answer) > job.limits.output:
            message = f"a result of {len(answer)} bytes, where {job.limits.output} are allowed"
            kind, answer = RAISED, encode(Raised("TooLarge", message, ""))
        send_frame(pipe, kind, answer)


def encoder(job: ChildJob) -> Callable[[object], bytes]:
    if isinstance(job.function, bytes):
        return pickle.dumps
    import msgspec  # as slow to import as all the rest

    return msgspec.msgpack.Encoder().encode


def load(function: bytes | str) -> Callable[..., object]:
    loaded: Any
    if isinstance(function, bytes):
        loaded = pickle.loads(function)  # noqa: S301 - written by our own parent
    else:
        module, _, path = function.partition(":")
        loaded = importlib.import_module(module)
        for name in path.split("."):
            loaded = getattr(loaded, name)
    if not callable(loaded):
        raise TypeError(f"{function!r} is not a function")
    return loaded  # type: ignore[no-any-return]


def run(function: Callable[..., object], call: bytes, encode: Callable[[object], bytes]) -> tuple[bytes, bytes]:
    try:
        arguments, options = pickle.loads(call)  # noqa: S301 - written by our own parent
        return VALUE, encode(function(*arguments, **options))
    except BaseException as error:  # noqa: BLE001 - a task's sys.exit() must not look like a crash
        raised = flatten_error(error)
    if encode is not pickle.dumps:
        return RAISED, encode(raised._replace(error=None))
    try:
        return RAISED, encode(raised)
    except Exception:  # noqa: BLE001 - an error that cannot be pickled goes as its message
        return RAISED, encode(raised._replace(error=None))


def flatten_error(error: BaseException) -> Raised:
    """Return what is known of an error, bounded: a message may hold the whole hostile input."""
    trace = "".join(traceback.format_exception(error, limit=-20))
    reason = str(getattr(error, "reason", ""))[:100]
    message = str(getattr(error, "message", error))[:2000]
    known = error if isinstance(error, WebmillError) else None
    return Raised(
        type(error).__name__, make_encodable(message), make_encodable(trace)[-8000:], make_encodable(reason), known
    )


def make_encodable(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded."""
    return text.encode("utf-8", "replace").decode()


def apply_limits(limits: ChildLimits) -> None:
    """Set the limits, after the function is loaded: its imports may write caches and map libraries."""
    lower_limit(resource.RLIMIT_CORE, 0)  # a core file of a large parser costs more than the crash
    if limits.memory is not None and sys.platform == "linux":
        lower_limit(resource.RLIMIT_AS, address_space() + limits.memory)
    if limits.written is not None:
        lower_limit(resource.RLIMIT_FSIZE, limits.written)
    if not limits.may_fork:
        lower_limit(resource.RLIMIT_NPROC, 0)


def lower_limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def address_space() -> int:
    with open("/proc/self/statm", "rb") as status:  # noqa: PTH123 - pathlib is one more import
        return int(status.read().split()[0]) * resource.getpagesize()


def grant_cpu(seconds: float) -> None:
    """Move the soft limit ahead of what is used already; at the limit SIGXCPU ends us, in C code too."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
