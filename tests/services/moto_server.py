"""A private moto: SQS and Kinesis without Amazon, in memory. It takes any keys."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.services.base import CannotStart, Running, answers, find, free_port

ENV = "WEBMILL_TEST_AWS_URL"


def start(folder: Path) -> Running:
    moto = find("moto_server", [str(Path(sys.executable).parent)])
    if not moto:
        raise CannotStart(f"moto_server is not installed: run `make .venv/.dev` (moto), or set {ENV} to an endpoint")
    port = free_port()
    command = [moto, "-H", "127.0.0.1", "-p", str(port)]
    return Running("aws", f"http://127.0.0.1:{port}", command, folder, lambda: answers(port)).start()
