"""The settings of a crawl, section [crawl], that are about pages in a browser."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from webmill.settings.declaration import setting
from webmill.settings.value_formats import Duration, Size

BROWSER = "Browser"

BrowserMode = Literal["auto", "always", "never"]


class BrowserSettings(msgspec.Struct, frozen=True, kw_only=True):
    browser: Annotated[
        BrowserMode,
        setting(
            "Show pages in a browser, which runs their scripts. auto: those that are empty without them, if a browser "
            "is installed.",
            reach="inside",
            group=BROWSER,
        ),
    ] = "auto"
    browser_path: Annotated[
        str,
        setting(
            "The browser: Chromium, Chrome or their headless shell.",
            reach="other",
            group=BROWSER,
            metavar="PROGRAM",
            none="the first on PATH",
        ),
    ] = ""
    browser_tabs: Annotated[
        int, setting("Pages to show at the same time, per process.", reach="inside", group=BROWSER, least=1, most=64)
    ] = 2
    browser_time: Annotated[
        Duration,
        setting(
            "Give up a page after this time of its own; waiting for hosts does not count.",
            reach="inside",
            group=BROWSER,
        ),
    ] = 60.0
    browser_bytes: Annotated[
        Size, setting("Fetch at most this much for one page in a browser.", reach="inside", group=BROWSER)
    ] = 200 << 20
    browser_memory: Annotated[
        Size,
        setting(
            "Memory of each process of a browser, and so of each page.", reach="inside", group=BROWSER, least=1 << 28
        ),
    ] = 1 << 30
