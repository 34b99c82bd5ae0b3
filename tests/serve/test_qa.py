"""`webmill qa`: pages in a browser that only the archive feeds, beside the same pages as they are replayed."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect

from tests.serve.browser import NewTab, serving
from tests.serve.living_web import CASES, records
from tests.serve.server_process import wait_until_true
from tests.serve.warc_fixtures import collection, record, response
from webmill.errors import BadInput
from webmill.formats.png import read_png
from webmill.infra.lock import is_locked
from webmill.serve.qa.compare import picture_likeness, text_likeness
from webmill.serve.qa.results import (
    PageQuality,
    forget_older_results,
    missing_by_host,
    read_results,
    scored,
    write_result,
)

WHEN = "20240506070809"


def png(pixels: np.ndarray, *, kind: int = 0) -> bytes:
    """A picture, every row with the filter `kind`."""
    height, width, channels = pixels.shape
    above, rows = np.zeros(width * channels, np.uint8), []
    for row in pixels.reshape(height, -1):
        left = np.concatenate([np.zeros(channels, np.uint8), row[:-channels]])
        corner = np.concatenate([np.zeros(channels, np.uint8), above[:-channels]])
        guess = {0: np.zeros_like(row), 1: left, 2: above, 3: ((left.astype(int) + above) // 2).astype(np.uint8)}
        rows.append(bytes([kind]) + (row - (guess[kind] if kind < 4 else paeth(left, above, corner))).tobytes())
        above = row
    head = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b""))
    packed = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def paeth(left: np.ndarray, above: np.ndarray, corner: np.ndarray) -> np.ndarray:
    guess = left.astype(int) + above - corner
    near = np.abs(np.stack([guess - left, guess - above, guess - corner]))
    return np.choose(near.argmin(axis=0), [left, above, corner]).astype(np.uint8)


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("kind", range(5))
def test_a_picture_is_read_whatever_its_filter(kind: int, channels: int) -> None:
    pixels = np.random.default_rng(kind).integers(0, 256, (13, 17, channels), dtype=np.uint8)
    assert (read_png(png(pixels, kind=kind)) == pixels[:, :, :3]).all()


@given(st.integers(0, 400), st.binary(max_size=3))
def test_a_damaged_picture_is_read_or_refused(cut: int, tail: bytes) -> None:
    damaged = png(np.zeros((8, 8, 3), np.uint8))[:cut] + tail
    with suppress(BadInput):
        assert read_png(damaged).shape == (8, 8, 3)


def test_likeness_is_of_what_is_seen() -> None:
    white, half = np.full((64, 64, 3), 255, np.uint8), np.full((64, 64, 3), 255, np.uint8)
    half[:32] = 0
    assert picture_likeness(png(white), png(white)) == 1
    assert picture_likeness(png(white), png(half)) == 0.5
    assert picture_likeness(png(white), b"x") is None
    assert text_likeness("a b c", "a b c") == text_likeness("", "") == 1
    assert text_likeness("a b c", "") == 0
    assert 0 < text_likeness("one two three four", "one two three five") < 1


def test_a_picture_is_compared_with_one_four_times_its_size() -> None:
    small = np.random.default_rng(1).integers(0, 2, (32, 40, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1) * 255
    large = small.repeat(4, 0).repeat(4, 1)
    assert picture_likeness(png(large), png(small)) == 1
    assert picture_likeness(png(255 - large), png(small)) == 0


def test_only_the_newest_check_of_a_page_is_kept(tmp_path: Path) -> None:
    for url in ("https://a.example/", "https://b.example/"):
        for when in ("20240102000000", "20240101000000"):
            write_result(tmp_path, PageQuality(url=url, timestamp=when), {"fed": b"x", "replay": b"y"})
    forget_older_results(tmp_path)
    assert {one.timestamp for one in read_results(tmp_path)} == {"20240102000000"}
    assert len(list((tmp_path / ".webmill" / "qa").iterdir())) == 2 * 3


def test_a_leak_or_a_failure_is_no_quality_at_all(tmp_path: Path) -> None:
    good = PageQuality(url="https://a.example/", timestamp=WHEN, text=1, picture=1, resources=4)
    assert scored(good).score == 100
    worse = scored(
        PageQuality(
            url="https://b.example/", timestamp=WHEN, text=1, picture=1, resources=2, missing=("https://c.example/x",)
        )
    )
    assert 0 < worse.score < 100
    leaking = scored(
        PageQuality(url="https://d.example/", timestamp=WHEN, text=1, picture=1, leaks=("http://x.example/",))
    )
    assert leaking.score == 0
    for one in (scored(good), worse, leaking):
        write_result(tmp_path, one, {"fed": b"", "replay": b""})
    assert [one.url for one in read_results(tmp_path)] == [leaking.url, worse.url, good.url]
    assert missing_by_host(read_results(tmp_path)) == [("c.example", 1)]


def run_qa(root: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "webmill", "qa", str(root), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


BROKEN = "<title>Broken</title><h1>Broken</h1><img src=http://cdn.example/none.png><script>fail()</script>"


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = record(
        "resource", "urn:text:http://broken.example/", WHEN, b"quite another text", (("Content-Type", "text/plain"),)
    )
    seen = png(np.zeros((1024, 1280, 3), np.uint8))  # black, where the page is white
    view = record("resource", "urn:view:http://broken.example/", WHEN, seen, (("Content-Type", "image/png"),))
    pages = [*records(), response("http://broken.example/", WHEN, BROKEN.encode()), text, view]
    return collection(tmp_path_factory.mktemp("qa"), pages, "--post-append")


@pytest.mark.server("chromium")
@pytest.mark.xdist_group("browser")
def test_pages_are_checked_once_and_the_worst_is_first(checked: Path) -> None:
    names = ("worker", "frame-elsewhere", "fetch-post", "module-elsewhere")
    flags = [flag for name in names for flag in ("--url", CASES[name].url)]
    done = run_qa(checked, *flags, "--url", "http://broken.example/", "--fail-under", "90", "--json")
    assert done.returncode == 3, done.stderr
    found = {one["url"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert {found[CASES[name].url]["score"] for name in names} == {100}
    broken = found["http://broken.example/"]
    assert broken["missing"] == ["http://cdn.example/none.png"]
    assert (broken["text"], broken["captured_text"], broken["errors"]) == (1.0, 0.0, [])  # fails in both alike
    assert broken["picture"] == 1
    assert broken["captured_picture"] < 0.1
    first = sorted((checked / ".webmill" / "qa").glob("*.json"))
    stamps = [file.stat().st_mtime_ns for file in first]
    assert run_qa(checked, *flags).returncode == 0
    assert [file.stat().st_mtime_ns for file in first] == stamps
    summary = run_qa(checked, "--url", "http://broken.example/").stdout
    assert "1 missing" in summary
    assert "cdn.example" in summary
    assert run_qa(checked, "--url", "http://never.example/").returncode == 1


@pytest.mark.server("chromium")
@pytest.mark.xdist_group("browser")
def test_the_page_lists_what_was_checked(new_tab: NewTab, checked: Path) -> None:
    bad = PageQuality(
        url="http://leak.example/<b>", timestamp=WHEN, leaks=("http://x.example/",), failure="it took too long"
    )
    write_result(checked, scored(bad), {})
    with serving(checked) as origins:
        tab = new_tab(width=360, height=640)
        tab.page.goto(f"{origins.address}/qa")
        expect(tab.page.locator("h1")).to_have_text("Quality of replay")
        expect(tab.page.locator("h3").first).to_have_text("http://leak.example/<b>")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360
        assert tab.page.request.get(f"{origins.address}/api/qa").json()["results"][0]["leaks"] == ["http://x.example/"]
        assert tab.page.request.get(f"{origins.address}/qa/..%2F..%2Fwebmill.toml").status == 404


@pytest.mark.server("chromium")
@pytest.mark.xdist_group("browser")
def test_a_run_has_pages_checked_behind_it(tmp_path: Path) -> None:
    """The run ends; the check goes on, and a later one adds what is new."""
    root = tmp_path / "archive"
    pages = [response(f"http://site.example/{number}", WHEN, b"<title>Page</title>text") for number in range(3)]
    archives = root / "crawl-data" / "SITE" / "segments" / "1" / "warc"
    archives.mkdir(parents=True)
    (archives / "made.warc.gz").write_bytes(b"".join(pages))
    (root / "webmill.toml").write_text("[qa]\nafter_crawl = true\nsample = 2\n")
    command = [sys.executable, "-m", "webmill", "run", str(root), "--stage", "index"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280)
    assert "checked in the background" in done.stderr
    wait_until_true(lambda: len(read_results(root)) == 2, "two results")
    wait_until_true(lambda: not is_locked(root, "qa"), "the end of the check")
    assert {one.score for one in read_results(root)} == {100}
    assert "2/2" in (root / ".webmill" / "qa" / "log").read_text()


class ChangedHandler(BaseHTTPRequestHandler):
    """The page as it is now: whole."""

    def do_GET(self) -> None:
        body = b"<title>Page</title><h1>Whole</h1>" if self.path == "/" else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.server("chromium")
@pytest.mark.xdist_group("browser")
def test_a_bad_page_is_captured_again(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), ChangedHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        root = tmp_path / "archive"
        collection(root, [response(url, WHEN, BROKEN.encode())])
        contact = '[http]\ncontact = "me@example.org"\n[crawl]\nallow_private = true\nbrowser = "never"\n'
        (root / "webmill.toml").write_text(contact)
        done = run_qa(root, "--url", url, "--capture-below", "100")
        server.shutdown()
    assert done.returncode == 0, done.stderr
    (found,) = read_results(root)
    assert (found.score, found.missing) == (100, ())
    assert found.timestamp > WHEN
