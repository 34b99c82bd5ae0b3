"""A private Redis that keeps what it acknowledges."""

from __future__ import annotations

from pathlib import Path

from tests.services.base import Running, answers, binary, free_port

ENV = "WEBMILL_TEST_REDIS_URL"


def start(folder: Path) -> Running:
    server = binary("redis-server", package="redis-server", setting=ENV)
    port = free_port()
    command = [str(server), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"]
    return Running("redis", f"redis://127.0.0.1:{port}/0", command, folder, lambda: answers(port)).start()
