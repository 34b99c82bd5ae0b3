"""How much a test tries: `make test` has minutes for all of them, `make soak` has an hour for these."""

from __future__ import annotations

import os

WHOLE = "WEBMILL_TEST_KILLS" in os.environ  # `make soak` sets it


def kills(default: int) -> int:
    """How often a test that kills at random does so."""
    return int(os.environ.get("WEBMILL_TEST_KILLS", default))


def each(step: int) -> int:
    """The step of a sweep over durable calls: `make test` visits one of so many, `make soak` all.

    An atomic write is five calls: a step of five would meet the same of them every time.
    """
    return 1 if WHOLE else step


def examples(count: int) -> int:
    """Of Hypothesis. They are others in each run, so what a run of `make test` does not try, another will."""
    return count if WHOLE else count // 5
