"""What a crawl is for, and how it shows who it is: settings of the section [crawl]."""

from __future__ import annotations

from typing import Annotated, Literal

from webmill.settings.browser_section import BrowserSettings
from webmill.settings.declaration import setting

USAGE = "Purpose and identity"


class PurposeSettings(BrowserSettings, frozen=True, kw_only=True):  # a chain: structs have one base
    """The part of `CrawlSettings` that says what a crawl is for."""

    purpose: Annotated[
        Literal["archive", "search", "training", "research", "monitoring"],
        setting(
            "What the collection is for. Servers are told; what a site forbids for it is not asked for, or not kept.",
            reach="inside",
            group=USAGE,
        ),
    ] = "archive"
    site_files: Annotated[
        bool | None,
        setting(
            "Also ask each site for its tdmrep.json and llms.txt, and for licences that its robots.txt names.",
            reach="inside",
            group=USAGE,
            none="if the purpose is training or research",
        ),
    ] = None
    usage_revision: Annotated[
        Literal["2026-08", "2025-07", "2025-04"],
        setting(
            "Revision of the aipref drafts whose labels count in Content-Usage.",
            reach="inside",
            group=USAGE,
            only="file",
        ),
    ] = "2026-08"
    bot: Annotated[
        str,
        setting(
            "Sign requests with the keys in this folder, which `webmill bot init` makes, outside of the collection.",
            reach="path",
            group=USAGE,
            metavar="FOLDER",
        ),
    ] = ""
    bot_revision: Annotated[
        Literal["2026", "2025"],
        setting(
            "Revision of the Web Bot Auth drafts: 2025 names the agent as a string.",
            reach="inside",
            group=USAGE,
            only="file",
        ),
    ] = "2026"
