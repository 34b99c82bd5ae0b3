"""The replay zone in production: behind nginx with a wildcard certificate, as docs/how-to/serve-behind-nginx.md says.

The browser trusts one authority, made for the test, and finds the two domains at nginx; nothing else is different.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from tests.serve.browser import ARGUMENTS, DEADLINE, needs_browser
from tests.serve.living_web import CASES, WHEN, records
from tests.serve.test_zone_cookies import FLOOD
from tests.serve.warc_fixtures import HTML, collection, response
from tests.services.base import Running, answers, binary, free_port
from tests.services.nginx import program_of_nginx, temporary
from tests.unit.crawl.fetch.certificates import Authority

pytestmark = [*needs_browser, pytest.mark.server("nginx")]
expect.set_options(timeout=DEADLINE)

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx" / "webmill.conf"
OWN, ZONE, VIEW = "archive.example.org", "replay.example.net", "https://view.replay.example.net"
FLAGS = ("--proxy", "127.0.0.1", "--address", f"https://{OWN}", "--replay-zone", f"https://{ZONE}")
SHOWN = ("fetch-elsewhere", "fetch-post", "worker-elsewhere", "frame-elsewhere", "module-elsewhere", "storage")
RULES = "--host-resolver-rules=MAP *.example.net:443 127.0.0.1:{0},MAP *.example.org:443 127.0.0.1:{0},MAP * ~NOTFOUND"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser that trusts the authority, before nginx before webmill."""
    folder = tmp_path_factory.mktemp("tls")
    flood = response("https://flood.example/", WHEN, FLOOD.encode(), head=HTML)
    root = collection(folder / "archive", [*records(), flood], "--post-append")
    authority = Authority(folder)
    certificates = {OWN: authority.issue(OWN), ZONE: authority.issue(ZONE, f"*.{ZONE}")}
    own, replay, port = free_port(), free_port(), free_port()
    command = [sys.executable, "-m", "webmill", "serve", str(root), "--port", str(own), "--replay-port", str(replay)]
    webmill = Running("webmill", f"http://127.0.0.1:{own}", [*command, *FLAGS], folder, lambda: answers(replay))
    nginx = before(own, replay, root, folder, certificates, port)
    with ExitStack() as stack:
        for service in (webmill, nginx):
            service.start()
            stack.callback(service.stop)
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=[*ARGUMENTS, RULES.format(port)],
            env={**os.environ, "HOME": str(trusting(authority.file, folder / "home"))},
            chromium_sandbox=False,
        )
        with closing(browser), closing(browser.new_context()) as context:
            context.set_default_timeout(DEADLINE)
            yield context


def before(own: int, replay: int, root: Path, folder: Path, certificates: dict[str, Path], port: int) -> Running:
    """Return nginx with our file, in which only what the guide says is changed, and the ports of the test."""
    conf = CONFIGURATION.read_text()
    for old, new in (
        ("127.0.0.1:8080", f"127.0.0.1:{own}"),
        ("127.0.0.1:8081", f"127.0.0.1:{replay}"),
        ("/srv/webmill/news", str(root)),
    ):
        assert old in conf
        conf = conf.replace(old, new)
    first, *others = conf.split("listen 80;")
    made = first
    for part in others:
        file = certificates[OWN if OWN in part.partition("location")[0] else ZONE]
        made += f"listen 127.0.0.1:{port} ssl; ssl_certificate {file}; ssl_certificate_key {file};{part}"
    (folder / "webmill.conf").write_text(made)
    program = program_of_nginx()
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; events {{}}\n"
        f"http {{ {temporary(program, folder)} access_log off; include {folder}/webmill.conf; }}\n"
    )
    command = [program, "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    return Running("nginx", f"https://127.0.0.1:{port}", command, folder, lambda: answers(port))


def trusting(authority: Path, home: Path) -> Path:
    """Return a home whose browsers trust the authority."""
    database = home / ".pki" / "nssdb"
    database.mkdir(parents=True)
    certutil = str(binary("certutil", package="libnss3-tools", setting="PATH"))
    for arguments in (["-N", "--empty-password"], ["-A", "-t", "C,,", "-n", "test", "-i", str(authority)]):
        subprocess.run([certutil, "-d", f"sql:{database}", *arguments], check=True, capture_output=True)
    return home


@pytest.fixture
def page(reader: BrowserContext) -> Iterator[Page]:
    with closing(reader.new_page()) as page:
        yield page


@pytest.mark.parametrize("name", SHOWN)
def test_living_pages_are_replayed_over_tls(page: Page, name: str) -> None:
    page.goto(f"https://{OWN}/web/{WHEN}/{CASES[name].url}")
    assert page.url.startswith(f"{VIEW}/web/")
    frame = page.locator("#page").element_handle().content_frame()
    assert frame
    frame.wait_for_selector("body[data-done]")
    assert frame.locator("#out").text_content() == CASES[name].expected
    assert frame.url.endswith(f".{ZONE}/{name}/")
    assert frame.url.startswith("https://")
    assert frame.evaluate("isSecureContext")


def test_cookies_for_the_whole_zone_do_not_lock_the_reader_out(page: Page) -> None:
    """nginx refuses their requests before webmill sees them."""
    page.goto(f"{VIEW}/web/{WHEN}/https://flood.example/", wait_until="networkidle")
    frame = page.locator("#page").element_handle().content_frame()
    assert frame
    assert frame.evaluate(f"flood('{ZONE}')") > 500_000
    refused = page.goto(f"{VIEW}/web/{WHEN}/{CASES['storage'].url}")
    assert refused
    assert refused.status == 431
    page.reload()
    expect(page.frame_locator("#page").locator("#out")).to_have_text(CASES["storage"].expected)
