"""Replay of pages that live by scripts, beside pywb: how many do from the archive what they did on the web.

The pages are our own (tests/serve/living_web.py), in one archive that both read; a plain browser agrees on what they
should say (tests/serve/test_zone_browser.py). Server and internet are gone: every other name leads to a trap, which
counts connections. They have one author with the replay: expect less of pages that nobody has seen.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, Error, Frame, Page, sync_playwright
from tests.serve.browser import ARGUMENTS, RULES, Trap, listening, serving
from tests.serve.living_web import CASES, WHEN, records
from tests.serve.sample_collection import NAME
from tests.serve.warc_fixtures import collection
from tests.unit.index.test_pywb_reads_our_zipnum import get, wayback

from benchmarks.zipnum import JUDGES

PATIENCE = 2500  # milliseconds for one page
FindFrame = Callable[[Page], Frame | None]


@contextmanager
def pywb(root: Path, folder: Path) -> Iterator[str]:
    """Give the address of pywb over the same index and archive."""
    index = root / "cc-index" / "collections" / NAME / "indexes" / "cluster.idx"
    config = f"collections:\n  living:\n    index_paths: {index}\n    archive_paths: {root}/\n"
    (folder / "config.yaml").write_text(config)
    with wayback(JUDGES, folder) as url:
        get(f"{url}/living/cdx?url=http://hard.example/location/")
        yield f"{url}/living"


def framed(selector: str) -> FindFrame:
    def find(page: Page) -> Frame | None:
        element = page.wait_for_selector(selector, state="attached", timeout=PATIENCE)
        return element.content_frame() if element else None

    return find


def replay(browser: Browser, trap: Trap, address: str, find: FindFrame) -> tuple[set[str], int]:
    """Return the pages that did what they should, and the connections that left the archive."""
    right: set[str] = set()
    leaks = 0
    context = browser.new_context()
    for name, case in CASES.items():
        page = context.new_page()
        with suppress(Error):
            page.goto(f"{address}/{WHEN}/{case.url}", timeout=PATIENCE)
            frame = find(page)
            if frame:
                frame.wait_for_selector("body[data-done]", timeout=PATIENCE)
                if frame.locator("#out").text_content(timeout=PATIENCE) == case.expected:
                    right.add(name)
        page.close()
        leaks += len([said for said in trap.callers() if said])
    context.close()
    return right, leaks


def main() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root = collection(folder / "archive", records(), "--post-append")
        trap = Trap(stack.enter_context(listening()))
        addresses = {
            "webmill": (stack.enter_context(serving(root, in_zone=True)).address + "/web", framed("#page")),
            "pywb": (stack.enter_context(pywb(root, folder)), framed("iframe#replay_iframe")),
        }
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=[*ARGUMENTS, RULES.format(port=trap.port)],
            chromium_sandbox=False,
        )
        stack.callback(browser.close)
        found = {name: replay(browser, trap, *how) for name, how in addresses.items()}
    print(f"\n## Pages that live by scripts, replayed ({len(CASES)} pages)\n")
    print("| | right | connections that left |\n|---|---:|---:|")
    for name, (right, leaks) in found.items():
        print(f"| {name} | {len(right)} | {leaks} |")
    for name, (right, _) in found.items():
        print(f"\nWrong in {name}: {', '.join(sorted(set(CASES) - right)) or 'none'}.")


if __name__ == "__main__":
    main()
