"""Every test of the fetcher that takes `run` runs on both loops, and fails when a loop complains of what was left."""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from webmill.testing import TestWeb

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[Run]:
    if request.param == "uvloop" and importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed")
    yield asyncio.run if request.param == "asyncio" else importlib.import_module("uvloop").run
    gc.collect()  # "never retrieved" is said when the future is collected
    complaints = [record.getMessage() for record in caplog.records if record.name == "asyncio"]
    assert not complaints


@pytest.fixture(scope="module")
def web() -> Iterator[TestWeb]:
    with TestWeb(hosts=3, pages_per_host=3) as web:
        yield web
