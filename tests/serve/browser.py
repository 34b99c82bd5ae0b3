"""A real browser before a real server: Debian's Chromium by Playwright, without a way to any other machine.

    pytestmark = needs_browser

    def test_…(new_tab: NewTab, origins: Origins) -> None:
        tab = new_tab(width=360, color_scheme="dark")
        tab.page.goto(f"{origins.address}/search")

Every name in `.example` leads to a trap that counts who calls, and no other name leads anywhere: a test in which a page
asked for anything elsewhere fails, whatever else it looked at.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from starlette.types import ASGIApp, Receive, Scope, Send

from webmill.serve.app import application, replay_application
from webmill.serve.open_site import open_site
from webmill.settings import Settings

DEADLINE = 90_000.0  # milliseconds; the machine is shared

# All browser tests of a run in one process, one after the other: three Chromiums at once starve each other.
needs_browser = [pytest.mark.server("chromium"), pytest.mark.xdist_group("browser")]

ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"),
    *("--disable-component-update", "--disable-default-apps", "--disable-sync", "--disable-extensions"),
    *("--no-first-run", "--no-default-browser-check", "--metrics-recording-only", "--disable-domain-reliability"),
    *("--disable-client-side-phishing-detection", "--password-store=basic", "--use-mock-keychain"),
    "--disable-features=Translate,OptimizationHints,MediaRouter,InterestFeedContentSuggestions",
)
# Chromium calls home by itself, whatever it is told: only names that archived pages use in tests lead to the trap.
RULES = "--host-resolver-rules=MAP *.example 127.0.0.1:{port},MAP * ~NOTFOUND,EXCLUDE 127.0.0.1,EXCLUDE *.localhost"


# --- the server -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Origins:
    address: str
    replay: str
    asked: list[str] = field(default_factory=list)  # what came over the wire to `address`: method, path and query


def _noting(app: ASGIApp, asked: list[str]) -> ASGIApp:
    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            query = scope["query_string"].decode()
            asked.append(f"{scope['method']} {scope['path']}{'?' if query else ''}{query}")
        await app(scope, receive, send)

    return noted


@contextmanager
def serving(root: Path, settings: Settings | None = None, *, in_zone: bool = False) -> Iterator[Origins]:
    """Both applications of a collection on free ports. `in_zone`: each archived origin has an origin of its own."""
    with listening() as own, listening() as replay:
        origins = Origins(_address(own), _address(replay))
        zone, view = (
            address.replace("127.0.0.1", name)
            for address, name in zip(
                (origins.replay, origins.address), ("replay.localhost", "view.replay.localhost"), strict=True
            )
        )
        site = open_site(
            root,
            settings or Settings(),
            address=origins.address,
            replay_address=origins.replay,
            zone_address=zone if in_zone else "",
            view_address=view if in_zone else "",
            secret=b"secret",
        )
        servers = [
            uvicorn.Server(uvicorn.Config(made, log_config=None, lifespan="off", timeout_graceful_shutdown=5))
            for made in (_noting(application(site), origins.asked), replay_application(site))
        ]
        thread = threading.Thread(target=_run, args=(list(zip(servers, (own, replay), strict=True)),))
        thread.start()
        try:
            yield origins
        finally:
            for server in servers:
                server.should_exit = True
            thread.join()


def _run(servers: list[tuple[uvicorn.Server, socket.socket]]) -> None:
    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            for server, listener in servers:
                group.create_task(server.serve([listener]))

    asyncio.run(both())


@contextmanager
def listening() -> Iterator[socket.socket]:
    """Clients that come before the server wait in the queue."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def _address(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(scope="module")
def origins(sample_root: Path) -> Iterator[Origins]:
    """The town, served."""
    with serving(sample_root) as origins:
        yield origins


# --- the browser ------------------------------------------------------------------------------------------------------


class Trap:
    """Where every other host is. It never answers."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.port: int = listener.getsockname()[1]

    def callers(self) -> list[str]:
        """What the callers since the last time said first. Nothing, if Chromium only opened a line in advance."""
        found: list[str] = []
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return found
            with connection:
                connection.settimeout(1)
                try:
                    found.append(connection.recv(4096).decode("latin-1"))
                except OSError:
                    found.append("")


@dataclass
class Tab:
    page: Page
    asked: list[str] = field(default_factory=list)  # every address that was requested, also those that were refused
    errors: list[str] = field(default_factory=list)  # scripts that failed

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        """For what Playwright has no words for."""
        deadline = time.monotonic() + DEADLINE / 1000
        while not holds():
            assert time.monotonic() < deadline, f"waited for {what}; the page is\n{self.page.content()[:2000]}"
            self.page.wait_for_timeout(50)


class NewTab(Protocol):
    def __call__(self, *, width: int = 1280, height: int = 800, **options: Any) -> Tab:
        """`options` are those of Playwright's `new_context`: color_scheme, java_script_enabled…"""
        ...


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    with listening() as listener:
        listener.setblocking(False)
        yield Trap(listener)


@pytest.fixture(scope="module")
def chromium(trap: Trap) -> Iterator[Browser]:
    """Per module: while Playwright lives, no other test of this process can run an event loop in this thread."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        pytest.fail("no Chromium: apt-get install chromium fonts-noto-cjk, or leave it out with SERVICES=0")
    rules = RULES.format(port=trap.port)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=[*ARGUMENTS, rules], chromium_sandbox=False, timeout=DEADLINE
        )
        yield browser
        browser.close()


@pytest.fixture
def new_tab(chromium: Browser, trap: Trap) -> Iterator[NewTab]:
    """Tabs of separate profiles. At the end nobody may have called the trap."""
    trap.callers()
    with ExitStack() as stack:

        def opened(*, width: int = 1280, height: int = 800, **options: Any) -> Tab:
            context = chromium.new_context(viewport={"width": width, "height": height}, **options)
            stack.callback(context.close)
            return tab_of(context)

        yield opened
    callers = [printed for printed in trap.callers() if printed]
    assert not callers, f"somebody asked another host: {callers}"


def tab_of(context: BrowserContext) -> Tab:
    context.set_default_timeout(DEADLINE)
    tab = Tab(context.new_page())
    context.on("request", lambda request: tab.asked.append(request.url))
    tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
    return tab
