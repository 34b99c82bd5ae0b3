"""What discovery takes for a board, a site map, a department: rules about links and listings, without any network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from webmill.boards.cms_patterns import PATTERNS
from webmill.boards.listing import NoticeListing
from webmill.boards.named_links import NamedLink, NamedLinks
from webmill.formats.url.domains import registered_domain
from webmill.formats.url.normalise import host_of

MAX_BOARD_NAME = 40  # characters; what is longer is a headline


class BoardKeyword(Struct, frozen=True):
    """A word in the name of a board, and the id that such a board gets."""

    word: str
    id: str


_WORDS = {
    "notice": "공지 notice announcement",
    "academic": "학사 academic",
    "scholarship": "장학 scholarship",
    "jobs": "채용 취업 job career recruitment",
    "event": "행사 event",
    "seminar": "세미나 특강 seminar colloquium",
    "news": "소식 뉴스 news",
    "board": "게시판 bulletin",
}
KEYWORDS = tuple(BoardKeyword(word, id_) for id_, words in _WORDS.items() for word in words.split())

_NOTICE_URL = re.compile(  # the page of one notice, not of a board
    r"articleno=|article_no=|article_seq=|wr_id=|document_srl=|board_seq=|nttid=|mode=view|artclview|view\.do|/view/[0-9]",
    re.IGNORECASE,
)
_SITE_MAP = re.compile(r"사이트\s?맵|site\s?map", re.IGNORECASE)
_HOME_PAGE = re.compile(r"홈\s?페이지|home\s?page|web\s?site", re.IGNORECASE)
_TITLE_PARTS = re.compile(r"\s*[|·»>:–—]\s*|\s+-\s+")
_NOT_NAMES = frozenset({"www", "home", "web"})


class BoardCandidate(Struct, frozen=True):
    """A page that may be a board. Without a `keyword` (an id of `KEYWORDS`) only its URL looks like one."""

    url: str
    name: str
    keyword: str = ""


def board_candidates(home: str, links: Iterable[NamedLink], keywords: Sequence[BoardKeyword]) -> list[BoardCandidate]:
    """Return the pages of this host that may be boards, each once, those with a keyword first."""
    found: dict[str, BoardCandidate] = {}
    for link in links:
        keyword = keyword_of(link.name, keywords)
        is_candidate = keyword or is_cms_url(link.url)
        if not is_candidate or not _same_host(home, link.url) or _NOTICE_URL.search(link.url):
            continue
        if link.url not in found or (keyword and not found[link.url].keyword):
            found[link.url] = BoardCandidate(link.url, link.name, keyword)
    return sorted(found.values(), key=lambda candidate: not candidate.keyword)


def boards_elsewhere(home: str, links: Iterable[NamedLink], keywords: Sequence[BoardKeyword]) -> list[BoardCandidate]:
    """Return what is named like a board, on another host of the same domain."""
    domain = registered_domain(host_of(home))
    found: dict[str, BoardCandidate] = {}
    for link in links:
        keyword, host = keyword_of(link.name, keywords), host_of(link.url)
        is_near = domain is not None and registered_domain(host) == domain and not _same_host(home, link.url)
        if keyword and is_near and not _NOTICE_URL.search(link.url):
            found.setdefault(link.url, BoardCandidate(link.url, link.name, keyword))
    return list(found.values())


def keyword_of(name: str, keywords: Sequence[BoardKeyword]) -> str:
    """Return the id of the first keyword in a name; empty if there is none, or the name is too long for a board."""
    if len(name) > MAX_BOARD_NAME:
        return ""
    return next((one.id for one in keywords if _contains(name.casefold(), one.word.casefold())), "")


def _contains(name: str, word: str) -> bool:
    """Whether the word is in the name; one in Latin letters is a word of its own, or its plural."""
    return re.search(rf"\b{re.escape(word)}s?\b", name) is not None if word.isascii() else word in name


def is_cms_url(url: str) -> bool:
    return any(sign in url for pattern in PATTERNS for sign in pattern.in_url)


def site_map_links(home: str, page: NamedLinks) -> list[str]:
    """Return the pages that list all pages of the site."""
    found = (link.url for link in page.links if _SITE_MAP.search(link.name) and _same_host(home, link.url))
    return [url for url in dict.fromkeys(found) if url != home]


def listing_doubt(listing: NoticeListing) -> str:
    """Return why a listing may not be one of notices; empty if there is no doubt."""
    if not listing.rows:
        return (
            "it lists no notices now" if listing.matched else "no list of notices was found by the built-in selectors"
        )
    dated = sum(bool(row.date) for row in listing.rows)
    return "" if 2 * dated >= len(listing.rows) else "most of its rows have no date that can be read"


# --- departments ---


class DepartmentLink(Struct, frozen=True):
    name: str
    url: str


def department_links(home: str, page: NamedLinks) -> Iterator[DepartmentLink]:
    """Yield the home pages of departments that a page lists: links named "home page", and hosts of the same domain."""
    seen = {home}
    for link in page.links:
        name = _department_name(home, link)
        if name is not None and link.url not in seen:
            seen.add(link.url)
            yield DepartmentLink(name, link.url)


def _department_name(home: str, link: NamedLink) -> str | None:
    """Return the name of the department whose home page this is; empty if it has none, None if it is no home page."""
    if _HOME_PAGE.search(link.name):
        return _HOME_PAGE.sub("", link.name).strip(" []()") or link.heading
    domain = registered_domain(host_of(home))
    is_root = urlsplit(link.url).path in ("", "/") and not urlsplit(link.url).query
    is_near = domain is not None and registered_domain(host_of(link.url)) == domain
    return link.name if is_root and is_near and not _same_host(home, link.url) and link.name else None


def department_id(url: str) -> str:
    """Return a short id: the last part of the path, else the first label of the host that is a name."""
    host = host_of(url)
    path = [part for part in urlsplit(url).path.split("/") if part and "." not in part]
    labels = [label for label in host.split(".") if label not in _NOT_NAMES] if registered_domain(host) else []
    return (path[-1:] or labels[:1] or [host])[0][:60]


def site_name(page: NamedLinks, url: str) -> str:
    """Return the first part of a page's title; without one, its host."""
    return next(filter(None, _TITLE_PARTS.split(page.title)), "") or host_of(url)


def unique_id(id_: str, taken: Iterable[str]) -> str:
    """Return the id, with `_2`, `_3`, … where it is taken."""
    names, count, name = set(taken), 1, id_
    while name in names:
        count += 1
        name = f"{id_}_{count}"
    return name


def _same_host(home: str, url: str) -> bool:
    return host_of(home).removeprefix("www.") == host_of(url).removeprefix("www.")
