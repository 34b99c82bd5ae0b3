"""How many page resources a document may bring, and what each of those may bring in its turn."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from webmill.crawl.page.resources import PageResource


class ResourceShare(msgspec.Struct, frozen=True):
    """How far a page resource is from its page, and how many more it may bring.

    Steps are redirects, imports and frames. A page may bring so many resources in all: what it does not need itself it
    shares out, equally, among its documents and style sheets, which may have resources of their own. So the limit holds
    for all that comes of a page, in whatever process it is fetched. Redirects of a resource are not counted.
    """

    steps: int = 0
    share: int = 0


class SharedOut(msgspec.Struct, frozen=True):
    taken: Sequence[tuple[str, int]]  # URL, share
    left_out: int


def share_out(resources: Sequence[PageResource], share: int) -> SharedOut:
    """Return which resources of a document may be fetched, and what each may bring in its turn."""
    taken = resources[:share]
    holders = sum(resource.may_hold_more for resource in taken)
    rest = (share - len(taken)) // holders if holders else 0
    shares = [(resource.url, rest if resource.may_hold_more else 0) for resource in taken]
    return SharedOut(shares, len(resources) - len(taken))
