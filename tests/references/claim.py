"""What a reference document says, and what webmill does about it. Each test of this folder carries one or more claims:

    @works("cdxj-search --url URL --matchType domain")
    @differs("the hash is emptied, then filled", now="replaced when all is loaded", why="readers never see it empty")
    def test_…

`table` is what the how-to of the document shows of them, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


class Claim(NamedTuple):
    """A sentence or an example of a document, as it stands there; `now` and `why` only where webmill differs."""

    says: str
    now: str = ""
    why: str = ""


def works(says: str) -> Callable[[Test], Test]:
    return lambda test: _with(test, Claim(says))


def differs(says: str, *, now: str, why: str = "") -> Callable[[Test], Test]:
    return lambda test: _with(test, Claim(says, now, why))


def claims(module: ModuleType) -> Iterator[Claim]:
    """The claims of a module's tests, from top to bottom."""
    for name, test in vars(module).items():
        if name.startswith("test_"):
            yield from getattr(test, "claims", ())


def unclaimed(module: ModuleType) -> list[str]:
    return [name for name, test in vars(module).items() if name.startswith("test_") and not hasattr(test, "claims")]


def table(module: ModuleType) -> str:
    """The claims as Markdown: what differs first, then what works as written."""
    found = [*claims(module)]
    rows = [f"| {_cell(one.says)} | {_cell(one.now)} | {_cell(one.why)} |" for one in found if one.now]
    lines = ["| its document | webmill | because |", "|---|---|---|", *rows, ""] if rows else []
    same = [f"* {one.says}" for one in found if not one.now]
    return "\n".join([*lines, "Works as written there:", "", *same])


def _with(test: Test, claim: Claim) -> Test:
    test.claims = (claim, *getattr(test, "claims", ()))  # type: ignore[attr-defined]
    return test


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
