"""Statements as fields of a metadata record, and as one field of an index line.

    usage-preference: train-ai=n header:content-usage train-ai=n, search=y
    usage-preference: replay=n meta:robots noarchive
    license: https://creativecommons.org/licenses/by/4.0/

First what it means, then where it stands, then how it was written. An index line has the meanings alone:
`"usage": "train-ai=n,replay=n"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from webmill.formats.preferences.statements import MAX_STATEMENTS, Statement, make_statement, one_line, stated

PREFERENCE, LICENSE = "usage-preference", "license"
_VALUE = re.compile(r"([^\s=]{1,64})=([yn]) (\S{1,40})(?: (.*))?")


def note_fields(statements: Iterable[Statement], *, license_url: str = "") -> Iterator[tuple[str, str]]:
    """Yield the fields that say what was seen of a capture."""
    for one in statements:
        yield PREFERENCE, f"{one.usage.replace(' ', '_')}={'y' if one.allowed else 'n'} {one.source} {one.text}".strip()
    if license_url:
        yield LICENSE, one_line(license_url, limit=2000)


def read_notes(fields: Iterable[tuple[str, str]]) -> list[Statement]:
    """Return the statements that a metadata record has; of other records none."""
    found: list[Statement] = []
    for name, value in fields:
        if name.lower() == PREFERENCE and (noted := _VALUE.fullmatch(value)) and len(found) < MAX_STATEMENTS:
            one = make_statement(noted[1], allowed=noted[2] == "y", source="page", text=noted[4] or "")
            found.append(Statement(one.usage, one.allowed, one_line(noted[3], limit=40), one.text))
    return found


def read_license(fields: Iterable[tuple[str, str]]) -> str:
    return next((value for name, value in fields if name.lower() == LICENSE), "")


def summary_of(statements: Sequence[Statement]) -> str:
    """Return what is said of the usages that are known: `train-ai=n,replay=n`; of each one word."""
    usages = dict.fromkeys(one.usage for one in statements if one.is_known)
    return ",".join(f"{usage}={'y' if stated(statements, usage) else 'n'}" for usage in usages)


def read_summary(text: str) -> dict[str, bool]:
    """Return what a summary says of each usage."""
    pairs = (part.partition("=") for part in text.split(",")[:MAX_STATEMENTS])
    return {name: value == "y" for name, _, value in pairs if value in ("y", "n")}


def statements_of_summary(text: str) -> tuple[Statement, ...]:
    """Return what an index line says, whose words are lost: it stands in for them."""
    return tuple(
        Statement(usage, allowed, "index", f"{usage}={'y' if allowed else 'n'}")
        for usage, allowed in read_summary(text).items()
    )
