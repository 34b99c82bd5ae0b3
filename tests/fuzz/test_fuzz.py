"""Some hundred mutations for every parser with the same dice each time, and what was found by longer runs."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from tests.fuzz.mutations import mutations
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_gives_a_value_or_one_of_our_errors(name: str) -> None:
    target = TARGETS[name]
    for data in islice(mutations(target.seeds, random.Random(f"7 {name}")), 300):
        target.survives(data)


def test_the_same_dice_give_the_same_inputs() -> None:
    first, again = (list(islice(mutations([b"a", b"b" * 100], random.Random(1)), 200)) for _ in range(2))
    assert first == again
    assert len(set(first)) > 150


def test_a_parser_that_fails_is_seen() -> None:
    def careless(data: bytes) -> int:
        return data[5]

    target = Target("careless", careless, (b"abcdef",))
    with pytest.raises(IndexError):
        list(map(target.survives, islice(mutations(target.seeds, random.Random(1)), 200)))
