"""Pictures of captures: which belong to which, and what any archive may bring under their name."""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from tests.serve.conftest import ADDRESS, site_of
from tests.serve.published_items import assert_harmless
from tests.serve.warc_fixtures import collection, record, response
from webmill.serve.app import application
from webmill.settings import Settings
from webmill.testing.assets import png

SITE, FIRST, SECOND = "https://made.example", "20230401120000", "20230401123000"
PNG = png(colour=(9, 40, 90))
JPEG = b"\xff\xd8\xff\xe0\x00\x04xx\xff\xc0\x00\x0b\x08\x00\x10\x00\x20\x01\x00\x00\x00\xff\xd9"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
HOSTILE = {
    "html": b"<script>alert(1)</script>",
    "svg": SVG,
    "gif": b"GIF89a\x01\x00\x01\x00",
    "empty": b"",
    "cut": PNG[:20],
    "no-frame": b"\xff\xd8\xff\xe0\xff\xff",
    "no-size": PNG[:16] + bytes(8) + PNG[24:],
    "bomb": PNG[:16] + struct.pack(">II", 60_000, 60_000) + PNG[24:],
    "long": PNG + bytes(17 << 20),
}


def picture(kind: str, url: str, when: str, data: bytes, *, named: str = "image/png") -> bytes:
    return record("resource", f"urn:{kind}:{url}", when, data, (("Content-Type", named),))


def later(when: str, seconds: int) -> str:
    return str(int(when) + seconds)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [
        response(f"{SITE}/", FIRST, b"<p>one"),
        picture("view", f"{SITE}/", later(FIRST, 5), PNG),
        picture("thumbnail", f"{SITE}/", later(FIRST, 5), JPEG, named="text/html"),
        response(f"{SITE}/", SECOND, b"<p>two"),
        picture("view", f"{SITE}/", later(SECOND, 3), JPEG),
        response(f"{SITE}/A", FIRST, b"<p>upper"),
        response(f"{SITE}/a", FIRST, b"<p>lower"),
        picture("thumbnail", f"{SITE}/A", later(FIRST, 1), JPEG),
        response(f"{SITE}/late", FIRST, b"<p>late"),
        picture("view", f"{SITE}/late", "20230401150000", PNG),
        picture("view", f"{SITE}/none", FIRST, PNG),
        response(f"{SITE}/again", FIRST, b"<p>without"),
        response(f"{SITE}/again", SECOND, b"<p>with"),
        picture("view", f"{SITE}/again", later(SECOND, 3), PNG),
        response(f"{SITE}/closed", FIRST, b"<p>x", head=(("Content-Type", "text/html"), ("X-Robots-Tag", "noarchive"))),
        picture("view", f"{SITE}/closed", FIRST, PNG),
    ]
    for name, data in HOSTILE.items():
        records += [response(f"{SITE}/{name}", FIRST, b"<p>x"), picture("view", f"{SITE}/{name}", FIRST, data)]
    return collection(tmp_path_factory.mktemp("pictures") / "made", records)


@pytest.fixture
def own(root: Path) -> TestClient:
    return client_of(root)


def client_of(root: Path, **serve: str) -> TestClient:
    settings = msgspec.structs.replace(Settings(), serve=msgspec.structs.replace(Settings().serve, **serve))
    return TestClient(application(site_of(root, settings)), base_url=ADDRESS, follow_redirects=False)


def test_a_picture_is_sent_as_what_it_is_and_can_do_nothing(own: TestClient) -> None:
    for address, kind, data in (
        (f"{later(FIRST, 5)}view_", "image/png", PNG),
        (f"{later(FIRST, 5)}thumb_", "image/jpeg", JPEG),  # whatever its record says
    ):
        answer = own.get(f"/picture/{address}/{SITE}/")
        assert (answer.status_code, answer.headers["Content-Type"], answer.content) == (200, kind, data)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_picture_is_not_sent(own: TestClient, name: str) -> None:
    answer = own.get(f"/picture/{FIRST}view_/{SITE}/{name}")
    assert answer.status_code == 404
    assert "cannot be shown" in answer.json()["message"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{FIRST}view_/{SITE}/", 404),  # of the page's own second: there is none
        (f"{FIRST}view_/{SITE}/none", 404),  # of no page
        (f"20230401150000view_/{SITE}/late", 404),
        (f"{FIRST}/{SITE}/", 400),
        (f"{FIRST}some_/{SITE}/", 400),
        (f"2023view_/{SITE}/", 400),
        (f"20231399000000view_/{SITE}/", 400),
        (f"00010101000000view_/{SITE}/", 404),
    ],
)
def test_other_addresses_are_refused(own: TestClient, path: str, status: int) -> None:
    assert own.get(f"/picture/{path}").status_code == status


def test_a_page_that_may_not_be_shown_has_no_picture(root: Path) -> None:
    address = f"/picture/{FIRST}view_/{SITE}/closed"
    assert client_of(root, noarchive="everyone").get(address).status_code == 404
    assert client_of(root, noarchive="nobody").get(address).status_code == 200


def test_the_history_shows_each_picture_beside_its_capture(own: TestClient) -> None:
    page = own.get("/history", params={"url": f"{SITE}/"}).text
    assert_harmless(page)
    assert f'href="/picture/{later(FIRST, 5)}view_/{SITE}/"><img src="/picture/{later(FIRST, 5)}thumb_/{SITE}/"' in page
    assert f'<img src="/picture/{later(SECOND, 3)}view_/{SITE}/"' in page  # for want of a small one
    assert page.count("<img") == 2
    assert "<img" not in own.get("/history", params={"url": f"{SITE}/late"}).text


def test_a_picture_is_of_the_last_capture_before_it(own: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webmill.serve.pages.history.PAGE", 1)
    counts = [own.get("/history", params={"url": f"{SITE}/again", "page": page}).text.count("<img") for page in (1, 2)]
    assert counts == [0, 1]


def test_a_picture_is_of_its_own_address_alone(own: TestClient) -> None:
    """An index does not tell /A from /a."""
    page = own.get("/history", params={"url": f"{SITE}/a"}).text
    assert page.count("<img") == page.count(f'<img src="/picture/{later(FIRST, 1)}thumb_/{SITE}/A"') == 1


def test_two_captures_are_compared_with_their_pictures(own: TestClient) -> None:
    page = own.get("/history/compare", params={"url": f"{SITE}/", "old": FIRST, "new": SECOND}).text
    assert f'<img src="/picture/{later(FIRST, 5)}view_/{SITE}/" alt="The page before">' in page
    assert f'<img src="/picture/{later(SECOND, 3)}view_/{SITE}/" alt="The page after">' in page
    same = own.get("/history/compare", params={"url": f"{SITE}/", "old": FIRST, "new": FIRST}).text
    assert "<img" not in same
