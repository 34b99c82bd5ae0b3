"""Give me the capture of this address: one look into the index, one range of bytes out of a WARC file.

    webmill demo --no-serve --keep demo/
    python examples/capture_of_a_url.py demo/ http://news.mill.example/
    python examples/capture_of_a_url.py https://data.commoncrawl.org/ commoncrawl.org 20240715 --crawl CC-MAIN-2024-30

The collection may be a folder, a bucket (`s3://…`) or a web server: an index as large as Common Crawl's is asked with a
few small requests. A capture that says "as before" (a revisit) is read from where the content lies.
"""

from __future__ import annotations

import argparse

import webmill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", help="a folder, s3://… or https://…")
    parser.add_argument("url")
    parser.add_argument("moment", nargs="?", help="2024, 202407, 20240715 …: the capture nearest to it, not the newest")
    parser.add_argument("--crawl", help="its name, if it is not the newest")
    asked = parser.parse_args()
    with webmill.open_collection(asked.place, crawl=asked.crawl) as collection:
        for line in collection.lines(asked.url):
            print(f"{line.capture.timestamp}  {line.status or 'as before'}  {line.capture.url}")
        page = collection.read(collection.capture(asked.url, at=asked.moment))

    there = page.original
    print(f"\n{page.capture.timestamp} is in {there.filename}, bytes {there.offset} to {there.end}")
    print(f"{page.status} {page.content_type}\n\n{page.text}")


if __name__ == "__main__":
    main()
