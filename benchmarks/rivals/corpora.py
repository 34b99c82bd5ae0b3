"""Rivals of the races about corpora, in an environment of their own (`.venv-corpora`): seconds of CPU and what they
decided, as JSON.

    python rivals/corpora.py datatrove|datasketch|gaoya|datatrove-minhash words|chars < TEXTS (JSON list)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

NGRAM, BANDS, ROWS = 5, 14, 8


def datatrove_filters(texts: list[str], _: str) -> dict[str, Any]:
    """Gopher's two, C4's and FineWeb's, with their own words and sentences (spaCy)."""
    from datatrove.data import Document
    from datatrove.pipeline.filters import FineWebQualityFilter, GopherQualityFilter, GopherRepetitionFilter

    filters = {
        "gopher-quality": GopherQualityFilter(),
        "gopher-repetition": GopherRepetitionFilter(),
        "fineweb-quality": FineWebQualityFilter(),
    }
    for one in filters.values():
        one.filter(Document(text="The words are loaded. " * 20, id="0"))
    kept, cpu = {}, {}
    for name, one in filters.items():
        begin = time.process_time()
        kept[name] = [one.filter(Document(text=text, id="")) is True for text in texts]
        cpu[name] = time.process_time() - begin
    return {"cpu": sum(cpu.values()), "by_filter": cpu, "kept": kept}


def datasketch_clusters(texts: list[str], unit: str) -> dict[str, Any]:
    from datasketch import MinHash, MinHashLSH

    begin = time.process_time()
    index = MinHashLSH(num_perm=BANDS * ROWS, params=(BANDS, ROWS))
    hashes = []
    for text in texts:
        signature = MinHash(num_perm=BANDS * ROWS)
        signature.update_batch([gram.encode() for gram in grams(text, unit)])
        hashes.append(signature)
    signed = time.process_time() - begin
    pairs = []
    for number, signature in enumerate(hashes):
        pairs += [(number, other) for other in index.query(signature)]
        index.insert(number, signature)
    return {"cpu": time.process_time() - begin, "signatures": signed, "clusters": joined(len(texts), pairs)}


def gaoya_clusters(texts: list[str], unit: str) -> dict[str, Any]:
    from gaoya.minhash import MinHashStringIndex

    begin = time.process_time()
    index = MinHashStringIndex(
        hash_size=32,
        jaccard_threshold=0.0,
        num_bands=BANDS,
        band_size=ROWS,
        num_hashes=BANDS * ROWS,
        analyzer="word" if unit == "words" else "char",
        lowercase=True,
        ngram_range=(NGRAM, NGRAM),
    )
    pairs = []
    for number, text in enumerate(texts):
        pairs += [(number, other) for other in index.query(text)]
        index.insert_document(number, text)
    return {"cpu": time.process_time() - begin, "clusters": joined(len(texts), pairs)}


def datatrove_signatures(texts: list[str], _: str) -> dict[str, Any]:
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature

    stage = MinhashDedupSignature("/tmp", MinhashConfig(n_grams=NGRAM, num_buckets=BANDS, hashes_per_bucket=ROWS))
    from datatrove.data import Document

    list(stage.get_signature(stage.get_shingles("The words are loaded. " * 20)))
    begin = time.process_time()
    for text in texts:
        document = Document(text=text, id="")
        list(stage.get_signature(stage.get_shingles(document.text)))
    return {"cpu": time.process_time() - begin}


def grams(text: str, unit: str) -> set[str]:
    units = text.split() if unit == "words" else list(text)
    joint = " " if unit == "words" else ""
    return {joint.join(units[first : first + NGRAM]) for first in range(max(1, len(units) - NGRAM + 1))}


def joined(size: int, pairs: list[tuple[int, int]]) -> list[int]:
    """Return the cluster of each: its least member."""
    parents = list(range(size))

    def root(one: int) -> int:
        while parents[one] != one:
            parents[one] = parents[parents[one]]
            one = parents[one]
        return one

    for one, other in pairs:
        first, second = sorted((root(one), root(other)))
        parents[second] = first
    return [root(one) for one in range(size)]


TOOLS: dict[str, Callable[[list[str], str], dict[str, Any]]] = {
    "datatrove": datatrove_filters,
    "datasketch": datasketch_clusters,
    "gaoya": gaoya_clusters,
    "datatrove-minhash": datatrove_signatures,
}

if __name__ == "__main__":
    texts = json.load(sys.stdin)
    json.dump(TOOLS[sys.argv[1]](texts, sys.argv[2]), sys.stdout)
