"""One running web for the tests that only look at its answers; fast at being slow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from webmill.testing import AnswerLimits, TestWeb

SMALL = AnswerLimits(answer_bytes=16 << 20, answer_seconds=20)


@pytest.fixture(scope="package")
def web() -> Iterator[TestWeb]:
    with TestWeb(pace=0.0005, limits=SMALL) as running:
        yield running
