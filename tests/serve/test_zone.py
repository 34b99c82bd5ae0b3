"""The replay zone without a browser: labels, scripts, what answers which request, and the headers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.serve.conftest import ADDRESS, REPLAY
from tests.serve.warc_fixtures import collection, response
from webmill.errors import NotFound
from webmill.formats.javascript import read_parts
from webmill.serve.app import application, replay_application
from webmill.serve.open_site import open_site
from webmill.serve.replay.labels import ArchivedOrigin, LongNames, ReplayZone, read_origin
from webmill.serve.replay.rewrite_script import is_module, rewrite_script
from webmill.serve.site import Site
from webmill.settings import Settings

WHEN = "20240506070809"
ZONE, VIEW = "http://replay.localhost:8081", "http://view.replay.localhost:8080"
JSON, JS = (("Content-Type", "application/json"),), (("Content-Type", "text/javascript"),)


def zone_of(names: Path | None = None, *, secret: bytes = b"secret") -> ReplayZone:
    return ReplayZone(ZONE, view=VIEW, secret=secret, collection="town", long_names=LongNames(names))


# --- labels ---

HOSTS = (
    "example.com", "a-b.example", "xn--bcher-kva.example", "a--b.c", "127.0.0.1", "[::1]", "a_b.example",
    "-a.example", "a-.b.example", "x" * 60 + ".example", ".".join(["long"] * 12),
)  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("scheme", "port"), [("https", None), ("http", None), ("https", 8443)])
def test_a_label_names_one_origin(host: str, scheme: str, port: int | None) -> None:
    zone, origin = zone_of(), ArchivedOrigin(scheme, host, port)
    label = zone.label(WHEN, origin)
    assert len(label) <= 63
    assert zone.read_host(f"{label}.replay.localhost").origin == origin


def test_labels_of_different_origins_differ() -> None:
    zone = zone_of()
    hosts = ("a.b.c", "a-b.c", "a.b-c", "a--b.c", "a-.b.c", "a.-b.c")
    assert len({zone.label(WHEN, ArchivedOrigin("https", host)) for host in hosts}) == len(hosts)


@given(st.from_regex(r"[a-z0-9.-]{1,70}", fullmatch=True))
def test_every_label_leads_back(host: str) -> None:
    zone = zone_of()
    label = zone.label(WHEN, ArchivedOrigin("https", host))
    assert zone.read_host(label).origin.host == host


def test_long_names_are_known_to_all_processes_of_a_server(tmp_path: Path) -> None:
    one, other = zone_of(tmp_path / "names"), zone_of(tmp_path / "names")
    for number in range(3):
        origin = ArchivedOrigin("https", f"{'x' * 60}.{number}.example")
        assert other.read_host(one.label(WHEN, origin)).origin == origin


@pytest.mark.parametrize(
    "host",
    [
        "20240506070809-aaaaaaaa-s-example-com.replay.localhost",
        "example.replay.localhost",
        "x-y.replay.localhost",
        zone_of(secret=b"other").label(WHEN, read_origin("https://example.com")) + ".replay.localhost",
        zone_of().label(WHEN, read_origin("https://example.com")).replace("-s-", "-s0443-") + ".replay.localhost",
    ],
)
def test_a_label_without_our_pass_names_nothing(host: str) -> None:
    with pytest.raises(NotFound):
        zone_of().read_host(host)


# --- scripts ---

P = zone_of().prefix(WHEN)
REWRITTEN = {
    "location.href='x'": "__wmLocation(location).href='x'",
    "var l=location;": "var l=__wmLocation(location);",
    "e.location.host": "__wmLocation(e.location).host",
    "this.a.location.pathname": "__wmLocation(this.a.location).pathname",
    "const {a}=window.location;": "const {a}=__wmLocation(window.location);",
    "f(location)": "f(__wmLocation(location))",
    "`a ${location.href} ${`x${location}`}`": "`a ${__wmLocation(location).href} ${`x${__wmLocation(location)}`}`",
    "// foo.\nlocation.reload()": "// foo.\n__wmLocation(location).reload()",
    "if(top!==self)x": "if(__wmTop(top)!==self)x",
    "self==window.top": "self==__wmTop(window.top)",
    "new URL('a',import.meta.url)": "new URL('a',__wmUrl(import.meta.url))",
    "import(x)": "import(__wmModule(x))",
    "import x from 'https://x.example/a.js'": f"import x from 'http://{P}s-x-example.replay.localhost:8081/a.js'",
    'export * from"//x.example/a"': f'export * from"http://{P}s-x-example.replay.localhost:8081/a"',
    "w.postMessage(f(1,(2)),o)": "w.postMessage(...__wmMessage(f(1,(2)),o))",
    "if(a)/'/.test(location.href);b='location.c'": "if(a)/'/.test(__wmLocation(location).href);b='location.c'",
    "a/location.b/2": "a/__wmLocation(location).b/2",
    "x=/[/']location.a/;location.b": "x=/[/']location.a/;__wmLocation(location).b",
    "<!-- location.a'\nlocation.b": "<!-- location.a'\n__wmLocation(location).b",
}
KEPT = (
    "location='x'", "window.location='x'", "{location:1}.x", "x={location}", "function f(location){}", "(location)=>1",
    "new a.location.B()", "class A{get location(){}}",
    "a?.location.href", "top=3", "r.top===0", "let top;", "'location.href'",
    "/location.href/",
    "// location.href", "/* location.href */", "import a from './b.js'", "import(a,{with:{type:'json'}})",
    "postMessage(1)", "this.#location.x", "mylocation.href", "location$.href",
)  # fmt: skip


@pytest.mark.parametrize("script", REWRITTEN)
def test_what_asks_where_it_is_is_rewritten(script: str) -> None:
    assert rewrite_script(script, zone_of(), WHEN, "https") == REWRITTEN[script]


@pytest.mark.parametrize("script", KEPT)
def test_all_else_stays(script: str) -> None:
    assert rewrite_script(script, zone_of(), WHEN, "https") == script


@given(st.text("abt/*'\"`$\\{}()[]<!->=;.\n \u2028location", max_size=60))
def test_any_text_is_split_without_gaps(script: str) -> None:
    parts = list(read_parts(script))
    assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])][: len(parts)]
    assert not parts or parts[-1].end == len(script)
    rewrite_script(script, zone_of(), WHEN, "https")


@pytest.mark.parametrize("piece", ["(", "`${", "/", "'", "location.", "import(", "<!--", "-->", "a.postMessage("])
def test_a_script_made_to_be_slow_is_not(piece: str) -> None:
    rewrite_script(piece * 100_000, zone_of(), WHEN, "https")


def test_modules_are_told_from_scripts() -> None:
    assert all(map(is_module, ("import 'a'", "export const a=1", "import{a}from'b'", "let a;export{a}")))
    assert not any(
        map(is_module, ("import('a')", "import.meta.url", "'import a'", "{export:1}", "a.import b", "x={a}"))
    )


# --- answers ---


def pages() -> Iterator[bytes]:
    base = "https://api.example"
    yield response(f"{base}/a?x=1&_=1700000000000", WHEN, b'{"a": 1}', head=JSON)
    yield response(f"{base}/a?x=2&_=1700000000000", WHEN, b'{"a": 2}', head=JSON)
    yield response(f"{base}/p?callback=cb_1", WHEN, b'cb_1({"cb_1": 3})', head=JS)
    yield response(f"{base}/lib.js?build=1&min", WHEN, b"location.href", head=JS)
    yield response(f"{base}/lib.js?build=9", "20200101000000", b"old", head=JS)
    yield response(f"{base}/", WHEN, b"<title>x</title><a href='//b.example/x?a'>", head=(("Set-Cookie", "a=1"), ("X-Frame-Options", "DENY"), ("X-Total", "7"), ("Content-Type", "text/html"), ("Alt-Svc", "h3"), ("Link", "<http://live.example>; rel=preconnect"), ("Report-To", "x")))  # fmt: skip  # noqa: E501


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    root = collection(tmp_path_factory.mktemp("zone"), pages())
    return open_site(
        root, Settings(), address=ADDRESS, replay_address=REPLAY, zone_address=ZONE, view_address=VIEW, secret=b"s"
    )


@pytest.fixture
def api(site: Site) -> Iterator[TestClient]:
    assert site.zone
    base = site.zone.origin_of(WHEN, read_origin("https://api.example"))
    with TestClient(replay_application(site), base_url=base, follow_redirects=False) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "destination", "answer"),
    [
        ("/a?_=1800000000000&x=2", "empty", '{"a": 2}'),
        ("/a?x=3&_=1", "empty", None),
        ("/p?callback=other", "script", 'other({"cb_1": 3})'),
        ("/lib.js?build=2&min", "script", "__wmLocation(location).href"),
        ("/lib.js?build=2&min", "empty", None),
        ("/none", "image", None),
    ],
)
def test_a_request_is_matched_as_far_as_that_is_safe(
    api: TestClient, path: str, destination: str, answer: str | None
) -> None:
    got = api.get(path, headers={"Sec-Fetch-Dest": destination})
    assert (got.text if got.status_code == 200 else None) == answer
    assert ("webmill-missing" in got.headers.get("server-timing", "")) == (answer is None)


def test_headers_let_nothing_out(api: TestClient) -> None:
    got = api.get("/", headers={"Sec-Fetch-Dest": "iframe"})
    names = {name.lower() for name in got.headers}
    assert not names & {"set-cookie", "x-frame-options", "alt-svc", "report-to", "strict-transport-security"}
    assert "live.example" not in got.headers["link"]
    policy = got.headers["content-security-policy"]
    assert "connect-src http://*.replay.localhost:8081 data: blob:" in policy
    assert f"frame-ancestors {VIEW} http://*.replay.localhost:8081" in policy
    assert got.headers["origin-agent-cluster"] == "?1"
    assert got.headers["x-total"] == "7"
    assert "-s-b-example.replay.localhost:8081/x?a" in got.text
    assert "data-cookies" in got.text


def test_who_is_no_archived_page_is_refused(api: TestClient) -> None:
    assert api.get("/", headers={"Service-Worker": "script"}).status_code == 403
    assert api.get("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}).status_code == 403
    asked = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x-a"}
    assert api.options("/a", headers={"Origin": "https://foreign.example", **asked}).status_code == 403
    allowed = api.options("/a", headers={"Origin": str(api.base_url).rstrip("/"), **asked})
    assert (allowed.status_code, allowed.headers["access-control-allow-headers"]) == (204, "x-a")
    foreign = api.get("/", headers={"Origin": "https://foreign.example"})
    assert "access-control-allow-origin" not in foreign.headers


def test_the_zone_has_nothing_of_ours_and_the_view_only_what_it_shows(site: Site) -> None:
    with TestClient(application(site), base_url=VIEW, follow_redirects=False) as view:
        assert view.get("/tasks").headers["location"] == f"{ADDRESS}/tasks"
        assert view.post("/tasks/retry", headers={"Origin": VIEW}).status_code == 405
        shown = view.get(f"/web/{WHEN}/https://api.example/")
        assert shown.status_code == 200
        assert "allow-same-origin" in shown.text
    with TestClient(application(site), base_url=ADDRESS, follow_redirects=False) as own:
        assert (
            own.get(f"/web/{WHEN}/https://api.example/").headers["location"]
            == f"{VIEW}/web/{WHEN}/https://api.example/"
        )
        assert own.get("/healthz", headers={"Host": "x.replay.localhost:8080"}).status_code == 421


def test_a_page_opened_alone_leads_to_the_banner(api: TestClient) -> None:
    there = api.get("/?a=b", headers={"Sec-Fetch-Dest": "document"}).headers["location"]
    assert urlsplit(there).netloc == urlsplit(VIEW).netloc
    assert there.endswith(f"/web/{WHEN}/https://api.example/?a=b")
