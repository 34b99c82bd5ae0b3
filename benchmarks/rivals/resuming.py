"""What the programs that are killed and started again are told."""

from __future__ import annotations

import argparse
from pathlib import Path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed")
    parser.add_argument("folder", type=Path, help="of its state and its output; the same in every run of a crawl")
    return parser.parse_args()
