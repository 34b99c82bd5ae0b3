"""The web of hard pages, and a crawl of them in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.hard_web import hard_hosts
from webmill.testing import TestWeb


@pytest.fixture(scope="session")
def hard_web() -> Iterator[TestWeb]:
    with TestWeb(hosts=1, sites=hard_hosts()) as web:
        yield web


@pytest.fixture(scope="session")
def settings(hard_web: TestWeb) -> dict[str, Any]:
    """Settings of a crawl of the web, whose only browser is Debian's."""
    return {
        "contact": "me@example.org",
        "allow_private": True,
        "resolve": {host: hard_web.resolve[host] for host in hard_hosts()},
        "delay": 0.0,
        "page_resource_delay": 0.0,
        "address_delay": 0.0,
        "browser": "always",
        "processes": 1,
        "retry_wait": 1.0,
    }


def processes_with(text: str) -> list[int]:
    """Return the processes whose command line has a text, zombies included."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and int(folder.name) != os.getpid() and text in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except OSError:
            continue
    return found
