from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random

from webmill.index.lookup.block_cache import BlockCache


def test_what_was_used_last_is_kept_and_no_more_than_allowed() -> None:
    kept, read = BlockCache(30), []

    def get(name: str) -> bytes:
        return kept.get(name, lambda: read.append(name) or bytes(10))  # type: ignore[func-returns-value]

    for name in "abcabdaea":
        assert get(name) == bytes(10)
    assert "".join(read) == "abcde"
    get("b")
    assert read.pop() == "b"
    assert kept.size == 30


def test_a_block_larger_than_all_that_may_be_kept_is_given_and_not_kept() -> None:
    kept = BlockCache(30)
    assert kept.get("large", lambda: bytes(31)) == bytes(31)
    assert kept.size == 0


def test_threads_get_what_they_ask_for() -> None:
    kept = BlockCache(500)

    def work(seed: int) -> None:
        dice = Random(seed)
        for _ in range(2000):
            number = dice.randrange(60)
            assert kept.get(number, lambda: bytes([number]) * 20) == bytes([number]) * 20  # noqa: B023

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert kept.size == 500
