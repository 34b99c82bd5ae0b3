"""The structs of `webmill problems --json` and `/api/problems`, and the bounded tally that makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

MAX_EXAMPLES = 20  # of a group
MAX_CAUSES = 50  # of a stage; what is beyond them is counted together
MAX_TEXT = 500  # characters of a subject or a message
OTHER = "other"

Severity = Literal["error", "warning"]


class ProblemExample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One case: a URL, a file with its offset, a task or a source."""

    subject: str
    message: str = ""
    time: float | None = None


class ProblemGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong for one cause. `warning`: as often on the web, and maybe as it should be: robots.txt, 404.

    `first` and `last` are when, where that is known. `retry` names a retry that `retry_problem` can do.
    """

    stage: str
    cause: str  # a code, as in logs and metrics
    severity: Severity
    title: str
    count: int
    is_estimate: bool = False  # there are at least so many
    first: float | None = None
    last: float | None = None
    examples: list[ProblemExample] = []
    advice: str = ""  # what to do, as a sentence
    command: str = ""  # to type
    retry: str = ""

    @property
    def rest(self) -> int:
        """Return how many there are besides the examples."""
        return max(0, self.count - len(self.examples))


class ProblemReport(msgspec.Struct, frozen=True, kw_only=True):
    """All groups, the most serious first."""

    root: str
    time: float
    groups: list[ProblemGroup]

    @property
    def errors(self) -> int:
        return sum(group.count for group in self.groups if group.severity == "error")

    @property
    def warnings(self) -> int:
        return sum(group.count for group in self.groups if group.severity == "warning")


def clip_text(text: str) -> str:
    """Return the beginning of a text, as UTF-8 can hold it: names of files may be any bytes."""
    return text[:MAX_TEXT].encode("utf-8", "backslashreplace").decode()


class CauseTally(msgspec.Struct):
    """Counts of one cause, with its first examples."""

    count: int = 0
    first: float | None = None
    last: float | None = None
    examples: list[ProblemExample] = msgspec.field(default_factory=list)


class ProblemTally:
    """Counts problems of one stage by cause, in bounded memory."""

    def __init__(self) -> None:
        self._causes: dict[str, CauseTally] = {}

    def add(
        self, cause: str, subject: str = "", *, message: str = "", time: float | None = None, count: int = 1
    ) -> None:
        """Count a case, or several; without a subject it is no example."""
        tally = self._tally_of(cause)
        tally.count += count
        if time is not None:
            tally.first = time if tally.first is None else min(tally.first, time)
            tally.last = time if tally.last is None else max(tally.last, time)
        if subject and len(tally.examples) < MAX_EXAMPLES:
            tally.examples.append(ProblemExample(clip_text(subject), clip_text(message), time))

    def add_example(self, cause: str, subject: str, *, message: str = "", time: float | None = None) -> None:
        """Keep an example of a cause that is counted elsewhere."""
        self.add(cause, subject, message=message, time=time, count=0)

    def _tally_of(self, cause: str) -> CauseTally:
        cause = clip_text(cause)[:100] or OTHER
        if cause not in self._causes and len(self._causes) >= MAX_CAUSES:
            cause = OTHER
        return self._causes.setdefault(cause, CauseTally())

    def causes(self) -> Iterator[tuple[str, CauseTally]]:
        """Yield the causes that were counted, the most frequent first."""
        counted = [(cause, tally) for cause, tally in self._causes.items() if tally.count]
        yield from sorted(counted, key=lambda pair: (-pair[1].count, pair[0]))
