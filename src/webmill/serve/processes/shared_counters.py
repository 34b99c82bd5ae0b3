"""Metrics of all processes of a server in shared memory, so that any process can report the sum.

Each process has a row of doubles with a cell per series: labels have fixed values, so all offsets are known in advance.
A killed process leaves its row; the process that replaces it goes on counting there.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family

from webmill.infra.metrics import OTHER, Counter, Gauge, Histogram, Metric, Series, series
from webmill.serve.processes.metrics import METRICS

WIDTH = 8  # bytes of a double
SUMMED = ("process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds")


def cell_offsets(declared: Iterable[Metric]) -> dict[Series, int]:
    """Return the first cell of each series. Cell 0 is the process id."""
    found: dict[Series, int] = {}
    end = 1
    for metric in declared:
        for values in product(*((*known, OTHER) for known in metric.labels.values())):
            found[metric.name, values] = end
            end += len(metric.buckets) + 2 if isinstance(metric, Histogram) else 1
    found["", ()] = end
    return found


class SharedCounters:
    """Counters of the declared series; an unknown label value is counted as "other"."""

    def __init__(self, file: Path | None = None, *, row: int = 0, rows: int = 1) -> None:
        """`file` is shared by the processes (see `create_counters`); without one this process counts alone."""
        self._declared = METRICS
        self._places = cell_offsets(self._declared)
        self._width = self._places["", ()]
        size = self._width * rows * WIDTH
        if file:
            with file.open("r+b") as opened:
                self._memory = mmap.mmap(opened.fileno(), size)
        else:
            self._memory = mmap.mmap(-1, size)
        self._cells = memoryview(self._memory).cast("d")
        self._rows, self._base = rows, row * self._width
        self._cells[self._base] = os.getpid()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def offset(self, metric: Metric, **labels: str) -> int:
        """Return the cell of a series, for `add` in hot paths."""
        return self._base + self._places[series(metric, labels)]

    def add(self, place: int, by: float = 1) -> None:
        self._cells[place] += by

    def count(self, metric: Counter, by: float = 1, **labels: str) -> None:
        self._cells[self.offset(metric, **labels)] += by

    def set(self, metric: Gauge, value: float, **labels: str) -> None:
        self._cells[self.offset(metric, **labels)] = value

    def observe(self, metric: Histogram, value: float, **labels: str) -> None:
        self.observe_at(self.offset(metric, **labels), metric.buckets, value)

    def observe_at(self, place: int, buckets: tuple[float, ...], value: float) -> None:
        """Add an observation. The last two cells of a histogram are the overflow bucket and the sum."""
        self._cells[place + bisect_left(buckets, value)] += 1
        self._cells[place + len(buckets) + 1] += value

    def render(self) -> bytes:
        """Return the metrics of all processes together, in the format of `metrics.CONTENT_TYPE`."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Family]:
        for metric in self._declared:
            yield self._family(metric)
        yield from self._process_metrics()

    def _family(self, metric: Metric) -> Family:
        names = list(metric.labels)
        found = [(list(values), at) for (name, values), at in self._places.items() if name == metric.name]
        if isinstance(metric, Histogram):
            histogram = HistogramMetricFamily(metric.name, metric.help, labels=names)
            for values, at in found:
                histogram.add_metric(values, *self._buckets(metric, at))
            return histogram
        kind = GaugeMetricFamily if isinstance(metric, Gauge) else CounterMetricFamily
        family = kind(metric.name, metric.help, labels=names)
        for values, at in found:
            family.add_metric(values, self._sum(at))
        return family

    def _buckets(self, metric: Histogram, at: int) -> tuple[list[tuple[str, float]], float]:
        bounds, total = [], 0.0
        for number, bound in enumerate((*metric.buckets, float("inf"))):
            total += self._sum(at + number)
            bounds.append((str(bound) if bound != float("inf") else "+Inf", total))
        return bounds, self._sum(at + len(metric.buckets) + 1)

    def _sum(self, at: int) -> float:
        return sum(self._cells[row * self._width + at] for row in range(self._rows))

    def _process_metrics(self) -> Iterator[Family]:
        """Yield CPU, memory and open files of all processes, summed (Linux)."""
        total: dict[str, Family] = {}
        for row in range(self._rows):
            pid = int(self._cells[row * self._width])
            for family in ProcessCollector(registry=None, pid=partial(int, pid)).collect() if pid else ():
                if family.name in SUMMED:
                    _merge(total.setdefault(family.name, family), family)
        yield from total.values()


def _merge(into: Family, family: Family) -> None:
    if into is not family:
        (old,), (new,) = into.samples, family.samples
        into.samples = [old._replace(value=old.value + new.value)]


def create_counters(file: Path, *, rows: int) -> None:
    file.write_bytes(bytes(cell_offsets(METRICS)["", ()] * rows * WIDTH))
