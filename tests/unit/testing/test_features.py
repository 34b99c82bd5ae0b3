"""Each feature answers as the table in docs/reference/test-web.md says; byte by byte where that is the point."""

from __future__ import annotations

import gzip
import json
import re
import zlib

import brotli
import pytest
import zstandard

from tests.conftest import ROOT
from tests.unit.testing.clients import ask, connect, get, raw, read_all
from webmill.testing import HttpReply, ReceivedRequest, TestWeb
from webmill.testing.__main__ import table
from webmill.testing.features import codings, framing
from webmill.testing.features.catalog import all_features

MOVED, CODES, FILES = "http://moved.mill.example", "http://codes.mill.example", "http://files.mill.example"
CHANGES, SIGNS, LETTERS = "http://changes.mill.example", "http://signs.grain.example", "http://letters.grain.example"
PACKED, MAZE, SLOW = "http://packed.grain.example", "http://maze.grain.example", "http://slow.harvest.test"
BROKEN, BOMBS, MAPS = "http://broken.harvest.test", "http://bombs.harvest.test", "http://maps.mill.example"


def links(body: bytes) -> list[str]:
    return [each.decode().replace("&amp;", "&") for each in re.findall(rb'<a href="([^"]+)"', body)]


# --- the table ---


def test_the_table_in_the_documentation_is_the_list_of_features() -> None:
    written = (ROOT / "docs/reference/test-web.md").read_text(encoding="utf-8")
    assert "".join(table(all_features())) in written


def test_no_two_features_share_an_address() -> None:
    addresses = [(feature.host, feature.path) for feature in all_features()]
    assert len(addresses) == len(set(addresses))


def test_every_plain_feature_answers_over_the_socket_what_it_answers_inside(web: TestWeb) -> None:
    for feature in web.features:
        host, path = feature.url.removeprefix("http://").split("/", 1)
        inside = feature.answer(ReceivedRequest(host=host, path=f"/{path}"))
        if isinstance(inside, HttpReply) and not path.startswith(
            ("flaky", "headers")
        ):  # these look at more than the path
            got = get(web, feature.url)
            assert (got.status, got.body) == (inside.status, b"" if inside.status == 204 else inside.body), feature.url


def test_the_home_page_of_a_feature_host_leads_to_all_of_them(web: TestWeb) -> None:
    for host in {feature.host for feature in web.features if not feature.host.endswith((".rules.test", "*"))}:
        if host.startswith("*."):
            continue
        starts = [feature.start or feature.path for feature in web.features if feature.host == host]
        assert links(get(web, f"http://{host}/").body) == starts
        assert get(web, f"http://{host}/no-such-path").status == 404


# --- robots.txt and site maps ---


@pytest.mark.parametrize("status", [401, 403, 404, 410, 429, 500, 503])
def test_robots_with_a_status(web: TestWeb, status: int) -> None:
    assert get(web, f"http://status-{status}.rules.test/robots.txt").status == status
    assert get(web, f"http://status-{status}.rules.test/open.html").status == 200


@pytest.mark.parametrize(
    ("name", "location"),
    [
        ("moved", "/elsewhere/robots.txt"),
        ("moved-host", "http://some.rules.test/robots.txt"),
        ("moved-private", "http://10.0.0.8/robots.txt"),
        ("moved-loop", "/robots.txt"),
        ("far", "/hop/1"),
    ],
)
def test_robots_that_moved(web: TestWeb, name: str, location: str) -> None:
    got = get(web, f"http://{name}.rules.test/robots.txt")
    assert got.status in (301, 302)
    assert got.headers["Location"] == location


def test_robots_seven_hops_away(web: TestWeb) -> None:
    url, hops = "/robots.txt", 0
    while (got := get(web, f"http://far.rules.test{url}")).status == 302 or hops == 0:
        url, hops = got.headers["Location"], hops + 1
    assert hops == 7
    assert b"Disallow: /closed" in got.body


def test_the_huge_robots_has_its_last_rule_behind_500_kib(web: TestWeb) -> None:
    body = get(web, "http://huge.rules.test/robots.txt").body
    assert body.index(b"Disallow: /open") < 500 << 10 < body.index(b"Disallow: /closed")


def test_robots_in_odd_letters(web: TestWeb) -> None:
    rules = b"User-agent: *\nDisallow: /closed\n"
    assert get(web, "http://utf16.rules.test/robots.txt").body.decode("utf-16").encode() == rules
    assert get(web, "http://bom.rules.test/robots.txt").body == b"\xef\xbb\xbf" + rules
    assert get(web, "http://cr.rules.test/robots.txt").body == rules.replace(b"\n", b"\r")
    assert get(web, "http://slow.rules.test/robots.txt").body == rules


def test_robots_that_never_come(web: TestWeb) -> None:
    assert raw(web, "http://silent.rules.test/robots.txt") == b""
    with pytest.raises(ConnectionResetError):
        raw(web, "http://reset.rules.test/robots.txt")


def test_the_maps_name_pages_that_exist(web: TestWeb) -> None:
    index = get(web, f"{MAPS}/sitemap-index.xml").body
    plain, packed = (get(web, url.decode()).body for url in re.findall(rb"<loc>([^<]+)</loc>", index))
    named = re.findall(rb"<loc>([^<]+)</loc>", plain + gzip.decompress(packed))
    named += get(web, f"{MAPS}/sitemap.txt").body.split()
    assert named == [f"{MAPS}/page/{n}".encode() for n in range(1, 26)]
    assert {get(web, url.decode()).status for url in named} == {200}


def test_hostile_maps(web: TestWeb) -> None:
    assert get(web, f"{MAPS}/sitemap-many.xml").body.count(b"<url>") == 60_000
    assert b"<!ENTITY a8" in get(web, f"{MAPS}/sitemap-entities.xml").body
    assert f"{MAPS}/sitemap-loop.xml".encode() in get(web, f"{MAPS}/sitemap-loop.xml").body
    assert len(gzip.decompress(get(web, f"{MAPS}/sitemap-bomb.xml.gz").body)) == 100 << 20


# --- redirects and statuses ---


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_of_each_kind(web: TestWeb, status: int) -> None:
    got = get(web, f"{MOVED}/{status}")
    assert (got.status, got.headers["Location"]) == (status, "/target")


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/chain/5", "/chain/4"),
        ("/chain/1", "/target"),
        ("/chain/junk", "/target"),
        ("/loop/a", "/loop/b"),
        ("/loop/b", "/loop/a"),
        ("/forever/41", "/forever/42"),
        ("/to-file", "file:///etc/passwd"),
        ("/to-private", "http://10.0.0.8/"),
        ("/to-nothing", ""),
    ],
)
def test_where_a_redirect_leads(web: TestWeb, path: str, location: str) -> None:
    assert get(web, MOVED + path).headers["Location"] == location


def test_odd_locations_are_sent_as_they_are(web: TestWeb) -> None:
    assert b"\r\nLocation: /m\xc3\xbchle\r\n" in raw(web, f"{MOVED}/to-raw-bytes")
    assert get(web, f"{MOVED}/two-locations").headers.get_all("Location") == ["/target", "http://mill.example/"]
    assert "Location" not in get(web, f"{MOVED}/no-location").headers


def test_foreign_names_resolve_to_addresses_nobody_may_ask(web: TestWeb) -> None:
    assert web.resolve["private.names.test"] == ("10.0.0.8", 80)
    assert web.resolve["metadata.names.test"][0] == "169.254.169.254"
    assert "nowhere.names.test" not in web.resolve
    assert {"private.names.test", "www.mill.example"} <= set(web.resolve)
    assert len(web.resolve) == len(list(web.resolve))


@pytest.mark.parametrize(
    ("path", "status", "later"),
    [
        ("/503-seconds", 503, "2"),
        ("/503-date", 503, "Fri, 01 Jan 2100 00:00:00 GMT"),
        ("/503-ten-years", 503, "315360000"),
        ("/503-negative", 503, "-30"),
        ("/429-seconds", 429, "2"),
        ("/429", 429, None),
    ],
)
def test_retry_after(web: TestWeb, path: str, status: int, later: str | None) -> None:
    got = get(web, CODES + path)
    assert (got.status, got.headers["Retry-After"]) == (status, later)


def test_a_flaky_page_fails_as_often_as_its_path_says(web: TestWeb) -> None:
    assert [get(web, f"{CODES}/flaky/2/mine").status for _ in range(4)] == [503, 503, 200, 200]
    assert get(web, f"{CODES}/flaky/2/other").status == 503


# --- files, changes, signs ---


def test_cookies_and_fields_are_shown(web: TestWeb) -> None:
    assert len(get(web, f"{FILES}/cookie/set").headers.get_all("Set-Cookie") or []) == 3
    assert get(web, f"{FILES}/cookie/show", Cookie="plain=1").body == b"plain=1"
    assert ["X-Mine", "yes"] in json.loads(get(web, f"{FILES}/headers", X_Mine="yes").body)


def test_an_etag_alone_and_a_date_alone_are_enough(web: TestWeb) -> None:
    assert get(web, f"{FILES}/etag", If_None_Match=get(web, f"{FILES}/etag").headers["ETag"]).status == 304
    assert get(web, f"{FILES}/weak-etag", If_None_Match='W/"weak"').status == 304
    assert get(web, f"{FILES}/modified", If_Modified_Since="Mon, 01 Jan 2024 00:00:00 GMT").status == 304
    assert get(web, f"{FILES}/never-304", If_None_Match='"stubborn"').status == 200


def test_pages_live_and_die_with_the_version() -> None:
    def states(web: TestWeb) -> dict[str, int]:
        return {p: get(web, f"{CHANGES}/{p}").status for p in ("stable", "removed", "added", "returns", "moves")}

    with TestWeb(hosts=1) as web:
        stable, changing = (get(web, f"{CHANGES}/{path}") for path in ("stable", "changing"))
        assert states(web) == {"stable": 200, "removed": 200, "added": 404, "returns": 200, "moves": 200}
        assert {get(web, CHANGES + path).status for path in links(get(web, f"{CHANGES}/list").body)} == {200}
        web.advance()
        assert states(web) == {"stable": 200, "removed": 410, "added": 200, "returns": 404, "moves": 301}
        assert get(web, f"{CHANGES}/stable", If_None_Match=stable.headers["ETag"]).status == 304
        assert get(web, f"{CHANGES}/changing", If_None_Match=changing.headers["ETag"]).status == 200
        web.advance()
        assert states(web)["returns"] == 200


def test_signs_are_in_the_page_and_in_the_header(web: TestWeb) -> None:
    assert b'<meta name="robots" content="noindex">' in get(web, f"{SIGNS}/meta-noindex").body
    assert get(web, f"{SIGNS}/field-none").headers["X-Robots-Tag"] == "none"
    assert len({get(web, f"{SIGNS}/same/{name}").body for name in ("one", "two", "three")}) == 1
    assert get(web, f"{SIGNS}/soft-404/anything/at/all").status == 200
    assert b"<title><script>" in get(web, f"{SIGNS}/title-script").body
    assert get(web, f"{SIGNS}/form", method="POST", body=b"token=1").body == b"token=1"
    assert len(links(get(web, f"{SIGNS}/many-links").body)) == 20_000


# --- letters and codings ---


@pytest.mark.parametrize(
    ("path", "codec", "text"),
    [
        ("/windows-1252-header", "cp1252", "Mühle"),
        ("/windows-1252-meta", "cp1252", "Mühle"),
        ("/shift_jis-header", "cp932", "水車"),
        ("/http-equiv", "cp932", "水車"),
        ("/euc-kr-header", "euc-kr", "물레방아"),
        ("/gb18030-meta", "gb18030", "磨坊"),
        ("/utf-16-bom", "utf-16", "Mühle"),
        ("/utf-16be-bom", "utf-16", "Mühle"),
        ("/none-windows-1252", "cp1252", "Mühle"),
        ("/wrong-header", "utf-8", "Mühle"),
    ],
)
def test_a_page_in_its_letters(web: TestWeb, path: str, codec: str, text: str) -> None:
    assert text in get(web, LETTERS + path).body.decode(codec)


def test_charset_labels_are_sent_as_they_are(web: TestWeb) -> None:
    assert get(web, f"{LETTERS}/shift_jis-header").headers["Content-Type"] == "text/html; charset=shift_jis"
    assert get(web, f"{LETTERS}/shift_jis-meta").headers["Content-Type"] == "text/html"
    assert get(web, f"{LETTERS}/label/unicode_escape").headers["Content-Type"] == "text/html; charset=unicode_escape"
    assert b"charset=utf-8\x00\r\n" in raw(web, f"{LETTERS}/nul-label")


def unzstd(body: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(body)


def test_right_codings_decode_to_the_same_page(web: TestWeb) -> None:
    decoded = {
        "/gzip": gzip.decompress,
        "/x-gzip": gzip.decompress,
        "/gzip-members": gzip.decompress,
        "/deflate": zlib.decompress,
        "/deflate-raw": lambda body: zlib.decompress(body, -15),
        "/br": brotli.decompress,
        "/zstd": unzstd,
        "/identity": bytes,
        "/gzip-twice": lambda body: gzip.decompress(gzip.decompress(body)),
        "/gzip-in-gzip": lambda body: gzip.decompress(gzip.decompress(body)),
        "/gzip-br": lambda body: gzip.decompress(brotli.decompress(body)),
    }
    for path, decode in decoded.items():
        got = get(web, PACKED + path)
        assert decode(got.body) == codings.PLAIN, path
        assert got.headers["Content-Encoding"]


def test_wrong_codings_do_not_decode(web: TestWeb) -> None:
    for path in ("/gzip-lie", "/gzip-crc", "/gzip-cut", "/gzip-tail"):
        with pytest.raises((OSError, EOFError)):
            gzip.decompress(get(web, PACKED + path).body)
    for path in ("/br-lie", "/br-cut"):
        with pytest.raises(brotli.error):
            brotli.decompress(get(web, PACKED + path).body)
    with pytest.raises(zstandard.ZstdError):
        unzstd(get(web, f"{PACKED}/zstd-lie").body)
    assert len(unzstd(get(web, f"{PACKED}/zstd-cut").body)) < len(codings.PLAIN)
    with pytest.raises(zstandard.ZstdError, match="memory"):
        unzstd(get(web, f"{PACKED}/zstd-window").body)


def test_bombs_are_small_outside_and_large_inside(web: TestWeb) -> None:
    size = codings.BOMB_SIZE
    for path, decode in (("/bomb-gzip", gzip.decompress), ("/bomb-br", brotli.decompress), ("/bomb-zstd", unzstd)):
        body = get(web, PACKED + path).body
        assert len(body) < 200_000
        assert len(decode(body)) == size
    assert len(zlib.decompress(get(web, f"{PACKED}/bomb-deflate").body)) == size
    assert len(get(web, f"{PACKED}/bomb-twice").body) < 10_000


# --- traps, slow and endless answers ---


@pytest.mark.parametrize("start", ["/calendar/2024/1", "/grow/", "/session", "/shop", "/page", "/words/", "/hosts"])
def test_a_trap_always_has_a_new_link(web: TestWeb, start: str) -> None:
    url, seen = MAZE + start, set()
    for _ in range(30):
        seen.add(url)
        relative = (url.rstrip("/") + "/" + each if each == "a/" else each for each in links(get(web, url).body))
        absolute = (each if each.startswith("http") else MAZE + each for each in relative)
        url = next(each for each in absolute if each not in seen)
    assert len(seen) == 30


def test_every_order_of_the_filters_is_a_link(web: TestWeb) -> None:
    assert len(set(links(get(web, f"{MAZE}/shop").body))) == 25


def test_a_trap_gives_the_same_page_twice(web: TestWeb) -> None:
    assert get(web, f"{MAZE}/session?sid=1").body == get(web, f"{MAZE}/session?sid=1").body


def test_the_calendar_goes_over_the_year(web: TestWeb) -> None:
    assert links(get(web, f"{MAZE}/calendar/2024/12").body) == ["/calendar/2024/11", "/calendar/2025/1"]


def test_slow_answers_come_whole_in_the_end(web: TestWeb) -> None:
    bodies = {get(web, SLOW + path).body for path in ("/body", "/header", "/late")}
    assert len(bodies) == 1
    assert raw(web, f"{SLOW}/103").startswith(b"HTTP/1.1 103 Early Hints\r\n")


def test_silent_and_stalled_answers_end_in_nothing(web: TestWeb) -> None:
    assert raw(web, f"{SLOW}/silent") == b""
    assert raw(web, f"{SLOW}/stall").startswith(b"HTTP/1.1 200 OK\r\n")


def test_large_heads_are_as_large_as_they_say(web: TestWeb) -> None:
    head, _, body = raw(web, f"{SLOW}/big-field").partition(b"\r\n\r\n")
    assert len(head) > 10_000_000
    assert body.endswith(b"wait.")
    assert raw(web, f"{SLOW}/many-fields").count(b"\r\nX-Field-") == 500_000


@pytest.mark.parametrize(
    "path",
    [
        "/drip",
        "/endless",
        "/endless-chunks",
        "/tiny-chunks",
        "/chunk-extensions",
        "/endless-head",
        "/drip-head",
        "/endless-100",
    ],
)
def test_an_endless_answer_goes_on(web: TestWeb, path: str) -> None:
    with connect(web, SLOW) as sock:
        sock.sendall(ask(SLOW + path))
        assert len(read_all(sock, limit=2000)) >= 2000


# --- broken framing ---


@pytest.mark.parametrize("case", framing.CASES, ids=lambda case: case[0])
def test_a_broken_answer_is_sent_byte_by_byte(web: TestWeb, case: tuple[str, str, int, bytes]) -> None:
    path, _, _, data = case
    assert raw(web, BROKEN + path) == data


def test_the_well_known_breaks_are_in_the_bytes(web: TestWeb) -> None:
    assert b"\r" not in raw(web, f"{BROKEN}/lf-only")
    assert raw(web, f"{BROKEN}/http09").startswith(b"<!doctype html>")
    assert raw(web, f"{BROKEN}/status-99999").startswith(b"HTTP/1.1 99999 ")
    assert raw(web, f"{BROKEN}/two-lengths").lower().count(b"content-length:") == 2
    both = raw(web, f"{BROKEN}/length-and-chunked")
    assert b"Content-Length: 5\r\n" in both
    assert b"Transfer-Encoding: chunked\r\n" in both
    head, _, body = raw(web, f"{BROKEN}/short-body").partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body) + 10}".encode() in head


@pytest.mark.parametrize("length", [0, 1, 8, 17, 60, len(framing.WHOLE) - 1, len(framing.WHOLE)])
def test_a_connection_is_reset_or_closed_at_byte_n(web: TestWeb, length: int) -> None:
    assert raw(web, f"{BROKEN}/fin/{length}") == framing.WHOLE[:length]
    with connect(web, BROKEN) as sock:
        sock.sendall(ask(f"{BROKEN}/rst/{length}"))
        with pytest.raises(ConnectionResetError):
            read_all(sock)


def test_two_answers_come_to_one_request_and_the_connection_lives(web: TestWeb) -> None:
    with connect(web, BROKEN) as sock:
        sock.sendall(ask(f"{BROKEN}/two-answers"))
        wanted = framing.WHOLE + framing.SECOND
        assert read_all(sock, limit=len(wanted)) == wanted
        sock.sendall(ask(f"{BROKEN}/fin/20"))
        assert read_all(sock) == framing.WHOLE[:20]


# --- HTML bombs ---


def test_html_bombs_are_as_deep_as_their_path_says(web: TestWeb) -> None:
    assert get(web, f"{BOMBS}/nested/2000").body.count(b"<div>") == 2000
    assert get(web, f"{BOMBS}/nested/999999999").body.count(b"<div>") == 200_000
    assert get(web, f"{BOMBS}/nested/junk").body.count(b"<div>") == 100
    assert get(web, f"{BOMBS}/attributes/300").body.count(b"=1") == 300
    assert b"-->" not in get(web, f"{BOMBS}/comment").body
