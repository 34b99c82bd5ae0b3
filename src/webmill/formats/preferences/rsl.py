"""Really Simple Licensing 1.0, the XML document; robots.txt, a `Link` field or a page name where it is.

    for content in read_rsl(body): content.matches("/path"), content.statements()

Where a licence permits usages it permits no others; what it prohibits is prohibited whatever it permits. A licence that
wants to be paid for is no permission: webmill never pays. Several licences for one content are offers: what one of them
gives for free is allowed.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

from webmill.errors import BadInput
from webmill.formats.preferences.statements import SEARCH, TRAIN_AI, Statement, make_statement
from webmill.formats.site.robots_match import RobotsMatcher, normalise_by_rfc, to_octets
from webmill.formats.site.xml_reader import ReadingStopped, XmlReader

NAMESPACE = "https://rslstandard.org/rsl"
MEDIA_TYPE = "application/rsl+xml"
MAX_FILE = 1 << 20  # bytes
MAX_CONTENTS, MAX_LICENSES, MAX_TOKENS, MAX_DEPTH = 1000, 100, 100, 32
_MAX_PATTERN = 2000

# Sources spell it train-ai and ai-train. Tokens for usages that webmill does not know are kept.
_USAGES = {
    "all": (SEARCH, TRAIN_AI),
    "ai-all": (TRAIN_AI,),
    "ai-train": (TRAIN_AI,),
    "train-ai": (TRAIN_AI,),
    "search": (SEARCH,),
}
_FREE = frozenset({"", "free", "attribution"})
_TOKEN = re.compile(r"[a-z0-9_.\-]{1,64}")


class RslLicense(msgspec.Struct):
    """One offer. `permits` is None where nothing is permitted expressly, which permits all that is not prohibited."""

    permits: list[str] | None = None
    prohibits: list[str] = []
    payment: str = ""

    @property
    def is_free(self) -> bool:
        return self.payment in _FREE

    def allows(self, usage: str) -> bool:
        if any(usage in _USAGES.get(token, ()) for token in self.prohibits) or not self.is_free:
            return False
        return self.permits is None or any(usage in _USAGES.get(token, ()) for token in self.permits)

    def speaks_of(self, usage: str) -> bool:
        """Tell whether anything follows for a usage: a licence that only prohibits something else says nothing."""
        if self.permits is not None or not self.is_free:
            return True
        return any(usage in _USAGES.get(token, ()) for token in self.prohibits)


class RslContent(msgspec.Struct):
    """What a document says of the URLs that match `url`, which is a path or a whole address, with `*` and `$`."""

    url: str = ""
    server: str = ""
    licenses: list[RslLicense] = []

    def matches(self, url: str) -> bool:
        """Tell whether it is about this URL."""
        wanted, path = _host_and_path(self.url)
        host, own = _host_and_path(url)
        if wanted and wanted != host:
            return False
        pattern = path if path.startswith(("/", "*")) else f"/{path}"
        rule = [(False, to_octets(pattern))]
        return not RobotsMatcher(rule, normalise_by_rfc).allows(normalise_by_rfc(to_octets(own or "/")))

    def statements(self) -> list[Statement]:
        """Return what follows from the licences, and what they say of usages that are not known."""
        found: list[Statement] = []
        for usage in (SEARCH, TRAIN_AI):
            speaking = [one for one in self.licenses if one.speaks_of(usage)]
            if speaking:
                allowed = any(one.allows(usage) for one in speaking)
                found.append(make_statement(usage, allowed=allowed, source="rsl", text=self._describe(speaking)))
        for one in self.licenses:
            for token, allowed in [*((t, True) for t in one.permits or ()), *((t, False) for t in one.prohibits)]:
                if token not in _USAGES:
                    text = f"{'permits' if allowed else 'prohibits'} {token}"
                    found.append(make_statement(f"rsl:{token}", allowed=allowed, source="rsl", text=text))
        return list(dict.fromkeys(found))

    def _describe(self, licenses: list[RslLicense]) -> str:
        parts = [
            " ".join(
                [
                    *([f"permits {','.join(one.permits)}"] if one.permits is not None else []),
                    *([f"prohibits {','.join(one.prohibits)}"] if one.prohibits else []),
                    *([f"payment {one.payment}"] if one.payment else []),
                ]
            )
            for one in licenses
        ]
        return f"{self.url}: {' | '.join(parts)}"


def read_rsl(body: bytes) -> tuple[RslContent, ...]:
    """Return the contents of a document; none if it is not RSL. What comes before an error counts."""
    if len(body) > MAX_FILE:
        return ()
    handler = _RslHandler()
    try:
        XmlReader(handler, max_depth=MAX_DEPTH).read(body, reason="not_rsl")
    except BadInput:
        return ()
    return tuple(one for one in handler.contents if one.url and one.licenses)


class _RslHandler:
    """Collects contents and their licences; elements of other vocabularies are skipped."""

    def __init__(self) -> None:
        self.contents: list[RslContent] = []
        self._license: RslLicense | None = None
        self._kind, self._is_usage, self._text = "", False, ""

    def begin(self, root: str, prefix: str, attributes: dict[str, str]) -> None:
        declared = attributes.get(f"xmlns:{prefix}" if prefix else "xmlns", "").rstrip("/")
        if root != "rsl" or declared not in ("", NAMESPACE):
            raise BadInput("not an RSL document", reason="not_rsl")

    def start(self, name: str, prefix: str, attributes: dict[str, str]) -> None:  # noqa: ARG002
        self._text = ""
        if name == "content":
            if len(self.contents) >= MAX_CONTENTS:
                raise ReadingStopped("too_many_contents")
            url = attributes.get("url", "").strip()[:_MAX_PATTERN]
            self.contents.append(RslContent(url=url, server=attributes.get("server", "")[:_MAX_PATTERN]))
        elif name == "license" and self.contents and len(self.contents[-1].licenses) < MAX_LICENSES:
            self._license = RslLicense()
            self.contents[-1].licenses.append(self._license)
        elif name in ("permits", "prohibits"):
            self._kind, self._is_usage = name, attributes.get("type", "usage").strip().lower() == "usage"
            if self._is_usage and name == "permits" and self._license and self._license.permits is None:
                self._license.permits = []
        elif name == "payment" and self._license:
            self._license.payment = attributes.get("type", "purchase").strip().lower()[:64]

    def characters(self, text: str) -> None:
        if len(self._text) < _MAX_PATTERN:
            self._text += text[:_MAX_PATTERN]

    def end(self, name: str) -> None:
        if name == "license":
            self._license = None
        elif name in ("permits", "prohibits") and self._is_usage and self._license:
            tokens = [token for token in re.split(r"[\s,]+", self._text.lower()) if _TOKEN.fullmatch(token)]
            kept = self._license.prohibits if name == "prohibits" else self._license.permits
            if kept is not None:
                kept += tokens[: MAX_TOKENS - len(kept)]

    def doctype(self, name: str, system: str | None, public: str | None, has_subset: int) -> None:
        """A document type that declares nothing is of no interest; entities are refused by the reader."""


def _host_and_path(url: str) -> tuple[str, str]:
    if not url.lower().startswith(("http://", "https://", "//")):
        return "", url
    try:
        parts = urlsplit(url)
    except ValueError:
        return "?", ""
    return parts.netloc.rpartition("@")[2].lower(), (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
