"""The replay systems of the race, each over the same archive files, read in its own way.

    with pywb(files, folder) as address_of: page = address_of(url, timestamp)

replayweb.page is fetched from npm when the race runs (AGPL: it judges, and no line of it is ours).
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from tests.serve.browser import serving
from tests.unit.index.test_pywb_reads_our_zipnum import get, wayback

from benchmarks.zipnum import JUDGES

REPLAYWEB = "replaywebpage@2.5.3"
COLLECTION = "race"
PAGE = """<!doctype html><meta charset=utf-8><style>html, body, replay-web-page {{ height: 100%; margin: 0 }}</style>
<script src="/ui.js"></script>
<replay-web-page source="/{source}" url="{url}" ts="{timestamp}" embed="replayonly" replayBase="/replay/">
</replay-web-page>"""


@dataclass(frozen=True)
class System:
    """`frame`: a pattern of the address of the frame that shows an archived page."""

    name: str
    address_of: Callable[[str, str], str]
    frame: str


@contextmanager
def webmill(root: Path) -> Iterator[System]:
    """`webmill serve` over a collection, its zone at *.localhost."""
    with serving(root, in_zone=True) as origins:
        yield System(
            "webmill",
            lambda url, timestamp: f"{origins.address}/web/{timestamp}/{url}",
            r"^http://\d{14}-[^/]*\.replay\.localhost:",
        )


@contextmanager
def pywb(files: list[Path], folder: Path) -> Iterator[System]:
    """pywb with an index of its own."""
    folder.mkdir()
    manager = str(JUDGES / "wb-manager")
    subprocess.run([manager, "init", COLLECTION], cwd=folder, check=True, capture_output=True, timeout=120)
    for file in files:
        unpacking = ["--unpack-wacz"] if file.suffix == ".wacz" else []
        command = [manager, "add", *unpacking, COLLECTION, str(file)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    with wayback(JUDGES, folder) as url:
        get(f"{url}/")
        yield System("pywb", lambda page, when: f"{url}/{COLLECTION}/{when}/{page}", rf"/{COLLECTION}/\d+mp_/")


@contextmanager
def replayweb_page(files: list[Path], folder: Path) -> Iterator[System | None]:
    """replayweb.page as a site embeds it. None: npm does not give it. Of several files the first holds all pages."""
    folder.mkdir()
    command = ["npm", "pack", REPLAYWEB, "--silent"]
    try:
        packed = subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120).stdout.decode()
        with tarfile.open(folder / packed.split()[-1]) as archive:
            archive.extractall(folder, filter="data")
    except (subprocess.SubprocessError, OSError):
        yield None
        return
    program = folder / "package"
    (program / "replay").mkdir()
    (program / "replay" / "sw.js").write_text('importScripts("/sw.js");')
    (source,) = files
    name = f"archive{''.join(source.suffixes[-2:])}"
    (program / name).symlink_to(source)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(program, name))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        here = f"http://localhost:{server.server_address[1]}"
        yield System(
            "replayweb.page",
            lambda url, when: f"{here}/embedded?{quote(json.dumps([url, when]))}",
            r"/replay/w/[^/]+/(?::[0-9a-f]+/)?\d*mp_/",
        )
    finally:
        server.shutdown()
        server.server_close()


def _handler(root: Path, source: str) -> type[SimpleHTTPRequestHandler]:
    class RangeHandler(SimpleHTTPRequestHandler):
        """Files with byte ranges, which WACZ files need, and the page that embeds the player."""

        protocol_version = "HTTP/1.1"

        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(root))  # type: ignore[arg-type]

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if asked.path == "/embedded":
                url, when = json.loads(unquote(asked.query))
                self._send(PAGE.format(source=source, url=html.escape(url), timestamp=when).encode(), "text/html")
            elif self.headers.get("Range") and asked.path == f"/{source}":
                self._send_range(root / source)
            else:
                super().do_GET()

        def _send_range(self, file: Path) -> None:
            size = file.stat().st_size
            found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers["Range"])
            first, last = (found[1], found[2]) if found else ("0", "")
            start = int(first) if first else max(0, size - int(last))
            end = min(size - 1, int(last)) if first and last else size - 1
            with file.open("rb") as opened:
                opened.seek(start)
                data = opened.read(end - start + 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
            self._finish(data, "application/octet-stream")

        def _send(self, data: bytes, kind: str) -> None:
            self.send_response(200)
            self._finish(data, kind)

        def _finish(self, data: bytes, kind: str) -> None:
            self.send_header("Content-Type", kind)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return RangeHandler
