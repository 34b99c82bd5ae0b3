"""Numbers for Prometheus: declared once, with labels from fixed sets, kept in a registry of our own.

    FETCHED = Counter("webmill_fetches", "Fetches by how they ended.", {"result": ("ok", "refused", "failed")})

    metrics = Metrics([FETCHED])
    metrics.count(FETCHED, result="ok")
    with metrics.serve(port=9464): …

A label value outside its declared set is counted as "other": values that come from the web would otherwise make a
series each, until memory ends.

Many processes: one, the parent, keeps the numbers. A task counts in a `Tally` and returns it with its result; the
parent adds it. So a task that was lost and tried again is counted once. (Prometheus's own multi-process mode shares
files between processes: those of the dead stay, and half of a lost task stays counted.)
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

import msgspec
import prometheus_client as prometheus

from webmill.errors import Misconfigured

OTHER = "other"
SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
CONTENT_TYPE = prometheus.CONTENT_TYPE_LATEST
Labels = Mapping[str, tuple[str, ...]]


class Counter(msgspec.Struct, frozen=True):
    """Only grows. Prometheus shows it as NAME_total."""

    name: str
    help: str
    labels: Labels = {}


class Gauge(msgspec.Struct, frozen=True):
    """Goes up and down."""

    name: str
    help: str
    labels: Labels = {}


class Histogram(msgspec.Struct, frozen=True):
    """How often a value fell below each bound."""

    name: str
    help: str
    labels: Labels = {}
    buckets: tuple[float, ...] = SECONDS


Metric = Counter | Gauge | Histogram
Series = tuple[str, tuple[str, ...]]  # a metric's name and its label values, in the order declared


def series(metric: Metric, labels: Mapping[str, str]) -> Series:
    """Return the series of these labels. Unknown label names are a mistake of ours; unknown values are the web's."""
    if labels.keys() != metric.labels.keys():
        raise ValueError(f"{metric.name} has the labels {sorted(metric.labels)}, not {sorted(labels)}")
    return metric.name, tuple(labels[name] if labels[name] in known else OTHER for name, known in metric.labels.items())


class Tally:
    """The counts of one task. Picklable: it is sent to the parent with the task's result."""

    def __init__(self) -> None:
        self.counts: dict[Series, float] = {}
        self.observations: dict[Series, list[float]] = {}

    def count(self, metric: Counter, by: float = 1, **labels: str) -> None:
        key = series(metric, labels)
        self.counts[key] = self.counts.get(key, 0) + by

    def observe(self, metric: Histogram, value: float, **labels: str) -> None:
        self.observations.setdefault(series(metric, labels), []).append(value)


class Metrics:
    """The live numbers of this process. Every declared series is there from the start, at zero."""

    def __init__(self, declared: Iterable[Metric]) -> None:
        self.reads = 0  # of the served report, each counted when it was sent
        self._registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self._registry)
        self._live: dict[Series, Any] = {}
        for metric in declared:
            self._declare(metric)

    def count(self, metric: Counter, by: float = 1, **labels: str) -> None:
        self._live[series(metric, labels)].inc(by)

    def set(self, metric: Gauge, value: float, **labels: str) -> None:
        self._live[series(metric, labels)].set(value)

    def observe(self, metric: Histogram, value: float, **labels: str) -> None:
        self._live[series(metric, labels)].observe(value)

    def add(self, tally: Tally) -> None:
        for key, by in tally.counts.items():
            self._live[key].inc(by)
        for key, values in tally.observations.items():
            for value in values:
                self._live[key].observe(value)

    def render(self) -> bytes:
        """Return the report, in the format of CONTENT_TYPE."""
        return prometheus.generate_latest(self._registry)

    @contextmanager
    def serve(
        self, *, port: int, host: str = "127.0.0.1", flag: str = "--metrics-port", ports: int = 1
    ) -> Iterator[str]:
        """Serve the report from a thread while the block runs; yield its URL. Port 0 takes a free one.

        Of `ports` ports, from `port` on, the first that is free is taken.
        """
        server, thread = self._start(range(port, port + ports), host, flag)
        server.set_app(self._count_reads(server.get_app()))
        try:
            yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _start(self, ports: range, host: str, flag: str) -> tuple[Any, threading.Thread]:
        for port in ports:
            try:
                return prometheus.start_http_server(port, addr=host, registry=self._registry)
            except (OSError, OverflowError) as error:
                is_taken = getattr(error, "errno", None) == errno.EADDRINUSE
                if is_taken and port != ports[-1]:
                    continue
                which = f"port {port}" if len(ports) == 1 else f"each port from {ports[0]} to {port}"
                why = "is taken" if is_taken else f"cannot be used ({error})"
                raise Misconfigured(f"{which} of {host} {why}: choose another with {flag}") from error
        raise ValueError("no port to choose from")

    def _count_reads(self, app: Any) -> Any:
        def counted(environment: Any, start_response: Any) -> Iterator[bytes]:
            yield from app(environment, start_response)
            self.reads += 1  # the server has sent the last piece when it asks for another

        return counted

    def _declare(self, metric: Metric) -> None:
        names, registry = list(metric.labels), self._registry
        family: Any
        if isinstance(metric, Histogram):
            family = prometheus.Histogram(metric.name, metric.help, names, registry=registry, buckets=metric.buckets)
        elif isinstance(metric, Gauge):
            family = prometheus.Gauge(metric.name, metric.help, names, registry=registry)
        else:
            family = prometheus.Counter(metric.name, metric.help, names, registry=registry)
        for values in product(*((*known, OTHER) for known in metric.labels.values())):
            self._live[metric.name, values] = family.labels(*values) if names else family
