"""Ten thousand connections that say nothing, at once: the next client is served (V01)."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.serve.server_process import DEADLINE, RunningServer, serving, wait_until_true
from tests.serve.test_hostile import PROGRAM, answer_on, cost, is_well

CROWD = 10_000
ROOM = (f"connections={CROWD + 500}", f"connections_each={CROWD + 500}", "head_seconds=900", "idle_seconds=900")
MEMORY = 512 << 20
pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("serve"),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc"),
]


@pytest.fixture
def many_files() -> Iterator[None]:
    """For us; the server is started with the same."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CROWD + 1000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"needs {wanted} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def gather(server: RunningServer, stack: ExitStack) -> None:
    """From a hundred addresses; another client asks meanwhile."""
    for number in range(CROWD):
        source = (f"127.0.2.{number % 100 + 1}", 0)
        address = ("127.0.0.1", server.port)
        stack.enter_context(socket.create_connection(address, timeout=DEADLINE, source_address=source))
        if number % 1000 == 0:
            is_well(server)


def test_ten_thousand_idle_connections_are_held_and_others_served(
    sample_root: Path, tmp_path: Path, many_files: None
) -> None:
    with serving(sample_root, tmp_path / "errors", *ROOM, program=PROGRAM) as server, ExitStack() as stack:
        old = stack.enter_context(server.connect())
        gather(server, stack)
        wait_until_true(lambda: cost(server)[0] >= CROWD, "all of them")
        assert answer_on(old).endswith(b'{"ok":true}')
        is_well(server)
        assert cost(server)[1] < MEMORY


def test_ten_thousand_idle_connections_lose_their_places_where_there_are_less(
    sample_root: Path, tmp_path: Path, many_files: None
) -> None:
    with serving(sample_root, tmp_path / "errors", program=PROGRAM) as server, ExitStack() as stack:
        gather(server, stack)
        is_well(server)
        wait_until_true(lambda: cost(server)[0] < 1500, "an end of most")
        assert cost(server)[1] < MEMORY
