"""Numbers that Prometheus reads, with label values that may come from anywhere."""

from __future__ import annotations

import pickle
import socket
import threading
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from webmill.errors import Misconfigured
from webmill.infra.executor.base import TaskDone
from webmill.infra.executor.pool import PoolExecutor
from webmill.infra.metrics import Counter, Gauge, Histogram, Metrics, Tally

FETCHED = Counter("webmill_fetches", "Fetches by how they ended.", {"result": ("ok", "failed"), "scheme": ("http",)})
WAITING = Gauge("webmill_waiting", "URLs that wait.")
TOOK = Histogram("webmill_fetch_seconds", "Time of a fetch.", {"result": ("ok",)}, buckets=(0.1, 1.0))
DECLARED = (FETCHED, WAITING, TOOK)


def samples(report: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    """Read by Prometheus's own parser."""
    families = text_string_to_metric_families(report.decode())
    return {
        (one.name, tuple(value for _, value in sorted(one.labels.items()))): one.value
        for family in families
        for one in family.samples
    }


def work(number: int) -> Tally:
    tally = Tally()
    tally.count(FETCHED, result="ok", scheme="http")
    tally.count(FETCHED, 2, result=f"surprise {number}", scheme="http")
    tally.observe(TOOK, 0.5, result="ok")
    return tally


def test_every_declared_series_starts_at_zero() -> None:
    seen = samples(Metrics(DECLARED).render())
    fetched = {labels for name, labels in seen if name == "webmill_fetches_total"}
    assert fetched == {(result, scheme) for result in ("ok", "failed", "other") for scheme in ("http", "other")}
    assert {value for (name, _), value in seen.items() if name.endswith("_total") and "webmill" in name} == {0.0}


def test_counts_gauges_and_observations_are_reported() -> None:
    metrics = Metrics(DECLARED)
    metrics.count(FETCHED, result="ok", scheme="http")
    metrics.count(FETCHED, 4, result="ok", scheme="http")
    metrics.set(WAITING, 7)
    metrics.observe(TOOK, 0.5, result="ok")
    seen = samples(metrics.render())
    assert seen["webmill_fetches_total", ("ok", "http")] == 5
    assert seen["webmill_waiting", ()] == 7
    assert seen["webmill_fetch_seconds_bucket", ("0.1", "ok")] == 0
    assert seen["webmill_fetch_seconds_bucket", ("1.0", "ok")] == 1


def test_hostile_label_values_make_no_new_series() -> None:
    metrics = Metrics(DECLARED)
    before = samples(metrics.render()).keys()
    for number in range(1000):
        metrics.count(FETCHED, result=f'x"}} 1\nwebmill_fake{{a="{number}', scheme="http")
    seen = samples(metrics.render())
    assert seen.keys() == before
    assert seen["webmill_fetches_total", ("other", "http")] == 1000


@pytest.mark.parametrize("labels", [{}, {"result": "ok"}, {"result": "ok", "scheme": "http", "url": "x"}])
def test_label_names_must_be_the_declared_ones(labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="has the labels"):
        Metrics(DECLARED).count(FETCHED, **labels)


def test_two_registries_do_not_know_each_other() -> None:
    one, two = Metrics(DECLARED), Metrics(DECLARED)
    one.set(WAITING, 3)
    assert samples(two.render())["webmill_waiting", ()] == 0


def test_what_tasks_counted_in_other_processes_adds_up() -> None:
    metrics = Metrics(DECLARED)
    for outcome in PoolExecutor(workers=2).run(work, range(10)):
        assert isinstance(outcome, TaskDone)
        metrics.add(outcome.value)
    seen = samples(metrics.render())
    assert seen["webmill_fetches_total", ("ok", "http")] == 10
    assert seen["webmill_fetches_total", ("other", "http")] == 20
    assert seen["webmill_fetch_seconds_count", ("ok",)] == 10


def test_a_tally_stays_small_whatever_it_counts() -> None:
    tally = Tally()
    for number in range(1000):
        tally.count(FETCHED, result=str(number), scheme="http")
    assert len(pickle.dumps(tally)) < 300


def test_threads_lose_no_count() -> None:
    metrics = Metrics(DECLARED)

    def count() -> None:
        for _ in range(2000):
            metrics.count(FETCHED, result="ok", scheme="http")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert samples(metrics.render())["webmill_fetches_total", ("ok", "http")] == 8000


def test_metrics_are_served_on_loopback_and_stop_with_the_block() -> None:
    metrics = Metrics(DECLARED)
    before = threading.active_count()
    for _ in range(2):  # the port is free again at once
        with metrics.serve(port=0) as url:
            metrics.set(WAITING, 42)
            assert url.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(url) as answer:
                assert samples(answer.read())["webmill_waiting", ()] == 42
        assert threading.active_count() == before
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url)


def test_a_taken_port_is_said_with_its_number_and_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with (
            pytest.raises(Misconfigured, match=f"port {port} .* is taken: choose another with --metrics-port"),
            Metrics(DECLARED).serve(port=port),
        ):
            pass


def test_the_first_free_port_of_several_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with Metrics(DECLARED).serve(port=port, ports=50) as url, urllib.request.urlopen(url, timeout=30) as answer:
            assert port < int(url.removesuffix("/metrics").rpartition(":")[2]) < port + 50
            assert b"webmill_waiting" in answer.read()


def test_a_read_is_counted_when_its_answer_was_sent() -> None:
    metrics = Metrics(DECLARED)
    with metrics.serve(port=0) as url:
        assert metrics.reads == 0
        for _ in range(2):
            with urllib.request.urlopen(url, timeout=30) as answer:
                answer.read()
        while metrics.reads < 2:  # the limit of time is that of every test
            threading.Event().wait(0.01)
    assert metrics.reads == 2
