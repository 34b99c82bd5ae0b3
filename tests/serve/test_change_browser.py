"""A page of a watched site changes: from mail and feed to what changed, and to the page as it was archived."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from tests.pipeline.watched_site import HOST, WatchedSite, text, watch
from tests.receivers import MailServer, mail_server
from tests.serve.browser import DEADLINE, NewTab, Origins, needs_browser, serving
from tests.serve.test_pages_browser import Watched, keep_picture, problems
from tests.unit.cli.command import webmill
from webmill.testing import TestWeb

pytestmark = needs_browser
expect.set_options(timeout=DEADLINE)
BEFORE, AFTER = text("The ferry leaves at noon"), text("The ferry leaves at one")
ATOM = {"atom": "http://www.w3.org/2005/Atom"}


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


def run(root: Path) -> None:
    ended = webmill("run", root)
    assert ended.code == 0, ended.err


def entry_of_feed(page: Page, address: str) -> str:
    """The address to which the only entry of the feed of changes leads."""
    feed = ElementTree.fromstring(page.request.get(address).text())
    (entry,) = feed.findall("atom:entry", ATOM)
    (link,) = (one for one in entry.findall("atom:link", ATOM) if one.get("rel") == "alternate")
    assert "/ferry" in (entry.findtext("atom:content", "", ATOM) + entry.findtext("atom:title", "", ATOM))
    return link.get("href", "")


def see_what_changed(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_contain_text("ferry")
    expect(page.locator("del").filter(has_text="noon").first).to_be_visible()
    expect(page.locator("ins").filter(has_text=re.compile(r"\bone\b")).first).to_be_visible()


def see_archived_page(page: Page, button: str, words: str) -> None:
    page.get_by_role("link", name=button).click()
    expect(page.frame_locator("iframe").locator("article")).to_contain_text(words)
    page.go_back()


@pytest.mark.slow
def test_from_the_mail_and_the_feed_to_what_changed_and_the_archived_page(
    new_tab: NewTab, memory_folder: Path, mail: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, site = memory_folder / "news", WatchedSite("/ferry", "/same")
    site.pages["/ferry"] = BEFORE
    monkeypatch.setenv("WEBMILL_ALERTS_RULES", json.dumps([{"to": "mailto:me@example.org"}]))
    monkeypatch.setenv("WEBMILL_ALERTS_MAIL_SERVER", mail.address)
    monkeypatch.setenv("WEBMILL_ALERTS_ALLOW_PRIVATE", "true")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        run(root)
        with serving(root) as origins:
            monkeypatch.setenv("WEBMILL_SERVE_ADDRESS", origins.address)
            site.pages["/ferry"] = AFTER
            time.sleep(1.0)  # the pages are due
            run(root)
            (got,) = mail.mails
            walk(new_tab, origins, got.part("html"))
            look_at_it(new_tab, origins)


def walk(new_tab: NewTab, origins: Origins, html: str) -> None:
    page = new_tab().page
    page.set_content(html)  # as a mail program shows it
    page.get_by_role("link", name="what changed").click()
    see_what_changed(page)
    see_archived_page(page, "Archived page after", "leaves at one")
    see_archived_page(page, "Archived page before", "leaves at noon")
    feed = page.get_by_role("link", name="Feed of changes").get_attribute("href")
    page.goto(entry_of_feed(page, f"{origins.address}{feed}"))
    see_what_changed(page)
    see_archived_page(page, "Archived page after", "leaves at one")
    page = new_tab().page  # the other tab may still be going back
    page.set_content(html)
    page.get_by_role("link", name="archived page").click()
    expect(page.frame_locator("iframe").locator("article")).to_contain_text("leaves at one")


def look_at_it(new_tab: NewTab, origins: Origins) -> None:
    for scheme, width in (("light", 1280), ("dark", 360)):
        watched = Watched(new_tab(width=width, color_scheme=scheme), origins.address)
        watched.go("/versions/diff")
        watched.page.get_by_role("link", name="only this").first.click()
        see_what_changed(watched.page)
        assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert problems(watched.page) == []
        keep_picture(watched.page, f"change-{scheme}-{width}")
        watched.check()
