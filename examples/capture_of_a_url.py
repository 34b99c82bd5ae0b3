"""Give me the capture of this address: one look into the index, one range of bytes out of a WARC file.

    webmill demo --no-serve --keep demo/
    python examples/capture_of_a_url.py demo/ DEMO http://news.mill.example/
    python examples/capture_of_a_url.py https://data.commoncrawl.org/ CC-MAIN-2024-30 commoncrawl.org 20240715

The collection may be a folder, a bucket (`s3://…`) or a web server: an index as large as Common Crawl's is asked with a
few small requests. A capture that says "as before" (a revisit) is read from where the content lies.
"""

from __future__ import annotations

import argparse

from webmill.commoncrawl.catalog import cluster_key
from webmill.config import CommonCrawl, Http
from webmill.formats import digest
from webmill.formats.cdxj import Capture, parse
from webmill.formats.http_records import read_response
from webmill.formats.warc import read_record_at
from webmill.index.lookup import ZipNumIndex
from webmill.index.query import Query, answer, url_range
from webmill.wiring import open_crawls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", help="a folder, s3://… or https://…")
    parser.add_argument("crawl", help="its name")
    parser.add_argument("url")
    parser.add_argument("moment", nargs="?", default="2100", help="2024, 202407, 20240715 …: the capture nearest to it")
    asked = parser.parse_args()
    storage = open_crawls(asked.place, http=Http(), commoncrawl=CommonCrawl())
    index = ZipNumIndex(storage, cluster_key(asked.crawl))
    nearest = Query(range=url_range(asked.url), sort="closest", closest=asked.moment, resolve_revisits=True)
    captures = [parse(line) for line in answer(index, nearest)]
    captures.sort(key=lambda capture: capture.text("url") != asked.url)  # to an index, www.a.org and a.org are the same

    print(f"{len(captures)} captures, the best first")
    for capture in captures:
        print(f"{capture.timestamp}  {capture.text('mime')}  {capture.text('url')}")
    for capture in captures[:1]:
        file, start, length = place_of(capture)
        record = read_record_at(storage.read(file, start=start, length=length), offset=start)
        response = read_response(record.content)
        verdict = digest.check(record.headers, record.content).payload
        print(f"\n{capture.timestamp} is in {file}, bytes {start} to {start + length}, digest {verdict.name}")
        print(f"{response.status} {response.content_type}\n\n{response.text.text}")


def place_of(capture: Capture) -> tuple[str, int, int]:
    """Of a revisit, that of its original."""
    prefix = "orig." if capture.text("orig.filename") != "-" else ""
    file, start, length = (capture.text(prefix + name) for name in ("filename", "offset", "length"))
    return file, int(start), int(length)


if __name__ == "__main__":
    main()
