"""Captures beside a plain browser: at least 97 % of its requests are archived, and pages have the same text.

The hard pages, and applications that are built from npm: React, Vue, Svelte, Angular, Next and VitePress.
"""

from __future__ import annotations

import mimetypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.browser.hard_web import HOST, PAGES, hard_hosts
from tests.browser.plain import CaptureJudgement, judge_capture
from webmill.testing import Answer, ExpectedPage, HttpReply, ReceivedRequest, TestWeb

pytestmark = [
    pytest.mark.server("chromium"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.soak,
    pytest.mark.timeout(3600),
]
needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="needs npm, which fetches the frameworks")

FOLDERS = (Path(__file__).parent / "apps", Path(__file__).parents[1] / "serve" / "apps")
API = "api.example"
ITEMS = b'[{"id": 1, "name": "First"}, {"id": 2, "name": "Second"}]'
ROUTES = {
    "react": ("/", "/items", "/item/1", "/about", "/stored"),
    "vue": ("/", "/items", "/item/1", "/worker", "/form"),
    "svelte": ("/", "/items", "/item/1", "/stored"),
    "angular": ("/", "/items", "/about"),
    "next": ("/", "/items", "/about"),
    "vitepress": ("/", "/items", "/guide"),
}
QUIET = {"NEXT_TELEMETRY_DISABLED": "1", "NEXT_IGNORE_INCORRECT_LOCKFILE": "1", "NG_CLI_ANALYTICS": "false", "CI": "1"}
LEAST = 0.97
PRESSED = ("load-more", "consent", "details")  # a plain browser presses nothing


class AppHost:
    """The files of a built application; its server gives a route that it has no file for to the application."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pages(self, version: int) -> list[ExpectedPage]:
        return []

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/api/item/1":
            return HttpReply(body=b'{"id": 1, "name": "First"}', media_type="application/json")
        for name in (request.path, f"{request.path}.html", f"{request.path}/index.html"):
            file = self._folder / name.lstrip("/")
            if file.is_file():
                return HttpReply(body=file.read_bytes(), media_type=mimetypes.guess_type(file.name)[0] or "text/plain")
        if "." in request.path:
            return HttpReply(status=404, body=b"none")
        return HttpReply(body=(self._folder / "index.html").read_bytes())


class ApiHost:
    def pages(self, version: int) -> list[ExpectedPage]:
        return []

    def answer(self, request: ReceivedRequest) -> Answer:
        fields = (("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Headers", "Content-Type"))
        if request.method == "OPTIONS":
            return HttpReply(status=204, media_type="", headers=fields)
        found = {"/items.json": ITEMS, "/ask": b'{"answer": "posted"}'}.get(request.path)
        if found is None:
            return HttpReply(status=404, body=b"none")
        return HttpReply(body=found, media_type="application/json", headers=fields)


def build(app: str, folder: Path) -> Path:
    """Return the folder of an application as it is delivered. WEBMILL_TEST_APPS=DIR keeps what was built."""
    source = next(one / app for one in FOLDERS if (one / app).is_dir())
    folder = Path(os.environ.get("WEBMILL_TEST_APPS", folder)) / app
    if not (folder / "dist").is_dir():
        shutil.copytree(source, folder, dirs_exist_ok=True)
        for command in (["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], ["npm", "run", "build"]):
            done = subprocess.run(
                command, cwd=folder, check=False, capture_output=True, timeout=1200, env={**os.environ, **QUIET}
            )
            assert done.returncode == 0, done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:]
    return folder / "dist"


@pytest.fixture(scope="module", params=ROUTES)
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, settings: Any) -> CaptureJudgement:
    app, folder = request.param, tmp_path_factory.mktemp("apps")
    host = f"{app}.example"
    with TestWeb(hosts=1, sites={host: AppHost(build(app, folder)), API: ApiHost()}) as web:
        urls = [f"http://{host}{path}" for path in ROUTES[app]]
        given = {**settings, "resolve": {name: web.resolve[name] for name in (host, API)}}
        return judge_capture(web, (host, API), urls, folder / "c", given)


@needs_npm
def test_an_application_is_captured_as_a_plain_browser_sees_it(judged: CaptureJudgement) -> None:
    print(f"{judged.requests} requests, {len(judged.missing)} missing")
    assert judged.requests > 5
    assert judged.share >= LEAST, judged.missing
    assert judged.other_texts == {}


@pytest.fixture(scope="module")
def hard(hard_web: TestWeb, tmp_path_factory: pytest.TempPathFactory, settings: Any) -> CaptureJudgement:
    urls = [f"http://{HOST}/hard/{name}" for name in PAGES]
    return judge_capture(hard_web, hard_hosts(), urls, tmp_path_factory.mktemp("hard") / "c", settings)


def test_hard_pages_are_captured_as_a_plain_browser_sees_them(hard: CaptureJudgement) -> None:
    print(f"{hard.requests} requests, missing {hard.missing}, other texts {hard.other_texts}")
    assert len(PAGES) >= 60
    assert hard.share >= LEAST, hard.missing
    other = {url for url in hard.other_texts if url.rpartition("/")[2] not in PRESSED}
    assert len(other) <= (1 - LEAST) * len(PAGES), other
