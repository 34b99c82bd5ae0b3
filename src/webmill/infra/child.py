"""One killable process that runs calls one after the other, and reports why when it dies.

    child = Child(ChildJob(pickle.dumps(function), ChildLimits(wall=60)), PICKLED)
    child.receive()                    # Ready, or Misconfigured when the function cannot be loaded there
    child.send(pack_call(item))
    match child.receive():             # Returned, Raised, or Death: then start another one

Guarantees
- A child ends when its parent ends, however that happened, and takes the processes it started with it (Linux; elsewhere
  only as far as it gives the interpreter back).
- `receive` returns: an answer, or a Death when the process died, passed a limit, hung up or sent invalid data. It never
  reads more than `limits.output` bytes.
- After a Death, `kill` or `close` the process is reaped: no zombie, no open file.

Not for two threads at once. The other end is `child_loop.py`; the reasons are in docs/decisions/0005-processes.md.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple, NoReturn

from webmill.errors import Misconfigured, Unavailable
from webmill.infra import child_loop, waiting
from webmill.infra.child_loop import ChildJob, ChildLimits, Raised

__all__ = ["PICKLED", "Child", "ChildJob", "ChildLimits", "Codec", "Death", "Raised", "Ready", "Returned", "pack_call"]

START_DEADLINE = 120.0  # interpreter and imports, on a machine that is busy
GRACE = 5.0  # from hanging up to being gone
CHECK_INTERVAL = 1.0  # between two checks whether a silent child is still alive
EXIT_POLL = 0.005
RECENT_OUTPUT = 16384  # bytes
_STACKS = re.compile(r"Fatal Python error|Timeout \(\d+:\d\d:\d\d")  # of faulthandler
BOOT = "import sys; sys.path[:] = sys.argv[3:]; from webmill.infra.child_loop import main; main()"


class Codec(NamedTuple):
    """How the child's answers are decoded. Anything these raise means that the child sent invalid data."""

    value: Callable[[bytes], object]
    raised: Callable[[bytes], Raised]


PICKLED = Codec(pickle.loads, pickle.loads)  # only for children that run nothing but our own code on our own data


class Ready(NamedTuple):
    """The function is loaded; send a call."""


class Returned(NamedTuple):
    value: object


class Death(NamedTuple):
    """The process is gone and reaped."""

    reason: str
    over_limit: bool


Answer = Ready | Returned | Raised | Death


def pack_call(*arguments: object, **options: object) -> bytes:
    """Return a call, ready to send. Raises what pickle, or the arguments' own code, raises."""
    return pickle.dumps((arguments, options), protocol=pickle.HIGHEST_PROTOCOL)


class Child:
    def __init__(self, job: ChildJob, codec: Codec) -> None:
        self._job = job
        self._codec = codec
        self._is_ready = False
        self._set_deadline(START_DEADLINE)
        try:
            with ExitStack() as ours, ExitStack() as theirs:
                self._start(ours, theirs)
                self._files = ours.pop_all()
        except OSError as error:
            raise Unavailable(f"cannot start a worker process: {error}") from error
        self._closed = False
        self._send_frame(pickle.dumps(job))

    def _start(self, ours: ExitStack, theirs: ExitStack) -> None:
        self._stderr = ours.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - the stack closes it
        # Append: we truncate this file between calls, under the child's feet.
        fcntl.fcntl(self._stderr, fcntl.F_SETFL, os.O_APPEND)
        self._pipe, pipe = socket.socketpair()
        ours.enter_context(self._pipe)
        self._poll = select.poll()  # select() fails in a process with more than 1024 open files, as a crawler is
        self._poll.register(self._pipe, select.POLLIN)
        theirs.enter_context(pipe)
        life, our_life = os.pipe()
        ours.callback(os.close, our_life)
        theirs.callback(os.close, life)
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-c", BOOT, str(pipe.fileno()), str(life), *sys.path],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            pass_fds=(pipe.fileno(), life),
            process_group=0,  # its own group: Ctrl-C does not reach it, and what it starts dies with it
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def deadline(self) -> float | None:
        """Return the `time.monotonic()` after which `receive` waits no longer."""
        return self._deadline

    def fileno(self) -> int:
        """Return a descriptor that is readable when `receive` has something to read; -1 after `hang_up`."""
        return self._pipe.fileno()

    def waitables(self) -> list[int]:
        return [] if self.fileno() < 0 else [self.fileno()]

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, call: bytes) -> None:
        """Start a `packed` call, one at a time; the first may be sent before the child is Ready."""
        if os.fstat(self._stderr.fileno()).st_size:
            self._stderr.truncate(0)
        if self._is_ready:
            self._set_deadline(self._job.limits.wall)
        self._send_frame(call)

    def receive(self) -> Answer:
        try:
            kind, payload = self._read_frame()
        except (child_loop.Hangup, ConnectionError):
            return self._dead_after_hangup()
        except TimeoutError:
            return self._kill_and_report(f"took more than {self._allowed:g} s", over_limit=True)
        except _AnswerTooLarge as flood:
            return self._kill_and_report(str(flood), over_limit=True)
        self._set_deadline(None)
        return self._decode_answer(kind, payload)

    def recent_output(self) -> str:
        """Return the end of what this call wrote to stdout and stderr, on one line, safe to log."""
        size = os.fstat(self._stderr.fileno()).st_size
        text = os.pread(self._stderr.fileno(), RECENT_OUTPUT, max(0, size - RECENT_OUTPUT)).decode("utf-8", "replace")
        stacks = [stack.start() for stack in _STACKS.finditer(text)]  # a stack tells most in its first lines
        end = text[max(0, stacks[-1] - 500) : stacks[-1] + 500] if stacks else text[-1000:]
        line = " | ".join(line.strip() for line in end.splitlines() if line.strip())
        return "".join(character if character.isprintable() else "?" for character in line)

    def kill(self) -> None:
        """Kill it at once, with everything it started; for a child that is busy or not trusted."""
        if not self._closed:
            self._kill_group()
            self._release()

    def hang_up(self) -> None:
        """Ask it to leave; for a child that is idle."""
        self._pipe.close()

    def reap(self, grace: float) -> None:
        """Hang up, give it `grace` seconds to leave, then kill what is left."""
        if not self._closed:
            self.hang_up()
            self._wait_for_exit(grace)
            self.kill()

    def close(self) -> None:
        self.reap(GRACE)

    def _send_frame(self, payload: bytes) -> None:
        self._pipe.settimeout(self._remaining())
        try:
            child_loop.send_frame(self._pipe, child_loop.CALL, payload)
        except (ConnectionError, TimeoutError):
            pass  # `receive` meets the same end and reports it

    def _read_frame(self) -> tuple[bytes, bytes]:
        kind, length = child_loop.HEADER.unpack(child_loop.receive_exactly(self, child_loop.HEADER.size))
        if length > max(self._job.limits.output, 1 << 16):
            raise _AnswerTooLarge(f"announced an answer of {length} bytes, where {self._job.limits.output} are allowed")
        return kind, child_loop.receive_exactly(self, length)

    def recv(self, size: int) -> bytes:
        """Receive some bytes, within one deadline for the whole answer: a child that drips bytes gains nothing.

        The hang-up of a dead child stays unseen while a process it forked holds the pipe: so check the child, too.
        """
        while True:
            remaining = self._remaining()
            has_data = self._poll.poll(1000 * min(remaining or CHECK_INTERVAL, CHECK_INTERVAL))
            was_paused = self._add_pause()
            if has_data:
                return self._pipe.recv(size)
            if not self.is_alive():
                raise child_loop.Hangup
            if was_paused:
                continue
            if remaining is not None and remaining <= CHECK_INTERVAL:
                raise TimeoutError

    def _set_deadline(self, seconds: float | None) -> None:
        self._allowed = seconds
        self._awake_at = time.monotonic()
        self._deadline = None if seconds is None else self._awake_at + seconds

    def _add_pause(self) -> bool:
        """Tell whether we were stopped (SIGSTOP, a paused container), and maybe the child as well; its deadline is so
        much later then."""
        now = time.monotonic()
        paused = now - self._awake_at - CHECK_INTERVAL
        self._awake_at = now
        if self._deadline is None or paused <= CHECK_INTERVAL:
            return False
        self._deadline += paused
        return True

    def _remaining(self) -> float | None:
        if self._deadline is None:
            return None
        return max(self._deadline - time.monotonic(), 1e-6)  # a socket takes zero for "do not block"

    def _decode_answer(self, kind: bytes, payload: bytes) -> Answer:
        """Accept only what is due: hijacked code must not answer "cannot be loaded", which would stop the run."""
        try:
            if kind == child_loop.VALUE and self._is_ready:
                return Returned(self._codec.value(payload))
            if kind == child_loop.RAISED and self._is_ready:
                return self._codec.raised(payload)
            if kind == child_loop.UNLOADABLE and not self._is_ready:
                return self._unloadable(self._codec.raised(payload))
            if kind == child_loop.READY and not self._is_ready:
                self._is_ready = True
                self._set_deadline(self._job.limits.wall)  # of the call that may wait already
                return Ready()
        except Misconfigured:
            raise
        except Exception as error:  # noqa: BLE001 - any class can come out of unpickling nonsense
            return self._kill_and_report(f"sent an answer that cannot be decoded ({error})", over_limit=False)
        return self._kill_and_report(f"sent an answer of kind {kind!r}, which was not due", over_limit=False)

    def _unloadable(self, raised: Raised) -> NoReturn:
        self.close()
        raise Misconfigured(
            f"a worker process cannot load its function: {raised.kind}: {raised.message}. "
            "What runs in a child must be importable there: defined in a module, with its extras installed."
        )

    def _dead_after_hangup(self) -> Death:
        if not self._wait_for_exit(CHECK_INTERVAL):
            return self._kill_and_report("closed its pipe in the middle of a call", over_limit=False)
        code, cpu = self._process.returncode, self._job.limits.cpu
        if code == -signal.SIGXCPU and cpu is not None:
            return self._kill_and_report(f"used more than {cpu:g} s of CPU", over_limit=True)
        return self._kill_and_report(describe_exit(code), over_limit=False)

    def _kill_and_report(self, what: str, *, over_limit: bool) -> Death:
        self._kill_group()
        output = self.recent_output()
        self._release()
        return Death(f"{what}; its last output: {output}" if output else what, over_limit)

    def _wait_for_exit(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                return False
            waiting.sleep(EXIT_POLL)
        return True

    def _kill_group(self) -> None:
        """Kill the whole group, which outlives its leader while anything that a call started is in it."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # macOS answers EPERM for a group of zombies
            pass
        self._process.wait()

    def _release(self) -> None:
        self._closed = True
        self._files.close()


class _AnswerTooLarge(Exception):
    """More bytes announced than allowed."""


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exited with status {code} in the middle of a call"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = ", as the kernel does when memory runs out" if code == -signal.SIGKILL else ""
    return f"was killed by signal {-code} ({name}{hint})"
