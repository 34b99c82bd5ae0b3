"""Lines and queries that try an index: hot keys over many blocks, hosts under hosts, absent neighbours."""

from __future__ import annotations

import json
import random
from pathlib import Path
from urllib.parse import urlsplit

from tests.unit.index.samples import cut_into
from webmill.formats.cdx.query import KeyRange, MatchType
from webmill.formats.url.surt import surt
from webmill.index.lookup.indexes import CaptureIndex, ZipNumIndex
from webmill.index.zipnum.writer import ZipNumShard, write_index
from webmill.infra.storage.local import LocalStorage

HOSTS = [
    "a.com",
    "www.a.com",
    "b.a.com",
    "c.b.a.com",
    "ab.com",
    "a-b.com",
    "a.co.uk",
    "x.a.co.uk",
    "z.org:8080",
    "com.net",
]
PATHS = ["", "a", "a/b", "a/b/", "a?x=1", "a?x=2&y", "ab", "b.html", "Ä ö", "%41/z", "x" * 300, "a//b", "~u/-_!*"]

EVERYTHING = KeyRange(b"", b"\xff")


def make_url(dice: random.Random) -> str:
    host = dice.choice(HOSTS) if dice.random() < 0.5 else f"h{dice.randrange(300)}.{dice.choice(HOSTS)}"
    return f"{dice.choice(('http', 'https'))}://{host}/{dice.choice(PATHS)}"


def make_lines(count: int, *, seed: int = 1) -> list[bytes]:
    """Sorted. One URL in twenty takes part of a third of all captures, some with equal timestamps."""
    dice = random.Random(seed)
    hot = [make_url(dice) for _ in range(5)]
    lines = []
    for number in range(count):
        url = dice.choice(hot) if dice.random() < 0.3 else make_url(dice)
        stamp = f"2024{dice.randrange(1, 13):02d}{dice.randrange(1, 29):02d}{dice.choice(('000000', '120000'))}"
        status = dice.choice(("200", "301", "404"))
        data = {"url": url, "mime": "text/html", "status": status, "offset": str(number), "filename": "a.warc.gz"}
        lines.append(f"{surt(url)} {stamp} {json.dumps(data)}\n".encode())
    return sorted(lines)


def make_queries(lines: list[bytes], count: int, *, seed: int = 2) -> list[tuple[str, MatchType]]:
    """Of what is there, what is next to it, and what is before the first and behind the last line."""
    dice = random.Random(seed)
    kinds: tuple[MatchType, ...] = ("exact", "prefix", "host", "domain")
    queries: list[tuple[str, MatchType]] = [("http://0.0.0.0/", kind) for kind in kinds]
    queries += [("http://zzz.zzz/", kind) for kind in kinds]
    while len(queries) < count:
        url: str = json.loads(dice.choice(lines).split(b" ", 2)[2])["url"]
        match dice.randrange(5):
            case 0:
                url = url[: dice.randrange(len("https://a.com"), len(url) + 1)]
            case 1:
                url += dice.choice(("!", "zz", "?q", "/0"))
            case 2:
                parts = urlsplit(url)
                url = f"http://{parts.netloc.partition('.')[2] or parts.netloc}/"
        queries.append((url, dice.choice(kinds)))
    return queries


def scan(lines: list[bytes], wanted: KeyRange) -> list[bytes]:
    return [line for line in lines if line in wanted]


def build(folder: Path, lines: list[bytes], *, block: int = 7, shard_size: int = 1 << 30) -> list[ZipNumShard]:
    return write_index(cut_into(lines, 100), folder, lines=block, shard_size=shard_size)


def opened(folder: Path) -> ZipNumIndex:
    return ZipNumIndex(LocalStorage(folder))


def read(index: CaptureIndex, wanted: KeyRange = EVERYTHING) -> list[bytes]:
    return list(index.lines(wanted))
