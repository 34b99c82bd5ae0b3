"""What `webmill index` must not be: it writes a new index over the old one, in place. Our checks must notice."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.pipeline.index_samples import indexes, tables


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    for place in (indexes, tables):
        for old in place(target).iterdir():
            old.unlink()
        for file in sorted(place(source).iterdir()):
            shutil.copyfile(file, place(target) / file.name)
