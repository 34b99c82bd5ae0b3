"""The Redis of deploy/ keeps what a crawl has acknowledged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.base import Running, answers, binary, free_port
from tests.services.redis import ENV
from tests.unit.deploy_files import DEPLOY

PASSWORD = "swordfish"

pytestmark = pytest.mark.server("redis")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[str]:
    server, port = binary("redis-server", package="redis-server", setting=ENV), free_port()
    command = [str(server), str(DEPLOY / "redis" / "redis.conf"), "--requirepass", PASSWORD]
    command += ["--dir", str(tmp_path), "--bind", "127.0.0.1", "--port", str(port), "--daemonize", "no"]
    url = f"redis://:{PASSWORD}@127.0.0.1:{port}/0"
    running = Running("redis", url, command, tmp_path, lambda: answers(port)).start()
    try:
        yield url
    finally:
        running.stop()


def test_the_doctor_finds_it_durable(redis: str) -> None:
    command = [sys.executable, "-m", "webmill", "doctor", "--json", "--frontier", redis]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    (finding,) = (one for one in map(json.loads, run.stdout.splitlines()) if one["part"] == "redis")
    assert finding["state"] == "good"
    assert "survives a death of Redis" in finding["promise"]
