"""`webmill serve` as people start it: a process of its own, on ports that are free."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

DEADLINE = 120.0


def wait_until_true(look: Callable[[], T], what: str) -> T:
    """The first true thing that `look` gives."""
    deadline = time.monotonic() + DEADLINE
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.02)
    return found


@dataclass(frozen=True)
class RunningServer:
    process: subprocess.Popen[bytes]
    errors: Path
    port: int
    replay_port: int
    scheme: str = "http"

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def connect(self, port: int | None = None) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port or self.port), timeout=DEADLINE)

    def print_line(self, data: bytes) -> bytes:
        """Everything that comes back until the server hangs up."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)

    def get(self, path: str, *, headers: str = "") -> bytes:
        return self.print_line(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Connection: close\r\n\r\n".encode())

    def workers(self) -> list[int]:
        """Processes that answer."""
        return [pid for pid in descendants(self.process.pid) if is_listening(pid, self.port)]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    try:
        while data := connection.recv(1 << 16):
            parts.append(data)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def descendants(pid: int) -> list[int]:
    try:
        found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []  # gone meanwhile
    return found + [below for one in found for below in descendants(one)]


def is_listening(pid: int, port: int) -> bool:
    """Holds the socket: the parent does too, but is no descendant."""
    try:
        inodes = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}
        lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()
    except OSError:
        return False
    wanted = {f"socket:[{line.split()[9]}]" for line in lines if f":{port:04X} 00000000:0000 0A" in line}
    return bool(inodes & wanted)


@contextmanager
def serving(
    root: Path, errors: Path, *flags: str, program: tuple[str, ...] = ("webmill", "serve")
) -> Iterator[RunningServer]:
    """Started, and stopped at the end if it still runs."""
    with errors.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *program, str(root), "--port", "0", *flags], stdout=out, stderr=out
        )
    try:
        line = wait_until_true(lambda: _announced(process, errors), "a server that says where it is")
        yield RunningServer(process, errors, int(line[2]), int(line[3]), line[1])
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _announced(process: subprocess.Popen[bytes], errors: Path) -> re.Match[str] | None:
    text = errors.read_text(errors="replace")
    assert process.poll() is None, text
    return re.search(r"(https?)://127\.0\.0\.1:(\d+)/ \(archived pages at https?://127\.0\.0\.1:(\d+)/", text)
