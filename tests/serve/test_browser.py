"""What the other browser tests rely on."""

from __future__ import annotations

import time
from contextlib import closing, suppress

from playwright.sync_api import Browser, Error

from tests.serve.browser import DEADLINE, Trap, needs_browser

pytestmark = needs_browser


def test_the_trap_sees_who_looks_for_another_host(chromium: Browser, trap: Trap) -> None:
    with closing(chromium.new_context()) as context:
        with suppress(Error):  # it is never answered
            context.new_page().goto("http://elsewhere.example/there", timeout=100)
        deadline = time.monotonic() + DEADLINE / 1000
        while not any(caller.startswith("GET /there") for caller in trap.callers()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
