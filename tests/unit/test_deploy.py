"""The dashboards and the Prometheus configuration in deploy/ fit what the commands serve."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import webmill.boards.metrics
import webmill.crawl.metrics
import webmill.pipeline
import webmill.serve.processes.metrics
from webmill.infra.metrics import Counter, Gauge, Histogram, Metric, Metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARDS = ("commoncrawl", "crawler")
OF_A_PROCESS = {
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
}  # seen on Linux only
OF_PROMETHEUS = {"up"}
WORDS = {"sum", "rate", "max", "by", "and", "or", "increase", "max_over_time", "histogram_quantile", "le"}
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
TARGET_LABELS = {"instance", "job"}


def metric_modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(webmill.pipeline.__path__, "webmill.pipeline.")
    return [importlib.import_module(module.name) for module in found if module.name.endswith("metrics")]


def declared() -> list[Metric]:
    metrics: dict[str, Metric] = {}
    for module in (*metric_modules(), webmill.boards.metrics, webmill.crawl.metrics, webmill.serve.processes.metrics):
        for value in vars(module).values():
            if isinstance(value, Counter | Gauge | Histogram):
                metrics[value.name] = value
    return list(metrics.values())


def served() -> set[str]:
    """Names as they come out of a command, which are not always those in the code."""
    text = Metrics(declared()).render().decode()
    return {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}


def panels(board: str) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = json.loads((DEPLOY / "grafana" / "dashboards" / f"{board}.json").read_text())[
        "panels"
    ]
    return shown


def queries(board: str) -> Iterator[str]:
    for panel in panels(board):
        for target in panel.get("targets", []):
            yield target["expr"]


def names(query: str) -> set[str]:
    """Of metrics and labels."""
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]', "", query)
    return set(re.findall(r"[a-z_]+", bare)) - WORDS


@pytest.mark.parametrize("board", BOARDS)
def test_a_dashboard_asks_only_for_what_is_served(board: str) -> None:
    labels = {label for metric in declared() for label in metric.labels}
    known = served() | labels | OF_A_PROCESS | OF_PROMETHEUS | TARGET_LABELS
    unknown = {name for query in queries(board) for name in names(query) - known}
    assert not unknown


def test_batcher_and_workers_have_their_28_numbers_and_all_are_shown() -> None:
    shown = {name for query in queries("commoncrawl") for name in names(query)}
    counted = {name for name in served() if re.match("(batcher|worker)_", name) and not name.endswith("_created")}
    assert len(counted) == 28
    assert not counted - shown


def test_all_numbers_of_a_crawl_are_shown() -> None:
    shown = {name for query in queries("crawler") for name in names(query)}
    counted = {name for name in served() if name.startswith("crawler_") and not name.endswith("_created")}
    assert not counted - shown


@pytest.mark.parametrize("board", BOARDS)
def test_panels_have_numbers_and_places_of_their_own(board: str) -> None:
    cells = [
        (x, y)
        for panel in panels(board)
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    ids = [panel["id"] for panel in panels(board)]
    assert len(ids) == len(set(ids))


def test_prometheus_asks_at_the_ports_that_are_the_defaults() -> None:
    asked = {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", (DEPLOY / "prometheus.yml").read_text())}
    assert {module.PORT for module in metric_modules() if hasattr(module, "PORT")} <= asked
    assert set(range(9001, 9009)) <= asked


@pytest.mark.skipif(sys.platform != "linux", reason="these numbers come from /proc")
def test_what_a_process_tells_of_itself_is_served() -> None:
    assert served() >= OF_A_PROCESS


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_asks_only_for_what_is_served_and_says_what_to_do(rule: dict[str, Any]) -> None:
    labels = {label for metric in declared() for label in metric.labels}
    known = served() | labels | OF_A_PROCESS | OF_PROMETHEUS | TARGET_LABELS
    assert not names(rule["expr"]) - known
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert len(rule["annotations"]["action"]) > 40
    assert rule["annotations"]["summary"]
    pages = re.findall(r"docs/[\w/-]+\.md", rule["annotations"]["action"])
    assert all((DEPLOY.parent / page).is_file() for page in pages)


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_is_promql_with_values_that_labels_have(rule: dict[str, Any]) -> None:
    import promql_parser

    promql_parser.parse(rule["expr"])
    for label, asked in re.findall(r'(\w+)(?:=~|!=|=)"([^"]*)"', rule["expr"]):
        assert set(asked.split("|")) <= {value for metric in declared() for value in metric.labels.get(label, ())}


def test_both_configurations_of_prometheus_have_the_alerts_and_the_names_of_the_reference() -> None:
    for path in (DEPLOY / "prometheus.yml", DEPLOY / "prometheus" / "compose.yml"):
        rules = yaml.safe_load(path.read_text())["rule_files"]
        assert [Path(name).name for name in rules] == ["alerts.yml", "counters.yml"]
        assert all((path.parent / name).is_file() for name in rules)


def test_every_counter_of_batcher_and_workers_has_its_name_without_suffix() -> None:
    (group,) = yaml.safe_load((DEPLOY / "prometheus" / "counters.yml").read_text())["groups"]
    counters = {one.name for one in declared() if isinstance(one, Counter) and re.match("(batcher|worker)_", one.name)}
    recorded = {rule["record"]: rule["expr"] for rule in group["rules"]}
    assert recorded == {
        name: f'{name}_total or 0 * up{{job="{name.partition("_")[0]}"}}'
        for name in counters
        if not name.endswith("_total")
    }


def test_rabbitmq_serves_the_metrics_that_prometheus_asks_for() -> None:
    """`/metrics` adds up all queues; only `/metrics/per-object` has `rabbitmq_queue_messages{queue="batches"}`."""
    plugins = (DEPLOY / "rabbitmq" / "enabled_plugins").read_text()
    assert "rabbitmq_prometheus" in plugins
    for name, mounted in (("docker-compose.yml", "compose.yml"), ("docker-compose.host.yml", "../prometheus.yml")):
        service = yaml.safe_load((DEPLOY / name).read_text())["services"]["rabbitmq"]
        assert "./rabbitmq/enabled_plugins:/etc/rabbitmq/enabled_plugins:ro" in service["volumes"]
        jobs = yaml.safe_load((DEPLOY / "prometheus" / mounted).read_text())["scrape_configs"]
        (job,) = (one for one in jobs if one["job_name"] == "rabbitmq")
        assert job["metrics_path"] == "/metrics/per-object"
        assert "15692" in str(job)
