"""pywb's CDX server and ours are asked the same about the same index, at random."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.serve.cdx_samples import NAME, make_captures, make_query, put_index
from tests.serve.conftest import ADDRESS, site_of
from tests.serve.pywb import as_pywb_asks, ask, meant, warcserver
from tests.serve.sample_collection import NAME as SAMPLE
from tests.unit.index.zipnum_samples import EVERYTHING
from webmill.collection import Collection
from webmill.index.lookup.indexes import open_index
from webmill.index.lookup.query import url_range
from webmill.serve.app import application
from webmill.settings import ServeSettings, Settings

CAPTURES = make_captures(1500)


@pytest.fixture(scope="module")
def pywb(judges: Path, tmp_path_factory: pytest.TempPathFactory, sample_root: Path, big: Path) -> Iterator[int]:
    indexes = {NAME: Collection(big, NAME).zipnum, SAMPLE: Collection(sample_root, SAMPLE).zipnum}
    with warcserver(judges, tmp_path_factory.mktemp("pywb"), indexes) as port:
        yield port


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("big")
    put_index(root, CAPTURES)
    return root


def compare(root: Path, name: str, pywb: int, *, seed: int, count: int) -> Counter[str]:
    """What kinds of answers there were."""
    dice = random.Random(seed)
    lines = list(open_index(Collection(root, name).zipnum).lines(EVERYTHING))
    seen: Counter[str] = Counter()
    without_rate = Settings(serve=ServeSettings(rate=0))
    with TestClient(application(site_of(root, without_rate)), base_url=ADDRESS) as client:
        for _ in range(count):
            params = make_query(dice, lines)
            theirs = meant(*ask(pywb, f"/{name}/index", as_pywb_asks(params)), params)
            if theirs == [] and sorts_before(params, lines[0]) and int(dict(params).get("page", "0")):
                theirs = 400  # of what sorts before all lines pywb has every page, each of them empty
            for path in (f"/{name}/cdx", f"/{name}-index", "/cdx"):
                answer = client.get(path, params=params)
                ours = meant(answer.status_code, answer.text, params)
                assert ours == theirs, (path, params)
            seen["nothing" if theirs == [] else "error" if isinstance(theirs, int) else "something"] += 1
            seen["long"] += isinstance(theirs, list) and len(theirs) > 20
    return seen


def sorts_before(params: list[tuple[str, str]], line: bytes) -> bool:
    asked = dict(params)
    return url_range(asked["url"], asked.get("matchType")).end <= line  # type: ignore[arg-type]


def test_150_random_questions_have_pywbs_answers(big: Path, pywb: int) -> None:
    seen = compare(big, NAME, pywb, seed=1, count=150)
    assert seen["something"] > 70
    assert seen["error"] > 5
    assert seen["long"] > 8


def test_the_town_is_what_pywb_says_it_is(sample_root: Path, pywb: int) -> None:
    assert compare(sample_root, SAMPLE, pywb, seed=2, count=40)["something"] > 8


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_2000_random_questions_have_pywbs_answers(big: Path, pywb: int) -> None:
    seen = compare(big, NAME, pywb, seed=3, count=2000)
    assert seen["something"] > 900
