"""The banner of an archived page: its address field, and the page as a WACZ file."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import expect
from starlette.testclient import TestClient

from tests.serve.browser import DEADLINE, NewTab, Origins, needs_browser
from tests.serve.test_pages_browser import Watched, keep_picture, problems
from tests.serve.warc_fixtures import collection, response, revisit, serve_both_origins
from webmill.serve.replay import download

expect.set_options(timeout=DEADLINE)
URL = "https://town.example/"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
PAGE = b"""<!doctype html><title>The &amp; town</title><link rel=stylesheet href=/style.css>
<img src=/a.png><img src=/a.png><img src=/nowhere.png><a href=/news>News</a>"""


def unpack(content: bytes) -> tuple[dict[str, str], list[dict[str, str]], list[dict[str, str]]]:
    """Return the package, its captures and its pages."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        lines = gzip.decompress(file.read("indexes/index.cdx.gz")).splitlines()
        pages = [json.loads(line) for line in file.read("pages/pages.jsonl").splitlines()[1:]]
        return json.loads(file.read("datapackage.json")), [json.loads(line.split(b" ", 2)[2]) for line in lines], pages


@pytest.fixture
def town(tmp_path: Path) -> Path:
    def resource(name: str, when: str, body: bytes, kind: str) -> bytes:
        return response(f"{URL}{name}", when, body, head=(("Content-Type", kind),))

    return collection(
        tmp_path / "town",
        [
            response(URL, "20240101000000", PAGE),
            resource("style.css", "20230101000000", b"p { color: red }", "text/css"),
            resource("style.css", "20240101000001", b"p { color: green }", "text/css"),
            resource("a.png", "20240101000002", b"\x89PNG", "image/png"),
            response(f"{URL}news", "20240101000003", b"<title>News</title>"),
            revisit(URL, "20240201000000", PAGE, date="20240101000000", block=HEAD),
        ],
    )


def test_a_page_is_downloaded_with_the_resources_that_it_names(town: Path) -> None:
    with serve_both_origins(town) as (own, _):
        answer = own.get(f"/wacz/20240101000000/{URL}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/wacz"
    assert answer.headers["content-disposition"] == 'attachment; filename="20240101000000-town.example.wacz"'
    package, captures, pages = unpack(answer.content)
    assert [capture["url"] for capture in captures] == [URL, f"{URL}a.png", f"{URL}style.css"]
    assert (package["title"], package["mainPageUrl"]) == ("The & town", URL)
    assert package["mainPageDate"] == "2024-01-01T00:00:00Z"
    assert [page["title"] for page in pages] == ["The & town"]


def test_a_revisit_is_downloaded_with_its_original(town: Path) -> None:
    with serve_both_origins(town) as (own, _):
        package, captures, _ = unpack(own.get(f"/wacz/20240201000000/{URL}").content)
    assert [capture["url"] for capture in captures] == [URL, URL, f"{URL}a.png", f"{URL}style.css"]
    assert package["mainPageDate"] == "2024-02-01T00:00:00Z"


def test_another_time_leads_to_the_nearest_capture(town: Path) -> None:
    with serve_both_origins(town) as (own, _):
        assert own.get(f"/wacz/2022/{URL}").headers["location"] == f"/wacz/20240101000000/{URL}"
        assert own.get(f"/wacz/2022/{URL}nowhere").status_code == 404


def test_resources_beyond_the_limits_are_left_out(town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_both_origins(town) as (own, _):
        monkeypatch.setattr(download, "MAX_RESOURCES", 1)
        assert len(unpack(own.get(f"/wacz/20240101000000/{URL}").content)[1]) == 2
        monkeypatch.setattr(download, "MAX_BYTES", 500)
        assert len(unpack(own.get(f"/wacz/20240101000003/{URL}news").content)[1]) == 1
        monkeypatch.setattr(download, "MAX_BYTES", 10)
        assert own.get(f"/wacz/20240101000003/{URL}news").status_code == 400


@pytest.mark.parametrize(
    ("typed", "there"),
    [
        ("https://town.example/news", "/web/20240401100000/https://town.example/news"),
        (" town.example/news ", "/web/20240401100000/http://town.example/news"),
        ("https://town.example/a?b=c&d#e", "/web/20240401100000/https://town.example/a?b=c&d"),
        ("https://서울.example/공지", "/web/20240401100000/https://xn--2i4bq6h.example/%EA%B3%B5%EC%A7%80"),
        ("", "/history"),
    ],
)
def test_the_address_field_leads_to_the_same_time(client: TestClient, typed: str, there: str) -> None:
    answer = client.get("/web", params={"url": typed, "at": "20240401100000"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (302, there)


def test_what_is_no_address_is_told(client: TestClient) -> None:
    assert client.get("/web", params={"url": "javascript:alert(1)", "at": "x"}).status_code in (400, 404)
    assert client.get("/web", params={"url": "https://[", "at": "20240401100000"}).status_code == 400


class TestInTheBrowser:
    pytestmark = needs_browser

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("width", [1280, 360])
    def test_another_address_is_typed_and_the_page_downloaded(
        self, new_tab: NewTab, origins: Origins, scheme: str, width: int
    ) -> None:
        watched = Watched(new_tab(width=width, color_scheme=scheme), origins.address)
        watched.go("/web/20240401100000/https://town.example/")
        page = watched.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert problems(page) == []
        keep_picture(page, f"banner-{scheme}-{width}")
        field = page.get_by_label("Address")
        expect(field).to_have_value("https://town.example/")
        field.fill("https://서울.example/공지")
        field.press("Enter")
        expect(page.frame_locator("iframe").locator("p").first).to_contain_text("도서관")
        expect(page.get_by_label("Address")).to_have_value("https://서울.example/공지")
        with page.expect_download() as waiting:
            page.get_by_role("link", name="Download as WACZ").click()
        package, captures, _ = unpack(Path(waiting.value.path()).read_bytes())
        assert package["title"] == "공지사항"
        assert captures[-1]["url"].startswith("https://xn--")
