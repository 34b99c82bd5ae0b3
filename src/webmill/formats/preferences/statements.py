"""One thing that a site says about how a capture may be used, whatever form it was said in.

| usage | what is spoken of | who says it |
|---|---|---|
| `access` | asking for it at all | robots.txt, a price |
| `search` | finding it in a search | aipref `search`, RSL `search`, `noindex` |
| `train-ai` | training of AI models | aipref `train-ai`, RSL `ai-train`, `noai` |
| `train-images` | the same, of the images of a page | `noimageai` |
| `tdm` | text and data mining | TDMRep |
| `replay` | showing the stored page to others | `noarchive` |
| `snippet` | showing a part of its text | `nosnippet` |

Every other usage is a label that is not known: it is kept as it was written and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

ACCESS, SEARCH, TRAIN_AI, TRAIN_IMAGES = "access", "search", "train-ai", "train-images"
TDM, REPLAY, SNIPPET = "tdm", "replay", "snippet"
USAGES = (ACCESS, SEARCH, TRAIN_AI, TRAIN_IMAGES, TDM, REPLAY, SNIPPET)

MAX_TEXT = 500  # characters of a statement as written
MAX_STATEMENTS = 64  # of one capture: what comes behind is cut
_SHORT = 64  # characters of an unknown label

Source = Literal[
    "header:content-usage",
    "header:tdm-reservation",
    "header:x-robots-tag",
    "header:link",
    "meta:robots",
    "meta:tdm-reservation",
    "robots",
    "robots:content-usage",
    "robots:license",
    "tdmrep.json",
    "rsl",
    "price",
    "page",
]


class Statement(msgspec.Struct, frozen=True, gc=False):
    """`allowed` is what the site says of this usage; `text` is how it was written, cut to MAX_TEXT."""

    usage: str
    allowed: bool
    source: str
    text: str = ""

    @property
    def is_known(self) -> bool:
        return self.usage in USAGES


def make_statement(usage: str, *, allowed: bool, source: Source, text: str) -> Statement:
    """Return a statement whose texts are bounded and in one line."""
    return Statement(one_line(usage, limit=_SHORT), allowed, source, one_line(text))


def one_line(text: str, *, limit: int = MAX_TEXT) -> str:
    """Return a text as it can stand in a field: white space collapsed, control characters gone, cut."""
    words = " ".join(text[: 2 * limit].split())
    return "".join(letter for letter in words if letter.isprintable())[:limit]


def stated(statements: Iterable[Statement], usage: str) -> bool | None:
    """Return what is said of a usage: no if anything forbids it, yes if something allows it, None if nothing speaks."""
    found = {one.allowed for one in statements if one.usage == usage}
    return None if not found else False not in found


def deciding(statements: Iterable[Statement], usage: str) -> Statement | None:
    """Return the statement that decides of a usage: the first that forbids it, or else the first that allows it."""
    about = [one for one in statements if one.usage == usage]
    return next((one for one in about if not one.allowed), about[0] if about else None)


def bounded(statements: Sequence[Statement]) -> list[Statement]:
    """Return each statement once, at most MAX_STATEMENTS: those that forbid something known first."""
    once = list(dict.fromkeys(statements))
    once.sort(key=lambda one: (not one.is_known, one.allowed))
    return once[:MAX_STATEMENTS]
