"""The batcher before web servers: one that we did not write, and one that misbehaves."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.contracts.range_server import serving
from tests.pipeline.dispatch_samples import captures, in_blocks, messages_of, read_plainly, write_index
from tests.services.nginx import nginx_serving
from tests.unit.cli.command import Ended, webmill
from webmill.infra.queue.sqlite import SqliteQueue

NAME = "CC-MAIN-2024-30"
INDEX = f"cc-index/collections/{NAME}/indexes"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where the limiter keeps its pace
    return tmp_path


def batch(*arguments: str) -> Ended:
    return webmill("cc", "batch", *arguments, "--no-metrics", "--queue", "sqlite:queue.sqlite", "--json")


def requested(base: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """A plain loop of requests, as people write it."""
    summary = requests.get(f"{base}/{INDEX}/cluster.idx", timeout=30).text
    for row in summary.splitlines():
        _, name, offset, length, *_ = row.split("\t")
        headers = {"Range": f"bytes={offset}-{int(offset) + int(length) - 1}"}
        answer = requests.get(f"{base}/{INDEX}/{name}", headers=headers, timeout=30)
        for line in gzip.decompress(answer.content).decode().splitlines():
            surt, timestamp, rest = line.split(" ", 2)
            yield surt, timestamp, json.loads(rest)


def taken() -> list[tuple[str, str, dict[str, Any]]]:
    queue, bodies = SqliteQueue(Path("queue.sqlite")), []
    with queue.consume() as consumer:
        while delivery := consumer.receive(timeout=0):
            bodies.append(delivery.body)
            delivery.ack()
    queue.close()
    return messages_of(bodies)


@pytest.mark.server("nginx")
def test_it_agrees_with_a_plain_loop_of_requests_over_nginx(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBMILL_COMMONCRAWL_RATE", "0")
    write_index(here / "web" / INDEX, in_blocks(captures(2000), 25), shards=4)
    with nginx_serving(here / "web") as server:
        base = f"http://127.0.0.1:{server.port}"
        done = batch("--crawl", NAME, "--base-url", base, "--language", "eng", "--status", "200")
        narrow = batch("--crawl", NAME, "--base-url", base, "--domain", "h0042.com", "--batch-size", "7")
        expected = list(requested(base))
        asked = [one for one in server.log() if one.user_agent.startswith("webmill/")]
    assert (done.code, narrow.code) == (0, 0), done.err + narrow.err
    english = [one for one in expected if one[2]["status"] == "200" and "eng" in one[2].get("languages", "").split(",")]
    assert taken() == english + [one for one in expected if one[0].startswith("com,h0042)")]
    assert len(asked) < 80, "blocks that lie side by side come together"


def test_a_server_that_fails_now_and_then_costs_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBMILL_COMMONCRAWL_RATE", "0")
    cluster = write_index(here / "index", in_blocks(captures(300), 10), shards=3)
    failures = iter([503, 429, 500])
    with serving() as server:
        server.values |= {f"{INDEX}/{file.name}": file.read_bytes() for file in cluster.parent.iterdir()}

        def fail_at_first(handler: Any) -> None:
            status = next(failures, None)
            handler.honest(server.values[f"{INDEX}/cdx-00001.gz"]) if status is None else handler.answer(status)

        server.lies[f"{INDEX}/cdx-00001.gz"] = fail_at_first
        done = batch("--crawl", NAME, "--base-url", server.url)
    assert done.code == 0, done.err
    assert taken() == read_plainly(cluster)


def test_a_server_that_refuses_us_is_not_asked_again_and_the_next_run_goes_on(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBMILL_COMMONCRAWL_RATE", "0")
    cluster = write_index(here / "index", in_blocks(captures(300), 10), shards=3)
    with serving() as server:
        server.values |= {f"{INDEX}/{file.name}": file.read_bytes() for file in cluster.parent.iterdir()}
        last = f"{INDEX}/cdx-00002.gz"
        server.lies[last] = lambda handler: handler.answer(403)
        refused = batch("--crawl", NAME, "--base-url", server.url, "--concurrency", "1")
        assert refused.code == 1
        assert "refuses us" in refused.err
        assert sum(last in path for _, path, _ in server.requests) == 1
        first = taken()
        del server.lies[last]
        done = batch("--crawl", NAME, "--base-url", server.url)
    assert done.code == 0, done.err
    assert json.loads(done.out)["resumed"]
    assert first
    assert first + taken() == read_plainly(cluster)


def test_it_asks_no_faster_than_the_settings_say(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBMILL_COMMONCRAWL_RATE", "4")
    cluster = write_index(here / "index", in_blocks(captures(120), 10), shards=12)
    with serving() as server:
        server.values |= {f"{INDEX}/{file.name}": file.read_bytes() for file in cluster.parent.iterdir()}
        began = time.monotonic()
        done = batch("--crawl", NAME, "--base-url", server.url, "--concurrency", "12")
        took, count = time.monotonic() - began, len(server.requests)
    assert done.code == 0, done.err
    assert taken() == read_plainly(cluster)
    assert count >= 12
    assert took >= (count - 4) / 4 - 0.1, "4 at once, then 4 a second"
    (pace,) = here.glob("webmill-*/*.limit")
    assert pace.stat().st_size
