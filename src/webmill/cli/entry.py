"""The entry point. It imports next to nothing, so that Ctrl-C works from the first moment.

SIGTERM acts as Ctrl-C unless a command handles it. It needs a handler: for the first process of a container the kernel
ignores signals without one.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if "_WEBMILL_COMPLETE" in os.environ:
            from webmill.cli.shell_completion import answer_shell

            answer_shell()
        from webmill.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("webmill: interrupted", file=sys.stderr)
        sys.exit(130)
