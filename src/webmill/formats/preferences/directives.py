"""Directives for robots in `X-Robots-Tag` and in `<meta name=robots>`, for all agents and for one.

In a field, `googlebot: noindex, nofollow` is for one agent, up to the next name. `none` is noindex and nofollow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from webmill.formats.preferences.statements import (
    REPLAY,
    SEARCH,
    SNIPPET,
    TRAIN_AI,
    TRAIN_IMAGES,
    Source,
    Statement,
    make_statement,
)

MAX_FIELD = 4096  # characters of a field that are read
MEANINGS: dict[str, str] = {
    "noindex": SEARCH,
    "none": SEARCH,
    "noai": TRAIN_AI,
    "noimageai": TRAIN_IMAGES,
    "noarchive": REPLAY,
    "nocache": REPLAY,
    "nosnippet": SNIPPET,
}
_AGENT_PREFIX = re.compile(r"\s*([a-z][a-z0-9_.*-]*|\*)\s*:(.*)", re.DOTALL)
_WITH_VALUES = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


def directive_statements(words: Iterable[str], *, source: Source) -> list[Statement]:
    """Return what directives forbid; those that forbid nothing of usage say nothing."""
    return [
        make_statement(MEANINGS[word], allowed=False, source=source, text=word)
        for word in dict.fromkeys(words)
        if word in MEANINGS
    ]


def words_of_fields(values: Iterable[str], agent: str) -> list[str]:
    """Return the words of X-Robots-Tag fields that speak to all agents or to this one."""
    return [word for value in values for word in words_of_field(value.lower()[:MAX_FIELD], agent.lower())]


def words_of_field(value: str, agent: str) -> list[str]:
    words: list[str] = []
    is_ours = True
    for part in value.split(","):
        named = _AGENT_PREFIX.fullmatch(part)
        if named and named[1] in _WITH_VALUES:
            continue
        if named:
            is_ours, part = named[1] in (agent, "robots", "*"), named[2]
        if is_ours:
            words += part.split()
    return words


def words_of_meta(value: str, agent: str) -> list[str]:
    """`revisit-after: 7 days, nofollow`: what has a value is none of ours, unless it is what it names us for."""
    words: list[str] = []
    for part in value.split(","):
        name, colon, rest = part.partition(":")
        if not colon or name.strip() in (agent, "robots", "*"):
            words += (rest if colon else part).split()
    return words
