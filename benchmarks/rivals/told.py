"""What the rivals' programs are told."""

from __future__ import annotations

import argparse
from pathlib import Path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", type=Path)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--per-domain", type=int, default=8)
    parser.add_argument("--warc", type=Path)
    parser.add_argument("--stay", action="store_true", help="follow no link to other hosts than those of the seeds")
    return parser.parse_args()
