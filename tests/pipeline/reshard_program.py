"""A crawl is divided anew, to be killed on the way.

python -m tests.pipeline.reshard_program DIR N
"""

from __future__ import annotations

import sys
from pathlib import Path

from webmill.crawl.frontier_admin.reshard import reshard
from webmill.pipeline.crawl_frontier import open_crawl


def main() -> None:
    with open_crawl(Path(sys.argv[1])) as crawl:
        reshard(crawl, int(sys.argv[2]))


if __name__ == "__main__":
    main()
