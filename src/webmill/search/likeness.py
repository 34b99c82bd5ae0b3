"""Documents that say nearly the same: a sketch of each, which is stored with it, and hits collapsed by their sketches.

A sketch is the smallest hashes of the runs of three words of a text (Broder, 1997): the share that two sketches have in
common estimates the share that the texts have. It is part of a document in every engine, so that the texts need not be
read again when hits are collapsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nsmallest
from zlib import crc32

from msgspec.structs import replace

from webmill.search.base import MAX_HITS, Hit, SearchAnswer, SearchRequest
from webmill.search.segmentation import split_runs, split_words

CHARACTERS = 20_000  # of a text
WORDS = 3  # in a run
HASHES = 32  # of a sketch
DIGITS = 8  # of a hash
ALIKE = 0.75  # of the hashes in common
DEPTH = 200  # hits that are compared; those behind them are shown one by one


def sketch_of(text: str) -> str:
    """Return the sketch of a text; empty for one of less than three words."""
    words: list[str] = []
    for is_run, piece in split_runs(text[:CHARACTERS]):
        words += piece if is_run else split_words(piece)
    hashes = {crc32(" ".join(words[at : at + WORDS]).encode()) for at in range(len(words) - WORDS + 1)}
    return "".join(f"{each:0{DIGITS}x}" for each in nsmallest(HASHES, hashes))


def likeness(one: str, other: str) -> float:
    """Return the estimated share that two texts have in common, from 0 to 1."""
    first, second = _hashes(one), _hashes(other)
    both = nsmallest(HASHES, first | second)
    return sum(each in first and each in second for each in both) / len(both) if both else 0.0


def _hashes(sketch: str) -> set[str]:
    return {sketch[at : at + DIGITS] for at in range(0, len(sketch), DIGITS)}


def search_collapsed(search: Callable[[SearchRequest], SearchAnswer], request: SearchRequest) -> SearchAnswer:
    """Search, and leave out hits that are like one before them; that one says how many. `offset` counts what is left,
    `total` counts all."""
    wanted = request.offset + request.limit
    kept: list[Hit] = []
    first: SearchAnswer | None = None
    for answer, hit in _ranked(search, request):
        first = first or answer
        like = next((at for at, other in enumerate(kept) if _are_alike(hit, other)), None)
        if like is not None:
            kept[like] = replace(kept[like], similar=kept[like].similar + 1)
        elif len(kept) < wanted:
            kept.append(hit)
        else:
            break
    if first is None:
        return search(request)
    return replace(first, hits=kept[request.offset : wanted])


def _ranked(
    search: Callable[[SearchRequest], SearchAnswer], request: SearchRequest
) -> Iterator[tuple[SearchAnswer, Hit]]:
    """Yield the hits in their order, each with the answer that it came with; facets are in the first alone."""
    step, offset = min(MAX_HITS, max(2 * request.limit, request.offset + request.limit)), 0
    while True:
        answer = search(replace(request, offset=offset, limit=step, facets=request.facets if offset == 0 else ()))
        yield from ((answer, hit) for hit in answer.hits)
        offset += step
        if len(answer.hits) < step or offset > request.offset + DEPTH:
            return


def _are_alike(hit: Hit, other: Hit) -> bool:
    return likeness(hit.document.sketch, other.document.sketch) >= ALIKE
