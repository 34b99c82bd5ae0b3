"""Random steps on a frontier in Redis with tiny limits, beside the frontier in memory: every answer is the same.

At random points the process dies, the power fails, or answers of Redis get lost on the way.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.contracts.frontier_benches import TINY
from tests.contracts.frontier_redis_bench import forget, new_prefix
from tests.contracts.test_frontier_model import FrontierMachine
from tests.services.redis_proxy import Proxy, proxied
from tests.thoroughness import examples
from webmill.crawl.frontier.redis.backup import restore
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.frontier.redis.server import read_script
from webmill.errors import Unavailable

pytestmark = [pytest.mark.server("redis"), pytest.mark.slow]


class RedisMachine(FrontierMachine):
    proxy: ClassVar[Proxy]

    def __init__(self) -> None:
        self.prefix, self.to_lose = new_prefix(), 0
        super().__init__()

    def open(self) -> RedisFrontier:
        return RedisFrontier(self.proxy.url, self.place(), prefix=self.prefix, limits=TINY, strict=True)

    def restore(self, backup: Path) -> None:
        forget(self.proxy.url, self.prefix)
        self.prefix = new_prefix()
        restore(self.proxy.url, backup, self.place(), prefix=self.prefix, limits=TINY)

    def teardown(self) -> None:
        super().teardown()
        forget(self.proxy.url, self.prefix)

    def both(self, name: str, *arguments: Any, **options: Any) -> Any:
        expected = getattr(self.model, name)(*arguments, **options)
        if name == "commit":
            self.proxy.lose, self.to_lose = self.to_lose, 0
        while True:
            try:
                found = getattr(self.local, name)(*arguments, **options)
                break
            except Unavailable:
                continue
        assert found == expected
        self.proxy.lose = 0
        return expected

    @rule(answers=st.sampled_from([1, 4, 5]))
    def answers_get_lost(self, answers: int) -> None:
        """Of the next commit. The client asks four times before it says so."""
        self.to_lose = answers

    @rule()
    def die(self) -> None:
        self.local._stack.close()  # without a checkpoint
        self.restart()

    @rule()
    def lose_power(self) -> None:
        self.local._stack.close()
        if not self.local._seen._levels:  # no checkpoint yet: nothing of the files is sure
            shutil.rmtree(self.place() / "domains")
        self.restart()


@pytest.fixture(autouse=True, scope="module")
def lossy(redis_url: str) -> Iterator[None]:
    with proxied(redis_url) as proxy:
        proxy.mark = hashlib.sha1(read_script("apply").encode(), usedforsecurity=False).hexdigest().encode()
        RedisMachine.proxy = proxy
        yield


TestFrontierInRedis = RedisMachine.TestCase
TestFrontierInRedis.settings = settings(deadline=None, max_examples=examples(60), stateful_step_count=40)
