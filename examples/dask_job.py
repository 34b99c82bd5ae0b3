"""Dask over a collection: the mapper of mapper.py over WARC files.

    pip install dask webmill
    webmill demo --no-serve --keep demo/
    python examples/dask_job.py demo/

For a cluster: `dask.distributed.Client("HOST:8786")` before the bag is computed, webmill installed on the workers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import dask.bag
from mapper import archives, map_archive, reduce_hosts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    files = archives(parser.parse_args().collection)
    pages = dask.bag.from_sequence(files, partition_size=1).map(lambda path: list(map_archive(path))).flatten()
    for host, count, words in reduce_hosts(pages.compute(num_workers=2)):
        print(f"{host}\t{count}\t{words}")


if __name__ == "__main__":
    main()
