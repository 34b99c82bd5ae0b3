"""Pages that loop or eat memory, browsers that do not start, and what a login must not leave in an archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import webmill as api
from tests.browser.archive import read_archive
from webmill.testing import Answer, HttpReply, ReceivedRequest, TestWeb

pytestmark = [pytest.mark.server("chromium"), pytest.mark.xdist_group("browser")]

HOSTILE = "hostile.mill.localhost"
LOOP = b"<p>before</p><script>setTimeout(() => { while (true); }, 50)</script>"
MEMORY = b"""<p>before</p><script>const kept = []; setInterval(() => {
 for (let i = 0; i < 20; i++) kept.push(new Uint8Array(16 << 20).fill(1)); }, 10)</script>"""
SECRET = "token-of-the-user"
LOGIN = b"""<p id=p>nobody</p><script>const token = localStorage.getItem('token') || '';
fetch('/me', {headers: {Authorization: 'Bearer ' + token}}).then((r) => r.text())
.then((t) => p.textContent = t)</script>"""


class HostileHost:
    def pages(self, version: int) -> list[Any]:
        return []

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/me":
            is_known = SECRET in (request.headers.get("Authorization") or "")
            has_cookie = "id=c00kie" in (request.headers.get("Cookie") or "")
            return HttpReply(body=f"known {is_known} {has_cookie}".encode(), media_type="text/plain")
        found = {"/loop": LOOP, "/memory": MEMORY, "/login": LOGIN, "/well": b"<p>well</p>"}.get(request.path)
        return HttpReply(body=found) if found else HttpReply(status=404)


@pytest.fixture(scope="module")
def web() -> Any:
    with TestWeb(hosts=1, sites={HOSTILE: HostileHost()}) as web:
        yield web


def hostile(path: str) -> str:
    return f"http://{HOSTILE}{path}"


def test_a_page_that_loops_or_eats_memory_costs_its_own_budget_only(
    tmp_path: Path, web: TestWeb, settings: dict[str, Any]
) -> None:
    own = {**settings, "resolve": {HOSTILE: web.resolve[HOSTILE]}, "browser_time": 4.0, "browser_memory": 400 << 20}
    paths = ("/loop", "/memory", "/well")
    report = api.crawl(tmp_path / "c", [hostile(path) for path in paths], depth=0, **own)
    assert report.total.pages == len(paths)
    archived = read_archive(tmp_path / "c")
    assert archived.info(hostile("/loop"))["cut"] != []
    memory = archived.info(hostile("/memory"))  # the page was refused more, or died of it
    assert memory.get("cut") or "before" in archived.text(hostile("/memory"))
    assert archived.text(hostile("/well")).strip() == "well"
    assert "cut" not in archived.info(hostile("/well"))


def test_what_a_login_needs_is_sent_and_not_archived(tmp_path: Path, web: TestWeb, settings: dict[str, Any]) -> None:
    state = {
        "cookies": [{"name": "id", "value": "c00kie", "domain": HOSTILE, "path": "/", "expires": -1}],
        "origins": [{"origin": f"http://{HOSTILE}", "localStorage": [{"name": "token", "value": SECRET}]}],
    }
    file = tmp_path / "state.json"
    file.write_text(json.dumps(state))
    file.chmod(0o600)
    own = {**settings, "resolve": {HOSTILE: web.resolve[HOSTILE]}, "cookies": str(file)}
    api.save(tmp_path / "c", hostile("/login"), **own)
    archived = read_archive(tmp_path / "c")
    assert archived.text(hostile("/login")).strip() == "known True True"
    assert SECRET.encode() not in archived.raw
    assert b"c00kie" not in archived.raw


@pytest.mark.parametrize(("mode", "code"), [("auto", 200), ("always", 0)])
def test_a_browser_that_does_not_start_is_reported(
    tmp_path: Path, web: TestWeb, settings: dict[str, Any], mode: str, code: int
) -> None:
    """What needs no browser for sure is archived as it came, after a second try."""
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    own = {**settings, "resolve": {HOSTILE: web.resolve[HOSTILE]}, "browser": mode, "browser_path": str(broken)}
    report = api.save(tmp_path / "c", hostile("/login"), **own)
    assert report.page.status == code
    assert code or "browsers failed" in report.page.error
