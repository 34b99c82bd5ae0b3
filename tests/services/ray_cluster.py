"""A Ray cluster of two nodes on loopback, for tests: no dashboard, no usage statistics, small memory.

    python -m tests.services.ray_cluster      prints one line of JSON, runs until its standard input closes

It is a process of its own because Ray reads its environment when it is first imported.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

# Ray leaves sockets and processes to the garbage collector when it disconnects.
FAULTY = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
ENVIRONMENT = {
    # Meant for laptops: Ray then takes the loopback address for its own. Otherwise it listens on every interface.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    # A killed node is noticed when its connection breaks; these are for one that falls silent.
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "4",
}
NODE = {
    "num_cpus": 1,
    "node_ip_address": "127.0.0.1",
    "object_store_memory": 80_000_000,  # the least that Ray accepts
    "min_worker_port": 0,
    "max_worker_port": 0,
}


class RayCluster(NamedTuple):
    address: str  # HOST:PORT
    client: str  # ray://HOST:PORT
    second_node: int  # the process to kill


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """Drivers need ENVIRONMENT, too, before they import Ray."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # Ray's socket names must stay short
    command = [sys.executable, "-W", "ignore", "-m", "tests.services.ray_cluster", folder]
    environment = {**os.environ, **ENVIRONMENT, "RAY_TMPDIR": folder}  # it notes its address below, for others to find
    starter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)
    assert starter.stdin is not None
    assert starter.stdout is not None
    try:
        lines = (line for line in starter.stdout if line.startswith("{"))
        yield RayCluster(**json.loads(next(lines)))
    finally:
        starter.stdin.close()
        starter.stdout.close()
        starter.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def main(folder: str) -> None:
    from ray.cluster_utils import Cluster

    port = free_port()
    head = {**NODE, "include_dashboard": False, "temp_dir": f"{folder}/ray", "ray_client_server_port": port}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    second = cluster.add_node(**NODE)
    ready = RayCluster(cluster.address, f"ray://127.0.0.1:{port}", second.all_processes["raylet"][0].process.pid)
    print(json.dumps(ready._asdict()), flush=True)
    sys.stdin.read()
    sys.stdout = sys.stderr  # nobody reads the other any more
    cluster.shutdown()


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main(sys.argv[1])
