"""Tasks for the executors' contract: importable by name in every worker."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
import time
from pathlib import Path

from webmill.errors import BadInput, Misconfigured, Unavailable


def square(number: int) -> int:
    return number * number


def scale(number: int, *, by: int) -> int:
    return number * by


def where(_: object) -> int:
    return os.getpid()


def fail_on_odd(number: int) -> int:
    if number % 2:
        raise BadInput("odd", reason="odd", source="items", offset=number)
    return number


def raise_by_name(name: str) -> str:
    if name == "unavailable":
        raise Unavailable("later", retry_after=3.0)
    if name == "bug":
        raise KeyError(name)
    if name == "exit":
        sys.exit(3)
    if name == "misconfigured":
        raise Misconfigured("set the key")
    return name


def give_lock_for_two(number: int) -> object:
    return threading.Lock() if number == 2 else number


def die(how: str) -> str:
    if how == "segfault":
        ctypes.string_at(0)
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "exit":
        os._exit(5)
    return how


def die_at_first(path: str) -> int:
    """Dies twice, then works: each start leaves a line."""
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")
    starts = len(Path(path).read_text().splitlines())
    if starts < 3:
        os.kill(os.getpid(), 9)
    return starts


def announce_and_sleep(path: str) -> None:
    """A long task; its file tells who runs it."""
    whole = Path(path).with_suffix(".writing")
    whole.write_text(str(os.getpid()))
    whole.rename(path)
    time.sleep(3600)


def wait_on_node(path: str) -> str:
    """Waits until the file `go` is there; a file of its own tells on which node (its parent process) it runs."""
    folder = Path(path).parent
    with Path(path).open("a") as file:
        file.write(f"{os.getppid()} {os.getpid()}\n")
    while not (folder / "go").exists():
        time.sleep(0.05)
    return path


def fill(size: int) -> bytes:
    return b"x" * size


def loop_in_c(_: object) -> None:
    re.match(r"(a|a)*b", "a" * 64)
