"""The processes of `webmill serve`: those that serve requests, and the one that updates the search index.

Each imports what it needs when it runs, so that the parent process does not have to.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from contextlib import AbstractAsyncContextManager, AbstractContextManager, closing
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from webmill.errors import NotFound, WebmillError
from webmill.infra import interrupts, waiting
from webmill.infra.log import configure
from webmill.pipeline.progress import ProgressBar
from webmill.settings import Settings

if TYPE_CHECKING:
    import ssl

    from starlette.types import ASGIApp

    from webmill.serve.collection_list import ListedCollection
    from webmill.serve.guard.access_log import AccessLog
    from webmill.serve.mcp.tools import Permission
    from webmill.serve.site import Site

log = logging.getLogger(__name__)

POLL_INTERVAL = 5.0  # seconds between two checks for a new version; after failures more, up to
LONGEST_PAUSE = 300.0
THREAD_TIMEOUT = 2.0  # seconds to wait for threads to end


class ZoneAddresses(msgspec.Struct, frozen=True):
    """Where archived pages have origins of their own, and where the banner above them is; empty without a zone."""

    zone: str = ""
    view: str = ""


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What all processes of one server share."""

    root: Path
    settings: Settings
    storage: str | None
    address: str
    replay_address: str
    secret: bytes
    numbers: Path
    verbosity: int
    buckets: Path | None = None  # request counts of clients, shared by all processes
    zone: ZoneAddresses = ZoneAddresses()
    long_names: Path | None = None  # labels by hash, shared by all processes


def serve_requests(plan: ServerPlan, row: int, own: socket.socket, replay: socket.socket, parent: Connection) -> None:
    """Serve both sockets until the parent closes its connection."""
    from webmill.serve.app import application, replay_application
    from webmill.serve.guard.access_log import AccessLog
    from webmill.serve.processes.server import tls_context

    interrupts.ignore()  # the parent decides when to stop
    configure(verbosity=plan.verbosity, form=plan.settings.log.format)
    chosen = plan.settings.serve
    try:
        site = open_planned_site(plan, row)
        access = AccessLog(chosen.access_log) if chosen.access_log else None
        tls = tls_context(chosen.certificate, chosen.key)
    except WebmillError as error:
        parent.send(str(error))
        return
    apps = {own: application(site, access=access), replay: replay_application(site, access=access)}
    serve_apps(site, apps, tls=tls, access=access, parent=parent)


def serve_list(plan: ServerPlan, listed: list[ListedCollection], own: socket.socket, parent: Connection) -> None:
    """Serve the list of collections until the parent closes its connection."""
    from webmill.serve.collection_list import list_application
    from webmill.serve.guard.access_log import AccessLog
    from webmill.serve.processes.server import tls_context

    interrupts.ignore()
    configure(verbosity=plan.verbosity, form=plan.settings.log.format)
    chosen = plan.settings.serve
    try:
        site = open_planned_site(plan, 0)
        access = AccessLog(chosen.access_log) if chosen.access_log else None
        tls = tls_context(chosen.certificate, chosen.key)
    except WebmillError as error:
        parent.send(str(error))
        return
    serve_apps(site, {own: list_application(site, listed, access=access)}, tls=tls, access=access, parent=parent)


def serve_agents(
    plans: dict[str, ServerPlan], allowed: list[Permission], own: socket.socket, parent: Connection
) -> None:
    """Serve collections by the Model Context Protocol until the parent closes its connection."""
    from webmill.serve.mcp.server import AgentServer

    first = next(iter(plans.values()))
    interrupts.ignore()
    configure(verbosity=first.verbosity, form=first.settings.log.format)
    try:
        sites = {name: open_planned_site(plan, 0) for name, plan in plans.items()}
    except WebmillError as error:
        parent.send(str(error))
        return
    site = next(iter(sites.values()))
    app, running = AgentServer(sites, allowed=allowed).application(site)
    serve_apps(site, {own: app}, tls=None, access=None, parent=parent, around=running)


def open_planned_site(plan: ServerPlan, row: int) -> Site:
    from webmill.serve.open_site import open_site
    from webmill.serve.processes.shared_counters import SharedCounters

    site = open_site(
        plan.root,
        plan.settings,
        address=plan.address,
        replay_address=plan.replay_address,
        secret=plan.secret,
        zone_address=plan.zone.zone,
        view_address=plan.zone.view,
        long_names=plan.long_names,
        storage=plan.storage,
        counters=SharedCounters(plan.numbers, row=row, rows=plan.settings.serve.processes or 1),
    )
    return replace(site, buckets=plan.buckets)


def serve_apps(
    site: Site,
    apps: dict[socket.socket, ASGIApp],
    *,
    tls: ssl.SSLContext | None,
    access: AccessLog | None,
    parent: Connection,
    around: AbstractAsyncContextManager[None] | None = None,
) -> None:
    from webmill.serve.guard.client_address import TrustedProxies
    from webmill.serve.http.connection_limiter import ConnectionLimiter
    from webmill.serve.processes.metrics import CONNECTIONS, REFUSED
    from webmill.serve.processes.server import serve

    numbers = site.metrics
    limiter = ConnectionLimiter(
        site.limits,
        exempt=TrustedProxies(site.proxies),
        on_refused=lambda reason: numbers.count(REFUSED, reason=reason),
    )

    def on_tick() -> None:
        numbers.set(CONNECTIONS, limiter.count)
        if access:
            access.flush()

    try:
        serve(
            apps,
            limits=site.limits,
            limiter=limiter,
            load=site.load,
            tls=tls,
            parent=parent,
            on_tick=on_tick,
            around=around,
        )
    finally:
        on_tick()
    wait_for_threads()


def wait_for_threads() -> None:
    """Wait shortly for threads, then exit: one that still waits for a disk or a server has no client any more."""
    end = time.monotonic() + THREAD_TIMEOUT
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                os._exit(0)


def follow_versions(plan: ServerPlan, parent: Connection) -> None:
    """Update the search index to each new version. Failures are logged and retried."""
    interrupts.ignore()
    configure(verbosity=plan.verbosity, form=plan.settings.log.format)
    parent.send("ready")
    threading.Thread(target=exit_with_parent, args=(parent,), daemon=True).start()
    fed, pause = "", 0.0
    while True:
        waiting.sleep(pause)
        try:
            fed, pause = index_live_version(plan, fed), POLL_INTERVAL
        except WebmillError as error:
            pause = min(2 * max(pause, POLL_INTERVAL), LONGEST_PAUSE)
            log.warning("the search index is not up to date", extra={"why": str(error), "again_in": pause})


def exit_with_parent(parent: Connection) -> None:
    """Exit when the parent does. The next process continues the index from its cursor."""
    parent.poll(None)
    os._exit(0)


def index_live_version(plan: ServerPlan, fed: str) -> str:
    """Update the index to the live version, and return that version."""
    from webmill.infra.storage.backends import open_storage
    from webmill.pipeline.search.feed import update
    from webmill.publish.pointer import read_pointer
    from webmill.search.backends import open_search, search_address

    versions = open_storage(plan.storage or str(plan.root))
    try:
        live = read_pointer(versions).version
    except NotFound:
        return fed
    if live != fed:
        with closing(open_search(search_address(plan.settings.search.url, plan.root))) as engine:
            began = time.monotonic()
            done = update(versions, engine, progress=_no_progress)
        log.info("search index updated", extra={"version": done.version, "seconds": round(time.monotonic() - began, 1)})
    return live


def _no_progress(title: str, *, total: int | None = None, unit: str) -> AbstractContextManager[ProgressBar]:
    from webmill.cli.progress import Progress

    return Progress(title, total=total, unit=unit, quiet=True, stream=sys.stderr)
