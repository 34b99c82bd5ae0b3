"""A browser that visits replayed pages for the race, as a child of its own: `python -m benchmarks.replay_visits FILE`.

FILE lists the pages; each line of stdout is what became of one, written as soon as it is known. Whoever reads them
kills this process and its browser when a page takes too long, and starts another for the rest.

Every name but this machine's leads to a trap, which notes who was wanted there: a connection outside the archive.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from playwright.sync_api import Browser, Error, Frame, Page, Route, sync_playwright

from webmill.serve.open_site import open_site
from webmill.serve.qa.answers import AskedRequest, archive_answers
from webmill.settings import Settings

Found = TypeVar("Found")

SETTLED = 1.5  # seconds after the load of a page without expectations
POLL_INTERVAL = 50.0  # milliseconds
RULES = "--host-resolver-rules=MAP * 127.0.0.1:{port},EXCLUDE 127.0.0.1,EXCLUDE localhost,EXCLUDE *.localhost"
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")
SEEN = """() => ({
  text: document.body ? document.body.innerText : '',
  images: [...document.images].filter(image => image.naturalWidth > 1).length,
  rules: [...document.styleSheets].reduce((sum, sheet) => {
    try { return sum + sheet.cssRules.length } catch { return sum }
  }, 0),
})"""
_SERVER_NAME = re.compile(rb"\x00\x00(..)(..)\x00(..)([a-z0-9.-]+)", re.DOTALL)
_HOST = re.compile(rb"^host: *([^\r\n]+)", re.IGNORECASE | re.MULTILINE)


class PageToVisit(msgspec.Struct, frozen=True, kw_only=True):
    """`frame`: a pattern of the replayed frame's address. With a `selector` its text is wanted, else what is seen."""

    name: str
    address: str
    timestamp: str
    frame: str = ""
    selector: str = ""
    ready: str = ""
    text: str = ""
    is_part: bool = False  # the text may be longer


class VisitedPage(msgspec.Struct, frozen=True, kw_only=True):
    """`left`: hosts outside the archive that were called. `failure`: why there is nothing to compare."""

    name: str
    is_right: bool = False
    text: str = ""
    images: int = 0
    rules: int = 0
    left: tuple[str, ...] = ()
    failure: str = ""


class Visits(msgspec.Struct, frozen=True, kw_only=True):
    """`fed_from`: a collection that answers every request at its own address, without any rewriting."""

    pages: list[PageToVisit]
    fed_from: str = ""
    patience: float = 25.0  # seconds for one page


class NameTrap:
    """Where every other host is. It never answers, and notes who was wanted."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._called: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def called(self) -> tuple[str, ...]:
        found, self._called = self._called, []
        return tuple(sorted(set(found)))

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._note, args=(connection,), daemon=True).start()

    def _note(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(2)
            said = connection.recv(8192)
            if said:  # Chromium also opens lines in advance, and says nothing
                self._called.append(_wanted(said))


def _wanted(said: bytes) -> str:
    found = _HOST.search(said)
    if found:
        return found[1].decode("latin-1")
    named = _SERVER_NAME.search(said)
    return named[4].decode("latin-1") if named else "unknown"


def main() -> None:
    visits = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Visits)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    trap = NameTrap()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=[*ARGUMENTS, RULES.format(port=trap.port)],
            chromium_sandbox=False,
        )
        for found in visit_all(browser, visits, trap):
            out.write(msgspec.json.encode(found) + b"\n")
            out.flush()
        browser.close()


def visit_all(browser: Browser, visits: Visits, trap: NameTrap) -> Iterator[VisitedPage]:
    """Yield what became of each page; all are visited by one profile, as a reader does."""
    context = browser.new_context(viewport={"width": 1280, "height": 1024}, ignore_https_errors=True)
    context.set_default_timeout(1000 * visits.patience)
    for wanted in visits.pages:
        page = context.new_page()
        page.on("dialog", lambda dialog: dialog.dismiss())
        if visits.fed_from:
            page.route("**/*", ArchiveFeeder(visits.fed_from, wanted.timestamp))
        try:
            found = visit(page, wanted, visits.patience)
        except Error as error:
            found = VisitedPage(name=wanted.name, failure=str(error).partition("\n")[0][:200])
        page.close()
        yield msgspec.structs.replace(found, left=trap.called())


def visit(page: Page, wanted: PageToVisit, patience: float) -> VisitedPage:
    """Open the page and compare it with what is wanted."""
    end = time.monotonic() + patience
    page.goto(wanted.address, wait_until="commit")
    frame = _until(page, end, lambda: replayed_frame(page, wanted.frame))
    if frame is None:
        return VisitedPage(name=wanted.name, failure="no frame with the page")
    if wanted.selector:
        is_right = _until(page, end, lambda: _says(page, wanted)) is not None
        return VisitedPage(name=wanted.name, is_right=is_right)
    with suppress(Error):
        frame.wait_for_load_state("load", timeout=max(1.0, 1000 * (end - time.monotonic())))
    page.wait_for_timeout(1000 * SETTLED)
    frame = replayed_frame(page, wanted.frame) or frame
    return see(wanted.name, frame)


def see(name: str, frame: Frame) -> VisitedPage:
    """Return what the frame and the frames within it show."""
    text, images, rules = "", 0, 0
    for one in [frame, *_within(frame)]:
        with suppress(Error):
            shown = one.evaluate(SEEN)
            text, images, rules = f"{text}\n{shown['text']}", images + shown["images"], rules + shown["rules"]
    return VisitedPage(name=name, is_right=True, text=text, images=images, rules=rules)


class ArchiveFeeder:
    """Answers a browser's requests from the archive, at the addresses of the web."""

    def __init__(self, root: str, timestamp: str) -> None:
        here = "http://127.0.0.1:1"
        site = open_site(Path(root), Settings(), address=here, replay_address=here, secret=b"judge")
        self._answer = archive_answers(site, timestamp)
        self._threads = ThreadPoolExecutor(1)  # this thread runs the event loop of Playwright

    def __call__(self, route: Route) -> None:
        asked = route.request
        request = AskedRequest(
            url=asked.url.partition("#")[0],
            method=asked.method,
            headers=tuple(asked.headers.items()),
            body=asked.post_data_buffer or b"",
            destination=asked.resource_type if asked.resource_type in ("script", "worker") else "",
        )
        given = self._threads.submit(asyncio.run, self._answer(request)).result()
        route.fulfill(status=given.status, headers=dict(given.headers), body=given.body)


def _within(frame: Frame) -> Iterator[Frame]:
    for child in frame.child_frames:
        yield child
        yield from _within(child)


def replayed_frame(page: Page, pattern: str) -> Frame | None:
    return next((one for one in page.frames if re.search(pattern, one.url)), None)


def _says(page: Page, wanted: PageToVisit) -> bool | None:
    """Return whether the frame says what it should; None as long as it may still come to that."""
    with suppress(Error):
        frame = replayed_frame(page, wanted.frame)
        if frame and (not wanted.ready or frame.query_selector(wanted.ready)):
            element = frame.query_selector(wanted.selector)
            text = (element.text_content() or "") if element else ""
            if text == wanted.text or (wanted.is_part and wanted.text in text):
                return True
    return None


def _until(page: Page, end: float, find: Callable[[], Found | None]) -> Found | None:
    while (found := find()) is None and time.monotonic() < end:
        page.wait_for_timeout(POLL_INTERVAL)
    return found


if __name__ == "__main__":
    main()
