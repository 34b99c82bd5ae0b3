"""`webmill serve`: serves a collection over HTTP."""

from __future__ import annotations

import re
import secrets
import socket
import tempfile
import webbrowser
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from webmill.cli.context import Context, note, pass_context, warn
from webmill.cli.options import sources_options
from webmill.cli.param_types import require_folder
from webmill.cli.publish.storage import publication_paths, storage_option
from webmill.cli.serve_processes import ServerPlan, ZoneAddresses, follow_versions, serve_list, serve_requests
from webmill.errors import Misconfigured
from webmill.formats.url.domains import private_domain
from webmill.infra.executor.pool import available_cores
from webmill.serve.collection_list import LIST_NAME, ListedCollection, distinct_names
from webmill.serve.guard import rate_limit
from webmill.serve.guard.access_log import AccessLog
from webmill.serve.guard.client_address import is_loopback, is_network
from webmill.serve.processes import shared_counters
from webmill.serve.processes.server import tls_context
from webmill.serve.processes.supervisor import ServerProcess, Supervisor, listen
from webmill.settings import ServeSettings, Settings, Sources

HOST_NAME = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")  # the second: IPv6
MOST_PROCESSES = 4  # that nobody asked for: each takes a core under load, and 100 MB
SHARED_SETTINGS = (
    "host",
    "processes",
    "replay_zone",
    "certificate",
    "key",
    "access_log",
    "hosts",
)  # of all collections of a server
NO_ZONE = "none"
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - a person chose it


def only_root(params: Mapping[str, Any]) -> Path | None:
    """Return the collection whose settings count; of several none speaks for the server."""
    return params["roots"][0] if len(params["roots"]) == 1 else None


@click.command(
    epilog="""\b
Examples:
  webmill serve news/ --open
  webmill serve news/ sports/ weather/     # a list, each at ports of its own
  webmill serve news/ --host 0.0.0.0 --port 80 --processes 4 \\
    --allow-host archive.example.org
  webmill serve news/ --certificate cert.pem --key key.pem

Ctrl-C stops it after the responses in progress. Behind nginx: docs/how-to/serve-behind-nginx.md"""
)
@click.argument("roots", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False))
@storage_option
@sources_options("serve", place=only_root)
@click.option("--feed/--no-feed", "is_fed", default=True, help="Keep the search index up to date.  [default: on]")
@click.option("--open", "is_opened", is_flag=True, help="Open it in the browser.")
@pass_context
def serve(
    context: Context,
    *,
    roots: tuple[Path, ...],
    storage: str | None,
    is_fed: bool,
    is_opened: bool,
    sources: Sources,
) -> None:
    """Serve the collection in DIR over HTTP: web pages, search, replay, and APIs for captures, archives and versions.

    Of several, each has ports of its own behind --port (two: for its pages, and for archived pages); --port has a list.

    The flags from --host to --access-log can also be set in section [serve] of webmill.toml. Set the token there or as
    WEBMILL_SERVE_TOKEN: other users of this machine can see the flags of a running command.
    """
    if len(roots) > 1:
        if storage:
            raise click.UsageError("--storage is for one collection")
        serve_several(context, [require_folder(root).resolve() for root in roots], sources, is_fed=is_fed)
        return
    place = publication_paths(require_folder(roots[0]))
    settings = with_shared_origin(with_processes(sources.settings(), most=MOST_PROCESSES))
    chosen, processes = settings.serve, settings.serve.processes or 1
    check_settings(chosen)
    tls_context(chosen.certificate, chosen.key)  # fails before anything starts
    with (
        tempfile.TemporaryDirectory(prefix="webmill-serve-") as folder,
        listen(chosen.host, chosen.port, flag="--port") as own,
        listen(chosen.host, replay_port(chosen), flag="--replay-port") as replay,
    ):
        address = chosen.address or public_address(chosen, own)
        file, buckets = Path(folder) / "numbers", Path(folder) / "buckets"
        shared_counters.create_counters(file, rows=processes)
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
            zone=zone_addresses(chosen, own, replay),
            long_names=Path(folder) / "names",
            verbosity=-1 if context.quiet else context.verbosity,
        )
        warn_if_exposed(chosen)
        members = [ServerProcess(f"serve-{row}", serve_requests, plan, row, own, replay) for row in range(processes)]
        if is_fed:
            members.append(ServerProcess("feed", follow_versions, plan))

        def close() -> None:  # a socket that anybody holds open still takes connections
            own.close()
            replay.close()

        Supervisor(members, ready=lambda: print_address(plan, is_opened=is_opened), stopping=close).run()
    note("stopped")


def with_processes(settings: Settings, *, most: int) -> Settings:
    """Return the settings with a number of processes: where none is given, one for each core, up to `most`."""
    processes = settings.serve.processes or min(most, available_cores())
    return msgspec.structs.replace(settings, serve=msgspec.structs.replace(settings.serve, processes=processes))


def with_shared_origin(settings: Settings) -> Settings:
    """Return the settings with an address for pages without an origin of their own: behind a proxy, the zone itself."""
    serve = settings.serve
    if not serve.address or serve.replay_address or serve.replay_zone in ("", NO_ZONE):
        return settings
    return msgspec.structs.replace(settings, serve=msgspec.structs.replace(serve, replay_address=serve.replay_zone))


def serve_several(context: Context, roots: list[Path], sources: Sources, *, is_fed: bool) -> None:
    """Serve several collections, each at origins of its own, and a list of them."""
    base = with_shared_origin(with_processes(sources.settings(), most=1))
    check_several(base.serve)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webmill-serve-")))
        own = [stack.enter_context(one) for one in listen_several(base.serve, 1 + 2 * len(roots))]
        plans = [
            plan_one(
                context.sources(root, sources.flags).settings(),
                base.serve,
                root=root,
                name=name,
                sockets=(own[1 + 2 * number], own[2 + 2 * number]),
                folder=folder / str(number),
            )
            for number, (root, name) in enumerate(zip(roots, distinct_names([*roots]), strict=True))
        ]
        listing = plan_one(
            msgspec.structs.replace(base, serve=msgspec.structs.replace(base.serve, token="", processes=1)),
            base.serve,
            root=folder,
            name=LIST_NAME,
            sockets=(own[0], own[0]),
            folder=folder / "list",
        )
        listed = [
            ListedCollection(
                name=name,
                root=plan.root,
                address=plan.address,
                replay_address=plan.replay_address,
                search=plan.settings.search,
            )
            for name, plan in zip(distinct_names([*roots]), plans, strict=True)
        ]
        members = [ServerProcess("serve-list", serve_list, listing, listed, own[0])]
        for number, plan in enumerate(plans):
            sockets = own[1 + 2 * number], own[2 + 2 * number]
            members += [
                ServerProcess(f"serve-{number}-{row}", serve_requests, plan, row, *sockets)
                for row in range(base.serve.processes or 1)
            ]
            if is_fed:
                members.append(ServerProcess(f"feed-{number}", follow_versions, plan))
            warn_if_exposed(plan.settings.serve)

        def ready() -> None:
            note(f"serving {len(plans)} collections, listed at {listing.address}/ (Ctrl-C stops)")
            for one in listed:
                note(f"  {one.name} at {one.address}/ (archived pages at {one.replay_address}/)")

        def close() -> None:  # a socket that anybody holds open still takes connections
            for one in own:
                one.close()

        Supervisor(members, ready=ready, stopping=close).run()
    note("stopped")


def listen_several(chosen: ServeSettings, count: int) -> list[socket.socket]:
    """Return sockets on --port and those behind it; on free ones, if that is 0."""
    ports = [chosen.port + number if chosen.port else 0 for number in range(count)]
    return [listen(chosen.host, port, flag="--port") for port in ports]


def plan_one(
    settings: Settings,
    base: ServeSettings,
    *,
    root: Path,
    name: str,
    sockets: tuple[socket.socket, socket.socket],
    folder: Path,
) -> ServerPlan:
    """Return the plan of one of several collections: its own settings, but where and how it is served."""
    folder.mkdir()
    addresses = [
        (template.replace("{name}", name) or public_address(base, one)).rstrip("/")
        for template, one in zip((base.address, base.replay_address), sockets, strict=True)
    ]
    shared = {key: getattr(base, key) for key in SHARED_SETTINGS}
    if name == LIST_NAME:
        shared["processes"] = 1
    serve = msgspec.structs.replace(settings.serve, **shared, address=addresses[0] if base.address else "")
    zoned = msgspec.structs.replace(base, replay_zone=base.replay_zone.replace("{name}", name))
    shared_counters.create_counters(folder / "numbers", rows=serve.processes or 1)
    rate_limit.create_table(folder / "buckets")
    return ServerPlan(
        root=root,
        settings=msgspec.structs.replace(settings, serve=serve),
        storage=None,
        address=addresses[0],
        replay_address=addresses[1],
        secret=secrets.token_bytes(32),
        numbers=folder / "numbers",
        buckets=folder / "buckets",
        zone=ZoneAddresses() if name == LIST_NAME else zone_addresses(zoned, *sockets),
        long_names=folder / "names",
        verbosity=-1,
    )


def check_several(base: ServeSettings) -> None:
    if base.replay_port:
        raise Misconfigured("--replay-port is for one collection: of several, each has two ports behind --port")
    if base.replay_zone not in ("", NO_ZONE) and "{name}" not in base.replay_zone:
        raise Misconfigured("of several collections each needs a zone of its own: write {name} in --replay-zone")
    if (base.address or base.replay_address) and not ("{name}" in base.address and "{name}" in base.replay_address):
        raise Misconfigured(
            "of several collections each needs addresses of its own: write {name} in --address and --replay-address, "
            "as in https://{name}.archive.example.org"
        )
    named = {
        key: getattr(base, key).replace("{name}", LIST_NAME) for key in ("address", "replay_address", "replay_zone")
    }
    check_settings(msgspec.structs.replace(base, **named))
    tls_context(base.certificate, base.key)


def check_settings(chosen: ServeSettings) -> None:
    """Refuse wrong settings before anything starts."""
    check_origins(chosen)
    check_zone(chosen)
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
            "behind a proxy, archived pages need their own URL: give --address and --replay-zone, or --replay-address"
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


def zone_addresses(chosen: ServeSettings, own: socket.socket, replay: socket.socket) -> ZoneAddresses:
    """Return where archived pages have origins of their own: as set, or on this machine, whose browsers know
    `*.localhost`; nowhere, where only some other name is known.
    """
    ports = own.getsockname()[1], replay.getsockname()[1]
    if chosen.replay_zone and chosen.replay_zone != NO_ZONE:
        scheme, host, _ = parse_origin(chosen.replay_zone)
        # Behind a proxy one port has all names; else the banner comes from the port of our own pages.
        view = chosen.replay_zone.rstrip("/").replace(f"//{host}", f"//view.{host}", 1)
        return ZoneAddresses(
            chosen.replay_zone.rstrip("/").lower(),
            view.lower() if chosen.address else f"{scheme}://view.{host}:{ports[0]}",
        )
    is_local = is_loopback(chosen.host) and not (chosen.address or chosen.certificate or chosen.replay_address)
    if not is_local or chosen.replay_zone == NO_ZONE:
        return ZoneAddresses()
    return ZoneAddresses(f"http://replay.localhost:{ports[1]}", f"http://view.replay.localhost:{ports[0]}")


def check_zone(chosen: ServeSettings) -> None:
    """Refuse a zone whose pages would be of the same origin as ours, and warn of one of the same site."""
    if not chosen.replay_zone or chosen.replay_zone == NO_ZONE:
        return
    host = parse_origin(chosen.replay_zone)[1]
    own = parse_origin(chosen.address)[1] if chosen.address else ""
    if own == host or own.endswith(f".{host}"):
        raise Misconfigured(f"{own} is a name of the replay zone {host}: archived pages could pretend to be it")
    if (site := private_domain(host)) and site == private_domain(own):
        warn(f"{own} and the replay zone {host} are of one site, {site}: a domain of its own is safer")


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
