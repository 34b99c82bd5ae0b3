"""How tests get a real server: named by the environment, else started privately, else installed, else a sentence."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

START_DEADLINE = 90.0  # RabbitMQ on a loaded machine is the slowest
PR_SET_PDEATHSIG = 1


class CannotStart(RuntimeError):
    """The server cannot be had here; the message is the one sentence that says what to install or set."""


@dataclass
class Running:
    """A private server process in its own group, with its log in `folder`."""

    name: str
    url: str
    command: Sequence[str]
    folder: Path
    ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> Running:
        log = self.folder / f"{self.name}.log"
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.env},
                cwd=self.folder,
                start_new_session=True,
                user=self.user,
                preexec_fn=die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509  see die_with_parent
            )
        self.wait_until_ready(log)
        return self

    def wait_until_ready(self, log: Path) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_DEADLINE
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                tail = log.read_bytes()[-2000:].decode(errors="replace")
                raise CannotStart(
                    f"{self.name} did not start ({' '.join(map(str, self.command))}); its log ends:\n{tail}"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill -9 of the whole group: for fault tests."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.start()

    def _end(self, sign: signal.Signals) -> None:
        if self.process is None:
            return
        signal_group(self.process.pid, sign)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            signal_group(self.process.pid, signal.SIGKILL)
            self.process.wait(20)
        signal_group(self.process.pid, signal.SIGKILL)  # children that outlived their parent
        self.process = None


def signal_group(pid: int, sign: signal.Signals) -> None:
    try:
        os.killpg(pid, sign)
    except (ProcessLookupError, PermissionError):
        pass


def die_with_parent() -> None:
    """A test run that is killed leaves no server behind (Linux).

    The kernel ties this to the starting *thread*: servers are started from the main thread, one after the other.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


_given: set[int] = set()


def free_port() -> int:
    """Never the same twice: the kernel may offer again what nobody has bound yet, and a server wants several."""
    while True:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port: int = sock.getsockname()[1]
        if port not in _given:
            _given.add(port)
            return port


def answers(port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex(("127.0.0.1", port)) == 0


def binary(name: str, *, package: str, folders: Sequence[str] = (), setting: str) -> Path:
    """The path of an installed binary; installs Debian's package when it may; else says what to do."""
    found = find(name, folders) or (install(package) and find(name, folders))
    if not found:
        raise CannotStart(
            f"{name} is not installed: install it (Debian: apt-get install {package}), or set {setting} to a running "
            f"server, or leave the servers out with `make test SERVICES=0`"
        )
    return Path(found)


def find(name: str, folders: Sequence[str]) -> str | None:
    search = os.pathsep.join([*folders, os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    return shutil.which(name, path=search)


def install(*packages: str) -> bool:
    """As root on Debian or Ubuntu only. No daemon is started: the tests start their own."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    print(f"installing {' and '.join(packages)} for the tests …", file=sys.stderr, flush=True)
    quiet: dict[str, int] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with no_daemon_starts():
        subprocess.run(["apt-get", "update", "-qq"], env=env, check=False, **quiet)
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
        return subprocess.run(command, env=env, check=False, **quiet).returncode == 0


class no_daemon_starts:  # noqa: N801  a context manager that reads as words
    """Debian asks /usr/sbin/policy-rc.d whether a package may start its service: answer no while we install."""

    policy = Path("/usr/sbin/policy-rc.d")

    def __enter__(self) -> None:
        self.ours = not self.policy.exists()
        if self.ours:
            self.policy.write_text("#!/bin/sh\nexit 101\n")
            self.policy.chmod(0o755)

    def __exit__(self, *_: object) -> None:
        if self.ours:
            self.policy.unlink()
