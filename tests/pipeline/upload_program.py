"""A program to be killed: uploads the archives of a collection, again and again.

python -m tests.pipeline.upload_program ROOT PLACE KEEP
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from webmill.collection import Collection
from webmill.pipeline.upload import ArchiveUploader, UploadRules


def main() -> None:
    root, place, keep = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    uploader = ArchiveUploader(Collection(root, "X"), UploadRules(place=place, keep_local=keep), stop=threading.Event())
    print("begin", flush=True)
    report = uploader.step()
    print(report, flush=True)


if __name__ == "__main__":
    main()
