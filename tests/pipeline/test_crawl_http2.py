"""Crawls of nginx over HTTP/2: the same pages, manners and archives as over HTTP/1.1, judged by nginx's log."""

from __future__ import annotations

import io
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.pipeline.crawling import archives, captures
from tests.services.nginx import Nginx
from tests.unit.cli.command import webmill
from tests.unit.crawl.fetch.certificates import Authority

with warnings.catch_warnings():  # it warns of its own old classes while it is imported
    warnings.simplefilter("ignore")
    from fastwarc.warc import ArchiveIterator as FastArchiveIterator
    from fastwarc.warc import WarcRecordType

ADDRESSES = ("127.0.7.1", "127.0.7.2")
PAGES = 12  # of a host
WALL = """
location /old { return 301 /page1.html; }
location = /wall { if ($http_cookie !~ seen=1) { add_header Set-Cookie "seen=1; Path=/"; return 302 /wall; }
  default_type text/html; return 200 "<p>behind the wall of $host"; }
"""


@pytest.fixture
def web(
    nginx: Callable[..., Nginx], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[Nginx, list[str]]]:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))

    def serve(listen: str) -> tuple[Nginx, list[str]]:
        hosts = {}
        for address in ADDRESSES:
            hosts[address] = folder = tmp_path / address
            folder.mkdir()
            links = "".join(f"<a href=/page{n}.html>{n}</a>" for n in range(PAGES))
            for n in range(PAGES):
                (folder / f"page{n}.html").write_text(
                    f"<title>{n}</title>{links}<a href=/old><a href=/wall>{n} of {address}"
                )
        server = nginx(
            hosts=hosts,
            addresses={address: address for address in ADDRESSES},
            directives=WALL,
            certificate=authority.issue(*ADDRESSES),
            listen=listen,
        )
        return server, [f"{server.url_of(address)}/page0.html" for address in ADDRESSES]

    return serve


def crawl(root: Path, seeds: list[str], *options: str) -> None:
    manners = ["--allow-private", "--delay", "0", "--address-delay", "0", "--processes", "1"]
    done = webmill("crawl", str(root), *seeds, "--contact", "nobody@example.org", *manners, *options)
    assert done.code == 0, done.err


@pytest.mark.server("nginx")
def test_a_crawl_over_http2_finds_what_one_over_http_1_finds(
    web: Callable[[str], tuple[Nginx, list[str]]], tmp_path: Path, judges: Path
) -> None:
    server, seeds = web("http2")
    over_2, over_1 = tmp_path / "over-2", tmp_path / "over-1"
    crawl(over_2, seeds)
    asked = [one for one in server.log() if one.host in ADDRESSES]
    crawl(over_1, seeds, "--http2", "off")
    again = [one for one in server.log() if one.host in ADDRESSES][len(asked) :]

    assert {one.protocol for one in asked} == {"HTTP/2.0"}
    assert {one.protocol for one in again} == {"HTTP/1.1"}
    whats = [Counter((one.host, one.path, one.status) for one in each) for each in (asked, again)]
    assert whats[0] == whats[1]
    assert whats[0][ADDRESSES[0], "/wall", 302] == whats[0][ADDRESSES[0], "/wall", 200] == 1
    assert len({one.connection for one in asked}) == len(ADDRESSES)
    for address in ADDRESSES:  # one request at a time, but for nginx's clock
        for one, other in pairwise(one for one in asked if one.host == address):
            assert other.at >= one.ended - 0.002

    assert sorted(url for _, url, _ in captures(over_2)) == sorted(url for _, url, _ in captures(over_1))
    assert read_archives(over_2, "h2", judges) == read_archives(over_1, "http/1.1", judges)


def read_archives(root: Path, protocol: str, judges: Path) -> dict[tuple[str, str], bytes]:
    """The messages that warcio reads, in a form that FastWARC and pywb read as well."""
    found, indexed = {}, 0
    for archive in archives(root):
        for record in ArchiveIterator(io.BytesIO(archive.read_bytes())):
            if record.rec_type in ("request", "response"):
                fields = [value for name, value in record.rec_headers.headers if name == "WARC-Protocol"]
                assert fields[0] == protocol
                assert fields[1].startswith("tls/")
                found[record.rec_type, record.rec_headers.get_header("WARC-Target-URI")] = (
                    record.content_stream().read()
                )
        read = FastArchiveIterator(io.BytesIO(archive.read_bytes()), record_types=WarcRecordType.response)
        assert all(record.http_headers.status_code in (200, 301, 302, 404) for record in read)
        lines = subprocess.run([judges / "cdx-indexer", "-j", archive], check=True, capture_output=True, text=True)
        indexed += lines.stdout.count('"status": "200"')
    assert indexed == len(ADDRESSES) * (PAGES + 1)
    return found


@pytest.mark.server("nginx")
def test_requests_of_a_connection_may_end_at_any_time(
    web: Callable[[str], tuple[Nginx, list[str]]], tmp_path: Path
) -> None:
    """nginx says GOAWAY before the last answer of a connection, and takes no request after it."""
    server, seeds = web("http2; keepalive_requests 3")
    crawl(tmp_path / "crawl", seeds)
    asked = Counter((one.host, one.path) for one in server.log() if one.host in ADDRESSES and one.path != "/wall")
    assert set(asked.values()) == {1}
    assert len(asked) == len(ADDRESSES) * (PAGES + 2)
