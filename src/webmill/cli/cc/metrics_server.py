"""The metrics of `webmill cc`: on which port they are served, and until when."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar
from urllib.parse import urlsplit

import click

from webmill.cli.context import note
from webmill.cli.param_types import DURATION
from webmill.errors import Misconfigured
from webmill.infra import waiting
from webmill.infra.metrics import Metrics
from webmill.settings import Settings
from webmill.settings.value_formats import write_duration

F = TypeVar("F", bound=Callable[..., object])
WORKER_PORTS = 99  # 9001 to 9099: each worker of a machine takes the first that is free
POLL_INTERVAL = 0.05

linger_option = click.option(
    "--metrics-linger",
    "linger",
    type=DURATION,
    default=0.0,
    help="At the end, wait up to this long for Prometheus to read the metrics once more  [default: 0s]",
)


def port_option(default: str) -> Callable[[F], F]:
    """Return `--metrics-port`; it is None when the default counts, as only that may become another port."""
    help_ = f"Serve Prometheus metrics on this port  [default: {default}]"
    return click.option("--metrics-port", type=click.IntRange(0, 65535), metavar="N", help=help_)


@contextmanager
def serve_metrics(
    metrics: Metrics, settings: Settings, *, port: int | None, default: int, ports: int = 1
) -> Iterator[tuple[Metrics, ...]]:
    """Serve metrics on `port`, else on the first free one of `ports` from `default` on; yield them if they are served.

    A port that is in use is noted: the command runs without metrics.
    """
    served: tuple[Metrics, ...] = ()
    first, count = (default, ports) if port is None else (port, 1)
    with ExitStack() as stack:
        try:
            url = stack.enter_context(metrics.serve(port=first, host=settings.metrics.host, ports=count))
            served = (metrics,)
            if port is None and urlsplit(url).port != default:
                note(f"metrics: {url} (port {default} is taken)")
        except Misconfigured as error:
            note(f"no metrics: {error}, or turn them off with --no-metrics")
        yield served


def linger_for_scrape(served: Sequence[Metrics], seconds: float) -> None:
    """Wait until all are read once more, at most `seconds`.

    What a command counted after the last scrape would never be seen, and nothing at all of a command that ends between
    two of them.
    """
    if not served or not seconds:
        return
    before = [one.reads for one in served]
    deadline = time.monotonic() + seconds
    with suppress(KeyboardInterrupt):  # the work is done
        note(f"done; waiting up to {write_duration(seconds)} for Prometheus to read the metrics (Ctrl-C to end now)")
        while time.monotonic() < deadline and any(one.reads <= old for one, old in zip(served, before, strict=True)):
            waiting.sleep(POLL_INTERVAL)
