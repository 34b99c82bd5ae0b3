"""Signatures and clusters: near copies are found, in words and in characters; passes and files change nothing."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from webmill.curate.characters import Array
from webmill.curate.dedup.clusters import UnionFind, choose_keepers, connected, equal_pairs, key_passes
from webmill.curate.dedup.minhash import signatures, similarity
from webmill.curate.text_batch import TextBatch

SIZES = {"ngram": 5, "bands": 14, "rows": 8}
EDGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60)


@pytest.mark.parametrize("alphabet", ["words", "characters"])
def test_near_copies_share_a_band_and_others_do_not(alphabet: str) -> None:
    drawn = random.Random(2)
    units = [f"w{number}" for number in range(5000)] if alphabet == "words" else [chr(0x4E00 + n) for n in range(3000)]
    joint = " " if alphabet == "words" else ""
    texts = []
    for _ in range(150):
        words = drawn.choices(units, k=300)
        texts.append(joint.join(words))
        for place in drawn.sample(range(300), 3):  # one per cent
            words[place] = drawn.choice(units)
        texts.append(joint.join(words))
    bands, counts = signatures(TextBatch(texts), **SIZES)
    assert counts.min() > 250
    shared = (bands[:, None, :] == bands[None, :, :]).any(axis=2)
    copies = [bool(shared[number, number + 1]) for number in range(0, len(texts), 2)]
    assert sum(copies) > 0.95 * len(copies)
    assert np.count_nonzero(shared) == len(texts) + 2 * sum(copies)


def test_signatures_do_not_depend_on_case_symbols_and_neighbours() -> None:
    one, other = "The river, and the old house by it.", "the RIVER and the old house -- by it"
    together = signatures(TextBatch(["x" * 9, one, "y z " * 30, other]), **SIZES)[0]
    assert np.array_equal(together[1], together[3])
    assert np.array_equal(together[1], signatures(TextBatch([one]), **SIZES)[0][0])
    assert signatures(TextBatch(["", "...", "word"]), **SIZES)[1].tolist() == [0, 0, 1]


def test_equal_bytes_estimate_the_jaccard_index() -> None:
    drawn = random.Random(5)
    words = [f"w{number}" for number in range(20_000)]
    for shared in (0, 300, 700, 1000):
        common = drawn.sample(words, 1000)
        other = [*common[:shared], *drawn.sample(words, 1000 - shared)]
        bands, _ = signatures(TextBatch([" ".join(common), " ".join(other)]), **SIZES)
        grams = [set(pairwise_grams(one)) for one in (common, other)]
        index = len(grams[0] & grams[1]) / len(grams[0] | grams[1])
        assert abs(float(similarity(bands[:1], bands[1:], rows=8)[0]) - index) < 0.2


def pairwise_grams(words: list[str]) -> list[tuple[str, ...]]:
    return [tuple(words[first : first + 5]) for first in range(len(words) - 4)]


class CountedSearch(UnionFind):
    """Counts how often roots are asked for."""

    asked = 0

    def roots(self, members: Array) -> Array:
        self.asked += 1
        return super().roots(members)


def test_a_document_that_many_others_repeat_costs_no_round_for_each() -> None:
    sets = CountedSearch(5001)
    sets.join(np.arange(5000), np.full(5000, 5000))  # the last one is first in nobody's set
    assert sets.asked < 20
    assert connected(sets, np.ones(5001, bool))[1].tolist() == [0] * 5001


def test_bands_of_few_rows_are_looked_at_in_passes_too() -> None:
    texts = [f"{number} {number * 7} {number * 13}" for number in range(1000, 1400)]
    bands, _ = signatures(TextBatch(texts), ngram=1, bands=2, rows=2)
    alive = np.ones(400, bool)
    sizes = [len(keys) for keys, _ in key_passes(lambda _: bands[:, 0], [0, 400], alive, at_once=50)]
    assert len(sizes) == 8
    assert max(sizes) < 200


@given(EDGES)
@settings(deadline=None, max_examples=examples(200))
def test_sets_are_those_of_a_plain_search(edges: list[tuple[int, int]]) -> None:
    sets = UnionFind(41)
    half = len(edges) // 2
    for some in (edges[:half], edges[half:]):
        pairs = np.array(some, np.int64).reshape(-1, 2)
        sets.join(pairs[:, 0], pairs[:, 1])
    members, roots = connected(sets, np.ones(41, bool), at_once=7)
    found = dict(zip(members.tolist(), roots.tolist(), strict=True))
    assert found == {one: least for one, least in plain_roots(41, edges).items() if one in found}
    assert {one for one, least in plain_roots(41, edges).items() if one != least} <= found.keys()


def plain_roots(size: int, edges: list[tuple[int, int]]) -> dict[int, int]:
    roots = dict(zip(range(size), range(size), strict=True))
    changed = True
    while changed:
        changed = False
        for one, other in edges:
            least = min(roots[one], roots[other])
            changed |= roots[one] != least or roots[other] != least
            roots[one] = roots[other] = least
    return roots


def test_ranges_of_keys_and_a_file_for_the_sets_change_nothing(tmp_path: Path) -> None:
    random_ = np.random.Generator(np.random.PCG64(3))
    keys = random_.integers(0, 1 << 63, 900, np.uint64) << np.uint64(1)
    keys[600:] = keys[random_.integers(0, 600, 300)]
    offsets, alive = [0, 200, 500, 900], random_.random(900) < 0.9

    def keys_of(part: int) -> Array:
        return keys[offsets[part] : offsets[part + 1]]

    def members_by(at_once: int, sets: UnionFind) -> list[int]:
        for found, members in key_passes(keys_of, offsets, alive, at_once=at_once):
            assert len(found) <= 900
            ones, others, leaders = equal_pairs(found, members)
            assert (leaders <= ones).all()
            sets.join(ones, others)
        members, roots = connected(sets, alive)
        removed, keepers = choose_keepers(members, roots, [])
        return [*removed.tolist(), *keepers.tolist()]

    in_memory = members_by(1 << 20, UnionFind(900))
    assert in_memory == members_by(50, UnionFind(900, folder=tmp_path, mapped=1))
    assert (tmp_path / "parents.i64").exists()
    assert len(in_memory) > 200


def test_a_long_chain_is_one_set() -> None:
    chain = np.arange(5000)
    sets = UnionFind(5000)
    sets.join(chain[:-1], chain[1:])
    assert not sets.roots(chain).any()
