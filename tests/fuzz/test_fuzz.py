"""Some hundred mutations for every parser, with the same dice each time."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from tests.fuzz.growth import parts
from tests.fuzz.mutations import mutations
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

COUNTS = {"request": 50, "replay-reply": 50, "served-line": 50}  # each of them is several whole requests


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_gives_a_value_or_one_of_our_errors(name: str) -> None:
    target = TARGETS[name]
    for data in islice(mutations(target.seeds, random.Random(f"7 {name}")), COUNTS.get(name, 200)):
        target.survives(data)


FOUND = [  # by longer runs, where the parser has no tests of its own that this would fit into
    ("dataset", b"a = " + b"1" * 5000),
    ("dataset", b"[" * 100_000),
    ("board-job", b'{"run":"\xff"}'),
    ("pointer", b'{"version":"\xff"}'),
    ("frontier-backup", b'{"":' * 10_000),
    ("blocklist", b"[a" * 1_000_000),  # in the square of its length this would take hours
]


@pytest.mark.parametrize(("name", "data"), FOUND, ids=range(len(FOUND)))
def test_what_was_found_is_survived(name: str, data: bytes) -> None:
    TARGETS[name].survives(data)


@pytest.mark.parametrize("name", TARGETS)
def test_where_mutations_begin_is_understood(name: str) -> None:
    """Else they would be mutations of nonsense."""
    for seed in TARGETS[name].seeds:
        TARGETS[name].take(seed)


def test_the_same_dice_give_the_same_inputs() -> None:
    first, again = (list(islice(mutations([b"a", b"b" * 100], random.Random(1)), 200)) for _ in range(2))
    assert first == again
    assert len(set(first)) > 150
    assert parts(TARGETS["html"], random.Random(1)) == parts(TARGETS["html"], random.Random(1))


def test_a_parser_that_fails_is_seen() -> None:
    def faulty(data: bytes) -> int:
        return data[5]

    target = Target("faulty", faulty, (b"abcdef",))
    with pytest.raises(IndexError):
        list(map(target.survives, islice(mutations(target.seeds, random.Random(1)), 200)))
