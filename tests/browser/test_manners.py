"""What pages in a browser may ask for, judged by the log of the server; and that the browser itself reaches nothing."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import webmill as api
from tests.browser.archive import read_archive
from tests.browser.conftest import processes_with
from webmill.testing import Answer, HttpReply, ReceivedRequest, TestWeb

pytestmark = [pytest.mark.server("chromium"), pytest.mark.xdist_group("browser")]

HOST = "manners.mill.localhost"
DELAY = 0.4
ROBOTS = b"User-agent: *\nDisallow: /private/\n"
PAGE = b"""<p id=p>nothing</p><img src=/private/a.png><img src=/b.png><img src=/c.png><script>
fetch('/private/data').then((r) => r.text()).then((t) => p.textContent = t, () => p.textContent = 'refused')</script>"""
MANY = b"<p>many</p>" + b"".join(b"<img src=/many/%d.png>" % number for number in range(30))
LEAKS = b"""<p>leaks</p><img src=http://192.0.2.1/a.png><script>
const call = new RTCPeerConnection({iceServers: [{urls: 'stun:192.0.2.1:3478'}]}); call.createDataChannel('x');
call.createOffer().then((offer) => call.setLocalDescription(offer));
fetch('http://127.0.0.1:1/').catch(() => 0); new WebSocket('ws://192.0.2.1/'); setTimeout(() => 0, 500)</script>"""


class MannersHost:
    def pages(self, version: int) -> list[Any]:
        return []

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/robots.txt":
            return HttpReply(body=ROBOTS, media_type="text/plain")
        found = {"/page": PAGE, "/many": MANY, "/leaks": LEAKS}.get(request.path)
        return HttpReply(body=found) if found else HttpReply(body=b"data", media_type="text/plain")


@pytest.fixture
def web() -> Any:
    with TestWeb(hosts=1, sites={HOST: MannersHost()}) as web:
        yield web


def paths(web: TestWeb) -> list[str]:
    web.log.settle()
    return [visit.path for visit in web.log.visits(host=HOST)]


def own(settings: dict[str, Any], web: TestWeb, **more: Any) -> dict[str, Any]:
    return {**settings, "resolve": {HOST: web.resolve[HOST]}, **more}


def test_robots_and_delays_hold_for_what_a_page_asks_for(
    tmp_path: Path, web: TestWeb, settings: dict[str, Any]
) -> None:
    given = own(settings, web, delay=DELAY, page_resource_delay=DELAY)
    api.crawl(tmp_path / "c", [f"http://{HOST}/page"], depth=0, **given)
    assert sorted(paths(web)) == ["/b.png", "/c.png", "/page", "/robots.txt"]
    started = sorted(visit.started for visit in web.log.visits(host=HOST))
    assert all(after - before >= DELAY - 0.05 for before, after in pairwise(started))
    archived = read_archive(tmp_path / "c")
    assert archived.text(f"http://{HOST}/page").strip() == "refused"
    assert archived.info(f"http://{HOST}/page")["urls"][f"http://{HOST}/private/data"]["error"] == "robots"


def test_a_page_gets_no_more_requests_than_its_budget(tmp_path: Path, web: TestWeb, settings: dict[str, Any]) -> None:
    api.crawl(tmp_path / "c", [f"http://{HOST}/many"], depth=0, **own(settings, web, max_page_resources=5))
    assert len([path for path in paths(web) if path.startswith("/many/")]) == 5
    assert read_archive(tmp_path / "c").info(f"http://{HOST}/many")["cut"] == ["requests"]


def test_the_browser_itself_sends_nothing(
    tmp_path: Path, web: TestWeb, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its network namespace has no interface but an unused loopback, or it would show here."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    counters: list[str] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            for pid in processes_with(str(tmp_path)):
                try:
                    if "launcher.py" not in Path(f"/proc/{pid}/cmdline").read_text():  # which is to become a browser
                        counters.append(Path(f"/proc/{pid}/net/dev").read_text())
                except OSError:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        given = own(settings, web)
        api.crawl(tmp_path / "c", [f"http://{HOST}/leaks"], depth=0, **given)
    finally:
        done.set()
        watcher.join()
    assert read_archive(tmp_path / "c").text(f"http://{HOST}/leaks").strip() == "leaks"
    assert counters
    for counted in filter(None, counters):
        lines = [line.split() for line in counted.splitlines()[2:]]
        assert [line[0] for line in lines] == ["lo:"]
        assert set(lines[0][1:]) == {"0"}
