"""Addresses as they may be printed, logged and stored: the one place that knows which part of an address is secret."""

from __future__ import annotations

import re

MASK = "***"
ESCAPE = "write SCHEME://USER:PASSWORD@HOST:PORT/…, and in a password / ? # @ : % as %2F %3F %23 %40 %3A %25"

# A password may hold any character, even one that should have been escaped: all up to the last @ is hidden.
_EXAMPLE = r"(?!(?:USER:PASSWORD|ACCESS:SECRET|KEY)@)"  # what messages tell people to write
_SERVER = re.compile(rf"\b((?!https?:|HTTPS?:)[A-Za-z][A-Za-z0-9+.-]*)://{_EXAMPLE}(?:(?!://)[^\s\"'`<>])*@")
# Of a web page's address only the user is hidden: https://example.org/@name is an ordinary path.
_WEB = re.compile(r"\b(https?)://[^/?#\s\"'`<>]*@", re.IGNORECASE)
_PARAMETER = re.compile(
    r"([?&][\w-]*(?:password|passwd|secret|token|api_?key|access_?key|signature|credential)[\w-]*=)[^&#\s\"'`<>]+",
    re.IGNORECASE,
)


def hide_secrets(text: str) -> str:
    """Return a text with its addresses as they may be shown: without users, passwords and keys."""
    if "://" not in text:
        return text
    hidden = _WEB.sub(rf"\1://{MASK}@", _SERVER.sub(rf"\1://{MASK}@", text))
    return _PARAMETER.sub(rf"\1{MASK}", hidden)


def hide_target(address: str) -> str:
    """Return where messages go, as it may be shown: a mail address whole, of a webhook its host, of a chat service its
    name. Tokens of such services are hosts and paths, so that none of these is shown.
    """
    scheme, _, rest = address.partition(":")
    if scheme.lower() == "mailto":
        return f"mailto:{rest.partition('?')[0]}"
    if scheme.lower() in ("http", "https"):
        host = re.split("[/?#]", rest.removeprefix("//"), maxsplit=1)[0].rpartition("@")[2]
        return f"{scheme.lower()}://{host}/{MASK}"
    return f"{scheme}://{MASK}"
