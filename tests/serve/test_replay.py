"""/web/TIMESTAMP/URL on both origins: what is shown, and what its answers may and may not carry."""

from __future__ import annotations

import gzip
import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from starlette.testclient import TestClient

from tests.serve.conftest import ADDRESS, REPLAY, site_of
from tests.serve.warc_fixtures import HTML, collection, response, serve_both_origins
from webmill.infra.storage.local import LocalStorage
from webmill.serve.app import replay_application
from webmill.serve.processes.threads import PER_CLIENT
from webmill.serve.replay.origin import WAITING_PER_CLIENT

SITE, WHEN = "https://made.example", "20230401120000"
Clients = tuple[TestClient, TestClient]
FRAMED = {"Sec-Fetch-Dest": "iframe"}

HEADERS = (
    *(("Content-Type", "text/html"), ("Content-Language", "ko"), ("Set-Cookie", "a=1; Domain=example")),
    *(("Strict-Transport-Security", "max-age=1"), ("Service-Worker-Allowed", "/"), ("Clear-Site-Data", '"*"')),
    *(("Content-Security-Policy", "default-src *"), ("X-Frame-Options", "DENY"), ("Content-Disposition", "attachment")),
    *(
        ("Refresh", "5; url=/next"),
        ("Connection", "close"),
        ("Keep-Alive", "1"),
        ("Link", "<https://b.example>; rel=preload"),
    ),
    *(("Access-Control-Allow-Origin", "*"), ("WWW-Authenticate", "Basic"), ("Location", "/not-a-redirect")),
    *(("X-Break", "a\rSet-Cookie: b=2"), ("Content-Length", "999"), ("ETag", '"x"'), ("Alt-Svc", "h3")),
)
REDIRECTS = {
    "absolute": ("https://b.example/there?x=1", f"/web/{WHEN}/https://b.example/there?x=1"),
    "relative": ("there", f"/web/{WHEN}/{SITE}/redirect/there"),
    "scheme": ("//b.example", f"/web/{WHEN}/https://b.example/"),
    "utf-8": ("/길".encode().decode("latin-1"), f"/web/{WHEN}/{SITE}/%EA%B8%B8"),
}
KOREAN = "<meta charset=euc-kr><title>공지</title><p>한글 <a href='/길'>길</a>".encode("euc-kr")
FILES = {"zip": "application/zip", "tiff": "image/tiff", "odd": "x/y", "csv": "text/csv", "untyped": ""}
STATUSES = [
    "200 OK",
    "201 Created",
    "204 No Content",
    "404 Not Found",
    "500 Oops",
    "503 Later",
    "999 Denied",
    "100 Continue",
    "407 Proxy Authentication Required",
    "401 Unauthorized",
    "416 Range Not Satisfiable",
    "205 Reset Content",
    "300 Multiple Choices",
]


def records() -> Iterator[bytes]:
    yield response(f"{SITE}/headers", WHEN, b"<p>words", head=HEADERS)
    for name, (location, _) in REDIRECTS.items():
        yield response(f"{SITE}/redirect/{name}", WHEN, b"", status="302 Found", head=(("Location", location),))
    yield response(
        f"{SITE}/redirect/script", WHEN, b"<p>x", status="302 F", head=(*HTML, ("Location", "javascript:x()"))
    )
    for number, status in enumerate(STATUSES):
        yield response(f"{SITE}/status/{number}", WHEN, b"<p>words", status=status)
    yield response("https://same.example/", "20230401000000", b"<p>the page")
    for day in range(10, 25):
        yield response("https://same.example/", f"202306{day}000000", b"", status="304 Not Modified")
    yield response("https://ever.example/", WHEN, b"", status="304 Not Modified")
    location = 'there#길">'.encode().decode("latin-1")
    yield response(f"{SITE}/redirect-to-place", WHEN, b"", status="302 Found", head=(("Location", location),))
    for name, kind in FILES.items():
        yield response(f"{SITE}/file/{name}", WHEN, b"words", head=(("Content-Type", kind),) if kind else ())
    yield response(f"{SITE}/korean", WHEN, KOREAN, head=(("Content-Type", "text/html"),))
    yield response(f"{SITE}/utf-16", WHEN, "<p>한글 <a href=x>".encode("utf-16"), head=(("Content-Type", "text/html"),))
    yield response(f"{SITE}/untyped", WHEN, b" <!DOCTYPE html><a href=/x>", head=())
    yield response(
        f"{SITE}/gzip", WHEN, gzip.compress(b"<a href=/x>", mtime=0), head=(*HTML, ("Content-Encoding", "gzip"))
    )
    yield response(f"{SITE}/long", WHEN, b"<a href=/x>" * (1 << 20))
    yield response(f"{SITE}/many", WHEN, b"<base href='/%s/'>" % (b"x" * 8000) + b"<a href=x>" * 100_000)
    yield response(f"{SITE}/sheet", WHEN, b"a{b:url(x.png)}", head=(("Content-Type", "text/css"),))
    yield response(f"{SITE}/script", WHEN, b"location='/x'", head=(("Content-Type", "text/javascript"),))
    yield response(f"{SITE}/break%0Ahere", WHEN, b"<title>Broken</title>")
    yield response(f"{SITE}/title", WHEN, b"<title><script>alert(1)</script>&lt;b&gt;\xe2\x80\xae</title>")
    yield response(
        "http://both.example/", "20230401000000", b"", status="301 M", head=(("Location", "https://both.example/"),)
    )
    yield response("https://both.example/", "20230601000000", b"<p>the page itself")
    yield response("http://only.example/", WHEN, b"", status="301 M", head=(("Location", "https://only.example/"),))


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    with serve_both_origins(collection(tmp_path_factory.mktemp("made"), records())) as clients:
        yield clients


@pytest.fixture
def own(clients: Clients) -> TestClient:
    return clients[0]


@pytest.fixture
def replay(clients: Clients) -> TestClient:
    return clients[1]


# --- the replay origin ---


def test_every_answer_is_sealed(replay: TestClient) -> None:
    for path in (
        f"/web/2023/{SITE}/headers",
        f"/web/2023/{SITE}/redirect/absolute",
        "/web/2023/https://no.example/",
        "/",
        "/x",
    ):
        headers = replay.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("sandbox allow-scripts allow-forms; "), path
        assert "allow-same-origin" not in policy
        assert f"default-src {REPLAY} data: blob: 'unsafe-inline' 'unsafe-eval'; connect-src {REPLAY};" in policy
        assert policy.endswith(f"frame-ancestors {ADDRESS}")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert not {"set-cookie", "service-worker-allowed", "strict-transport-security"} & set(headers)


def test_a_line_break_in_an_address_is_a_part_of_it(own: TestClient, replay: TestClient) -> None:
    url = f"{SITE}/break%0Ahere"
    assert b"Broken" in replay.get(f"/web/{WHEN}/{url}").content
    assert "<h1><bdi>Broken</bdi>" in own.get(f"/web/{WHEN}/{url}").text
    assert b"Broken" in own.get(f"/raw/{WHEN}/{url}").content
    assert own.get(f"/timegate/{url}").headers["location"].endswith(f"/web/{WHEN}/{url}")
    lost = replay.get("/web/no%0Atime/x", headers={"Accept": "text/html"})
    assert lost.status_code == 404
    assert lost.headers["content-security-policy"].startswith("sandbox ")


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        (f"*/{SITE}/korean", f"/history?url={SITE.replace(':', '%3A').replace('/', '%2F')}%2Fkorean"),
        (f"{SITE}/korean", f"/web/{WHEN}/{SITE}/korean"),
        (f"{SITE.replace('://', ':/')}/korean?", f"/web/{WHEN}/{SITE}/korean"),
    ],
)
def test_addresses_as_other_archives_have_them_lead_to_the_calendar_and_the_newest(
    own: TestClient, asked: str, there: str
) -> None:
    answer = own.get(f"/web/{asked}")
    assert (answer.status_code, answer.headers["Location"]) == (302, there)
    assert own.get("/web/https://no.example/", headers={"Accept": "text/html"}).status_code == 404
    assert own.get("/web/*/").status_code == own.get("/web/*").status_code == 400


def test_few_archived_headers_are_kept_and_the_others_renamed(replay: TestClient) -> None:
    headers = replay.get(f"/web/2023/{SITE}/headers").headers
    assert headers["Content-Language"] == "ko"
    assert headers["Refresh"] == f"5; url=/web/2023/{SITE}/next"
    for name, value in HEADERS:
        if name != "Content-Language":
            assert headers[f"X-Archive-Orig-{name}"] == value.replace("\r", " ")
    for name in (
        "Content-Disposition",
        "X-Frame-Options",
        "Access-Control-Allow-Origin",
        "ETag",
        "Alt-Svc",
        "Location",
    ):
        assert name not in headers
    assert "b.example" not in headers["Link"]


@pytest.mark.parametrize("name", REDIRECTS)
def test_a_redirect_leads_into_the_archive(replay: TestClient, own: TestClient, name: str) -> None:
    for client in (replay, own):
        answer = client.get(f"/web/{WHEN}/{SITE}/redirect/{name}")
        assert (answer.status_code, answer.headers["Location"]) == (302, REDIRECTS[name][1])


def test_a_redirect_to_no_address_is_shown_and_not_followed(replay: TestClient) -> None:
    answer = replay.get(f"/web/{WHEN}/{SITE}/redirect/script")
    assert ("Location" in answer.headers, answer.text) == (False, "<p>x")


def test_a_page_that_sent_its_visitors_to_https_does_not_send_ours_in_circles(
    replay: TestClient, own: TestClient
) -> None:
    assert replay.get("/web/20230401000000/https://both.example/").text == "<p>the page itself"
    answer = own.get("/web/20230401000000/http://both.example/")
    assert answer.headers["Location"] == "/web/20230601000000/http://both.example/"
    assert replay.get("/web/2023/http://only.example/").status_code == 404


@pytest.mark.parametrize(
    ("number", "status"), list(enumerate([200, 201, 204, 404, 500, 503, 200, 200, 200, 401, 416, 205, 300]))
)
def test_a_page_has_the_status_that_it_had(replay: TestClient, number: int, status: int) -> None:
    answer = replay.get(f"/web/2023/{SITE}/status/{number}")
    assert (answer.status_code, answer.text) == (status, "" if status in (204, 205) else "<p>words")
    assert "WWW-Authenticate" not in answer.headers


def test_an_answer_that_nothing_had_changed_is_passed_over(replay: TestClient, own: TestClient) -> None:
    url = "https://same.example/"
    assert replay.get(f"/web/20230615000000/{url}").text == "<p>the page"
    assert own.get(f"/web/20230615000000/{url}").headers["Location"] == f"/web/20230401000000/{url}"
    for client in (own, replay):
        answer = client.get("/web/2023/https://ever.example/")
        assert answer.status_code == 404
        assert "only says “not modified”" in answer.text


def test_the_place_on_a_page_that_a_redirect_leads_to_is_kept(replay: TestClient) -> None:
    answer = replay.get(f"/web/2023/{SITE}/redirect-to-place")
    assert answer.headers["Location"] == f"/web/2023/{SITE}/there#%EA%B8%B8%22%3E"


def test_bytes_and_charset_are_kept(replay: TestClient) -> None:
    answer = replay.get(f"/web/2023/{SITE}/korean")
    assert answer.headers["Content-Type"] == "text/html; charset=euc-kr"
    assert answer.content == KOREAN.replace("'/길'".encode("euc-kr"), f'"/web/2023/{SITE}/%EA%B8%B8"'.encode())


def test_what_cannot_be_rewritten_as_bytes_becomes_utf_8(replay: TestClient) -> None:
    answer = replay.get(f"/web/2023/{SITE}/utf-16")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.content.decode() == f'<p>한글 <a href="/web/2023/{SITE}/x">'


@pytest.mark.parametrize("name", ["untyped", "gzip"])
def test_a_page_is_known_and_decoded(replay: TestClient, name: str) -> None:
    answer = replay.get(f"/web/2023/{SITE}/{name}")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert f'<a href="/web/2023/{SITE}/x">' in answer.text


@pytest.mark.parametrize("name", ["long", "many"])
def test_a_page_that_is_too_much_to_rewrite_is_a_text(replay: TestClient, name: str) -> None:
    answer = replay.get(f"/web/2023/{SITE}/{name}")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.text.count("<a href=") in (1 << 20, 100_000)
    assert "/web/" not in answer.text


class SlowDisk(LocalStorage):
    """Opens nothing before `awake` is set."""

    awake = threading.Event()

    def open(self, *arguments: Any, **more: Any) -> BinaryIO:
        assert self.awake.wait(120)
        return super().open(*arguments, **more)


def test_few_pages_are_made_at_once_and_not_too_many_wait(sample_root: Path) -> None:
    site = site_of(sample_root)
    site.__dict__["files"] = disk = SlowDisk(sample_root)
    url, everyone = "https://town.example/style.css", PER_CLIENT + WAITING_PER_CLIENT + 3
    with TestClient(replay_application(site), base_url=REPLAY) as client, ThreadPoolExecutor(everyone) as people:
        asked = [people.submit(client.get, f"/web/2023/{url}") for _ in range(everyone)]
        try:
            early = [one.result() for one in islice(as_completed(asked, timeout=120), 3)]
        finally:
            disk.awake.set()
        assert [(one.status_code, one.headers["Retry-After"]) for one in early] == [(503, "2")] * 3
        assert Counter(one.result().status_code for one in asked) == {200: everyone - 3, 503: 3}


def test_style_sheets_are_rewritten_and_scripts_are_not(replay: TestClient) -> None:
    assert replay.get(f"/web/2023/{SITE}/sheet").text == f'a{{b:url("/web/2023/{SITE}/x.png")}}'
    assert replay.get(f"/web/2023/{SITE}/script").text == "location='/x'"


@pytest.mark.parametrize("name", ["zip", "tiff", "odd", "untyped"])
def test_a_file_that_a_frame_cannot_show_is_told_and_others_get_it(replay: TestClient, name: str) -> None:
    framed = replay.get(f"/web/2023/{SITE}/file/{name}", headers=FRAMED)
    assert (framed.status_code, framed.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    kind = FILES[name] or "application/octet-stream"
    assert f"This is a file ({kind})" in framed.text
    assert "<head><script>" in framed.text  # which tells the banner what this is
    assert framed.headers["Memento-Datetime"]
    other = replay.get(f"/web/2023/{SITE}/file/{name}")
    assert (other.content, other.headers["Content-Type"]) == (b"words", kind)


def test_a_table_is_read_in_a_frame_as_text(replay: TestClient) -> None:
    for headers, kind in ((FRAMED, "text/plain"), ({}, "text/csv")):
        answer = replay.get(f"/web/2023/{SITE}/file/csv", headers=headers)
        assert (answer.content, answer.headers["Content-Type"].partition(";")[0]) == (b"words", kind)


def test_a_service_worker_is_refused(replay: TestClient) -> None:
    answer = replay.get(f"/web/2023/{SITE}/script", headers={"Service-Worker": "script"})
    assert answer.status_code == 403
    assert answer.headers["Content-Security-Policy"].startswith("sandbox")


def test_nothing_can_be_sent(replay: TestClient) -> None:
    assert replay.post(f"/web/2023/{SITE}/script").status_code == 405


def test_a_page_in_a_tab_of_its_own_is_led_below_the_banner(replay: TestClient) -> None:
    answer = replay.get(f"/web/2023/{SITE}/korean", headers={"Sec-Fetch-Dest": "document"})
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{ADDRESS}/web/2023/{SITE}/korean")


@pytest.mark.parametrize("path", ["/x.js", "/web/x.js", "/a?b=//c"])
def test_a_link_that_a_script_made_is_found_by_where_it_stands(replay: TestClient, path: str) -> None:
    answer = replay.get(path, headers={"Referer": f"{REPLAY}/web/2023/{SITE}/dir/module.js"})
    assert (answer.status_code, answer.headers["Location"]) == (307, f"/web/2023/{SITE}{path}")


@pytest.mark.parametrize(
    ("path", "referer"),
    [
        ("/x.js", ""),
        ("/x.js", f"{REPLAY}/x"),
        ("/x.js", f"https://evil.example/web/2023/{SITE}/"),
        ("/x.js", f"{REPLAY}.evil.example/web/2023/{SITE}/"),
        ("/x.js", f"{REPLAY}/web/2023/http://["),
        (f"{REPLAY}//evil.example/", f"{REPLAY}/web/2023/{SITE}/"),
        ("/x" * 5000, f"{REPLAY}/web/2023/{SITE}/"),
    ],
)
def test_nobody_else_is_led_anywhere(replay: TestClient, path: str, referer: str) -> None:
    answer = replay.get(path, headers={"Referer": referer})
    assert answer.status_code in (400, 404)


# --- our own origin ---


def source_of(page: str) -> str:
    (source,) = re.findall(r'<iframe [^>]*src="([^"]*)"', page)
    return str(source)


def test_the_frame_tells_of_the_page_and_leads_to_its_neighbours(client: TestClient) -> None:
    page = client.get("/web/20230401120500/https://town.example/").text
    assert "<bdi>The town</bdi>" in page
    assert 'value="https://town.example/"' in page
    assert "2023-04-01 12:05:00 UTC" in page
    assert 'rel="prev" href="/web/20230401120000/https://town.example/"' in page
    assert 'rel="next" href="/web/20240401100000/https://town.example/"' in page
    assert "/history?url=https%3A//town.example/" in page
    assert 'href="/raw/20230401120500/https://town.example/"' in page
    assert 'sandbox="allow-scripts allow-forms"' in page
    assert re.fullmatch(rf"{REPLAY}/web/20230401120500~[0-9a-f]{{16}}/https://town.example/", source_of(page))


def test_the_first_and_the_last_capture_have_one_neighbour(client: TestClient) -> None:
    first, last = (
        client.get(f"/web/{when}/https://town.example/").text for when in ("20220310080000", "20240401100000")
    )
    assert ('rel="prev"' in first, 'rel="next"' in first) == (False, True)
    assert ('rel="prev"' in last, 'rel="next"' in last) == (True, False)


def test_the_frame_of_a_capture_nearby_is_at_its_own_time(client: TestClient) -> None:
    answer = client.get("/web/2022/https://town.example/", follow_redirects=False)
    assert answer.headers["Location"] == "/web/20220310080000/https://town.example/"


def test_a_title_stays_text(own: TestClient) -> None:
    page = own.get(f"/web/{WHEN}/{SITE}/title").text
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_an_address_that_is_nowhere_leads_to_its_history(own: TestClient) -> None:
    answer = own.get('/web/2023/https://no.example/"><script>')
    assert answer.status_code == 404
    assert "/history?url=https%3A//no.example/%2522%253E%253Cscript%253E" in answer.text
    assert "<script>" not in answer.text.replace('<script type="module"', "")


def test_only_who_has_the_pass_may_read_and_frame(own: TestClient, replay: TestClient) -> None:
    source = source_of(own.get(f"/web/{WHEN}/{SITE}/korean").text).removeprefix(REPLAY)
    answer = replay.get(source, headers={"Origin": "null"})
    assert answer.headers["Access-Control-Allow-Origin"] == "null"
    assert "frame-ancestors" not in answer.headers["Content-Security-Policy"]
    assert f"/web/{WHEN}~" in answer.text  # its links have the pass too
    for path, origin in (
        (source, "https://evil.example"),
        (f"/web/{WHEN}/{SITE}/korean", "null"),
        (f"/web/{WHEN}~0123456789abcdef/{SITE}/korean", "null"),
    ):
        assert "Access-Control-Allow-Origin" not in replay.get(path, headers={"Origin": origin}).headers


def test_the_banner_believes_only_the_page_that_fills_the_frame(own: TestClient, replay: TestClient) -> None:
    address = f"/web/2023/{SITE}/korean"
    assert "postMessage" not in replay.get(address).text  # a script that reads it gets no stamp
    reported = re.search(
        r'\["(\d{14})", "([^"]+)", "(\w{64})"\]', replay.get(address, headers=FRAMED).content.decode("euc-kr")
    )
    assert reported
    timestamp, url, stamp = reported.groups()
    assert (timestamp, url) == (WHEN, f"{SITE}/korean")
    shown = own.get("/web-banner", params={"at": f"/web/{timestamp}/{url}", "stamp": stamp})
    assert "<bdi>공지</bdi>" in shown.text
    for at, other in ((f"/web/{timestamp}/{SITE}/title", stamp), (f"/web/{timestamp}/{url}", "x"), ("", stamp)):
        assert own.get("/web-banner", params={"at": at, "stamp": other}).status_code == 400
