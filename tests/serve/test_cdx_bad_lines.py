"""A line of an index that is no CDXJ: answers are whole without it, and it is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.serve.cdx_samples import NAME, put_index
from tests.serve.conftest import ADDRESS, site_of
from webmill.serve.app import application

URL, KEY = "https://x.example/a", b"example,x)/a"
DIGITS = [f"2023010{day}000000" for day in range(1, 6)]
BAD = [
    KEY + b"\n",
    KEY + b" 20230102120000 {broken\n",
    KEY + b' 20230103120000 {"url": "https://x.example/a", "status": "200"\n',
    KEY + b' 20230103130000 {"url": "https://x.example/\xff"}\n',
    KEY + b' 20230104120000 {"url": ' + b"[" * 2000 + b"]" * 2000 + b"}\n",
    KEY + b' nonsense {"url": "https://x.example/a"}\n',
]


def good(stamp: str) -> bytes:
    fields = {"url": URL, "mime": "text/html", "status": "200", "digest": f"D{stamp}", "length": "9", "offset": "1"}
    return KEY + f" {stamp} {json.dumps({**fields, 'filename': 'a.warc.gz'})}\n".encode()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    root: Path = tmp_path_factory.mktemp("bad")
    put_index(root, sorted([*map(good, DIGITS), *BAD]))
    with TestClient(application(site_of(root)), base_url=ADDRESS) as client:
        yield client


def bad_lines(client: TestClient) -> float:
    line = next(each for each in client.get("/metrics").text.splitlines() if each.startswith("webmill_serve_bad_lines"))
    return float(line.split()[1])


@pytest.mark.parametrize(
    ("params", "bad"),
    [
        ({"output": "json"}, 6),
        ({"output": "json", "fl": "timestamp,url"}, 6),
        ({"output": "text", "fl": "timestamp,url"}, 6),
        ({"output": "cdxj", "fl": "url"}, 6),
        ({"filter": "=status:200"}, 6),
        ({"filter": "=status:200", "output": "json", "collapse": "digest", "resolveRevisits": "true"}, 6),
        ({"collapse": "timestamp"}, 6),
        ({"collapseTime": "14"}, 6),
        ({"resolveRevisits": "true"}, 6),
        ({"sort": "reverse", "output": "json"}, 6),
        ({"closest": "2023", "output": "json"}, 6),
        ({"from": "2023", "to": "2023", "output": "json"}, 4),  # the others are at no time
        ({"matchType": "host", "from": "2023", "to": "2023", "output": "json"}, 6),
        ({"matchType": "domain", "page": "0", "output": "json"}, 6),
    ],
    ids=str,
)
def test_an_answer_has_every_line_but_those_which_are_counted(
    client: TestClient, params: dict[str, str], bad: int
) -> None:
    before = bad_lines(client)
    answer = client.get(f"/{NAME}/cdx", params={"url": URL, **params})
    assert answer.status_code == 200
    lines = answer.text.splitlines()
    assert len(lines) == len(DIGITS)
    assert all(any(stamp in line for line in lines) for stamp in DIGITS)
    if params.get("output") == "json":
        assert all(json.loads(line)["url"] == URL for line in lines)
    assert bad_lines(client) - before == bad


def test_a_timemap_and_the_pages_are_whole_too(client: TestClient) -> None:
    found = client.get(f"/timemap/link/{URL}").text
    assert all(f"/web/{stamp}/{URL}" in found for stamp in DIGITS)
    for path in ("/history", "/"):
        assert client.get(path, params={"url": URL}).status_code == 200
    assert client.get("/history", params={"url": URL, "match": "host"}).status_code == 200
    assert client.get(f"/raw/2023/{URL}", follow_redirects=False).status_code == 302


def test_each_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put_index(tmp_path, sorted([good(DIGITS[0]), *BAD[1:3]]))
    with TestClient(application(site_of(tmp_path)), base_url=ADDRESS) as client, caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert client.get("/cdx", params={"url": URL, "output": "json"}).status_code == 200
    reported = [str(getattr(record, "line", "")) for record in caplog.records]
    assert len(reported) == 2
    assert any("broken" in line for line in reported)
