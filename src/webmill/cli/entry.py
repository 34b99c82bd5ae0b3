"""Where the program starts: imports nothing, so that Ctrl-C is answered from the first moment on."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from webmill.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("webmill: interrupted", file=sys.stderr)
        sys.exit(130)
