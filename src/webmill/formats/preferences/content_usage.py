"""aipref: `Content-Usage: train-ai=n, search=y` in a response, and `Content-Usage: /path train-ai=n` in a robots.txt.

The drafts (draft-ietf-aipref-attach, draft-ietf-aipref-vocab) changed their labels several times: the revision says
which labels are known. Those that are not stay in the statements as they were written.
"""

from __future__ import annotations

import re
from typing import Literal

from webmill.formats.preferences.statements import SEARCH, TDM, TRAIN_AI, Source, Statement, make_statement
from webmill.formats.preferences.structured_fields import Token, parse_dictionary

Revision = Literal["2026-08", "2025-07", "2025-04"]
REVISIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "2026-08": {"search": (SEARCH,), "train-ai": (TRAIN_AI,)},
    "2025-07": {
        "bots": (SEARCH, TRAIN_AI, TDM),
        "search": (SEARCH,),
        "train-ai": (TRAIN_AI,),
        "train-genai": (TRAIN_AI,),
    },
    "2025-04": {"tdm": (TDM, TRAIN_AI, SEARCH), "ai": (TRAIN_AI,), "genai": (TRAIN_AI,), "search": (SEARCH,)},
}
CURRENT: Revision = "2026-08"

_PATH = re.compile(r"([/*]\S*)(?:[ \t]+(.*))?", re.DOTALL)


def read_content_usage(value: str, *, source: Source, revision: str = CURRENT) -> list[Statement]:
    """Return what a field says. One that is not a dictionary says nothing; a value that is not y or n says nothing.

    In the older revisions a label may stand for several usages; one that speaks of a part of it overrides it.
    """
    labels = REVISIONS.get(revision, REVISIONS[CURRENT])
    found: list[Statement] = []
    members = parse_dictionary(value) or {}
    wide_first = sorted(members.items(), key=lambda member: -len(labels.get(member[0], ())))
    for label, item in wide_first:
        if isinstance(item.value, Token) and item.value in ("y", "n"):
            allowed, text = item.value == "y", f"{label}={item.value}"
            usages = labels.get(label, (f"aipref:{label}",))
            found = [one for one in found if len(usages) > 1 or one.usage not in usages]
            found += [make_statement(usage, allowed=allowed, source=source, text=text) for usage in usages]
    return found


def split_robots_rule(value: str) -> tuple[str, str]:
    """Return the path of a rule of a robots.txt, which is `/` where it names none, and its preferences."""
    found = _PATH.fullmatch(value)
    return (found[1], found[2] or "") if found else ("/", value)
