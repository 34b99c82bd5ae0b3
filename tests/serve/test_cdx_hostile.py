"""Whatever is asked, there is an answer: never a 5xx, never a broken one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.serve.cdx_samples import NAME, make_captures, put_index
from tests.serve.conftest import ADDRESS, site_of
from webmill.errors import BadInput
from webmill.serve.app import application
from webmill.serve.cdx.output import line_as_json
from webmill.settings import ServeSettings, Settings

LINES = make_captures(300, seed=9)
NAMES = (
    *("url", "matchType", "from", "to", "filter", "fl", "limit", "sort", "closest", "collapse", "collapseTime"),
    *("page", "pageSize", "showNumPages", "showPagedIndex", "output", "resolveRevisits", "reverse"),
)
VALUES = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["*", "*.", "*.com", "a.com/*", "exact", "prefix", "domain", "2024", "20240230", "json", "text"]),
    st.sampled_from(["0", "-1", "1", "5", "9" * 9, "9" * 99, "true", "closest", "reverse", "now", "~url:(", "~:.*"]),
    st.sampled_from(
        ["timestamp:4", "timestamp:-1", "urlkey", ",,,", "=:", "!", "!~", "a:b:c", "http://[", "\x00", "*" * 9]
    ),
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    root: Path = tmp_path_factory.mktemp("hostile")
    put_index(root, LINES)
    site = site_of(root, Settings(serve=ServeSettings(rate=0)))
    with TestClient(application(site), base_url=ADDRESS, follow_redirects=False) as client:
        yield client


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=6), st.booleans())
def test_any_parameters_have_an_answer(hostile: TestClient, params: list[tuple[str, str]], is_asked: bool) -> None:
    asked = [("url", "*.com"), *params] if is_asked else params
    answer = hostile.get(f"/{NAME}-index", params=asked)
    assert answer.status_code in (200, 400, 404)
    if answer.status_code != 200:
        assert answer.json()["message"]


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(exclude_characters="#", exclude_categories=["Cs"]), max_size=30), st.text(max_size=20))
def test_any_url_behind_a_timegate_has_an_answer(hostile: TestClient, url: str, date: str) -> None:
    headers = {"Accept-Datetime": date.encode("utf-8", "replace")} if date.isprintable() else {}
    for path in ("/timegate/", "/timemap/link/", f"/{NAME}/timemap/json/"):
        answer = hostile.get(path + quote(url, safe="/:?&=%[]@!"), headers=headers)
        assert answer.status_code in (200, 302, 400, 404)


def test_no_timestamp_of_an_index_writes_members_of_its_own() -> None:
    with pytest.raises(BadInput, match="bad_timestamp"):
        line_as_json(b'com,a)/ 2024","status":"200 {"status": "404"}\n')
    assert line_as_json(b"com,a)/ 20240101000000 { }\n") == b'{"urlkey":"com,a)/","timestamp":"20240101000000"}\n'
