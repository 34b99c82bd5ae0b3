"""datatrove reads our WARC files: a collection as the beginning of a pipeline for training data.

    pip install datatrove warcio faust-cchardet python-magic      # and libmagic, from your system
    webmill demo --no-serve --keep demo/
    python examples/datatrove_reading.py demo/

Nothing is converted: a WARC file of webmill is one as Common Crawl's are. Put datatrove's extractors, filters,
deduplication and writers behind the reader. Each page is printed with the digest of its text: the index has the same
(`webmill cdxj query URL --index demo/cc-index/collections/DEMO/indexes`) when the page is in UTF-8.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import tempfile
from pathlib import Path

from datatrove.data import DocumentsPipeline
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.filters import LambdaFilter
from datatrove.pipeline.readers import WarcReader


def show(documents: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:  # noqa: ARG001
    """A step of a pipeline: from documents to documents."""
    for document in documents:
        digest = base64.b32encode(hashlib.sha1(document.text.encode(), usedforsecurity=False).digest()).decode()
        print(f"{document.metadata['date']}  {digest}  {document.metadata['url']}")
        yield document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    collection = parser.parse_args().collection
    pages = WarcReader(str(collection), glob_pattern="crawl-data/*/segments/*/warc/*.warc.gz")
    titled = LambdaFilter(lambda document: "<title>" in document.text)
    with tempfile.TemporaryDirectory() as logs:
        LocalPipelineExecutor(pipeline=[pages, titled, show], logging_dir=logs).run()


if __name__ == "__main__":
    main()
