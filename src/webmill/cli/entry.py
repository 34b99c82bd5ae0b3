"""Where the program starts: imports next to nothing, so that Ctrl-C is answered from the first moment on.

SIGTERM is Ctrl-C to every command that does not know better. As the first process of a container, where the kernel
ignores signals that have no handler, it would end nothing at all.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if "_WEBMILL_COMPLETE" in os.environ:
            from webmill.cli.shell_completion import answer_shell

            answer_shell()
        from webmill.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("webmill: interrupted", file=sys.stderr)
        sys.exit(130)
