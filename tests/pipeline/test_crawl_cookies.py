"""Cookies and credentials of crawls: pages behind cookie walls and logins are archived, and nothing of it gets out."""

from __future__ import annotations

import gzip
import signal
import stat
import time
from pathlib import Path

import msgspec
import pytest

from tests.pipeline.crawling import Linked, Setup, captures, check_records, crawl_here, moved_to, seen_by, start, visits
from webmill.crawl.options import CrawlLimits, CrawlRules
from webmill.settings import SiteSettings
from webmill.testing import Answer, HttpReply, ReceivedRequest, TestWeb

HOST, OTHER = "www.wall.test", "www.other.test"
SECRET, PASSWORD, KEY, ROTATED = "s3cr3t-0f-a-user", "pa55-w0rd", "k3y-0f-a-user", "r0tated-sess1on"
LOGIN = "YWxpY2U6cGE1NS13MHJk"  # alice:pa55-w0rd


def redirect(path: str, *cookies: str) -> HttpReply:
    return HttpReply(status=302, headers=(("Location", path), *(("Set-Cookie", one) for one in cookies)))


def page(text: str, *links: str, cookies: tuple[str, ...] = ()) -> HttpReply:
    body = f"<html><body>{text}{''.join(f'<a href={link}>x</a>' for link in links)}</body></html>"
    return HttpReply(body=body.encode(), headers=tuple(("Set-Cookie", one) for one in cookies))


class CookieSite(Linked):
    """Pages that want cookies. `asked` has (path, Cookie field) in the order of the requests."""

    def __init__(self) -> None:
        super().__init__(0)
        self.asked: list[tuple[str, str]] = []

    def answer(self, request: ReceivedRequest) -> Answer:
        cookies = request.headers.get("Cookie") or ""
        self.asked.append((request.path, cookies))
        match request.path:
            case "/robots.txt":
                return super().answer(request)
            case "/self" if "seen=1" not in cookies:
                return redirect("/self", "seen=1; Path=/self")
            case "/wall" if "consent=yes" not in cookies:
                return redirect("/consent")
            case "/consent":
                return redirect("/wall", "consent=yes; Path=/")
            case "/loop":
                return redirect("/loop", f"count={len(self.asked)}; Path=/loop")
            case "/ping" | "/pong":
                return redirect("/pong" if request.path == "/ping" else "/ping", f"n={len(self.asked)}; Path=/")
            case "/plain-loop":
                return redirect("/plain-loop")
        return page(f"The page {request.path} for {cookies.count('=')} cookies")

    def times(self, path: str) -> int:
        return sum(one == path for one, _ in self.asked)


def cookie_crawl(tmp_path: Path, site: Linked, *paths: str, **changes: object) -> Path:
    """Crawl these paths of a site one after the other, and return the collection."""
    root = tmp_path / "root"
    with TestWeb(hosts=0, sites={HOST: site}) as web:
        seeds = tuple(f"http://{HOST}{path}" for path in paths)
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), rules=CrawlRules(scope="host"), concurrency=1)
        crawl_here(root, msgspec.structs.replace(setup, **changes))
    captures(root)
    check_records(root)
    return root


def statuses(root: Path) -> dict[str, int]:
    return {url.removeprefix(f"http://{HOST}"): visit.status for url, visit in visits(root).items()}


def test_a_page_that_sets_a_cookie_and_redirects_to_itself_is_archived(tmp_path: Path) -> None:
    site = CookieSite()
    root = cookie_crawl(tmp_path, site, "/self")
    assert statuses(root) == {"/self": 200}
    assert site.asked[1:] == [("/self", ""), ("/self", "seen=1")]
    assert [kind for kind, url, _ in captures(root) if url.endswith("/self")] == ["response"] * 2, (
        "the redirect as well"
    )


def test_a_page_that_sends_through_a_consent_page_is_archived(tmp_path: Path) -> None:
    site = CookieSite()
    root = cookie_crawl(tmp_path, site, "/wall")
    assert statuses(root) == {"/wall": 200, "/consent": 302}
    assert site.asked[1:] == [("/wall", ""), ("/consent", ""), ("/wall", "consent=yes")]


def test_redirects_that_set_other_cookies_each_time_end(tmp_path: Path) -> None:
    site = CookieSite()
    root = cookie_crawl(tmp_path, site, "/loop", "/ping", "/plain-loop")
    assert site.times("/loop") == 4, "as often as anything is tried"
    assert 2 <= site.times("/ping") <= 5
    assert 2 <= site.times("/pong") <= 5
    assert site.times("/plain-loop") == 1, "nothing would be different"
    found = visits(root)
    assert found[f"http://{HOST}/loop"].error.startswith("redirect_loop")
    assert found[f"http://{HOST}/plain-loop"].error.startswith("redirect_loop")


def test_without_cookies_none_is_sent(tmp_path: Path) -> None:
    site = CookieSite()
    root = cookie_crawl(tmp_path, site, "/self", cookies="off")
    assert statuses(root) == {"/self": 302}
    assert {cookies for _, cookies in site.asked} == {""}


class HostileSite(CookieSite):
    """Sets whatever it can, for itself and for others."""

    def answer(self, request: ReceivedRequest) -> Answer:
        self.asked.append((request.path, request.headers.get("Cookie") or ""))
        if request.path == "/robots.txt":
            return Linked.answer(self, request)
        number = int(request.path[1:])
        fields = (
            *(f"c{number}x{each}={'y' * 900}" for each in range(50)),
            *(f"evil=1; Domain={domain}" for domain in (OTHER, "other.test", "test", "com", "co.uk")),
            "control=a\x01b",
            f"huge={'z' * 5000}",
            "=",
            "; ; ;",
        )
        return page("hostile", f"/{number + 1}", cookies=fields)


def test_hostile_cookies_are_bounded_and_reach_no_other_site(tmp_path: Path) -> None:
    hostile, other = HostileSite(), CookieSite()
    root = tmp_path / "root"
    with TestWeb(hosts=0, sites={HOST: hostile, OTHER: other}) as web:
        seeds = (f"http://{HOST}/0", *(f"http://{OTHER}/{number}" for number in range(5)))
        rules, limits = CrawlRules(scope="host"), CrawlLimits(pages=25, retry_wait=0.2)
        crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve), rules=rules, limits=limits))
    assert {cookies for _, cookies in other.asked} == {""}
    assert len(hostile.asked) > 15
    longest = max(len(cookies) for _, cookies in hostile.asked)
    assert 900 < longest <= 8000
    sent = " ".join(cookies for _, cookies in hostile.asked)
    assert not {word for word in ("evil", "control", "huge") if word in sent}
    assert sum(file.stat().st_size for file in root.glob("frontier/shard-*/cookies.db*")) < 5 << 20


# --- credentials ---


class LoginSite(CookieSite):
    """Shows its pages to those who are logged in, and gives them a new session each time; echoes nothing."""

    def answer(self, request: ReceivedRequest) -> Answer:
        fields = request.headers
        self.asked.append((request.path, fields.get("Cookie") or ""))
        if request.path == "/robots.txt":
            return Linked.answer(self, request)
        cookies = fields.get("Cookie") or ""
        if SECRET not in cookies and ROTATED not in cookies:
            return redirect("/login") if request.path != "/login" else page("Log in")
        renewed = f"session={ROTATED}; Path=/; Max-Age=9999"
        if request.path == "/basic" and fields.get("Authorization") != f"Basic {LOGIN}":
            return HttpReply(status=401, headers=(("WWW-Authenticate", 'Basic realm="x"'),))
        if request.path == "/key" and fields.get("X-Key") != KEY:
            return HttpReply(status=403)
        return page("Inside", "/basic", "/key", "/in", cookies=(renewed,))


def write_cookies(folder: Path) -> Path:
    file = folder / "cookies.txt"
    file.touch(mode=0o600)
    file.write_text(f"# Netscape HTTP Cookie File\n#HttpOnly_{HOST}\tFALSE\t/\tFALSE\t0\tsession\t{SECRET}\n")
    return file


def everything_in(root: Path) -> dict[Path, bytes]:
    """Return the bytes of every file, archives unpacked."""
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {path: gzip.decompress(data) if path.suffix == ".gz" else data for path, data in files.items()}


def test_pages_behind_a_login_are_archived_and_no_credential_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    site = LoginSite()
    rule = SiteSettings(match=("*.wall.test",), auth=f"alice:{PASSWORD}", headers={"X-Key": KEY}, plain_http=True)
    root = cookie_crawl(tmp_path, site, "/in", cookies=str(write_cookies(tmp_path)), sites=(rule,))
    assert statuses(root) == {"/in": 200, "/basic": 200, "/key": 200}
    private = list(root.glob("frontier/shard-*/cookies.db*"))
    assert private
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    secrets = {word.encode() for word in (SECRET, PASSWORD, KEY, ROTATED, LOGIN)}
    found = {(path, word) for path, data in everything_in(root).items() for word in secrets if word in data}
    assert {(path.name.partition("-")[0], word) for path, word in found} <= {("cookies.db", ROTATED.encode())}
    archived = b"".join(data for path, data in everything_in(root).items() if path.name.endswith(".warc.gz"))
    assert b"\r\nAuthorization: ***\r\n" in archived
    assert b"\r\nX-Key: ***\r\n" in archived
    assert b"\r\nCookie: session=***\r\n" in archived
    assert b"\r\nSet-Cookie: session=" + b"*" * len(ROTATED) + b";" in archived
    printed = "".join(capfd.readouterr()) + caplog.text
    assert not {word for word in secrets if word.decode() in printed}


def test_credentials_go_neither_to_other_sites_nor_over_plain_http(tmp_path: Path) -> None:
    site, other = LoginSite(), CookieSite()
    seen: list[str] = []

    class Elsewhere(CookieSite):
        def answer(self, request: ReceivedRequest) -> Answer:
            seen.extend(f"{name}: {value}" for name, value in request.headers.pairs)
            return super().answer(request)

    other = Elsewhere()
    site.replies["/out"] = moved_to(f"http://{OTHER}/landing")
    rule = SiteSettings(
        match=("www.wall.test",), auth=f"alice:{PASSWORD}", headers={"X-Key": KEY, "Accept-Language": "ko"}
    )
    with TestWeb(hosts=0, sites={HOST: site, OTHER: other}) as web:
        seeds = (f"http://{HOST}/key", f"http://{HOST}/in", f"http://{OTHER}/a")
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), cookies=str(write_cookies(tmp_path)), sites=(rule,))
        crawl_here(tmp_path / "root", setup)
    assert visits(tmp_path / "root")[f"http://{HOST}/key"].status == 403, "the key goes over TLS only"
    text = "\n".join(seen)
    assert "X-Key" not in text
    assert "Authorization" not in text
    assert "Cookie" not in text
    assert "Accept-Language: ko" not in text


def test_a_session_outlives_a_kill(tmp_path: Path) -> None:
    site = CookieSite()
    root = tmp_path / "root"
    with TestWeb(hosts=0, sites={HOST: site}) as web:
        setup = Setup(
            seeds=(f"http://{HOST}/self",), resolve=dict(web.resolve), delay=0.5, rules=CrawlRules(scope="host")
        )
        program = start(root, setup)
        try:
            deadline = time.monotonic() + 60
            while site.times("/self") < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.3)
        finally:
            program.send_signal(signal.SIGKILL)
            program.wait()
        seeds = (f"http://{HOST}/self", f"http://{HOST}/self/more", f"http://{HOST}/wall")
        crawl_here(root, msgspec.structs.replace(setup, seeds=seeds, delay=0.1))
        assert web.log.settle()
        asked = [one.path for one in seen_by(web.log)]
    assert statuses(root) == {"/self": 200, "/self/more": 200, "/wall": 200, "/consent": 302}
    assert ("/self/more", "seen=1") in site.asked, "what was set before the kill is still known"
    assert asked.count("/self") <= 4
