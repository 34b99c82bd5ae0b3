"""Prometheus with a configuration of a test, and what it answers.

with prometheus_reading(file) as prometheus:
    prometheus.ask("sum(rate(worker_batches[5m]))")     # [Answer(labels, value), …]
"""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.services.base import CannotStart, Running, find, free_port, install

PACKAGE = "prometheus"


class Answer(NamedTuple):
    labels: dict[str, str]
    value: float


class Prometheus(NamedTuple):
    url: str

    def ask(self, query: str) -> list[Answer]:
        """Return the answer to a query, of now."""
        asked = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{asked}", timeout=30) as answer:
            found = json.load(answer)["data"]["result"]
        return [Answer(one["metric"], float(one["value"][1])) for one in found]


def is_ready(url: str) -> bool:
    """It answers from the start, but with 503 while it reads its files."""
    try:
        urllib.request.urlopen(f"{url}/-/ready", timeout=5).close()
    except OSError:
        return False
    return True


@contextmanager
def prometheus_reading(configuration: Path) -> Iterator[Prometheus]:
    program = find("prometheus", ()) or (install(PACKAGE) and find("prometheus", ()))
    if not program:
        raise CannotStart("prometheus is not installed: install it (Debian: apt-get install prometheus)")
    folder, port = Path(tempfile.mkdtemp(prefix="webmill-prometheus-")), free_port()
    command = [
        str(program),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    url = f"http://127.0.0.1:{port}"
    server = Running("prometheus", url, command, folder, lambda: is_ready(url))
    try:
        yield Prometheus(server.start().url)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
