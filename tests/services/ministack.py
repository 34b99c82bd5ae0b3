"""A private MiniStack: Amazon's services on one port, with IAM enforced, functions of Lambda as processes.

It pins libraries that we use in other versions, so it has an environment of its own, with what our functions need.
"""

from __future__ import annotations

from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from tests.services.base import CannotStart, Running, free_port

ROOT = Path(__file__).parent.parent.parent


def start(folder: Path) -> Running:
    program = ROOT / ".venv-ministack" / "bin" / "ministack"
    if not program.exists():
        raise CannotStart("MiniStack is not installed: run `make .venv-ministack/.ready` (make test does)")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    return Running(
        "ministack", url, [str(program)], folder, lambda: is_ready(url), env=environment(port, folder)
    ).start()


def environment(port: int, folder: Path) -> dict[str, str]:
    """What a function does not set itself it finds in the server's: so it is told of the web on loopback."""
    return {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "IOT_MTLS_ENABLED": "0",
        "AUTH": "true",
        "LAMBDA_EXECUTOR": "local",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "WEBMILL_AWS_ALLOW_PRIVATE": "1",
        "WEBMILL_AWS_SCRATCH": str(folder / "scratch"),
    }


def is_ready(url: str) -> bool:
    try:
        with build_opener(ProxyHandler({})).open(f"{url}/_ministack/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
