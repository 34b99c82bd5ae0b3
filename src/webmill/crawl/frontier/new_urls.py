"""Which URLs of an update are new, and of which domain: found out before anything is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from webmill.crawl.frontier.base import (
    MOST_DEPTH,
    MOST_HOPS,
    PAGE_RESOURCE,
    PRIORITIES,
    FrontierUpdate,
    VisitDone,
    domain_of,
)
from webmill.crawl.frontier.hops import pack_hops
from webmill.crawl.frontier.seen_urls import SeenUrls, hash_url
from webmill.crawl.frontier.url_queue_files import encode_line
from webmill.errors import BadInput
from webmill.model import Link


class NewLine(NamedTuple):
    priority: int
    data: bytes
    hash: bytes


class ImportedVisit(NamedTuple):
    domain: str
    done: VisitDone
    data: bytes  # its line, for the journal alone
    hash: bytes


class NewUrls(msgspec.Struct):
    links: dict[str, list[NewLine]]  # by domain
    visits: list[ImportedVisit]  # from elsewhere
    repeats: Counter[str]  # links that came twice in the step
    known: int
    news: list[Link] = []  # known links that say when they changed


def find_new_urls(step: FrontierUpdate, seen: SeenUrls) -> NewUrls:
    """Return the URLs of an update that are not known. A URL that comes as visited is known to the links beside it.
    BadInput for what cannot be kept."""
    visits = encode_urls(done.url for done in step.visited)
    hops = [checked_hops(link) for link in step.links]
    links = encode_urls(link.url for link in step.links)
    hashes = [hash_url(url) for url in visits + links]
    unknown = seen.unknown(hashes)
    fresh = NewUrls({}, [], Counter(), 0)
    imported = _find_new_visits(fresh, step.visited, visits, hashes, unknown)
    here = set[bytes]()
    split = len(visits)
    rows = zip(step.links, links, hops, hashes[split:], unknown[split:], strict=True)
    for link, url, hops_, hash_, is_new in rows:
        if not is_new or hash_ in imported:
            fresh.known += 1
            if link.modified:
                fresh.news.append(link)
            continue
        domain = domain_of(link.url)
        if hash_ in here:
            fresh.repeats[domain] += 1
            continue
        here.add(hash_)
        line = NewLine(link.priority, encode_line(url, link.depth, hops_), hash_)
        fresh.links.setdefault(domain, []).append(line)
    return fresh


def _find_new_visits(
    fresh: NewUrls, visits: Sequence[VisitDone], urls: Sequence[bytes], hashes: Sequence[bytes], unknown: Sequence[bool]
) -> set[bytes]:
    here = set[bytes]()
    for done, url, hash_, is_new in zip(visits, urls, hashes, unknown, strict=False):
        if is_new and hash_ not in here:
            here.add(hash_)
            fresh.visits.append(ImportedVisit(domain_of(done.url), done, encode_line(url, 0), hash_))
        else:
            fresh.known += 1
    return here


def checked_hops(link: Link) -> int:
    """Return how the link was reached, packed. BadInput when a field of it does not fit into a line."""
    hops = pack_hops(link)
    if not (PAGE_RESOURCE <= link.priority < PRIORITIES and 0 <= link.depth <= MOST_DEPTH and 0 <= hops <= MOST_HOPS):
        raise BadInput(f"a field of this link is out of range: {str(link)[:400]}", reason="bad_link")
    return hops


def encode_urls(urls: Iterable[str]) -> list[bytes]:
    try:
        return [url.encode() for url in urls]
    except UnicodeEncodeError as error:
        raise BadInput(f"not a normalised URL: {error.object[:200]!r}", reason="bad_url") from error
