"""The walk of one URL, from seed to search hit, is what the page on the architecture says."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import webmill
from tests.pipeline.crawling import Linked, Setup, crawl_here
from tests.pipeline.walk import PACKAGE, traced
from webmill.testing import TestWeb

HOUSE = Path(__file__).parents[2] / "docs" / "design" / "house.md"
STEP = re.compile(r"^\d+\. \[`([a-z_/]+\.py)`\]\(\.\./\.\./src/webmill/\1\) `([\w.]+)` ", re.MULTILINE)
MOST_FILES = 132  # of a crawled page, formats and machines included


def steps() -> list[tuple[str, str]]:
    found = STEP.findall(HOUSE.read_text())
    assert len(found) > 20, "the walk is not there"
    return found


def test_every_file_of_the_walk_exists() -> None:
    assert [file for file, _ in steps() if not (Path(PACKAGE) / file).is_file()] == []


@pytest.mark.slow
def test_one_page_is_crawled_indexed_published_and_found_in_the_order_of_the_walk(tmp_path: Path) -> None:
    root = tmp_path / "news"
    root.mkdir()
    with TestWeb(hosts=0, sites={"www.one.test": Linked(1)}) as web:
        setup = Setup(resolve=dict(web.resolve), delay=0.05)
        crawl_here(root, with_seed(setup, "http://www.one.test/0"))  # its robots.txt is known from now on
        with traced() as calls:
            crawl_here(root, with_seed(setup, "http://www.one.test/page"))
            crawled = {file for file, _ in calls if not file.startswith("testing/")}
            webmill.index(root)
            webmill.extract(root)
            webmill.publish(root)
            webmill.update_search(root)
            answer = webmill.search(root, "page")
    assert answer.total
    order = {called: number for number, called in enumerate(calls)}
    assert [step for step in steps() if step not in order] == []
    assert sorted(steps(), key=order.__getitem__) == steps()
    assert len(crawled) <= MOST_FILES, sorted(crawled)


def with_seed(setup: Setup, url: str) -> Setup:
    return msgspec.structs.replace(setup, seeds=(url,))
