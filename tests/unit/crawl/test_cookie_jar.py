"""The cookies of a shard: never across sites, bounded, and what is the user's is not written."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from webmill.crawl.cookies import jar as jars
from webmill.crawl.cookies.jar import CookieJar
from webmill.crawl.cookies.store import CookieStore, load_cookie_file
from webmill.crawl.politeness.session import mask_set_cookie, open_session
from webmill.crawl.sites import CrawlSites
from webmill.errors import Misconfigured
from webmill.formats.http.cookies import Cookie
from webmill.model import Headers
from webmill.settings import CrawlSettings, SiteSettings

NOW = 1_800_000_000.0


def learn(jar: CookieJar, url: str, *fields: str, now: float = NOW, is_private: bool = False) -> bool:
    return jar.learn(url, Headers([("Set-Cookie", field) for field in fields]), now=now, is_private=is_private)


def sent(jar: CookieJar, url: str, *, now: float = NOW) -> str:
    return jar.header(url, now=now).sent


def test_a_cookie_goes_back_to_its_site_only() -> None:
    jar = CookieJar()
    assert learn(jar, "https://www.example.org/", "a=1; Domain=example.org", "b=2", "c=3; Path=/in")
    assert sent(jar, "https://www.example.org/") == "a=1; b=2"
    assert sent(jar, "https://www.example.org/in/x") == "c=3; a=1; b=2"
    assert sent(jar, "https://other.example.org/") == "a=1"
    for url in ("https://example.com/", "https://notexample.org/", "https://example.org.evil.net/"):
        assert sent(jar, url) == ""


def test_hosts_of_a_provider_are_sites_of_their_own() -> None:
    jar = CookieJar()
    learn(jar, "https://evil.github.io/", *(f"c{number}=1; Domain=github.io" for number in range(100)))
    learn(jar, "https://me.github.io/", "mine=1")
    assert sent(jar, "https://you.github.io/") == ""
    for number in range(1000):
        learn(jar, "https://evil.github.io/", f"d{number}=1")
    assert sent(jar, "https://me.github.io/") == "mine=1"


def test_what_is_set_without_tls_hides_nothing_that_is_secure() -> None:
    jar = CookieJar()
    learn(jar, "https://example.org/", "sid=good; Secure")
    assert not learn(jar, "http://example.org/", "sid=evil")
    assert not learn(jar, "http://a.example.org/", "sid=evil; Domain=example.org")
    assert sent(jar, "https://example.org/") == "sid=good"
    assert sent(jar, "http://example.org/") == ""
    assert jar.refused == 2


def test_ten_thousand_cookies_are_as_many_as_are_kept() -> None:
    jar = CookieJar()
    for at in range(0, 10_000, 100):
        learn(
            jar, "https://evil.example/", *(f"n{number}={'x' * 3000}" for number in range(at, at + 100)), now=NOW + at
        )
    assert len(jar) == jars.MOST_OF_SITE
    header = sent(jar, "https://evil.example/", now=NOW + 10_000)
    assert 3000 < len(header) <= jars.MOST_OF_HEADER
    learn(jar, "https://evil.example/", "new=1", now=NOW + 10_001)
    assert len(jar) == jars.MOST_OF_SITE


def test_all_sites_together_are_bounded_and_the_users_cookies_stay() -> None:
    jar = CookieJar(most=20)
    jar.give([Cookie(name="sid", value="s", domain="example.org", is_private=True, is_given=True)], now=NOW)
    for number in range(100):
        learn(jar, f"https://www.site{number}.example/", "a=1", "b=2")
    assert len(jar) <= 20
    assert sent(jar, "https://example.org/") == "sid=s"
    assert sent(jar, "https://www.site99.example/") == "a=1; b=2"
    assert sent(jar, "https://www.site0.example/") == ""
    changes = jar.take_changes()
    assert changes["www.site0.example" if "www.site0.example" in changes else "site0.example"] == ()
    assert jar.take_changes() == {}


def test_an_expired_cookie_deletes_and_one_without_an_end_lives_for_a_day() -> None:
    jar = CookieJar()
    learn(jar, "https://example.org/", "a=1", "b=2")
    assert learn(jar, "https://example.org/", "a=; Max-Age=0")
    assert not learn(jar, "https://example.org/", "b=2")
    assert sent(jar, "https://example.org/") == "b=2"
    assert sent(jar, "https://example.org/", now=NOW + jars.SESSION_LIFE + 1) == ""


def test_what_is_given_for_credentials_is_private_too() -> None:
    jar = CookieJar()
    learn(jar, "https://example.org/", "theirs=1")
    learn(jar, "https://example.org/", "session=new", is_private=True)
    assert jar.header("https://example.org/", now=NOW).archived == "theirs=1; session=***"


# --- the store ---


def test_the_store_is_the_owners_and_keeps_no_cookie_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "cookies.db"
    path.touch(mode=0o644)
    jar = CookieJar()
    jar.give([Cookie(name="sid", value="given", domain="example.org", is_private=True, is_given=True)], now=NOW)
    learn(jar, "https://example.org/", "a=1", "old=1; Max-Age=5")
    store = CookieStore(path)
    store.write(jar.take_changes())
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    store.close()
    store = CookieStore(path)
    again = CookieJar()
    for site, cookies in store.read():
        again.load(site, cookies, now=NOW + 10)
    assert sent(again, "https://example.org/", now=NOW + 10) == "a=1"
    store.write({"example.org": ()}, durably=True)
    assert list(store.read()) == []
    store.close()


def test_a_damaged_store_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "cookies.db"
    for damage in (b"nothing of SQLite" * 300, b"SQLite format 3\0" + b"\xff" * 8000):
        path.write_bytes(damage)
        store = CookieStore(path)
        assert list(store.read()) == []
        store.write({"example.org": (Cookie(name="a", value="1", domain="example.org"),)})
        store.close()
    assert "damaged" in caplog.text


def write_file(path: Path, *lines: str) -> Path:
    path.write_text("# Netscape HTTP Cookie File\n" + "".join(line.replace(" ", "\t") + "\n" for line in lines))
    return path


def test_the_newer_of_a_file_and_the_store_counts(tmp_path: Path) -> None:
    file = write_file(tmp_path / "cookies.txt", "example.org FALSE / FALSE 0 sid fresh")
    written = file.stat().st_mtime
    settings = CrawlSettings(cookies="cookies.txt")
    for changed, expected in ((written - 5, "sid=fresh"), (written + 5, "sid=rotated")):
        stored = Cookie(name="sid", value="rotated", domain="example.org", changed=changed, is_private=True)
        session = open_session(
            settings, CrawlSites(), root=tmp_path, stored={"example.org": (stored,)}, clock=lambda: written + 9
        )
        assert session.fields("http://example.org/").cookies == expected


def test_without_the_file_what_it_brought_is_gone(tmp_path: Path) -> None:
    stored = Cookie(name="sid", value="rotated", domain="example.org", changed=NOW, is_private=True)
    session = open_session(
        CrawlSettings(), CrawlSites(), root=tmp_path, stored={"example.org": (stored,)}, clock=lambda: NOW
    )
    assert session.fields("http://example.org/").cookies == ""


def test_a_file_of_a_site_gives_cookies_of_that_site_only(tmp_path: Path) -> None:
    lines = (".example.org TRUE / FALSE 0 a 1", ".other.org TRUE / FALSE 0 b 2")
    write_file(tmp_path / "cookies.txt", *lines)
    rule = SiteSettings(match=("news.example.org",), cookies="cookies.txt")
    settings = CrawlSettings(cookies="off", sites=(rule,))
    session = open_session(settings, CrawlSites((rule,)), root=tmp_path, stored={}, clock=lambda: NOW)
    assert session.fields("http://news.example.org/").cookies == "a=1"
    assert session.fields("http://www.other.org/").cookies == ""
    assert session.fields("http://example.org/").cookies == "", "there the crawl says off"


@pytest.mark.parametrize(
    ("data", "repair"),
    [
        (None, "Netscape"),
        (b"", "logged in"),
        (b"{}", "has no cookies"),
        (b"{", "no storage state"),
        (b"<html>", "line 1"),
        (b"\0" * (5 << 20), "larger than 4 MB"),
    ],
)
def test_a_file_of_something_else_is_refused_with_a_repair(tmp_path: Path, data: bytes | None, repair: str) -> None:
    if data is not None:
        (tmp_path / "cookies.txt").write_bytes(data)
    with pytest.raises(Misconfigured, match=repair):
        load_cookie_file(tmp_path / "cookies.txt")


# --- the archive ---


def test_set_cookie_fields_are_masked_and_nothing_else() -> None:
    response = (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: sid=secret; Path=/\r\nX: set-cookie: a=b\r\nset-cookie:token\r\n"
        b"Set-Cookie: folded=one;\r\n two=secret\r\nContent-Length: 20\r\n\r\nSet-Cookie: body=kept"
    )
    masked = mask_set_cookie(response)
    assert len(masked) == len(response)
    assert b"secret" not in masked
    assert b"token" not in masked
    assert b"Set-Cookie: sid=******; ******\r\n" in masked
    assert masked.endswith(b"\r\n\r\nSet-Cookie: body=kept")
    assert b"X: set-cookie: a=b\r\n" in masked
