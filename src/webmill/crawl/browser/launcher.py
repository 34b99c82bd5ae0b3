"""Become a browser: with limits, without a network where the system allows that, gone when its parent is.

    python -I -S launcher.py '{"input": 5, "output": 6, "parent": 41, …}' PROGRAM ARGUMENT…

This file is run as a script, by itself: it imports nothing of the package, so that a browser starts at once. What the
system does not have (other than Linux, or no right to make namespaces) is left out; the arguments of the browser keep
it from the network, too.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
PR_SET_PDEATHSIG = 1


def main() -> None:
    given = json.loads(sys.argv[1])
    end_with_parent(given["parent"])
    if given["isolated"]:
        leave_network()
    limit(resource.RLIMIT_DATA, given["memory"])
    limit(resource.RLIMIT_CPU, given["cpu"])
    limit(resource.RLIMIT_CORE, 0)
    os.dup2(given["input"], 3)
    os.dup2(given["output"], 4)
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - the program that the user chose


def end_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)


def leave_network() -> None:
    """Enter an empty network namespace: as root, or in a namespace of users in which we are who we were."""
    if sys.platform != "linux":
        return
    user, group, libc = os.geteuid(), os.getegid(), ctypes.CDLL(None, use_errno=True)
    if user == 0:
        libc.unshare(CLONE_NEWNET)
    elif libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    try:
        resource.setrlimit(kind, (wanted, wanted))
    except (ValueError, OSError):  # macOS has no limit of data
        pass


if __name__ == "__main__":
    main()
