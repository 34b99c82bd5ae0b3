"""The pattern of a URL: what URLs that the same part of a site makes have in common.

    patterns_of("https://example.com/shop/red-shoes-42?page=3&sort=price")
    # ("example.com/shop/{slug}?page=&sort=", "*.example.com/shop/…?", "*.example.com/…")

Folders keep their names, at most two of them; the last segment and all others become what they look like: `{n}` a
number, `{id}` letters with digits, `{slug}` words with hyphens, `{w}` a word. Likes that follow each other are one, so
that `/en/en/en/` has a pattern of its own but not one for each depth. A query gives the names of its parameters, and
the value where it says which page of a script is meant (`action=edit`). The coarser ones are for domains with too many.
It is a function of the URL alone: the same in every process, and after every restart.
"""

from __future__ import annotations

import re

from webmill.crawl.frontier.base import domain_of
from webmill.formats.url.normalise import host_of

NAMED_FOLDERS = 2
MOST_KEYS, MOST_KEY, MOST_FOLDER = 8, 30, 24  # parameters, and characters
# Parameters whose value says which page of a script is meant.
CHOOSERS = frozenset(("action", "do", "mode", "option", "task", "view", "controller", "module", "feed"))
_NUMBER = re.compile(r"[0-9]+(?:[.,_-][0-9]+)*\Z")
_FOLDER = re.compile(r"[A-Za-z][A-Za-z_.~-]*\Z")
_WORD = re.compile(r"[^\W\d_]+\Z")
_DIGITS = re.compile("[0-9]+")
_ENDING = re.compile(r"(.+)(\.[a-z][a-z0-9]{0,4})\Z", re.IGNORECASE)


def patterns_of(url: str) -> tuple[str, str, str]:
    """Return the pattern of a normalised URL, and two that are coarser."""
    address, mark, query = url.partition("?")
    at = address.find("/", 8)  # behind `https://`
    path = address[at:] if at >= 0 else "/"
    segments, keys = path.split("/")[1:], _keys_of(query) if query else ""
    domain = domain_of(url)
    first = segments[0] if len(segments) > 1 and _is_name(segments[0]) else "…"
    middle = f"*.{domain}/{first}/…" if first != "…" else f"*.{domain}/…."
    return (
        f"{host_of(url)}{_shape_of(segments, is_script=bool(mark))}{keys}",
        middle + "?" * bool(query),
        f"*.{domain}/…",
    )


def _shape_of(segments: list[str], *, is_script: bool) -> str:
    shape: list[str] = []
    *folders, last = segments
    for number, folder in enumerate(folders):
        part = folder if number < NAMED_FOLDERS and _is_name(folder) else _like(folder)
        if shape and part.strip("+") == shape[-1].strip("+") and part.startswith("{"):
            shape[-1] = f"{part}+"
        else:
            shape.append(part)
    return "/" + "/".join([*shape, _like_of_last(last, may_name=is_script, is_first=not folders)])


def _is_name(folder: str) -> bool:
    return len(folder) <= MOST_FOLDER and bool(_FOLDER.match(folder)) and folder.count("-") < 2


def _like_of_last(segment: str, *, may_name: bool, is_first: bool) -> str:
    """Return what the last segment looks like. With a query it may name a script: `/shop?`, `/a/view.php?`."""
    if not segment:
        return ""
    named = _ENDING.match(segment)
    if may_name and (named or is_first) and segment.islower() and _is_name(named[1] if named else segment):
        return segment
    return _like(named[1]) + named[2].lower() if named else _like(segment)


def _like(segment: str) -> str:
    if _NUMBER.match(segment):
        return "{n}"
    if "-" in segment or "_" in segment or "%" in segment or "+" in segment:
        return "{slug}"
    if _DIGITS.search(segment):
        return "{id}"
    return "{w}" if _WORD.match(segment) else "{slug}"


def _keys_of(query: str) -> str:
    keys = set()
    for pair in query.split("&", 64)[:64]:
        key, _, value = pair.partition("=")
        key = _DIGITS.sub("", key)[:MOST_KEY]
        keys.add(f"{key}={value}" if key in CHOOSERS and value.isalpha() and len(value) <= MOST_KEY else f"{key}=")
    return "?" + "&".join(sorted(keys)[:MOST_KEYS]) + ("&…" if len(keys) > MOST_KEYS else "")
