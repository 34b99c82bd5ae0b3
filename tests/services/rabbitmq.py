"""A private RabbitMQ node: own ports, own Erlang port mapper, own cookie, all in one folder."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.services.base import Running, answers, binary, free_port

ENV = "WEBMILL_TEST_AMQP_URL"
# It keeps no core busy, listens here alone, and tells the length of a queue every second.
ARGUMENTS = "+sbwt none -kernel inet_dist_use_interface {127,0,0,1} -rabbit quorum_tick_interval 1000"
METRICS = """\
prometheus.tcp.ip = {address}
prometheus.tcp.port = 15692
collect_statistics_interval = 1000
"""
# Debian's /usr/sbin/rabbitmq-server changes the user and the folder; the script behind it does neither.
FOLDERS = ("/usr/lib/rabbitmq/bin", "/opt/homebrew/sbin")


def start(folder: Path, *, metrics_at: str | None = None) -> Running:
    """`metrics_at` is an address whose port 15692 serves its metrics, from its plugin rabbitmq_prometheus."""
    server = binary("rabbitmq-server", package="rabbitmq-server", folders=FOLDERS, setting=ENV)
    mapper = binary("epmd", package="erlang-base", setting=ENV)
    port, distribution, mapping = free_port(), free_port(), free_port()
    (folder / "plugins").write_text("[rabbitmq_prometheus].\n" if metrics_at else "[].\n")
    if metrics_at:
        (folder / "rabbitmq.conf").write_text(METRICS.format(address=metrics_at))
    # The port mapper would detach itself when the node starts it, and outlive the tests: it runs in our group instead,
    # and one SIGTERM to the shell ends both.
    ending = """trap "trap '' TERM; kill 0; wait \\$node" TERM"""
    script = f'{ending}; "{mapper}" -port {mapping} -address 127.0.0.1 & "{server}" & node=$!; wait $node'
    url = f"amqp://guest:guest@127.0.0.1:{port}/"
    env = environment(folder, port=port, distribution=distribution, mapping=mapping)
    return Node("rabbitmq", url, ["/bin/sh", "-c", script], folder, lambda: answers(port), env=env).start()


class Node(Running):
    def _end(self, sign: signal.Signals) -> None:
        """The shell is dead before the node is: a restart must not meet the old one on its port and in its folder."""
        super()._end(sign)
        while self.ready():
            time.sleep(0.01)


def environment(folder: Path, *, port: int, distribution: int, mapping: int) -> dict[str, str]:
    return {
        "HOME": str(folder),  # the cookie is made here
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_NODENAME": f"webmill{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ARGUMENTS,
        "ERL_EPMD_PORT": str(mapping),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
