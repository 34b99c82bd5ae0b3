"""The function of custom_document_function.py on a Ray cluster.

    pip install 'webmill[ray,parquet]'
    webmill demo --no-serve --keep demo/
    python examples/ray_cluster.py demo/                      # starts a cluster of its own on this machine
    python examples/ray_cluster.py demo/ ray://HOST:10001     # or: on yours

All that changes is `--executor`. On a cluster of many machines webmill must be installed on each, and all of them must
reach the collection and the dataset's folder: on a shared disk, or in a bucket (`s3://…`).
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray
from custom_document_function import make_cards


@contextmanager
def cluster_of_our_own() -> Iterator[str]:
    """As `ray start --head` would, but it ends with us."""
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield f"ray:{ray.get_runtime_context().gcs_address}"
    finally:
        ray.shutdown()


def show(collection: Path, address: str) -> None:
    cards = make_cards(collection, "--executor", address)
    print(f"{len(cards)} cards, made on the cluster")
    for made in cards[:5]:
        print(f"  {made.headline}: {made.words} words")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    parser.add_argument("address", nargs="?", help="ray:auto, ray:HOST:PORT or ray://HOST:PORT")
    asked = parser.parse_args()
    if asked.address:
        show(asked.collection, asked.address)
    else:
        with cluster_of_our_own() as address:
            show(asked.collection, address)


if __name__ == "__main__":
    main()
