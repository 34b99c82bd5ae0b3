"""A program that writes a ZipNum index, to be killed: `work LINES FOLDER`, `faulty LINES FOLDER` (in place)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from webmill.index.lines import read_batches
from webmill.index.zipnum.writer import write_index


def main() -> None:
    mode, lines, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if mode == "work":
        write_index(read_batches(lines), folder, lines=7, shard_size=2000, threads=1)
        return
    with tempfile.TemporaryDirectory() as elsewhere:
        write_index(read_batches(lines), Path(elsewhere), lines=7, shard_size=2000, threads=1)
        for file in sorted(Path(elsewhere).glob("c*"), reverse=True):  # the summary first
            (folder / file.name).write_bytes(file.read_bytes())
