"""A function of your own: what is made of a page.

    pip install 'webmill[parquet]'
    webmill demo --no-serve --keep demo/
    python examples/custom_document_function.py demo/

The type that the function says it returns becomes the columns of a Parquet file. The file that you read here is copied
into the dataset, and its text travels to every worker: `webmill dataset run` may be killed, and goes on with the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import msgspec
import pyarrow.parquet
from selectolax.lexbor import LexborHTMLParser  # webmill brings it along

from webmill.commoncrawl.page import Page


class Card(msgspec.Struct):
    url: str
    headline: str
    words: int
    pictures: int
    links_to: list[str]  # other hosts
    file: str  # where the capture is: `length` bytes of this file from `offset` on
    offset: int
    length: int


def card(page: Page) -> Card | None:
    """Make it depend on the page alone: what is made twice, by two workers, must be the same."""
    if not page.http or not page.target_uri:
        return None
    html = LexborHTMLParser(page.http.text.text)
    html.strip_tags(["script", "style"])
    heading = html.css_first("h1")
    headline = heading.text(strip=True) if heading else ""
    if not headline:
        return None
    links = [urljoin(page.target_uri, link.url or "") for link in page.links if link.path == "A@/href"]
    hosts = {urlsplit(link).hostname for link in links}
    return Card(
        url=page.target_uri,
        headline=headline,
        words=len((page.text or "").split()),
        pictures=len(html.css("img")),
        links_to=sorted(host for host in hosts if host and host != urlsplit(page.target_uri).hostname),
        file=page.filename,
        offset=page.capture.offset,
        length=page.capture.length,
    )


def make_cards(collection: Path, *flags: str) -> list[Card]:
    archives = sorted(collection.glob("crawl-data/*/segments/*/warc/*.warc.gz"))
    description = {
        "name": "cards",
        "manifest": [archive.relative_to(collection).as_posix() for archive in archives],
        "read": {"from": str(collection.resolve())},
        "document": {"function": f"{Path(__file__).resolve()}:card"},
        "write": {"format": "parquet"},
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cards.json")
        file.write_text(json.dumps(description))
        webmill("dataset", "create", file, "--in", folder)
        webmill("dataset", "run", "cards", "--in", folder, *flags)
        parts = sorted(Path(folder, "cards", "output").glob("*.parquet"))
        rows = [row for part in parts for row in pyarrow.parquet.read_table(part).to_pylist()]
        return msgspec.convert(rows, list[Card])


def webmill(*command: str | Path) -> None:
    """As you would type it."""
    done = subprocess.run([sys.executable, "-m", "webmill", "-q", *command], check=False)
    if done.returncode not in (0, 3):  # 3: done, but some pages gave errors
        sys.exit(done.returncode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    for made in make_cards(parser.parse_args().collection):
        print(f"{made.headline}: {made.words} words, links to {', '.join(made.links_to) or 'nobody'}")


if __name__ == "__main__":
    main()
