"""A broad crawl of a simulated web, small: the program that measures large ones works, and asks politely."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.broad_crawl import ADDRESS_DELAY, DELAY, BroadCrawl


def test_a_small_web_is_crawled_until_enough_is_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    crawl = BroadCrawl(tmp_path, hosts=150, urls=2000)
    crawl.run()
    last = crawl.rows[-1]
    assert last["URLs known"] >= 2000
    assert last["visited"] > 30
    assert crawl.servers.results["200"] > 30
    assert crawl.judge.shortest["host"] >= DELAY
    assert crawl.judge.shortest["domain"] >= DELAY
    assert crawl.judge.shortest["address"] >= ADDRESS_DELAY
    assert "a visit failed" not in caplog.text
