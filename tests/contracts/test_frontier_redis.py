"""What every frontier promises, on a real Redis: with bitmaps, with tiny limits, with the server's Bloom filter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts import test_frontier as contract
from tests.contracts.frontier_benches import TINY, Bench
from tests.contracts.frontier_redis_bench import RedisBench
from tests.contracts.test_frontier import *  # noqa: F403  each test of the contract is a test here
from tests.contracts.test_frontier_care import *  # noqa: F403
from tests.services.redis_kinds import bloom, private_redis
from webmill.crawl.frontier.redis.filter import BitmapFilter, BloomFilter
from webmill.crawl.frontier.redis.frontier import RedisFrontier

pytestmark = pytest.mark.server("redis")


@pytest.fixture(scope="module")
def bloom_url() -> Iterator[str]:
    with private_redis(*bloom()) as server:
        yield server.url


@pytest.fixture(params=["bitmaps", "tiny", "bloom"])  # type: ignore[no-redef]
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    url = request.getfixturevalue("bloom_url" if request.param == "bloom" else "redis_url")
    bench = RedisBench(tmp_path, url=url, limits=TINY if request.param == "tiny" else None)
    assert isinstance(bench.frontier, RedisFrontier)
    assert isinstance(bench.frontier._filter, BloomFilter if request.param == "bloom" else BitmapFilter)
    yield bench
    bench.close()


def test_any_text_of_a_url_comes_back_as_it_was(  # type: ignore[no-redef]  # the contract goes through its benches
    redis_url: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "BENCHES", {"redis": lambda folder: RedisBench(folder, url=redis_url, limits=TINY)})
    contract.test_any_text_of_a_url_comes_back_as_it_was(tmp_path_factory)
