"""A filter of your own: which pages become documents.

    webmill demo --no-serve --keep demo/
    python examples/custom_filter.py demo/

What the index knows (address, status, type, language, time), `webmill cc run` filters by flags. What only the page
itself can tell is decided by a function that sees all of it, in the worker that reads it: here, whether it is an
article. `webmill dataset` runs it on one core or a cluster.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from webmill.commoncrawl.page import Page
from webmill.extract.capture import document_of
from webmill.model import Document

SHORTEST = 20  # characters of text


def document(page: Page) -> Document | None:
    """What the dataset calls for every page. None leaves it out; it is counted as left out."""
    return document_of(page) if is_article(page) else None


def is_article(page: Page) -> bool:
    wishes = [meta.content or "" for meta in page.metas if (meta.name or "").lower() == "robots"]
    return bool(page.title) and len(page.text or "") >= SHORTEST and "noindex" not in " ".join(wishes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    collection = parser.parse_args().collection.resolve()
    archives = sorted(collection.glob("crawl-data/*/segments/*/warc/*.warc.gz"))
    description = {
        "name": "articles",
        "manifest": [archive.relative_to(collection).as_posix() for archive in archives],
        "read": {"from": str(collection)},
        "document": {"function": f"{Path(__file__).resolve()}:document"},
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "articles.json")
        file.write_text(json.dumps(description))
        webmill("dataset", "create", file, "--in", folder)
        report = json.loads(webmill("dataset", "run", "articles", "--in", folder, "--json"))
        left_out = sum(report["left_out"].values())
        print(f"{report['documents']} articles, {left_out} of {report['captures']} pages left out")
        for part in sorted(Path(folder, "articles", "output").glob("*.jsonl.gz")):
            for article in map(json.loads, gzip.decompress(part.read_bytes()).splitlines()):
                print(f"{article['date'][:10]}  {article['url']}  {article['title']}")


def webmill(*command: str | Path) -> bytes:
    """As you would type it; what it says on stdout."""
    done = subprocess.run([sys.executable, "-m", "webmill", "-q", *command], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 3):  # 3: done, but some pages gave errors
        sys.exit(done.returncode)
    return done.stdout


if __name__ == "__main__":
    main()
