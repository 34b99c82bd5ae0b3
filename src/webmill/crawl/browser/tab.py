"""One tab in a context of its own: every target that it brings is wired before its scripts run.

    async with open_tab(browser, tabs, on_request=…) as tab:
        await tab.navigate(url)
        await tab.loaded(timeout=30)
        title = await tab.evaluate("document.title")

A page, its frames of other sites and its workers are each a session; requests of all of them are paused and given to
`on_request`, with the session that must answer. Dialogs are closed, downloads refused, windows that open are noted and
closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import msgspec

from webmill.crawl.browser.cdp import BrowserGone, CdpConnection, CdpError, Params
from webmill.crawl.browser.messages import (
    AttachedTarget,
    BrowserContext,
    CreatedTarget,
    DetachedTarget,
    DownloadBegins,
    Evaluated,
    LifecycleEvent,
    NavigationStarted,
    PausedRequest,
    RequestWillBeSent,
    TargetInfo,
    WebSocketCreated,
    WindowOpened,
)

# Browsers and tabs are targets as well, which nobody wants to be attached to.
_FILTER = [{"type": kind, "exclude": True} for kind in ("browser", "tab", "browser_ui", "webview")] + [{}]
AUTO_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": _FILTER}
WITH_PAGE = ("page", "iframe")
MOST_NOTES = 200  # of each kind
CLOSE_TIME = 5.0  # seconds; a context that takes longer is left to the end of its browser
# Without an interface the browser believes that it is offline, and says so to pages.
ONLINE = "Object.defineProperty(Navigator.prototype, 'onLine', {get: () => true, configurable: true});"

OnRequest = Callable[[str, PausedRequest], None]


class TabSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a tab shows itself as."""

    width: int = 1280
    height: int = 1024
    user_agent: str = ""
    scripts: tuple[str, ...] = ()  # run in each document before its own


class TabNotes(msgspec.Struct):
    """What happened in a tab beside its requests."""

    popups: list[str] = []
    downloads: list[str] = []
    sockets: list[str] = []
    hidden: list[str] = []  # requests that could not be paused


class BrowserTabs:
    """Gives targets of one browser to the tab in whose context they are."""

    def __init__(self, connection: CdpConnection) -> None:
        self._connection = connection
        self._tabs: dict[str, Tab] = {}
        connection.listen("", self._on_event)

    async def begin(self) -> None:
        await self._connection.call("Target.setAutoAttach", AUTO_ATTACH)

    def add(self, tab: Tab) -> None:
        self._tabs[tab.context] = tab

    def remove(self, tab: Tab) -> None:
        self._tabs.pop(tab.context, None)

    def _on_event(self, method: str, params: msgspec.Raw) -> None:
        if method == "Target.attachedToTarget":
            attached = msgspec.json.decode(params, type=AttachedTarget)
            if tab := self._tabs.get(attached.target_info.browser_context_id):
                tab.attach(attached.session_id, attached.target_info)
            else:  # of a tab that is closed
                self._connection.send("Target.closeTarget", {"targetId": attached.target_info.target_id})
        elif method == "Browser.downloadWillBegin":
            started = msgspec.json.decode(params, type=DownloadBegins)
            for tab in self._tabs.values():
                _note(tab.notes.downloads, started.url)


class Tab:
    def __init__(self, connection: CdpConnection, context: str, setup: TabSetup, on_request: OnRequest) -> None:
        self._connection, self.context, self._setup, self._on_request = connection, context, setup, on_request
        self.session = self.target = self.frame = ""  # of the page
        self._ready = asyncio.Event()
        self._loaders: dict[str, set[str]] = {}  # what the loaders of the page's frame have reached
        self._moved = asyncio.Event()
        self._sessions: set[str] = set()
        self.has_crashed = False
        self.notes = TabNotes()

    # --- commands ---

    async def open(self) -> None:
        """Create the page, and wait until it is wired."""
        setup = self._setup
        given = {"url": "about:blank", "browserContextId": self.context, "width": setup.width, "height": setup.height}
        created = await self._connection.call("Target.createTarget", given, returns=CreatedTarget)
        self.target = created.target_id
        async with asyncio.timeout(30):
            await self._ready.wait()
        await self.evaluate("1")  # the wiring has come back from its process: the next one, of the page, is given it

    async def call(self, method: str, params: Params | None = None, **options: object) -> object:
        return await self._connection.call(method, params, session=self.session, **options)  # type: ignore[arg-type]

    async def navigate(self, url: str, *, referrer: str = "") -> str:
        """Open a URL; return the loader of its document. CdpError: it cannot be shown."""
        given = {"url": url, **({"referrer": referrer} if referrer else {})}
        begun = await self._connection.call(
            "Page.navigate", given, returns=NavigationStarted, session=self.session, timeout=120
        )
        self.frame = begun.frame_id or self.frame
        if begun.error_text:
            raise CdpError(begun.error_text)
        return begun.loader_id

    async def reached(self, loader: str, event: str = "load") -> None:
        """Wait until the document of a loader, or one that came after it, has reached an event."""
        while not self.has_crashed:
            if any(event in names for name, names in self._loaders.items() if name == loader or loader in self._old):
                return
            self._moved.clear()
            await self._moved.wait()

    async def evaluate(self, script: str, *, timeout: float = 10.0, awaits: bool = False) -> object:
        """Return the value of an expression in the page. CdpError: it raised, or the page is gone."""
        given = {"expression": script, "returnByValue": True, "awaitPromise": awaits, "userGesture": True}
        found = await self._connection.call(
            "Runtime.evaluate", given, returns=Evaluated, session=self.session, timeout=timeout
        )
        if found.exception_details:
            raise CdpError(found.exception_details.text)
        return found.result.value

    def send(self, method: str, params: Params | None = None, *, session: str = "") -> None:
        with suppress(BrowserGone):
            self._connection.send(method, params, session=session or self.session)

    async def close(self) -> None:
        """End the page and all that it started."""
        for session in self._sessions:
            self._connection.forget(session)
        with suppress(BrowserGone, CdpError, TimeoutError):
            given = {"browserContextId": self.context}
            await self._connection.call("Target.disposeBrowserContext", given, timeout=CLOSE_TIME)

    # --- events ---

    def attach(self, session: str, target: TargetInfo) -> None:
        """Wire a new target, whose scripts wait for that."""
        if target.type == "page" and self.session:
            _note(self.notes.popups, target.url if target.url.startswith("http") else "")
            self.send("Target.closeTarget", {"targetId": target.target_id})
            return
        if target.type == "page":
            self.session, self.frame = session, target.target_id
        self._sessions.add(session)
        self._connection.listen(session, lambda method, params: self._on_event(session, method, params))
        for method, given in self._wiring(target):
            self.send(method, given, session=session)
        if target.type == "page":
            self._ready.set()

    def _wiring(self, target: TargetInfo) -> list[tuple[str, Mapping[str, object]]]:
        commands: list[tuple[str, Mapping[str, object]]] = [
            ("Target.setAutoAttach", AUTO_ATTACH),
            ("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}),
            ("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}),
        ]
        if self._setup.user_agent:
            commands.append(("Network.setUserAgentOverride", {"userAgent": self._setup.user_agent}))
        if target.type in WITH_PAGE:
            scripts = (ONLINE, *self._setup.scripts)
            commands += [
                ("Page.enable", {}),
                ("Page.setLifecycleEventsEnabled", {"enabled": True}),
                *(("Page.addScriptToEvaluateOnNewDocument", {"source": script}) for script in scripts),
            ]
        if target.type == "page":
            commands += [
                ("Emulation.setFocusEmulationEnabled", {"enabled": True}),
                ("Security.setIgnoreCertificateErrors", {"ignore": True}),
            ]
        return [*commands, ("Runtime.runIfWaitingForDebugger", {})]

    def _on_event(self, session: str, method: str, params: msgspec.Raw) -> None:
        match method:
            case "Fetch.requestPaused":
                self._on_request(session, msgspec.json.decode(params, type=PausedRequest))
            case "Target.attachedToTarget":
                attached = msgspec.json.decode(params, type=AttachedTarget)
                self.attach(attached.session_id, attached.target_info)
            case "Target.detachedFromTarget":
                gone = msgspec.json.decode(params, type=DetachedTarget).session_id
                self._sessions.discard(gone)
                self._connection.forget(gone)
            case "Page.lifecycleEvent":
                event = msgspec.json.decode(params, type=LifecycleEvent)
                if session == self.session and event.frame_id == self.frame:
                    self._loaders.setdefault(event.loader_id, set()).add(event.name)
                    self._moved.set()
            case "Page.javascriptDialogOpening":
                self.send("Page.handleJavaScriptDialog", {"accept": True}, session=session)
            case "Inspector.targetCrashed" if session == self.session:
                self.has_crashed = True
                self._moved.set()
            case "Network.requestWillBeSent":
                if session != self.session:  # of workers in workers no script can be paused
                    _note(self.notes.hidden, msgspec.json.decode(params, type=RequestWillBeSent).request.url)
            case _:
                self._note_event(method, params)

    def _note_event(self, method: str, params: msgspec.Raw) -> None:
        match method:
            case "Page.windowOpen":
                _note(self.notes.popups, msgspec.json.decode(params, type=WindowOpened).url)
            case "Network.webSocketCreated":
                _note(self.notes.sockets, msgspec.json.decode(params, type=WebSocketCreated).url)

    @property
    def _old(self) -> frozenset[str]:
        """Loaders whose document has been replaced: what came after them counts for them."""
        return frozenset(list(self._loaders)[:-1])


@asynccontextmanager
async def open_tab(
    connection: CdpConnection, tabs: BrowserTabs, setup: TabSetup, *, on_request: OnRequest
) -> AsyncIterator[Tab]:
    """Open a tab in a context of its own, and close both. BrowserGone, CdpError, TimeoutError: it cannot be opened."""
    made = await connection.call("Target.createBrowserContext", {"disposeOnDetach": True}, returns=BrowserContext)
    tab = Tab(connection, made.browser_context_id, setup, on_request)
    tabs.add(tab)
    try:
        given = {"behavior": "deny", "browserContextId": tab.context, "eventsEnabled": True}
        connection.send("Browser.setDownloadBehavior", given)
        await tab.open()
        yield tab
    finally:
        tabs.remove(tab)
        await asyncio.shield(tab.close())


def _note(notes: list[str], value: str) -> None:
    if value and value not in notes and len(notes) < MOST_NOTES:
        notes.append(value)
