"""Site maps: which boards there are, where, and how their pages are read (docs/reference/site-map.md).

Two forms of JSON are read, and both become a flat list of boards:

    [{"campus": …, "colleges": [{"name": …, "departments": [{"id", "name", "url", "boards": [{"id", "url", …}]}]}],
      "departments": […]}]
    {"sources": [{"source": "site/board", "url": …, "facets": {…}, "selectors": {…}}]}

The identity of a board is where it stands in the map (`source`): dozens of departments call theirs "notice". A board
that cannot be used is left out and told, with its path in the JSON; the others stay.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

MAX_TEXT = 2000  # characters of any value
MAX_BOARDS = 100_000
Json: TypeAlias = object  # what msgspec decodes without a type

# Words in a board's name that tell what it is about, in the order in which they are tried.
CATEGORIES = (
    ("학사", "academic"),
    ("장학", "scholarship"),
    ("채용", "recruitment"),
    ("취업", "recruitment"),
    ("행사", "event"),
    ("안내", "event"),
    ("일반", "general"),
)


class Selectors(Struct, frozen=True, omit_defaults=True):
    """CSS. What is empty comes from the pattern of the board's CMS. All but `item` and `next` begin at an item."""

    item: str = ""  # one row of a listing
    link: str = ""
    title: str = ""
    date: str = ""
    author: str = ""
    category: str = ""
    pinned: str = ""  # matches the item, or something in it, when it is pinned
    next: str = ""  # the link to the next page of a listing
    body: str = ""  # on the page of a notice
    attachment: str = ""  # there, the links to files
    link_attribute: str = ""  # of the link; `href` when empty


class Board(Struct, frozen=True, kw_only=True, omit_defaults=True):
    source: str  # its identity: campus/college/department/board
    board: str  # what its department calls it; not unique
    url: str
    name: str = ""
    facets: dict[str, str] = {}
    selectors: Selectors = Selectors()
    cms: str = ""  # empty: by the looks of its pages


class Complaint(Struct, frozen=True):
    """`path` is where in the JSON: `$[0].colleges[2].departments[1].boards[0].url`."""

    path: str
    reason: str  # not_an_object, missing, not_text, bad_url, bad_selector, duplicate, same_url, unknown_key, too_many
    message: str
    is_dropped: bool = True  # the board is not among `boards`


class SiteMap(Struct, frozen=True):
    boards: tuple[Board, ...]
    problems: tuple[Complaint, ...] = ()


def read_site_map(data: bytes, *, source: str = "") -> SiteMap:
    """BadInput when it is no site map, or when no board of it can be used. `source` names the file in messages."""
    raise NotImplementedError
