"""`python -m tests.services up`: start the servers, print their URLs, wait.
`python -m tests.services run -- COMMAND…`: start them, run the command with the URLs in its environment, stop them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

from tests.services import MODULES, CannotStart, setting_of, url_of
from tests.services.base import find, install

# Program -> packages: strace injects the faults of a disk, ip makes networks of our own, nginx and Prometheus are
# started by the tests before their own folders and files, Chromium reads pages, some of them in Chinese.
TOOLS = {
    "strace": ("strace",),
    "ip": ("iproute2",),
    "nginx": ("nginx-light",),
    "prometheus": ("prometheus",),
    "faketime": ("faketime",),
    "chromium": ("chromium", "chromium-headless-shell", "fonts-noto-cjk"),
}


def start_all(stack: ExitStack) -> dict[str, str]:
    """Setting -> URL of each server; what cannot be had is told for all at once."""
    urls, failures = {}, []
    for name in MODULES:
        try:
            urls[setting_of(name)] = stack.enter_context(url_of(name))
        except CannotStart as error:
            failures.append(str(error))
    if failures:
        raise CannotStart("\n".join(failures))
    return urls


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for tool, packages in TOOLS.items():
        _ = find(tool, ()) or install(*packages)
    with ExitStack() as stack:
        try:
            urls = start_all(stack)
        except CannotStart as error:
            print(error, file=sys.stderr)
            return 1
        if arguments[:2] == ["run", "--"] and arguments[2:]:
            return subprocess.run(arguments[2:], env={**os.environ, **urls}, check=False).returncode
        if arguments == ["up"]:
            print("\n".join(f"export {setting}={url}" for setting, url in urls.items()))
            print("serving until Ctrl-C", file=sys.stderr, flush=True)
            signal.pause()
            return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
