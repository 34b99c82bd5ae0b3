"""What a page says that somebody types, typed: its console blocks, in order, into one shell.

    ```console
    $ webmill surt https://example.org/a          run; it must end with exit code 0
    org,example)/a                                stands in its output, after the lines before it; `…` is anything
    ```

Ports are those that are free here. A person is slow; so a server in the background is waited for by its port, a crawl
by its first pages, and a process that was told to end by its end.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
MARK = "=== typed"
WAIT = "until {what}; do kill -0 $! || break; sleep 0.1; done 2>/dev/null >&2"  # unless it has died
TURNED_UP = 'compgen -G "{folder}/crawl-data/*/segments/*/warc/*"'
LISTENS = "(exec 3<>/dev/tcp/127.0.0.1/{port})"


class Step(Struct, frozen=True):
    command: str
    output: tuple[str, ...]


class Outcome(Struct, frozen=True):
    step: Step
    code: str  # empty: it was not reached, or did not end
    printed: tuple[str, ...]

    def flaw(self) -> str:
        if self.code != "0":
            return f"exit code {self.code or 'unknown: it did not end'}"
        missing = missing_line(self.step.output, self.printed)
        return f"does not say: {missing}" if missing else ""

    def __str__(self) -> str:
        return f"$ {self.step.command}\n{self.flaw()}\n--- it said\n" + "\n".join(self.printed)


def steps_of(page: str) -> list[Step]:
    steps: list[Step] = []
    for block in BLOCK.findall(page):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if line.startswith("$ "):
                steps.append(Step(line[2:], ()))
            else:
                steps[-1] = Step(steps[-1].command, (*steps[-1].output, line))
    return steps


def missing_line(expected: tuple[str, ...], printed: tuple[str, ...]) -> str:
    """The first stated line that does not follow those before it. Lines between them may be there: progress comes
    by the clock, and pages leave out what is not interesting.
    """
    rest = iter(printed)
    for line in expected:
        pattern = ".*".join(re.escape(piece) for piece in line.split("…"))
        if line != "…" and not any(re.fullmatch(pattern, one.rstrip()) for one in rest):
            return line
    return ""


def script_of(steps: list[Step]) -> str:
    lines = []
    for number, step in enumerate(steps):
        lines += [f"echo '{MARK} {number}'", step.command, f"echo '{MARK} code' $?"]
        lines += patience(shlex.split(step.command))
    return "\n".join([*lines, "exit 0\n"])


def patience(words: list[str]) -> list[str]:
    """What a person would wait for before going on."""
    if "&" in words and "--port" in words:
        return [WAIT.format(what=LISTENS.format(port=words[words.index("--port") + 1]))]
    if "&" in words and words[:2] == ["webmill", "crawl"]:
        return [WAIT.format(what=TURNED_UP.format(folder=words[2].rstrip("/")))]
    if words[0] == "kill":
        return [f"wait {words[-1]} 2>/dev/null"]
    return []


def type_in(steps: list[Step], *, folder: Path, environment: Mapping[str, str], seconds: float) -> list[Outcome]:
    """In a new shell in this folder, which takes along all that it started when it ends."""
    script = folder.parent / f"{folder.name}.sh"
    script.write_text(script_of(steps))
    log = script.with_suffix(".log")
    with log.open("wb") as out:
        shell = subprocess.Popen(
            ["bash", script], cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True
        )
        try:
            shell.wait(seconds)
        except subprocess.TimeoutExpired:
            pass  # the outcomes tell which step it was
        finally:
            with suppress(ProcessLookupError):  # nothing is left
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    return outcomes(steps, log.read_text(errors="replace"))


def outcomes(steps: list[Step], log: str) -> list[Outcome]:
    pieces = dict(re.findall(rf"^{MARK} (\d+)\n(.*?)(?=^{MARK} \d|\Z)", log, re.DOTALL | re.MULTILINE))
    found = []
    for number, step in enumerate(steps):
        printed, _, code = pieces.get(str(number), "").partition(f"{MARK} code")
        found.append(Outcome(step, code.strip().split("\n")[0], tuple(printed.splitlines())))
    return found


def with_free_ports(page: str, ports: Mapping[int, int]) -> str:
    for written, free in ports.items():
        page = re.sub(rf"\b{written}\b", str(free), page)
    return page


def free_ports(count: int) -> int:
    """The first of so many in a row that nobody has: below those that the kernel hands out to everybody else, who might
    get one of ours before we bind it.
    """
    first = 20_000 + os.getpid() % 1_000 * 10
    for port in range(first, first + 2_000, count):
        if all(is_free(port + more) for more in range(count)):
            return port
    raise OSError(f"no {count} free ports in a row from {first} on")


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
