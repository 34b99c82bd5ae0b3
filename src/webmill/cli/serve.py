"""`webmill serve`: serves a collection over HTTP."""

from __future__ import annotations

import re
import secrets
import socket
import tempfile
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit

import click

from webmill.cli.context import Context, note, pass_context, warn
from webmill.cli.options import settings_options
from webmill.cli.param_types import require_folder
from webmill.cli.publish.storage import publication_paths, root_argument, storage_option
from webmill.cli.serve_processes import ServerPlan, follow_versions, serve_requests
from webmill.errors import Misconfigured
from webmill.serve.guard import rate_limit
from webmill.serve.guard.access_log import AccessLog
from webmill.serve.guard.client_address import is_loopback, is_network
from webmill.serve.processes import shared_counters
from webmill.serve.processes.server import tls_context
from webmill.serve.processes.supervisor import ServerProcess, Supervisor, listen
from webmill.settings import ServeSettings, Settings

HOST_NAME = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")  # the second: IPv6
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - a person chose it


@click.command(
    epilog="""\b
Examples:
  webmill serve news/ --open
  webmill serve news/ --host 0.0.0.0 --port 80 --processes 4 \\
    --allow-host archive.example.org
  webmill serve news/ --certificate cert.pem --key key.pem

Ctrl-C stops it after the responses in progress. Behind nginx: docs/how-to/serve-behind-nginx.md"""
)
@root_argument
@storage_option
@settings_options("serve")
@click.option("--feed/--no-feed", "is_fed", default=True, help="Keep the search index up to date.  [default: on]")
@click.option("--open", "is_opened", is_flag=True, help="Open it in the browser.")
@pass_context
def serve(
    context: Context, *, root: Path, storage: str | None, is_fed: bool, is_opened: bool, settings: Settings
) -> None:
    """Serve the collection in DIR over HTTP: web pages, search, replay, and APIs for captures, archives and versions.

    The flags from --host to --access-log can also be set in section [serve] of webmill.toml. Set the token there or as
    WEBMILL_SERVE_TOKEN: other users of this machine can see the flags of a running command.
    """
    place = publication_paths(require_folder(root))
    chosen = settings.serve
    check_settings(chosen)
    tls_context(chosen.certificate, chosen.key)  # fails before anything starts
    with (
        tempfile.TemporaryDirectory(prefix="webmill-serve-") as folder,
        listen(chosen.host, chosen.port, flag="--port") as own,
        listen(chosen.host, replay_port(chosen), flag="--replay-port") as replay,
    ):
        address = chosen.address or public_address(chosen, own)
        file, buckets = Path(folder) / "numbers", Path(folder) / "buckets"
        shared_counters.create_counters(file, rows=chosen.processes)
        rate_limit.create_table(buckets)
        plan = ServerPlan(
            root=place.root,
            settings=settings,
            storage=storage,
            address=address.rstrip("/"),
            replay_address=(chosen.replay_address or public_address(chosen, replay)).rstrip("/"),
            secret=secrets.token_bytes(32),
            numbers=file,
            buckets=buckets,
            verbosity=-1 if context.quiet else context.verbosity,
        )
        warn_if_exposed(chosen)
        members = [
            ServerProcess(f"serve-{row}", serve_requests, plan, row, own, replay) for row in range(chosen.processes)
        ]
        if is_fed:
            members.append(ServerProcess("feed", follow_versions, plan))

        def close() -> None:  # a socket that anybody holds open still takes connections
            own.close()
            replay.close()

        Supervisor(members, ready=lambda: print_address(plan, is_opened=is_opened), stopping=close).run()
    note("stopped")


def check_settings(chosen: ServeSettings) -> None:
    """Refuse wrong settings before anything starts."""
    check_origins(chosen)
    for proxy in chosen.proxies:
        if not is_network(proxy):
            raise Misconfigured(f"{proxy} is not an IP address or network: write 10.0.0.1 or 10.0.0.0/8")
    if chosen.access_log:
        AccessLog(chosen.access_log).close()


def check_origins(chosen: ServeSettings) -> None:
    """Refuse origins and host names that no browser would ever send."""
    addresses = [parse_origin(address) for address in (chosen.address, chosen.replay_address) if address]
    for origin in set(chosen.origins) - {"*"}:
        parse_origin(origin)
    for name in chosen.hosts:
        if not HOST_NAME.fullmatch(name):
            raise Misconfigured(f"{name} is not a host name: write archive.example.org, without scheme and port")
    if len(addresses) == 1:
        raise Misconfigured(
            "behind a proxy, archived pages need their own URL: give both --address and --replay-address"
        )
    if len(addresses) != len(set(addresses)):
        raise Misconfigured(
            "--address and --replay-address must differ: scripts of archived pages must not reach this server"
        )


def parse_origin(text: str) -> tuple[str, str, int]:
    """Return scheme, host and port, which browsers compare."""
    try:
        parts = urlsplit(text)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        parts, port = urlsplit(""), 0
    rest = (parts.path.rstrip("/"), parts.query, parts.fragment, parts.username or "")
    if not parts.hostname or any(rest):
        raise Misconfigured(f"{text} is not an origin: write https://archive.example.org")
    return parts.scheme, parts.hostname, port


def replay_port(chosen: ServeSettings) -> int:
    if chosen.replay_port or not chosen.port:
        return chosen.replay_port
    return chosen.port + 1


def public_address(chosen: ServeSettings, listening: socket.socket) -> str:
    """Return the URL that clients on this machine or its network would use."""
    host = socket.gethostname() if chosen.host in EVERYWHERE else chosen.host
    scheme = "https" if chosen.certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def warn_if_exposed(chosen: ServeSettings) -> None:
    if not is_loopback(chosen.host) and not chosen.token:
        warn(
            f"everyone who reaches {chosen.host} can read this collection and use its buttons: "
            "protect those with --token, or listen on 127.0.0.1"
        )


def print_address(plan: ServerPlan, *, is_opened: bool) -> None:
    note(f"serving {plan.root} at {plan.address}/ (archived pages at {plan.replay_address}/; Ctrl-C stops)")
    if is_opened:
        webbrowser.open(plan.address)
