"""The hooks: what a plugin may implement. Each function takes the arguments that it names, in any order.

    from webmill import hookimpl

    @hookimpl
    def scope(url, depth):
        return False if "/print/" in url else None

None always means: no opinion, nothing to change. A hook that raises is a failure of what it was called for, with the
name of the plugin in its reason; it is never skipped silently. `scope`, `before_request` and `after_response` are
called in the process of the crawl, between two requests: they must not wait. `extract` and `document` are called in the
sandbox, with its limits of time and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from pluggy import HookimplMarker, HookspecMarker

PROJECT = "webmill"
hookspec = HookspecMarker(PROJECT)
hookimpl = HookimplMarker(PROJECT)


class PluginPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of `webmill serve`, at `/plugins/PLUGIN/PATH`.

    `show` is given the folder of the collection and the query of the address, in a thread; it returns text, which is
    escaped, or HTML as `markupsafe.Markup`. No script and no style of its own runs there.
    """

    path: str
    title: str
    show: Callable[[Path, Mapping[str, str]], str]


class HookSpecs:
    """The signatures that plugins are checked against when they are loaded."""

    @hookspec
    def scope(self, url: str, depth: int) -> bool | str | None:
        """Return whether a link is followed, or the URL that is followed in its place. The first opinion counts.

        It is asked for what pages and redirects lead to, before the scope of the crawl. True overrules that scope,
        but no `exclude`, no robots.txt and no limit; False is counted as `plugin`.
        """

    @hookspec
    def before_request(self, url: str) -> Mapping[str, str] | None:
        """Return fields that a request for the URL carries besides the usual ones: all that plugins return are sent.
        They are archived as `***`."""

    @hookspec
    def after_response(self, url: str, status: int, fields: Mapping[str, str], body: bytes) -> Iterable[str] | None:
        """Return URLs to follow besides the links that were found. `fields` have names in lower case; `body` is
        decoded. Pages and redirects are shown, not robots.txt, sitemaps and page resources."""

    @hookspec
    def extract(self, html: str, url: str) -> str | None:
        """Return the main text of a page, in place of the extractor's. The first that is not None counts."""

    @hookspec
    def document(self, document: Any) -> Any:
        """Return the document as it is to be stored (`msgspec.structs.replace(document, title=…)`). Each plugin gets
        what the one before has returned."""

    @hookspec
    def curate_filter(self) -> Mapping[str, Callable[..., Any]]:
        """Return functions by name, for steps `use = "python"` of recipes: `function = "plugin:NAME"`."""
        raise NotImplementedError

    @hookspec
    def on_change(self, changes: Any) -> None:
        """Take a message about pages that changed, as a webhook gets it (`docs/reference/alerts.md`).

        At least once, in order, with the same `id` when it is repeated; if it raises, it is called again later.
        """

    @hookspec
    def register_pages(self) -> Iterable[PluginPage]:
        """Return pages (`webmill.PluginPage`) that `webmill serve` shows."""
        raise NotImplementedError

    @hookspec
    def register_commands(self) -> Iterable[Any]:
        """Return commands of click: `webmill NAME …`."""
        raise NotImplementedError
