"""A whole crawl through a proxy with a password, from the command line to the archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked
from tests.unit.cli.command import webmill
from tests.unit.crawl.fetch.fetching import Listener
from tests.unit.crawl.fetch.proxies import HttpProxy, Proxy, SocksProxy
from webmill.testing import TestWeb

HOST, SECRET = "www.one.test", "pl4nted-secret"
PAGES = 2  # that are linked


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "make"), [("http", HttpProxy), ("socks5", SocksProxy)])
def test_a_crawl_goes_through_its_proxy_and_tells_nobody_the_password(
    tmp_path: Path, kind: str, make: type[Proxy]
) -> None:
    root, proxy = tmp_path / "news", make(password=f"user:{SECRET}")
    with TestWeb(hosts=0, sites={HOST: Linked(PAGES)}) as web, Listener(proxy) as listener:
        ip, port = web.resolve[HOST]
        crawled = webmill(
            *("-vv", "crawl", root, f"http://{HOST}/", "--contact", "me@example.org", "--allow-private"),
            *("--delay=0", "--address-delay=0", "--processes=1", f"--resolve={HOST}={ip}:{port}"),
            f"--proxy={kind}://user:{SECRET}@127.0.0.1:{listener.port}",
        )
        assert crawled.code == 0, crawled.err
        assert set(proxy.asked) == {f"{ip} {port}"}
        assert set(proxy.credentials) == {f"user:{SECRET}"}
        assert len(web.log) > PAGES
        with_proxy = len(proxy.asked)
        again = webmill("crawl", root, f"http://{HOST}/new", "--json")
        assert again.code in (0, 3), again.err
        assert len(proxy.asked) > with_proxy, "the flag is remembered"
    for ended in (crawled, again, webmill("status", root), webmill("log", root)):
        assert SECRET not in ended.err
        assert SECRET.encode() not in ended.out
    files = [path for path in root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert [path.relative_to(root).as_posix() for path in files] == ["frontier/flags.json"]


def test_a_wrong_proxy_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    for wrong in (f"socks5h://user:{SECRET}@127.0.0.1:1", f"nonsense {SECRET}@127.0.0.1"):
        ended = webmill(
            "crawl", tmp_path / "news", f"http://{HOST}/", "--contact", "me@example.org", f"--proxy={wrong}"
        )
        assert ended.code == 1
        assert "socks5://HOST:PORT" in ended.err
        assert SECRET not in ended.err
    assert not list((tmp_path / "news").rglob("*.warc.gz"))
