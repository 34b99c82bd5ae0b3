"""How far a requisite is from its page, and how many more it may bring.

Steps are redirects, imports and frames. A page may bring so many requisites in all: what it does not need itself it
deals out, in equal shares, to its documents and style sheets, which may have requisites of their own. So the limit
holds for all that comes of a page, in whatever process it is fetched. Where a requisite is redirected is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from webmill.crawl.page.resources import Requisite

MOST_STEPS = 7  # from the page


class Belonging(msgspec.Struct, frozen=True):
    steps: int = 0
    share: int = 0  # requisites that it may bring


class Dealt(msgspec.Struct, frozen=True):
    taken: Sequence[tuple[str, int]]  # URL, share
    left_out: int


def deal(requisites: Sequence[Requisite], share: int) -> Dealt:
    """What may be brought of what a document has, and what that may bring in its turn."""
    taken = requisites[:share]
    holding = sum(requisite.may_hold_more for requisite in taken)
    rest = (share - len(taken)) // holding if holding else 0
    shares = [(requisite.url, rest if requisite.may_hold_more else 0) for requisite in taken]
    return Dealt(shares, len(requisites) - len(taken))
