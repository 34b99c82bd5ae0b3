"""`python -m tests.pipeline.crawl_program ROOT SETUP [here]`: a crawl to be killed; `here` has threads for processes.

Its children load this module once more, so all that it needs is loaded when it runs.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    import msgspec

    from tests.pipeline.crawling import Setup, crawl, crawl_here

    coordinators: list[Any] = []

    def stop(*_: object) -> None:
        for coordinator in coordinators:
            coordinator.stop()

    signal.signal(signal.SIGTERM, stop)
    root, setup = Path(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=Setup)
    report = crawl_here(root, setup) if "here" in sys.argv[3:] else crawl(root, setup, started=coordinators.append)
    print(json.dumps({"end": report.end, "pages": report.total.pages, "errors": report.total.errors}))


if __name__ == "__main__":
    main()
