"""Rewrites what leads to another origin in a page of the replay zone. All other links lead on by themselves."""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from webmill.errors import BadInput
from webmill.formats.url.normalise import join
from webmill.serve.replay.labels import OriginAtTime, ReplayZone
from webmill.serve.replay.links import SPACE, LinkRewriter
from webmill.serve.replay.rewrite_script import ScriptCache, absolute_origin
from webmill.serve.replay.shim import SHIM_TAG

_ABSOLUTE = re.compile(r"(?:(https?):)?[/\\]{2}([^/\\?#]*)", re.IGNORECASE)
_IN_JSON = re.compile(r'(?<=")(?:(https?):)?(?:/|\\/){2}([^/\\"?#]*)', re.IGNORECASE)
_SCRIPTS = frozenset(
    {
        *("", "module", "text/javascript", "application/javascript", "application/x-javascript", "text/ecmascript"),
        *("application/ecmascript", "text/jscript", "text/livescript", "text/x-javascript", "text/x-ecmascript"),
    }
)


class ZoneLinks(LinkRewriter, frozen=True, kw_only=True):
    """`base` is the URL of the page, `timestamp_part` its time."""

    zone: ReplayZone
    here: OriginAtTime
    scripts: ScriptCache
    known: dict[str, str | None] = msgspec.field(default_factory=dict)  # origins of this page, as written

    # A module needs `crossorigin` to be asked for as before; bytes change, and so do digests.
    dropped: ClassVar[frozenset[str]] = frozenset({"integrity", "ping", "manifest", "nonce", "referrerpolicy"})
    rewrites_data: ClassVar[bool] = False
    srcdoc_start: ClassVar[str] = SHIM_TAG

    def rewrite(self, href: str) -> str | None:
        href = href.strip(SPACE)
        if href[:11].lower() == "javascript:" and "%" not in href:
            script = self.rewrite_script(href[11:], "")
            return None if script is None else f"javascript:{script}"
        cleaned = href.replace("\t", "").replace("\n", "").replace("\r", "")
        found = _ABSOLUTE.match(cleaned)
        there = self._origin(found) if found else None
        if not found or there is None:
            return None
        rest = cleaned[found.end() :]
        self.budget.spend(len(there) + len(rest))
        return there + (rest if rest[:1] in ("/", "\\") else "/" + rest)

    def _origin(self, found: re.Match[str]) -> str | None:
        written = f"{(found[1] or self.here.origin.scheme).lower()}://{found[2]}"
        if written not in self.known:
            self.known[written] = absolute_origin(self.zone, self.here.timestamp, written)
        return self.known[written]

    def with_base(self, base: str) -> LinkRewriter:
        """Return this: what is relative to a base needs nothing, and the base itself is rewritten."""
        del base
        return self

    def rewrite_script(self, script: str, kind: str) -> str | None:
        if kind == "importmap":
            return _IN_JSON.sub(lambda found: self._origin(found) or found[0], script)
        if kind not in _SCRIPTS:
            return None
        return self.scripts.rewrite(script, self.zone, self.here.timestamp, self.here.origin.scheme)

    def address_of(self, url: str) -> str | None:
        """Return the address of a link in a header."""
        try:
            return self.zone.address_of(self.here.timestamp, join(self.base, url))
        except BadInput:
            return None
