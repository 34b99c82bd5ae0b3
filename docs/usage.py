"""The tables of docs/reference/usage-preferences.md, made from the code and from the cases of the conformance web."""

from __future__ import annotations

from collections import Counter

from tests.usage_cases import cases

from webmill.formats.preferences.decision import PURPOSES, TABLE
from webmill.formats.preferences.statements import USAGES
from webmill.formats.site.robots import parse_robots

LETTERS = {".": "allow", "l": "limit", "d": "deny"}


def decision_table() -> str:
    """Return a row for each usage: what follows for each purpose when a site forbids it."""
    head = f"| forbidden | {' | '.join(PURPOSES)} |\n|{'---|' * (len(PURPOSES) + 1)}\n"
    rows = (f"| `{usage}` | {' | '.join(TABLE[one].get(usage, 'allow') for one in PURPOSES)} |\n" for usage in USAGES)
    return head + "".join(rows).rstrip("\n")


def cases_table() -> str:
    """Return, for each purpose, how many cases are expected to be what, and how many robots.txt alone decides alike."""
    head = (
        "| purpose | cases | allow | limit | deny | decided alike by Allow and Disallow alone |\n" + "|---" * 6 + "|\n"
    )
    found = cases()
    rows = []
    for place, purpose in enumerate(PURPOSES):
        counts = Counter(LETTERS[case.expected[place]] for case in found)
        alike = sum((case.expected[place] == "d") == (not allowed_by_robots(case.robots, case.path)) for case in found)
        columns = (len(found), counts["allow"], counts["limit"], counts["deny"], alike)
        rows.append(f"| {purpose} | {' | '.join(map(str, columns))} |\n")
    return head + "".join(rows).rstrip("\n")


def allowed_by_robots(robots: str, path: str) -> bool:
    """Decide as crawlers do that know robots.txt and no other preference: asked for, and so used."""
    return parse_robots(robots.encode()).for_agent("webmill").allows(path)
