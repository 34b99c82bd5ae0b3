"""The collection that is served under load: sites in many languages, archived three times, published and searchable.

python -m tests.load.served_collection DIR      makes one to look at
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from tests.serve.sample_collection import Visit, archive, run
from webmill.testing.exchange import HttpReply, ReceivedRequest
from webmill.testing.hosts import ordinary_names
from webmill.testing.story_host import StoryHost, WebPlan, story_path

NAME = "LOAD-2026"
CACHED = Path(__file__).parents[2] / ".cache" / "load"
HOSTS, PAGES = 60, 100  # 6,000 documents
VERSIONS = 3
FIRST = datetime(2026, 1, 5, tzinfo=UTC)
WORDS = ("mill", "river", "bread", "the", "notice", "harvest", "market", "bridge", "water", "stone", "grain", "town")


class Targets(Struct, frozen=True):
    """What clients can ask for."""

    urls: list[str]
    timestamps: list[str]
    blobs: list[str]  # hashes
    archives: list[str]  # paths below the root


def visits(hosts: int, pages: int, version: int) -> Iterator[Visit]:
    plan = WebPlan(seed=1, names=ordinary_names(hosts), pages_per_host=pages)
    when = FIRST + timedelta(days=30 * version)
    for index in range(hosts):
        host = StoryHost(plan, index)
        paths = ["/", "/style.css", "/logo.png", "/about.txt", *map(story_path, host.live_stories(version))]
        for path in paths:
            reply = host.answer(ReceivedRequest(host=host.name, path=path, version=version))
            if isinstance(reply, HttpReply):
                when += timedelta(seconds=1)
                url = f"http://{host.name}{path}"
                yield Visit(url, f"{when:%Y%m%d%H%M%S}", reply.body, reply.status, reply.media_type, reply.headers)


def build(root: Path, *, hosts: int = HOSTS, pages: int = PAGES, versions: int = VERSIONS) -> Path:
    """Archive the sites, and run the other stages after each time."""
    for version in range(1, versions + 1):
        archive(root, list(visits(hosts, pages, version)), name=NAME, segment=str(version))
        run("run", root, *(word for one in ("index", "extract", "publish", "search") for word in ("--stage", one)))
    return root


def built_collection() -> Path:
    """Return the collection of `make load`, which is made once."""
    if not (CACHED / "latest.json").is_file() or not (CACHED / "built").is_file():
        shutil.rmtree(CACHED, ignore_errors=True)
        CACHED.mkdir(parents=True)
        build(CACHED)
        (CACHED / "built").touch()
    return CACHED


def targets_of(root: Path, *, hosts: int = HOSTS, pages: int = PAGES, versions: int = VERSIONS) -> Targets:
    """Return what there is to ask for. The newest capture of a page is the one that its timestamp names."""
    found = [one for one in visits(hosts, pages, versions) if one.status == 200 and one.mime.startswith("text/html")]
    blobs = [path.stem for path in (root / "blobs" / "sha256").rglob("*.json")]
    archives = [str(path.relative_to(root)) for path in (root / "crawl-data").rglob("*.warc.gz")]
    return Targets([one.url for one in found], [one.when for one in found], blobs, archives)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
