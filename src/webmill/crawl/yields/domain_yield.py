"""What one domain's patterns of URLs have given, and which of them are worth more requests.

Each pattern may cost so many requests that give nothing new (its budget); each page with new text earns it some more,
and so does a page that leads to one. So a pattern that goes on giving is never ended, however large the site. A pattern
whose budget is spent is parked: its URLs are not requested until a person releases it. The domain has a budget of the
same kind for all its patterns together: when that is spent, new patterns have only a few requests to show something.

| a visit | costs |
|---|---|
| 200, with text or pictures that are new in its domain | nothing; earns 3, and 1 for the pattern that led to it |
| 200, with nothing new; 404, 410 and other answers that there is nothing | 1 |
| a redirect into the crawl | 0.5; elsewhere 1 |
| 401, 403, 429, server errors, no answer; revisits, page resources, sitemaps | nothing |
"""

from __future__ import annotations

from math import inf
from typing import Literal

import msgspec

from webmill.crawl.yields.url_pattern import patterns_of

Standing = Literal["open", "slow", "parked"]
PatternState = Literal["open", "parked", "released"]

NEW_TEXT = 60  # characters that make a page new
EARNED, EARNED_BY_LEADING = 3.0, 1.0
REDIRECT = 0.5
TRIAL = 5.0  # the budget of a new pattern when that of its domain is spent
POOR = 0.1  # share of pages with something new, below which a pattern is parked then
ENOUGH = 0.2  # share of pages with something new, from which on a pattern is never parked: a site may have mirrors
SLOW_SHARE = 0.25  # below it, and with half of its budget spent, a pattern's links come after all others
MOST_PATTERNS, MOST_COARSE = 256, 64
MOST_KEYS, SAME, SAME_BASES = 64, 8, 3  # samples, and different pages, that say that a parameter changes nothing


class YieldBudget(msgspec.Struct, frozen=True):
    """How many requests may give nothing. 0: any number."""

    pattern: int = 100
    domain: int = 500

    @property
    def of_domain(self) -> float:
        """Return what a domain begins with."""
        return self.domain or inf

    def pattern_cap(self, new: int) -> float:
        """Return what a pattern may save up that has given so many new pages."""
        return self.pattern + min(0.1 * new, 9.0 * self.pattern)

    def domain_cap(self, new: int) -> float:
        return self.of_domain + min(0.1 * new, 9.0 * self.domain)


class PatternYield(msgspec.Struct, array_like=True):
    """What one pattern has given."""

    credit: float
    state: PatternState = "open"
    fetched: int = 0
    new: int = 0
    parked: int = 0  # URLs
    example: str = ""

    @property
    def share(self) -> float:
        """Return the share of pages with something new; of few pages it tends to a half."""
        return (self.new + 1) / (self.fetched + 2)

    def is_spent(self, budget: YieldBudget) -> bool:
        """Tell whether its budget is spent, and no more than a few of all its pages had something new."""
        return budget.pattern > 0 and self.credit <= 0 and self.new < ENOUGH * self.fetched


class KeyEvidence(msgspec.Struct, array_like=True):
    """How often a page was the same with and without a parameter."""

    same: int = 0
    differs: int = 0
    bases: list[int] = []

    @property
    def never_matters(self) -> bool:
        return self.same >= SAME and not self.differs and len(self.bases) >= SAME_BASES


class DomainYield(msgspec.Struct, array_like=True):
    """What a domain has given. The text that it has shown lies beside it (`SeenText`)."""

    credit: float
    new: int = 0
    patterns: dict[str, PatternYield] = {}
    keys: dict[str, KeyEvidence] = {}  # by path and parameter

    @property
    def is_spent(self) -> bool:
        """Tell whether the budget of all patterns together is spent."""
        return self.credit <= 0

    @property
    def size(self) -> int:
        """Return about how many bytes of memory it takes."""
        return 1000 + 500 * len(self.patterns) + 400 * len(self.keys)

    @property
    def is_judged(self) -> bool:
        """Tell whether links into the domain must be looked at: there is one that is not simply followed."""
        if self.is_spent or (self.keys and self.folded_keys()):
            return True
        return any(each.state == "parked" or is_slow(each) for each in self.patterns.values())

    def folded_keys(self) -> list[str]:
        return [name for name, evidence in self.keys.items() if evidence.never_matters]

    def pattern_of(self, url: str) -> str:
        """Return the pattern under which a URL is counted: a coarser one when there are too many, or when the budget
        of the domain is spent: traps make new patterns, too."""
        fine, coarse, coarsest = patterns_of(url)
        if fine in self.patterns or (len(self.patterns) < MOST_PATTERNS and not self.is_spent):
            return fine
        if coarse in self.patterns or len(self.patterns) < MOST_PATTERNS + MOST_COARSE:
            return coarse
        return coarsest

    def standing(self, pattern: str) -> Standing:
        found = self.patterns.get(pattern)
        if found is None or found.state == "released":
            return "open"
        if found.state == "parked":
            return "parked"
        return "slow" if is_slow(found) else "open"

    def find(self, pattern: str, budget: YieldBudget) -> PatternYield:
        """Return the counts of a pattern; a new one begins with its budget."""
        found = self.patterns.get(pattern)
        if found is None:
            credit = min(TRIAL, budget.pattern) if self.is_spent else float(budget.pattern)
            found = self.patterns[pattern] = PatternYield(credit)
        return found

    def earn(self, pattern: str, budget: YieldBudget) -> None:
        """A page of the pattern has something new."""
        found = self.find(pattern, budget)
        found.fetched += 1
        found.new += 1
        self.new += 1
        found.credit = min(found.credit + EARNED, budget.pattern_cap(found.new))
        self.credit = min(self.credit + EARNED, budget.domain_cap(self.new))

    def earn_by_leading(self, pattern: str, budget: YieldBudget) -> None:
        """A page of the pattern had the link to a page with something new."""
        if found := self.patterns.get(pattern):
            found.credit = min(found.credit + EARNED_BY_LEADING, budget.pattern_cap(found.new))

    def spend(self, pattern: str, cost: float, budget: YieldBudget) -> bool:
        """A request for the pattern gave nothing; return whether the pattern is parked by that."""
        found = self.find(pattern, budget)
        found.fetched += 1
        found.credit -= cost
        self.credit -= cost
        is_poor = self.is_spent and found.fetched >= TRIAL and found.new < POOR * found.fetched
        is_parked = found.state == "open" and (found.is_spent(budget) or is_poor)
        if is_parked:
            found.state = "parked"
        return is_parked

    def note_key(self, name: str, *, base: int, is_same: bool) -> None:
        """A page was fetched with and without a parameter. `base` tells one page from another."""
        if name not in self.keys and len(self.keys) >= MOST_KEYS:
            return
        evidence = self.keys.setdefault(name, KeyEvidence())
        evidence.same += is_same
        evidence.differs += not is_same
        if is_same and len(evidence.bases) < SAME_BASES and base not in evidence.bases:
            evidence.bases = [*evidence.bases, base]


def is_slow(found: PatternYield) -> bool:
    """Tell whether a pattern has given little, and may be a trap."""
    return found.state == "open" and found.fetched - found.new > 10 and found.share < SLOW_SHARE
