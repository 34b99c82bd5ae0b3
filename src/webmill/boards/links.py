"""Links to notices: cleaned of what changes by itself, and the number of the notice in them."""

from __future__ import annotations

import re
from hashlib import sha256
from urllib.parse import parse_qsl

from webmill.errors import BadInput
from webmill.formats.url import normalise as urls

# Parameters that name a notice, the surest first. `id` and `no` are at times the board's.
_NUMBER_NAMES = (
    "articleno article_no article_seq articleid wr_id document_srl nttid nttno boardseq board_seq bbsidx postid seq idx"
    " num no uid id p"
)
_VOLATILE_NAMES = (
    "jsessionid phpsessid aspsessionid sessionid session_id sid cftoken cfid token csrf _csrf fbclid gclid _ timestamp"
    " rnd"
)
# Position in the listing, or how it was searched: dropped when the link names the notice itself.
_POSITION_NAMES = (
    "page pageindex pageno pagenum pageunit cpage curpage offset limit article.offset articlelimit srsearchkey"
    " srsearchval srcategoryid sfl stx sst sod sop spt search_target search_keyword searchkey searchval searchcondition"
    " searchkeyword totalcount rownum viewcount hit"
)
_NUMBERS = _NUMBER_NAMES.split()
_VOLATILE, _POSITION = frozenset(_VOLATILE_NAMES.split()), frozenset(_POSITION_NAMES.split())
_IN_PATH = re.compile(r"/(?:view|notice|article|articles|board|post|posts|read|detail)/([0-9]{1,20})(?:/|$)")
_ARTICLE_IN_PATH = re.compile(r"/([0-9]{1,20})/artclView\.do$")
_PATH_SESSION = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/?;]*", re.IGNORECASE)


def clean_link(base: str, href: str) -> str:
    """Return the link absolute and without session ids and the like. BadInput for what cannot be fetched."""
    url = urls.join(base, href.strip())
    start, _, query = url.partition("?")
    start = _PATH_SESSION.sub("", start)
    if not query:
        return start
    pairs = query.split("&")
    names_notice = _number_in(query) is not None or _IN_PATH.search(start) is not None
    kept = [pair for pair in pairs if pair and not _is_volatile(pair, names_notice=names_notice)]
    return f"{start}?{'&'.join(kept)}" if kept else start


def _is_volatile(pair: str, *, names_notice: bool) -> bool:
    name = pair.partition("=")[0].lower()
    return name in _VOLATILE or name.startswith("utm_") or (names_notice and name in _POSITION)


def notice_number(url: str) -> str:
    """Return the number of the notice in its link; 16 digits of a hash of the link if there is none."""
    start, _, query = url.partition("?")
    number = _number_in(query)
    if number is None and (found := _ARTICLE_IN_PATH.search(start) or _IN_PATH.search(start)):
        number = found[1]
    return number or sha256(url.encode("utf-8", "replace")).hexdigest()[:16]


def _number_in(query: str) -> str | None:
    given = {name.lower(): value for name, value in parse_qsl(query)[:100] if value.isascii() and value.isdigit()}
    return next((given[name] for name in _NUMBERS if name in given and len(given[name]) <= 20), None)


def clean_link_or_empty(base: str, href: str) -> str:
    """Return the cleaned link; empty for what cannot be fetched."""
    try:
        return clean_link(base, href)
    except BadInput:
        return ""
