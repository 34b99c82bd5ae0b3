"""Take the pictures of the README: `python docs/pictures/take.py`, with Chromium and the test environment.

The collection is the one that `webmill demo` makes. Pictures are 1280 wide, of what a person sees first.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
WEBMILL = [sys.executable, "-m", "webmill"]
CHROMIUM = "/usr/bin/chromium"


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        subprocess.run([*WEBMILL, "-q", "demo", "--no-serve", "--keep", f"{root}/demo"], check=True)
        serve = [*WEBMILL, "serve", f"{root}/demo", "--port", "0"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            try:
                look_at(address_of(server))
            finally:
                server.terminate()


def address_of(server: subprocess.Popen[str]) -> str:
    assert server.stdout
    for line in server.stdout:
        if found := re.search(r"http://[\w.:]+", line):
            return found[0]
    sys.exit("the server said no address")


def look_at(address: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        take(page, "overview")
        page.goto(f"{address}/search?q=mill")
        take(page, "search")
        page.goto(f"{address}/versions/diff")
        take(page, "diff")
        browser.close()


def take(page: Page, name: str) -> None:
    page.wait_for_load_state("networkidle")
    page.screenshot(path=HERE / f"{name}.png")


if __name__ == "__main__":
    main()
