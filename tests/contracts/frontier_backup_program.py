"""A local frontier is backed up, or restored, to be killed on the way.

python -m tests.contracts.frontier_backup_program back_up|restore FROM TO
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.contracts.frontier_program import LIMITS
from webmill.crawl.frontier.local import LocalFrontier, restore


def main() -> None:
    what, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if what == "restore":
        restore(source, target, limits=LIMITS)
        return
    with LocalFrontier(source, limits=LIMITS) as frontier:
        frontier.back_up(target)


if __name__ == "__main__":
    main()
