"""What every request passes: names, rates, methods, origins; what every answer carries and is counted as."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.serve.asgi_client import AsgiClient, asgi_client
from tests.serve.conftest import site_of
from webmill.serve.app import application, replay_application
from webmill.serve.guard.access_log import AccessLog
from webmill.serve.guard.authorization import is_authorized
from webmill.serve.guard.client_address import TrustedProxies
from webmill.serve.guard.rate_limit import MOST_CLIENTS, RateLimiter, RateTable
from webmill.serve.guard.rate_limit import create_table as create_buckets
from webmill.serve.guard.request_guard import RequestGuard
from webmill.serve.site import ClientLimits, Site


@pytest.fixture
def ask(site: Site) -> Iterator[AsgiClient]:
    with asgi_client(application(site)) as asker:
        yield asker


def ask_with(site: Site, **changes: Any) -> Any:
    return asgi_client(application(replace(site_of(site.root), **changes)))


def number(ask: AsgiClient, name: str) -> float:
    lines = ask("/metrics").body.decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + " "))


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8080", "127.0.0.1:9", "localhost", "LOCALHOST:8080", "archive.example"]
)
def test_our_own_names_are_answered_whatever_the_port(site: Site, host: str) -> None:
    with ask_with(site, hosts=frozenset({"archive.example"})) as ask:
        assert ask("/healthz", host=host).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example:8080", 421),
        ("192.0.2.1", 421),
        ("localhost.evil.example", 421),
        ("[::1", 421),
        ("127.0.0.1%2eevil.example", 421),
        ("evil.example\\@127.0.0.1", 421),
        ("user@127.0.0.1", 421),
        ("127.0.0.1/evil", 421),
        ("127.0.0.1:8080:9", 421),
        ("a" * 5000, 421),
        ("", 400),
    ],
)
@pytest.mark.parametrize("path", ["/healthz", "/latest.json", "/crawl-data/x", "/"])
def test_no_other_name_is_answered(ask: AsgiClient, host: str, status: int, path: str) -> None:
    answer = ask(path, host=host)
    assert answer.status == status
    assert "message" in json.loads(answer.body)


def test_each_origin_has_a_name_of_its_own(site: Site) -> None:
    both = replace(site, address="https://archive.example", replay_address="https://replay.example")
    with asgi_client(application(both)) as ask:
        assert ask("/healthz", host="archive.example").status == 200
        assert ask("/healthz", host="replay.example").status == 421
    with asgi_client(replay_application(both)) as ask:
        assert ask("/nothing", host="archive.example").status == 421
        assert ask("/nothing", host="replay.example").status == 404


def test_an_address_is_the_same_in_a_socket_for_both_kinds() -> None:
    assert "192.0.2.1" in TrustedProxies({"192.0.2.0/24"})
    assert "::ffff:192.0.2.1" in TrustedProxies({"192.0.2.0/24"})
    assert "192.0.2.1" not in TrustedProxies({"2001:db8::/32"})
    assert "nonsense" not in TrustedProxies({"0.0.0.0/0"})
    assert "" not in TrustedProxies(())


def test_behind_a_proxy_we_speak_of_ourselves_as_clients_see_us(site: Site) -> None:
    with asgi_client(application(replace(site, address="https://archive.example"))) as ask:
        assert ask("/version/", host="archive.example")["location"] == "https://archive.example/version"


def test_two_hosts_are_no_host(ask: AsgiClient) -> None:
    assert ask("/healthz", more=[("host", "127.0.0.1")]).status == 400


def test_a_refusal_is_a_page_for_a_browser_and_text_stays_text(ask: AsgiClient) -> None:
    answer = ask("/", host="<script>alert(1)</script>", accept="text/html,*/*")
    assert answer["content-type"] == "text/html; charset=utf-8"
    for needed in (b'<html lang="en">', b'name="viewport"', b'name="color-scheme" content="light dark"', b"<main><h1>"):
        assert needed in answer.body
    assert "<script" not in answer.body.decode()
    assert "sandbox" in answer["content-security-policy"]


def test_too_many_requests_of_one_client_are_refused_and_others_are_not(site: Site) -> None:
    with ask_with(site, limits=ClientLimits(rate=0.01, burst=3)) as ask:
        assert [ask("/healthz", client="192.0.2.1").status for _ in range(4)] == [200, 200, 200, 429]
        late = ask("/healthz", client="192.0.2.1")
        assert 1 <= int(late["retry-after"]) <= 101
        assert ask("/healthz", client="192.0.2.2").status == 200
        assert number(ask, 'webmill_serve_refused_total{reason="rate"}') == 2


def test_a_network_of_ipv6_is_one_client(site: Site) -> None:
    with ask_with(site, limits=ClientLimits(rate=0.01, burst=1)) as ask:
        assert ask("/healthz", client="2001:db8::1").status == 200
        assert ask("/healthz", client="2001:db8::ffff:2").status == 429
        assert ask("/healthz", client="2001:db8:0:1::1").status == 200
        assert ask("/healthz", client="::ffff:192.0.2.1").status == 200
        assert ask("/healthz", client="192.0.2.1").status == 429


def test_a_proxy_is_believed_only_when_it_is_ours(site: Site) -> None:
    limits = ClientLimits(rate=0.01, burst=1)
    with ask_with(site, limits=limits, proxies=frozenset({"10.0.0.0/8"})) as ask:
        printed = {"client": "10.0.0.1", "x_forwarded_for": "192.0.2.1"}
        assert ask("/healthz", **printed).status == 200
        assert ask("/healthz", client="10.0.0.1", x_forwarded_for="192.0.2.2").status == 200
        assert ask("/healthz", client="10.0.0.1", x_forwarded_for="192.0.2.9, 192.0.2.2, 10.0.0.2").status == 429
        assert ask("/healthz", client="203.0.113.1", x_forwarded_for="192.0.2.7").status == 200
        assert ask("/healthz", client="203.0.113.1", x_forwarded_for="192.0.2.8").status == 429
        assert ask("/healthz", client="10.0.0.1", x_forwarded_for="nonsense\r\n, ,").status == 200


def test_the_rate_remembers_so_many_clients_and_no_more() -> None:
    with closing(RateTable()) as buckets:
        rate = RateLimiter(1.0, 1, buckets=buckets, name="own", secret=b"s")
        for one in range(MOST_CLIENTS + 100):
            rate.seconds_to_wait(f"10.{one >> 16}.{one >> 8 & 255}.{one & 255}", 0.0)
        last = f"10.{one >> 16}.{one >> 8 & 255}.{one & 255}"
        assert rate.seconds_to_wait(last, 0.5) == pytest.approx(0.5)
        assert rate.seconds_to_wait(last, 1.5) == 0


def test_the_rate_remembers_a_crowd_that_half_fills_its_table() -> None:
    with closing(RateTable()) as buckets:
        rate = RateLimiter(1.0, 1, buckets=buckets, name="own", secret=b"s")
        crowd = [f"10.0.{one >> 8}.{one & 255}" for one in range(MOST_CLIENTS // 2)]
        for client in crowd:
            rate.seconds_to_wait(client, 0.0)
        forgotten = sum(rate.seconds_to_wait(client, 0.5) == 0 for client in crowd)
        assert forgotten < len(crowd) // 20


def test_a_client_is_counted_once_whichever_process_it_asks(tmp_path: Path) -> None:
    create_buckets(file := tmp_path / "buckets")
    with closing(RateTable(file)) as one, closing(RateTable(file)) as two:
        rates = [RateLimiter(1.0, 4, buckets=each, name="own", secret=b"s") for each in (one, two)]
        replay = RateLimiter(1.0, 4, buckets=one, name="replay", secret=b"s")
        waits = [rates[turn % 2].seconds_to_wait("192.0.2.1", 100.0) for turn in range(6)]
        assert waits == [0, 0, 0, 0, pytest.approx(1), pytest.approx(1)]
        assert rates[0].seconds_to_wait("192.0.2.1", 101.0) == 0
        assert rates[1].seconds_to_wait("192.0.2.1", 101.0) == pytest.approx(1)
        assert rates[0].seconds_to_wait("192.0.2.2", 101.0) == 0
        assert replay.seconds_to_wait("192.0.2.1", 101.0) == 0


COUNTING = """
import sys
from pathlib import Path
from webmill.serve.guard.rate_limit import RateLimiter, RateTable

rate = RateLimiter(1.0, 30_000, buckets=RateTable(Path(sys.argv[1])), name="own", secret=b"s")
print("ready", flush=True)
sys.stdin.readline()
print(sum(not rate.seconds_to_wait("192.0.2.1", 100.0) for _ in range(20_000)))
"""


def test_requests_that_come_to_many_processes_at_once_are_all_counted(tmp_path: Path) -> None:
    """Without a lock two of them would read the same number, and one request would be free."""
    create_buckets(file := tmp_path / "buckets")
    command = [sys.executable, "-c", COUNTING, str(file)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for one in both:
        assert one.stdout
        assert one.stdout.readline() == "ready\n"
    for one in both:
        assert one.stdin
        one.stdin.write("\n")
        one.stdin.flush()
    assert sum(int(one.communicate(timeout=120)[0]) for one in both) == 30_000


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "PROPFIND", "get"])
@pytest.mark.parametrize("path", ["/healthz", "/latest.json", "/crawl-data/x", "/"])
def test_what_is_read_can_only_be_read(ask: AsgiClient, method: str, path: str) -> None:
    answer = ask(path, method=method)
    assert (answer.status, answer["allow"]) == (405, "GET, HEAD")


def test_a_site_that_is_allowed_may_read_and_no_other(site: Site) -> None:
    with ask_with(site, origins=frozenset({"https://a.example"})) as ask:
        for path in ("/latest.json", "/healthz", "/missing"):
            reported = ask(path, origin="https://a.example")
            assert reported["access-control-allow-origin"] == "https://a.example"
            assert "Origin" in reported["vary"]
            assert "ETag" in reported["access-control-expose-headers"]
            other = ask(path, origin="https://b.example")
            assert other["access-control-allow-origin"] == ""
            assert "Origin" in other["vary"]
            assert "Origin" in ask(path)["vary"]
            assert reported["access-control-allow-credentials"] == ""
        asked = {"method": "OPTIONS", "access_control_request_method": "GET"}
        assert ask("/latest.json", origin="https://a.example", **asked).status == 204
        assert ask("/latest.json", origin="https://a.example", **asked)["access-control-allow-methods"] == "GET, HEAD"
        assert ask("/latest.json", origin="https://b.example", **asked).status == 405


def test_everybody_may_read_when_all_are_allowed_but_with_no_credentials(site: Site) -> None:
    with ask_with(site, origins=frozenset({"*"})) as ask:
        answer = ask("/latest.json", origin="https://b.example")
        assert answer["access-control-allow-origin"] == "*"
        assert answer["access-control-allow-credentials"] == ""
        assert answer["cross-origin-resource-policy"] == "cross-origin"


def test_nobody_may_read_by_script_when_none_is_allowed(ask: AsgiClient) -> None:
    answer = ask("/latest.json", origin="https://b.example")
    assert not [name for name, _ in answer.pairs if name.startswith("access-control")]
    assert answer["cross-origin-resource-policy"] == "same-origin"


def changing(site: Site) -> RequestGuard:
    async def change(request: Request) -> Response:
        is_meant = is_authorized(request, site, action="retry job-1", stamp=request.query_params.get("stamp", ""))
        return Response(status_code=200 if is_meant else 403)

    return RequestGuard(Starlette(routes=[Route("/change", change, methods=["POST"])]), site)


def post(ask: AsgiClient, stamp: str = "", **headers: str) -> int:
    return ask("/change", method="POST", query=f"stamp={stamp}", **headers).status


def basic(password: str) -> str:
    return "Basic " + b64encode(f"me:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8081"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"origin": "http://127.0.0.1:8080", "sec_fetch_site": "same-origin"}, 200),
        ({}, 200),
    ],
)
def test_another_site_cannot_change_anything(site: Site, headers: dict[str, str], status: int) -> None:
    with asgi_client(changing(site)) as ask:
        assert post(ask, site.sign("retry job-1"), **headers) == status


def test_a_form_must_carry_the_stamp_of_its_action(site: Site) -> None:
    with asgi_client(changing(site)) as ask:
        assert post(ask, site.sign("retry job-2")) == 403
        assert post(ask) == 403
        assert post(ask, "%C3%BC") == 403
        assert post(ask, authorization="Bearer ") == 403
        assert post(ask, authorization="Bearer") == 403


def test_with_a_token_it_is_needed(site: Site) -> None:
    guarded = replace(site, token="sécret")
    stamp = guarded.sign("retry job-1")
    token = "sécret".encode().decode("latin-1")
    with asgi_client(changing(guarded)) as ask:
        for wrong in ("", "Bearer", "Bearer wrong", "Basic", "Basic !", basic("wrong"), basic(""), "Digest x", token):
            assert post(ask, stamp, authorization=wrong) == 401
        assert ask("/change", method="POST")["www-authenticate"].startswith("Basic ")
        assert post(ask, stamp, authorization=basic("sécret")) == 200
        assert post(ask, authorization=basic("sécret")) == 403  # a browser sends it for other sites, too
        assert post(ask, authorization=f"Bearer {token}") == 200
        assert post(ask, stamp, authorization=f"Bearer {token}", origin="https://evil.example") == 403


def test_archived_pages_have_an_origin_that_can_only_be_read(site: Site) -> None:
    with asgi_client(replay_application(site)) as ask:
        assert ask("/anything", method="POST").status == 405
        assert ask("/latest.json").status == 404
        assert ask("/healthz").status == 404
        answer = ask("/nothing")
        assert "sandbox" in answer["content-security-policy"]
        assert "allow-same-origin" not in answer["content-security-policy"]


def test_every_answer_is_guarded(ask: AsgiClient) -> None:
    for path in ("/healthz", "/latest.json", "/nothing", "/", "/cdx"):
        answer = ask(path)
        assert answer["x-content-type-options"] == "nosniff"
        assert answer["content-security-policy"]
        assert not answer["server"]
        assert not answer["set-cookie"]
    assert ask("/")["referrer-policy"]


def test_an_unexpected_failure_tells_nothing_and_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: Request) -> Response:
        raise RuntimeError("secret detail")

    async def bare(*_: Any) -> None:
        raise RuntimeError("secret detail")

    for app in (RequestGuard(Starlette(routes=[Route("/", fail)]), site), RequestGuard(bare, site)):
        with asgi_client(app) as ask:
            answer = ask("/")
        assert answer.status == 500
        assert b"secret" not in answer.body
    assert caplog.text.count("RuntimeError: secret detail") >= 2


def test_the_log_is_one_line_of_json_a_request_whatever_is_asked(site: Site, tmp_path: Path) -> None:
    place = tmp_path / "access.log"
    access = AccessLog(str(place))
    hostile = 'x\r\n{"status":200}\u2028\x1b[31m\x9b\x00"'
    with asgi_client(application(site, access=access)) as ask:
        ask("/latest.json", user_agent="curl/8", referer="https://a.example/")
        ask("/%0d%0aforged%20line", user_agent=hostile.encode().decode("latin-1"), query="a=\n\x1b[2J")
        ask("/" + "x" * 100_000)
    access.close()
    text = place.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == 3 == text.count("\n")
    assert text.isascii()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert lines[0] | {"time": 0, "seconds": 0} == {
        "time": 0,
        "address": "testclient",
        "method": "GET",
        "path": "/latest.json",
        "host": "127.0.0.1:8080",
        "status": 200,
        "kind": "delivery",
        "bytes": (site.root / "latest.json").stat().st_size,
        "seconds": 0,
        "agent": "curl/8",
        "referer": "https://a.example/",
    }
    assert len(lines[2]["path"]) < 2000


def test_no_request_makes_a_series_of_its_own(sample_root: Path) -> None:
    with asgi_client(application(site_of(sample_root))) as ask:
        before = ask("/metrics").body.decode().count("\n")
        for path in ('/a"b', "/a%0ab{c}", "/blobs/x", "/NAME-index", "/" + "y" * 1000, "/한국"):
            ask(path, method="GET")
            ask(path, method="BREW", host="evil\n")
        reported = ask("/metrics").body.decode()
        assert reported.count("\n") == before
        assert number(ask, 'webmill_serve_requests_total{kind="delivery",status="4xx"}') == 2
        assert number(ask, 'webmill_serve_refused_total{reason="host"}') == 6


def test_questions_about_one_crawl_are_counted_as_such(sample_root: Path) -> None:
    with asgi_client(application(site_of(sample_root))) as ask:
        ask("/TOWN-2024/timemap/link/https://town.example/")
        ask("/TOWN-2024/timegate/https://town.example/")
        ask("/TOWN-2024/cdx", query="url=town.example")
        ask("/TOWN-2024-index", query="url=town.example")
        found = [number(ask, f'webmill_serve_requests_total{{kind="cdx",status="{one}"}}') for one in ("2xx", "3xx")]
        assert found == [3, 1]


def test_bytes_and_seconds_are_counted(sample_root: Path) -> None:
    with asgi_client(application(site_of(sample_root))) as ask:
        size = len(ask("/latest.json").body)
        ask("/latest.json", method="HEAD")
        assert number(ask, 'webmill_serve_bytes_total{kind="delivery"}') == size
        assert number(ask, 'webmill_serve_seconds_count{kind="delivery"}') == 2
        assert number(ask, 'webmill_serve_requests_total{kind="delivery",status="2xx"}') == 2


def test_plain_answers_of_others_are_sealed(site: Site) -> None:
    from webmill.serve.http.responses import DefaultHeaders, security_headers

    async def page(_: Request) -> Response:
        return PlainTextResponse("x", headers={"Content-Security-Policy": "own"})

    with asgi_client(
        RequestGuard(DefaultHeaders(Starlette(routes=[Route("/", page)]), security_headers(site)), site)
    ) as ask:
        assert ask("/")["content-security-policy"] == "own"
        secure = replace(site, address="https://127.0.0.1:8080")
    with asgi_client(application(secure)) as ask:
        assert ask("/healthz")["strict-transport-security"]
        assert ask("/latest.json")["strict-transport-security"]
