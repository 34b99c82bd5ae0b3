"""Checks pages one after the other, and keeps each result as it comes: a run that was stopped goes on where it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from webmill.crawl.browser.cdp import BrowserGone, CdpError
from webmill.crawl.browser.pool import BrowserPool, SharedBrowser
from webmill.errors import NotFound, WebmillError
from webmill.model import CaptureRef
from webmill.pipeline.capture_reader import open_capture
from webmill.pipeline.captures import nearest_captures
from webmill.serve.app import replay_application
from webmill.serve.captures.response import read_up_to
from webmill.serve.qa.answers import Answerer, archive_answers, server_answers
from webmill.serve.qa.compare import picture_likeness, text_likeness
from webmill.serve.qa.results import (
    MOST_LISTED,
    PageQuality,
    forget_older_results,
    read_result,
    scored,
    write_result,
)
from webmill.serve.qa.visit import PageViewer, SeenPage
from webmill.serve.site import Site

BROWSER_DEATHS = 2  # for one page
MOST_TEXT = 4 << 20
MOST_VIEW = 16 << 20
CAPTURED_TEXT, CAPTURED_VIEW = "urn:text:", "urn:view:"


async def check_pages(
    site: Site, pages: list[CaptureRef], pool: BrowserPool, *, again: bool
) -> AsyncIterator[PageQuality]:
    """Yield the quality of each page. `again`: also of those that have a result."""
    assert site.zone
    app = replay_application(site)
    for capture in pages:
        known = None if again else read_result(site.root, capture.url, capture.timestamp)
        if known:
            yield known
            continue
        fed = await _view(pool, archive_answers(site, capture.timestamp), capture.url)
        address = site.zone.address_of(capture.timestamp, capture.url)
        replayed = await _view(pool, server_answers(app, site.zone), address)
        text = _captured(site, capture, CAPTURED_TEXT, most=MOST_TEXT)
        found = compare_views(
            capture,
            fed,
            replayed,
            captured_text=None if text is None else text.decode("utf-8", "replace"),
            captured_view=_captured(site, capture, CAPTURED_VIEW, most=MOST_VIEW),
        )
        write_result(site.root, found, {"fed": fed.picture, "replay": replayed.picture})
        yield found
    forget_older_results(site.root)


async def _view(pool: BrowserPool, answers: Answerer, url: str) -> SeenPage:
    """Return a view of the page; of one that kills browsers, why there is none."""
    for _ in range(BROWSER_DEATHS):
        with suppress(BrowserGone, CdpError):
            async with pool.lease() as browser:
                return await _look(browser, answers, url)
    return SeenPage(failure="the browser died of it")


async def _look(browser: SharedBrowser, answers: Answerer, url: str) -> SeenPage:
    return await PageViewer(browser, answers).look_at(url)


def compare_views(
    capture: CaptureRef,
    fed: SeenPage,
    replayed: SeenPage,
    *,
    captured_text: str | None = None,
    captured_view: bytes | None = None,
) -> PageQuality:
    """Return the quality of a page from its two views."""
    missing = sorted(fed.missing | replayed.missing)
    errors = [error for error in replayed.errors if error not in fed.errors]
    return scored(
        PageQuality(
            url=capture.url,
            timestamp=capture.timestamp,
            text=round(text_likeness(fed.text, replayed.text), 4),
            picture=picture_likeness(fed.picture, replayed.picture),
            captured_text=None if captured_text is None else round(text_likeness(captured_text, fed.text), 4),
            captured_picture=None if captured_view is None else picture_likeness(captured_view, fed.picture),
            resources=len(fed.asked),
            missing=tuple(missing[:MOST_LISTED]),
            errors=tuple(errors[:MOST_LISTED]),
            leaks=tuple(sorted(replayed.leaks)[:MOST_LISTED]),
            failure=fed.failure or replayed.failure,
        )
    )


def _captured(site: Site, capture: CaptureRef, kind: str, *, most: int) -> bytes | None:
    """Return what the browser of the capture kept of the page, if one did."""
    index = site.index()
    try:
        line = next(nearest_captures(index, kind + capture.url, moment=capture.timestamp), None)
        if line is None or line.capture.timestamp[:8] != capture.timestamp[:8]:
            return None
        archived = open_capture(index, site.files, line.capture)
    except (NotFound, WebmillError):
        return None
    try:
        body, rest = read_up_to(archived.content(), most)
        return body if rest is None or kind == CAPTURED_TEXT else None  # half a text can be compared
    finally:
        archived.close()
