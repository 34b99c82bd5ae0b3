"""Where pages moved that are not at their old address any more.

A page has moved if its old address redirects for good, or if a page that is new on the same site has the same content
or nearly the same text. Texts are compared for at most `MOST_TEXTS` removed and as many added pages of a version; of
more, those with the same content are still found. In doubt nothing has moved: it is told as removed and added.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from webmill.errors import BadInput
from webmill.formats.url.domains import registered_domain
from webmill.formats.url.normalise import host_of, normalise
from webmill.formats.url.surt import surt
from webmill.publish.text_change import compare_text, split_lines
from webmill.publish.types import PublishedItem

MOST_TEXTS = 5_000
MOST_LINES = 100  # of a text, by which similar texts are found
MOST_ALIKE = 10  # removed pages that are compared with an added one
LONG_LINE = 20  # characters that make a line telling
SAME_TITLE, OTHER_TITLE = 0.1, 0.03  # shares of the words that may differ

ReadText = Callable[[str], str | None]  # by the hash of the content
FindRedirects = Callable[[Collection[str]], Mapping[str, str]]  # of these ids: where those redirect that do, for good


def no_redirects(ids: Collection[str]) -> Mapping[str, str]:
    """Return nothing: where it is not known whether pages redirect."""
    del ids
    return {}


class Move(msgspec.Struct, frozen=True):
    """A page that is now at another URL; `item` is the document there, if the version has one."""

    url: str
    item: PublishedItem | None


def follow_redirects(redirects: Mapping[str, str], find: Callable[[str], PublishedItem | None]) -> dict[str, Move]:
    """Return where redirects lead, by their old ids. `find` finds the document of an id."""
    return {id_: Move(url, find(surt(url))) for id_, url in redirects.items()}


def find_moves(removed: list[PublishedItem], added: Iterable[PublishedItem], *, read_text: ReadText) -> dict[str, Move]:
    """Return where removed pages are now, by their old ids."""
    same: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for item in reversed(removed):
        same[site_of(item), item.hash].append(item.id)
    sites = {site for site, _ in same}
    moves: dict[str, Move] = {}
    others: list[PublishedItem] = []
    for item in added:
        site = site_of(item)
        if waiting := same.get((site, item.hash)):
            moves[waiting.pop()] = Move(url_of(item), item)
        elif site in sites and len(others) < MOST_TEXTS:
            others.append(item)
    left = [item for item in removed if item.id not in moves][:MOST_TEXTS]
    return moves | _find_similar(left, others, read_text) if left and others else moves


def _find_similar(removed: list[PublishedItem], added: list[PublishedItem], read_text: ReadText) -> dict[str, Move]:
    holders: defaultdict[tuple[str, int], list[PublishedItem]] = defaultdict(list)
    for item in removed:
        for line in _telling_lines(read_text(item.hash)):
            holders[site_of(item), line].append(item)
    moves: dict[str, Move] = {}
    for item in added:
        text = read_text(item.hash)
        alike = _most_alike(holders[site_of(item), line] for line in _telling_lines(text))
        same = [one for one in alike if _is_same_page(one, read_text(one.hash), item, text)]
        if len(same) == 1 and same[0].id not in moves:  # two that are alike share a frame, and nothing is known
            moves[same[0].id] = Move(url_of(item), item)
    return moves


def _telling_lines(text: str | None) -> set[int]:
    """Return checksums of the long lines; of many, the same ones in each text that has them."""
    lines = {zlib.crc32(line.encode(errors="replace")) for line in split_lines(text or "") if len(line) >= LONG_LINE}
    return set(sorted(lines)[:MOST_LINES])


def _most_alike(found: Iterable[list[PublishedItem]]) -> list[PublishedItem]:
    """Return the items that are found most often, at most ten."""
    votes = Counter[str]()
    items = {}
    for holders in found:
        for item in holders[:MOST_ALIKE]:  # a line that many have tells nothing
            votes[item.id] += 1
            items[item.id] = item
    most = max(votes.values(), default=0)
    return [items[id_] for id_, count in votes.items() if count == most][:MOST_ALIKE]


def _is_same_page(old: PublishedItem, was: str | None, new: PublishedItem, now: str | None) -> bool:
    if was is None or now is None:
        return False
    title = old.metadata.get("title")
    most = SAME_TITLE if title and title == new.metadata.get("title") else OTHER_TITLE
    return compare_text(was, now).share <= most


def url_of(item: PublishedItem) -> str:
    url = item.metadata.get("url")
    return url if isinstance(url, str) and url else item.id


def site_of(item: PublishedItem) -> str:
    """Return the registered domain of a page, or its host; the source of what has no URL."""
    try:
        host = host_of(normalise(url_of(item)))
    except BadInput:
        return item.source
    return registered_domain(host) or host
