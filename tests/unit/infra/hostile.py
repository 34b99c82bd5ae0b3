"""Functions that do to a child what hostile input does to a parser."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import socket
import struct
import sys
import time
from pathlib import Path

import msgspec

from webmill.errors import BadInput, Misconfigured


class Page(msgspec.Struct, frozen=True):
    title: str
    size: int
    pid: int


def parse(data: bytes, *, how: str = "well") -> Page:
    if how != "well":
        BEHAVIOURS[how]()
    return Page(data[:10].decode("utf-8", "replace"), len(data), os.getpid())


def segfault() -> None:
    print("about to crash", file=sys.stderr, flush=True)
    ctypes.string_at(0)


def loop_in_c() -> None:
    re.match(r"(a|a)*b", "a" * 64)  # doubles per letter, inside one C call


def sleep_for_ever() -> None:
    while True:
        time.sleep(3600)


def eat_memory() -> None:
    held = []
    while True:
        held.append(bytearray(64 << 20))


def recurse() -> None:
    recurse()


def leave() -> None:
    os._exit(3)


def abort() -> None:
    os.abort()


def refuse() -> None:
    raise BadInput("no title", reason="no_title")


def bug() -> None:
    raise KeyError("x\ud800")


def flood_stderr() -> None:
    for _ in range(200):
        try:
            os.write(2, b"noise " * 10_000)
        except OSError:
            return  # the limit on written files


def own_pipe() -> socket.socket:
    """The child's end of the pipe to its parent: what taken-over code would find."""
    return socket.socket(fileno=int(sys.argv[1]))


def hang_up() -> None:
    own_pipe().close()
    time.sleep(3600)


def answer_garbage() -> None:
    own_pipe().sendall(struct.pack("<cQ", b"V", 5) + b"\xc1junk")
    time.sleep(3600)


def claim_unloadable() -> None:
    """What the parent takes for the operator's fault when it comes at the start."""
    own_pipe().sendall(struct.pack("<cQ", b"U", 0))
    time.sleep(3600)


def claim_ready() -> None:
    own_pipe().sendall(struct.pack("<cQ", b"R", 0))
    time.sleep(3600)


def blame_the_operator() -> None:
    raise Misconfigured("give me your keys")


def announce_terabyte() -> None:
    own_pipe().sendall(struct.pack("<cQ", b"V", 1 << 40))
    time.sleep(3600)


def drip() -> None:
    pipe = own_pipe()
    pipe.sendall(struct.pack("<cQ", b"V", 1000))
    while True:
        pipe.sendall(b"x")
        time.sleep(0.05)


def send_pickle_bomb() -> None:
    """A pickle that would create a file in whoever loads it."""
    target = os.environ["WEBMILL_TEST_BOMB"].encode()
    bomb = b"cbuiltins\nopen\n(V" + target + b"\nVw\ntR."
    own_pipe().sendall(struct.pack("<cQ", b"V", len(bomb)) + bomb)
    time.sleep(3600)


def fork_bomb() -> None:
    if os.getuid() == 0:
        os.setuid(65534)  # the kernel exempts root from RLIMIT_NPROC
    os.fork()


def fork_and_stay() -> None:
    """Leave a grandchild behind that holds the pipe open, then crash."""
    if os.fork() == 0:
        time.sleep(3600)
    os.kill(os.getpid(), 11)


def fill_disk() -> None:
    with Path(os.devnull).parent.joinpath("shm", f"webmill-{os.getpid()}").open("wb") as file:
        Path(file.name).unlink()
        for _ in range(64):
            file.write(b"x" * (1 << 20))


BEHAVIOURS = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", None) == __name__ and name not in ("parse", "Page")
}


def parse_large(data: bytes, *, size: int) -> str:
    return "x" * size


def hoard(data: bytes, *, kept: list[bytearray] = []) -> int:  # noqa: B006 - the leak is the point
    kept.append(bytearray(b"x" * (20 << 20)))
    return os.getpid()


def core_limit(data: bytes) -> int:
    return resource.getrlimit(resource.RLIMIT_CORE)[0]
