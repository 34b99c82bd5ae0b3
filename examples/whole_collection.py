"""From a URL to a search, all from Python: crawl, index, extract, publish, search.

    python examples/whole_collection.py news/ https://example.org/ report --contact me@example.org

Run it again: only what is new is done. `webmill run news/` does the same stages, and `webmill serve news/` shows them.
"""

from __future__ import annotations

import argparse

import webmill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", help="the folder of the collection; it is made")
    parser.add_argument("url", help="where to begin")
    parser.add_argument("words", help="what to search for")
    parser.add_argument("--contact", required=True, help="your e-mail or page: every server is told whom to ask")
    asked = parser.parse_args()

    crawled = webmill.crawl(asked.place, [asked.url], contact=asked.contact, max_pages=20, scope="host")
    print(f"{crawled.total.pages} pages: {crawled.end}")

    indexed = webmill.index(asked.place)
    print(f"{indexed.captures} captures in {indexed.warcs} archives")

    extracted = webmill.extract(asked.place)
    print(f"{extracted.documents} documents")

    published = webmill.publish(asked.place, settings=webmill.PublishSettings(facets=("language", "domain")))
    print(f"version {published.published.version.sequence}: {published.published.counts.items} pages")

    webmill.update_search(asked.place)
    for hit in webmill.search(asked.place, asked.words, limit=3).hits:
        print(f"{hit.document.url}  {hit.title.text}")


if __name__ == "__main__":
    main()
