"""For those who run the server."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from pathlib import Path

from anyio import to_thread
from prometheus_client.parser import text_string_to_metric_families

from tests.serve.asgi_client import asgi_client
from tests.serve.conftest import site_of
from webmill import __version__
from webmill.serve.api.openapi import API_VERSION
from webmill.serve.app import application
from webmill.serve.processes.metrics import METRICS, REQUESTS
from webmill.serve.processes.shared_counters import SharedCounters, create_counters


def test_a_server_says_that_it_is_there_and_what_it_is(sample_root: Path) -> None:
    with asgi_client(application(site_of(sample_root))) as ask:
        assert ask("/healthz").status == 200
        assert json.loads(ask("/version").body) == {"webmill": __version__, "api": API_VERSION}
        assert ask("/healthz")["cache-control"] == "no-store"


def test_it_is_ready_when_what_is_there_can_be_read(sample_root: Path) -> None:
    with asgi_client(application(site_of(sample_root))) as ask:
        answer = ask("/readyz")
    assert answer.status == 200
    version = json.loads((sample_root / "latest.json").read_text())["version"]
    assert json.loads(answer.body) == {"ready": True, "versions": version, "index": "TOWN-2024"}


def test_an_empty_collection_is_ready(tmp_path: Path) -> None:
    with asgi_client(application(site_of(tmp_path))) as ask:
        answer = ask("/readyz")
    assert (answer.status, json.loads(answer.body)["index"]) == (200, "nothing yet")


def test_what_is_damaged_is_named(sample_root: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sample_root, tmp_path / "town", symlinks=True))
    (root / "latest.json").write_text("{")
    next(root.glob("cc-index/collections/*/indexes/cluster.idx")).write_text("nonsense\n")
    with asgi_client(application(site_of(root))) as ask:
        answer = ask("/readyz")
    reported = json.loads(answer.body)
    assert answer.status == 503
    assert reported["ready"] is False
    assert reported["versions"].startswith("latest.json: ")
    assert reported["index"].startswith("TOWN-2024: ")
    assert str(root) not in answer.body.decode()


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    root = tmp_path / "gone"
    root.mkdir()
    with asgi_client(application(site_of(root))) as ask:
        root.rmdir()
        assert ask("/readyz").status == 503
        assert ask("/healthz").status == 200


def test_it_tells_how_it_is_also_when_every_thread_waits_for_a_disk(sample_root: Path) -> None:
    done = threading.Event()

    async def occupy() -> list[asyncio.Task[bool]]:
        many = int(to_thread.current_default_thread_limiter().total_tokens)
        return [asyncio.create_task(to_thread.run_sync(done.wait, 120)) for _ in range(many)]

    with asgi_client(application(site_of(sample_root))) as ask:
        busy = ask.runner.run(occupy())
        try:
            for path in ("/healthz", "/readyz", "/metrics", "/version", "/latest.json"):
                assert ask(path).status == 200
            assert not any(task.done() for task in busy)
        finally:
            done.set()
            ask.runner.run(asyncio.wait(busy))


def test_prometheus_can_read_the_numbers(sample_root: Path) -> None:
    with asgi_client(application(site_of(sample_root))) as ask:
        ask("/latest.json")
        families = {family.name: family for family in text_string_to_metric_families(ask("/metrics").body.decode())}
    assert {metric.name for metric in METRICS} <= set(families)
    seconds = families["webmill_serve_seconds"]
    counts = {
        sample.labels["le"]: sample.value
        for sample in seconds.samples
        if sample.name.endswith("_bucket") and sample.labels["kind"] == "delivery"
    }
    assert counts["+Inf"] == 1
    assert list(counts.values()) == sorted(counts.values())


def test_the_numbers_of_all_processes_are_one_and_outlive_each_of_them(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    create_counters(file, rows=2)
    one, two = SharedCounters(file, row=0, rows=2), SharedCounters(file, row=1, rows=2)
    one.count(REQUESTS, kind="cdx", status="2xx")
    two.count(REQUESTS, 2, kind="cdx", status="2xx")
    del two
    again = SharedCounters(file, row=1, rows=2)
    again.count(REQUESTS, 4, kind="cdx", status="2xx")
    line = 'webmill_serve_requests_total{kind="cdx",status="2xx"} 7.0'
    assert line in one.render().decode()
    assert line in again.render().decode()
