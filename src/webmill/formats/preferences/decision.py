"""What a purpose may do with a capture: one table, and the statement that decided.

    decide("training", statements) -> Decision(outcome="deny", rule="train-ai=n", …)

| outcome | what follows |
|---|---|
| `allow` | archived and used |
| `limit` | archived and used, but closed in one way: not replayed to others, not searched, shown without a snippet |
| `deny` | not asked for if that is known before; else its page is not archived |

The table is also that of docs/reference/usage-preferences.md. A site that says nothing allows what robots.txt allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, get_args

import msgspec

from webmill.formats.preferences.statements import (
    ACCESS,
    REPLAY,
    SEARCH,
    SNIPPET,
    TDM,
    TRAIN_AI,
    TRAIN_IMAGES,
    Statement,
    deciding,
)

Purpose = Literal["archive", "search", "training", "research", "monitoring"]
Outcome = Literal["allow", "limit", "deny"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)

# What follows for a purpose when a usage is forbidden; a usage that is not named changes nothing for it.
TABLE: Mapping[Purpose, Mapping[str, Outcome]] = MappingProxyType(
    {
        "archive": {ACCESS: "deny", SEARCH: "limit", REPLAY: "limit", SNIPPET: "limit"},
        "search": {ACCESS: "deny", SEARCH: "deny", REPLAY: "limit", SNIPPET: "limit"},
        "training": {ACCESS: "deny", TRAIN_AI: "deny", TDM: "deny", TRAIN_IMAGES: "limit", REPLAY: "limit"},
        "research": {ACCESS: "deny", TDM: "deny", TRAIN_AI: "limit", REPLAY: "limit"},
        "monitoring": {ACCESS: "deny", REPLAY: "limit"},
    }
)


class UsageDecision(msgspec.Struct, frozen=True):
    """`rule` is what decided: `train-ai=n`; `statement` says where it stands. Nothing decided what nobody spoke of."""

    outcome: Outcome = "allow"
    rule: str = ""
    statement: Statement | None = None

    def describe(self) -> str:
        """Return the decision as a sentence part: `deny: train-ai=n (header:content-usage "train-ai=n")`."""
        if self.statement is None:
            return f"{self.outcome}: no preference speaks against it"
        return f"{self.outcome}: {self.rule} ({self.statement.source} {self.statement.text!r})"


def decide(purpose: Purpose, statements: Sequence[Statement], *, is_image: bool = False) -> UsageDecision:
    """Return what a purpose may do. The strictest row decides; of equal ones the first in the table."""
    limited: UsageDecision | None = None
    for usage, outcome in TABLE[purpose].items():
        found = deciding(statements, usage)
        if found is None or found.allowed:
            continue
        if usage == TRAIN_IMAGES and is_image:  # the reservation is about this very thing
            outcome = "deny"
        decision = UsageDecision(outcome, f"{usage}=n", found)
        if outcome == "deny":
            return decision
        limited = limited or decision
    return limited or UsageDecision()


def disallowed_by_robots(rule: str = "Disallow") -> Statement:
    """Return what a robots.txt that forbids a path says, as one more statement."""
    return Statement(ACCESS, allowed=False, source="robots", text=rule)
