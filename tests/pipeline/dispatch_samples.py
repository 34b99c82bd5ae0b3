"""Indexes to batch from: written by the rules of the format, read back by a loop that shares nothing with webmill."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

LANGUAGES = ("eng", "eng,fra", "fra,eng", "xeng", "fra", "deu", "zho,eng,deu", "engl", None)
STATUSES = ("200", "200", "200", "301", "404")
TYPES = ("text/html", "text/html; charset=utf-8", "application/pdf")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def capture(urlkey: str, timestamp: str = "20240722120756", **fields: str | None) -> bytes:
    values: dict[str, str | None] = {
        "url": "https://example.com/",
        "mime": "text/html",
        "mime-detected": "text/html",
        "status": "200",
        "digest": "A" * 32,
        "length": "689",
        "offset": "3499",
        "filename": "crawl-data/T/segments/1/warc/a.warc.gz",
        "charset": "UTF-8",
        "languages": "eng",
    }
    values |= {name.replace("_", "-"): value for name, value in fields.items()}
    kept = {name: value for name, value in values.items() if value is not None}
    return f"{urlkey} {timestamp} {json.dumps(kept)}".encode()


def captures(count: int, *, seed: int = 1) -> list[bytes]:
    """Sorted lines of some hundred hosts, in all combinations that filters look at."""
    dice = random.Random(seed)
    lines = []
    for number in range(count):
        host, path = f"h{dice.randrange(max(2, count // 20)):04d}", f"p{number}"
        lines.append(
            capture(
                f"com,{host})/{path}",
                f"2024{dice.randrange(1, 13):02d}15120756",
                url=f"https://{host}.com/{path}?a b",
                mime=dice.choice(TYPES),
                status=dice.choice(STATUSES),
                digest="".join(dice.choices(ALPHABET[: 2 + number % 4], k=4)),
                languages=dice.choice(LANGUAGES),
                offset=str(number),
            )
        )
    return sorted(lines)


def write_index(folder: Path, blocks: Sequence[Sequence[bytes]], *, shards: int = 2) -> Path:
    """`cluster.idx` and its `cdx-NNNNN.gz`."""
    folder.mkdir(parents=True, exist_ok=True)
    summary = []
    per_shard = max(1, -(-len(blocks) // shards))
    for number, lines in enumerate(blocks):
        name = f"cdx-{number // per_shard:05d}.gz"
        file = folder / name
        offset = file.stat().st_size if number % per_shard else 0
        data = gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)
        with file.open("ab" if number % per_shard else "wb") as out:
            out.write(data)
        key = b" ".join(lines[0].split(b" ", 2)[:2])
        summary.append(b"%b\t%b\t%d\t%d\t%d\n" % (key, name.encode(), offset, len(data), number + 1))
    (folder / "cluster.idx").write_bytes(b"".join(summary))
    return folder / "cluster.idx"


def in_blocks(lines: Sequence[bytes], size: int) -> list[list[bytes]]:
    return [list(lines[at : at + size]) for at in range(0, len(lines), size)]


def read_plainly(cluster: Path) -> list[tuple[str, str, dict[str, Any]]]:
    """What anyone would write in ten minutes."""
    found = []
    for row in cluster.read_text().splitlines():
        _, name, offset, length, *_ = row.split("\t")
        data = (cluster.parent / name).read_bytes()[int(offset) : int(offset) + int(length)]
        for line in gzip.decompress(data).decode().splitlines():
            if line != "torn":
                surt, timestamp, rest = line.split(" ", 2)
                found.append((surt, timestamp, json.loads(rest)))
    return found


def messages_of(bodies: Iterable[bytes]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(item["surt_url"], item["timestamp"], item["metadata"]) for body in bodies for item in json.loads(body)]
