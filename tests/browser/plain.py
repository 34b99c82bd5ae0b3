"""What a plain browser asks for and shows, as a judge: a real one, with its own network, before the same servers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Browser, Error, sync_playwright

import webmill as api
from tests.browser.archive import read_archive
from tests.serve.browser import ARGUMENTS
from webmill.testing import TestWeb

TIME = 60_000.0  # milliseconds
SCROLL = """async () => {
  for (let top = 0; top < document.body.scrollHeight && top < 30000; top += innerHeight) {
    scrollTo({top, behavior: "instant"});
    await new Promise((done) => setTimeout(done, 100));
  }
}"""
_CLOCK = re.compile(r"([?&]_=)[0-9]+")  # of a request that is never the same twice


class CaptureJudgement(msgspec.Struct, frozen=True):
    """Requests of a plain browser, those of them that are not in the archive, and pages whose text is another."""

    requests: int
    missing: list[tuple[str, str]]
    other_texts: dict[str, tuple[str, str]]

    @property
    def share(self) -> float:
        return 1 - len(self.missing) / self.requests


def judge_capture(
    web: TestWeb, hosts: Collection[str], urls: Collection[str], root: Path, settings: Any
) -> CaptureJudgement:
    """Show the pages in a plain browser, capture them, and compare by the servers' log and the archive."""
    before = len(web.log)
    shown = show_plainly(urls, {host: web.resolve[host] for host in hosts})
    web.log.settle()
    asked = {
        (visit.method, plain_url(f"http://{visit.host}{visit.path}"))
        for visit in list(web.log)[before:]
        if visit.path not in ("/robots.txt", "/favicon.ico")
    }
    report = api.crawl(root, list(urls), depth=0, **settings)
    assert report.total.errors == {}
    archived = read_archive(root)
    found = {(method, plain_url(url)) for method, url in archived.requests}
    texts = {url: (words(shown[url]), words(archived.text(url))) for url in urls}
    other = {url: both for url, both in texts.items() if both[0] != both[1]}
    return CaptureJudgement(len(asked), sorted(asked - found), other)


def show_plainly(urls: Collection[str], resolve: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """Return the text that a plain browser shows of each page."""
    program = shutil.which("chromium")
    assert program, "no Chromium: apt-get install chromium"
    rules = ",".join(f"MAP {host} {address}:{port}" for host, (address, port) in resolve.items())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=[*ARGUMENTS, f"--host-resolver-rules={rules},MAP * ~NOTFOUND"],
            chromium_sandbox=False,
            timeout=TIME,
        )
        shown = {url: _show(browser, url) for url in urls}
        browser.close()
    return shown


def _show(browser: Browser, url: str) -> str:
    context = browser.new_context(viewport={"width": 1280, "height": 1024})
    context.set_default_timeout(TIME)
    page = context.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(url, wait_until="load")
    with suppress(Error):  # it asks for ever
        page.wait_for_load_state("networkidle", timeout=5000)
    with suppress(Error):  # it has left for another document
        page.evaluate(SCROLL)
    page.wait_for_timeout(700)
    text = str(page.evaluate("document.body.innerText"))
    context.close()
    return text


def plain_url(url: str) -> str:
    return _CLOCK.sub(r"\1", url)


def words(text: str) -> str:
    return " ".join(text.split())
