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
from pathlib import Path

from custom_document_function import make_cards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    parser.add_argument("address", nargs="?", default="ray:local", help="ray:auto, ray:HOST:PORT or ray://HOST:PORT")
    asked = parser.parse_args()
    cards = make_cards(asked.collection, "--executor", asked.address)
    print(f"{len(cards)} cards, made on the cluster")
    for made in cards[:5]:
        print(f"  {made.headline}: {made.words} words")


if __name__ == "__main__":
    main()
