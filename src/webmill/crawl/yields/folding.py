"""Parameters that never change a page, by rule: those of advertising and of sessions.

Only links are folded, never a redirect nor a seed: a server that redirects to a URL with its parameter means it. What
is fetched is archived under the URL that was requested.
"""

from __future__ import annotations

import re

from webmill.crawl.traps import SESSION_IN_PATH, SESSION_PARAMETER

_TRACKING = re.compile(
    r"(?:utm_[a-z_]+|fbclid|gclid|gclsrc|gbraid|wbraid|dclid|msclkid|yclid|ysclid|twclid|ttclid|igshid|li_fat_id"
    r"|mc_cid|mc_eid|_hsenc|_hsmi|mkt_tok|vero_id|oly_anon_id|oly_enc_id|s_cid|wickedid|_openstat)(?:=|\Z)",
    re.IGNORECASE,
)


def fold_url(url: str) -> str:
    """Return a normalised URL without what never changes a page."""
    if "?" not in url and ";" not in url:
        return url
    address, mark, query = url.partition("?")
    if ";" in address:
        address = SESSION_IN_PATH.sub("", address)
    if not mark:
        return address
    pairs = query.split("&")
    kept = [pair for pair in pairs if not (_TRACKING.match(pair) or SESSION_PARAMETER.match(pair))]
    return url if len(kept) == len(pairs) and len(address) == url.index("?") else join_query(address, kept)


def join_query(address: str, pairs: list[str]) -> str:
    return f"{address}?{'&'.join(pairs)}" if pairs else address


def without_key(url: str, key: str) -> str:
    """Return the URL without the parameters of this name."""
    address, _, query = url.partition("?")
    return join_query(address, [pair for pair in query.split("&") if pair.partition("=")[0] != key])
