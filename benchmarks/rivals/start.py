"""What the rivals are told, and what they tell: the CPU time they had used before their crawl began."""

from __future__ import annotations

import argparse
import time
from pathlib import Path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", type=Path)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--per-domain", type=int, default=8)
    parser.add_argument("--warc", type=Path)
    parser.add_argument("--started", type=Path, required=True, help="Where to write the CPU time of the start.")
    return parser.parse_args()


def tell_start(path: Path) -> None:
    path.write_text(str(time.process_time()))
