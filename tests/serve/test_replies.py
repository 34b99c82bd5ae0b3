"""What strangers are told of what goes wrong here: nothing about our disks and servers."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.serve.conftest import ADDRESS, site_of
from webmill.errors import BadInput, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.search.backends import open_search
from webmill.search.base import SearchEngine
from webmill.serve.app import application
from webmill.serve.captures.address import parse_address, raw_address, web_address
from webmill.serve.http.responses import message_of

ROOT = Path("/srv/my data/news")


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (NotFound(f"no file {ROOT}/crawl-data/a.warc.gz"), "no file crawl-data/a.warc.gz"),
        (NotFound(f"nothing in {ROOT}"), "nothing in the collection"),
        (Unavailable(f"{ROOT}/publish/queue.sqlite: the disk is full"), "publish/queue.sqlite: the disk is full"),
        (Misconfigured("/etc/webmill/secret/key.pem: not ours"), "key.pem: not ours"),
        (Unavailable("cannot open '/var/lib/x/meta.json' (EIO)"), "cannot open 'meta.json' (EIO)"),
        (BadInput("/mnt/search/ is damaged", reason="x", source=f"{ROOT}/x"), "a folder is damaged"),
        (
            Unavailable("http://10.0.0.5:7700/indexes/a/search: connection refused"),
            "its server: connection refused",
        ),
        (
            Unavailable(
                "http://h.lan:7/x: HTTPConnection(host='h.lan', port=7): Failed to resolve 'h.lan' ([Errno -2])"
            ),
            "its server: Failed to resolve 'its server' ([Errno -2])",
        ),
        (Misconfigured("s3://bucket/prefix: give a key"), "its server: give a key"),
        (Misconfigured("sqlite:/var/lib/x/queue.sqlite: not ours"), "sqlite:queue.sqlite: not ours"),
        (NotFound("not in this archive: http://a.example/b/c"), "not in this archive: http://a.example/b/c"),
        (
            BadInput("not the address of a capture; write /web/TIMESTAMP/URL", reason="x"),
            "not the address of a capture; write /web/TIMESTAMP/URL",
        ),
        (NotFound("no file /secret.pem (ENOENT)"), "no file secret.pem (ENOENT)"),
        (BadInput("page is a number from 1 to 10/2", reason="x"), "page is a number from 1 to 10/2"),
    ],
)
def test_a_message_names_no_place_of_this_machine(error: WebmillError, reported: str) -> None:
    assert message_of(error, ROOT) == reported


@pytest.mark.parametrize("root", ["/", "/data"])
def test_of_a_root_of_one_part_nothing_else_is_taken_for_it(root: str) -> None:
    for printed in (
        "not in this archive: http://a.example/data/page",
        "not in this archive: http://a.example/data",
        "not in this archive: http://data/web/data",
        "not the address of a capture; write /web/TIMESTAMP/URL",
        "and/or 1 / 2",
    ):
        assert message_of(NotFound(printed), Path(root)) == printed
    reported = message_of(NotFound(f"no file {Path(root) / 'crawl-data' / 'a.warc.gz'}"), Path(root))
    assert reported in ("no file crawl-data/a.warc.gz", "no file a.warc.gz")
    assert message_of(NotFound("no file /database/a.warc.gz"), Path(root)) == "no file a.warc.gz"


def test_a_client_is_not_told_which_search_server_is_down(sample_root: Path) -> None:
    site = replace(
        site_of(sample_root), open_engine=partial(open_search, "meilisearch://key@127.0.0.1:1/x", create=False)
    )
    with TestClient(application(site), base_url=ADDRESS) as client:
        answer = client.get("/api/search?q=a")
        assert answer.status_code == 503
        assert "port" not in answer.text
        assert "127.0.0.1" not in answer.text


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_a_client_is_told_less_than_the_log(sample_root: Path, accept: str, caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> SearchEngine:
        raise Unavailable("/var/lib/elsewhere/search/meta.json: the disk does not answer (http://10.0.0.5:7700/x)")

    site = replace(site_of(sample_root), open_engine=refuse)
    with TestClient(application(site), base_url=ADDRESS) as client, caplog.at_level(logging.WARNING):
        for path in ("/api/search?q=a", "/search?q=a", "/"):
            answer = client.get(path, headers={"Accept": accept})
            assert "/var/lib" not in answer.text
            assert "10.0.0.5" not in answer.text
        assert "meta.json: the disk does not answer" in answer.text
    assert any("/var/lib/elsewhere" in str(getattr(record, "why", "")) for record in caplog.records)


@pytest.mark.parametrize(
    "url",
    ["https://a.example/", "https://a.example/b|c?d=^{}`\\|&e=%7C#", "http://a.example/%0A?x=[1]~'()*!$;@,+"],
)
def test_an_address_of_ours_leads_to_just_that_url(url: str) -> None:
    asked = parse_address(b"/web/2023/" + url.encode())
    assert asked
    again = parse_address(web_address("2023", asked.url).encode())
    assert again == asked
    assert raw_address("2023", asked.url, modifier="warc_") == f"/raw/2023warc_/{asked.url}"


def test_an_address_of_a_stranger_ends_nothing() -> None:
    spelled = web_address("2023", 'http://a.example/"><b>#x y\r\nZ: 서울')
    assert not set('"<># \r\n') & set(spelled)
    assert spelled.isascii()
