"""The documents of the races about corpora: real texts, cut into many; and made ones, of which some are near copies."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SHARED = Path(os.environ.get("WEBMILL_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
SAMPLE = "triple/CC-MAIN-20240712094214-20240712124214-00000.warc.wet.gz"
SHARES = (0.0, 0.01, 0.02, 0.05)  # of the words that a near copy has changed
CJK = range(0x4E00, 0x4E00 + 3500)


def real_texts(count: int) -> list[str]:
    """Return `count` documents made of the pages of Common Crawl's sample: whole ones, and runs of lines of two."""
    pages = _pages(SHARED / SAMPLE)
    drawn = random.Random(20)
    texts = list(pages)
    while len(texts) < count:
        one, other = drawn.choice(pages).split("\n"), drawn.choice(pages).split("\n")
        first, second = drawn.randrange(len(one)), drawn.randrange(len(other))
        length = drawn.randint(3, 60)
        text = "\n".join(one[first : first + length] + other[second : second + length // 2])
        if text.strip():
            texts.append(text)
    return texts[:count]


def _pages(path: Path) -> list[str]:
    records = gzip.decompress(path.read_bytes()).decode("utf-8", "replace").split("WARC/1.0\r\n")
    return [
        text for one in records if "conversion" in one[:200] if (text := one.partition("\r\n\r\n")[2].strip("\r\n"))
    ]


class Planted(NamedTuple):
    """Texts, and for each the number of the one that it is a copy of (itself, if of none) and what was changed."""

    texts: list[str]
    originals: list[int]
    changed: list[float]


def planted_texts(count: int, copies: int, *, spaced: bool = True) -> Planted:
    """Return made texts, the last `copies` of which are near copies of others: 0, 1, 2 and 5 % of the words differ."""
    drawn = random.Random(6)
    vocabulary = [f"w{number}" for number in range(40_000)] if spaced else [chr(code) for code in CJK]
    weights = [1 / (rank + 20) for rank in range(len(vocabulary))]
    base = count - copies
    words = [drawn.choices(vocabulary, weights, k=drawn.randint(120, 700)) for _ in range(base)]
    originals, changed = list(range(base)), [-1.0] * base
    for number in range(copies):
        share = SHARES[number % len(SHARES)]
        original = drawn.randrange(base)
        copy = list(words[original])
        for place in drawn.sample(range(len(copy)), round(len(copy) * share)):
            copy[place] = drawn.choice(vocabulary)
        words.append(copy)
        originals.append(original)
        changed.append(share)
    joint = " " if spaced else ""
    return Planted([joint.join(one) for one in words], originals, changed)


def score(planted: Planted, clusters: Sequence[int]) -> tuple[dict[float, float], int]:
    """Return the share of copies that are in the cluster of their original, by what was changed; and false merges:
    documents in a cluster with another original."""
    recall = {}
    for share in SHARES:
        copies = [number for number, changed in enumerate(planted.changed) if changed == share]
        found = sum(clusters[number] == clusters[planted.originals[number]] for number in copies)
        recall[share] = found / len(copies)
    owners: dict[int, set[int]] = {}
    for number, cluster in enumerate(clusters):
        owners.setdefault(cluster, set()).add(planted.originals[number])
    return recall, sum(len(several) - 1 for several in owners.values())
