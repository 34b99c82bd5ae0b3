"""A mapper over WARC files and a reducer over documents: plain functions, which Spark and Dask run on many machines.

    webmill demo --no-serve --keep demo/
    python examples/mapper.py demo/          # on this machine, file after file

`map_archive` is given the name of one file and yields a row for each page: a task without shared state, as mappers
are. `reduce_hosts` adds the rows up. spark_job.py and dask_job.py run them on other machines.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.page import ErrorDocument

COLUMNS = {"host": "string", "url": "string", "title": "string", "words": "long"}
Row = dict[str, Any]


def archives(collection: Path) -> list[str]:
    """The WARC files of a collection: one partition, one task each."""
    return sorted(str(path) for path in collection.resolve().glob("crawl-data/*/segments/*/warc/*.warc.gz"))


def map_archive(path: str) -> Iterator[Row]:
    """The pages of one WARC file: read by webmill, which goes on behind damage."""
    with Path(path).open("rb") as archive:
        for page in read_pages(archive, filename=path):
            if isinstance(page, ErrorDocument) or not page.http or page.http.status != 200 or not page.title:
                continue
            url = page.target_uri or ""
            words = len((page.text or "").split())
            yield {"host": urlsplit(url).hostname, "url": url, "title": page.title, "words": words}


def reduce_hosts(rows: Iterable[Row]) -> list[tuple[str, int, int]]:
    """Pages and words of each host."""
    pages, words = Counter[str](), Counter[str]()
    for row in rows:
        pages[row["host"]] += 1
        words[row["host"]] += row["words"]
    return sorted((host, count, words[host]) for host, count in pages.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    rows = (row for path in archives(parser.parse_args().collection) for row in map_archive(path))
    for host, pages, words in reduce_hosts(rows):
        print(f"{host}\t{pages}\t{words}")


if __name__ == "__main__":
    main()
