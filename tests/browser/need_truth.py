"""How often `--browser auto` is right: pages shown with and without scripts, beside what is decided by their bytes.

    python -m tests.browser.need_truth get FOLDER                   # documentation and applications, as packages
    python -m tests.browser.need_truth judge FOLDER > pages.jsonl   # in a browser; "0 3": the first of three parts
    python -m tests.browser.need_truth table pages.jsonl            # the table of docs/reference/browser.md

Pages come from packages of Debian (documentation), of npm and PyPI (applications that are delivered built, without the
servers that they talk to), from the applications of the tests, from WARC samples, and some are made: pages of the
documentation whose text is taken out and put in by a script, as many applications do.

A page needs a browser when its scripts bring at least 200 characters of text and a fifth of what it has without, the
text of links not counted (menus are built by scripts of pages that have their text); where it has fewer than 200, links
counted, at least 10 and half of what it has. What is nearly empty either way is said apart: a server might have filled
it.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from playwright.sync_api import Browser, BrowserContext, Error, sync_playwright

from tests.browser.test_beside_plain import API, ROUTES, ApiHost, AppHost, build
from tests.conftest import SHARED_DATA
from tests.serve.browser import ARGUMENTS
from webmill.crawl.browser.need import needs_browser
from webmill.testing import Answer, ExpectedPage, HttpReply, ReceivedRequest, TestWeb

SOURCES = Path(__file__).with_name("need_sources.txt")
DATA = SHARED_DATA
PAGES_EACH = 12  # of a package of documentation; of others 4
MOST_BYTES = 3 << 20
TIME = 20_000.0
TEXT = """() => {
  let text = document.body ? document.body.innerText : "";
  for (const one of document.querySelectorAll("noscript")) text = text.replace(one.innerText || "\\0", "");
  const size = (words) => words.replace(/\\s+/g, " ").trim().length;
  let linked = 0;
  for (const link of document.links) linked += size(link.innerText);
  return [size(text), Math.max(0, size(text) - linked)];
}"""
_TEMPLATE = re.compile(rb"\{\{|\{%|<%")  # not a page yet
_BODY = re.compile(r"(<body[^>]*>)(.*)(</body\s*>)", re.DOTALL | re.IGNORECASE)
SHELLS = {  # of pages that are made: what is there before the script, which has the rest
    "empty": '<div id="root"></div>',
    "named": '<div id="page-content-{digest}"></div>',
    "waiting": '<div class="spinner">Loading…</div><main></main>',
    "framed": "<header><a href=/>Home</a> <a href=/a>About us</a> <a href=/b>Products</a> <a href=/c>Events</a>"
    "</header><main></main><footer>{footer}</footer>",
}
FOOTER = "All rights reserved. Terms of use, privacy, imprint, cookies, contact. " * 4


class TruePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page, what it shows with and without scripts, and what was decided."""

    kind: str
    source: str
    url: str
    file: str
    chosen: bool
    plain: int = 0  # characters of text without scripts
    plain_unlinked: int = 0  # of it, those that are not in links
    shown: int = 0
    shown_unlinked: int = 0
    error: str = ""

    @property
    def truth(self) -> Literal["needs", "static", "empty"]:
        if self.shown_unlinked - self.plain_unlinked >= max(200, self.plain_unlinked / 5):
            return "needs"
        if self.plain < 200 and self.shown - self.plain >= max(10, self.plain / 2):
            return "needs"
        return "empty" if max(self.plain, self.shown) < 10 else "static"

    @property
    def part(self) -> Literal["tune", "test"]:
        """Return whether the rule may have been made with this page in view. No package is in both parts."""
        return "tune" if hashlib.sha256(self.source.encode()).digest()[0] % 2 else "test"


# --- get -------------------------------------------------------------------------------------------------------------


def get(folder: Path) -> None:
    for kind, name in read_sources():
        target = folder / kind / "x" / name.replace("/", "_")
        if target.exists():
            continue
        with tempfile.TemporaryDirectory() as work, suppress(subprocess.SubprocessError, StopIteration, OSError):
            fetch(kind, name, Path(work), target)
        print(kind, name, "there" if target.exists() else "not to be had", flush=True)


def read_sources() -> Iterator[tuple[str, str]]:
    for line in SOURCES.read_text(encoding="utf-8").splitlines():
        kind, _, names = line.partition(" ")
        for name in names.split():
            yield kind, name


def fetch(kind: str, name: str, work: Path, target: Path) -> None:
    commands = {
        "deb": ["apt-get", "download", name],
        "npm": ["npm", "pack", "--silent", name],
        "pip": [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", ".", name],
    }
    subprocess.run(commands[kind], cwd=work, check=True, capture_output=True, timeout=600)
    file = next(work.iterdir())
    target.mkdir(parents=True)
    if kind == "deb":
        subprocess.run(["dpkg", "-x", str(file), str(target)], check=True)
    elif file.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(file) as archive:
            archive.extractall(target)
    else:
        shutil.unpack_archive(file, target, filter="data")


# --- the pages -------------------------------------------------------------------------------------------------------


class FolderHost:
    """The files of a folder. `made` are pages beside them, by path."""

    def __init__(self, folder: Path, made: dict[str, bytes] | None = None) -> None:
        self._folder, self._made = folder.resolve(), made or {}

    def pages(self, version: int) -> list[ExpectedPage]:
        return []

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path in self._made:
            return HttpReply(body=self._made[request.path])
        file = (self._folder / request.path.lstrip("/")).resolve()
        if not file.is_relative_to(self._folder) or not file.is_file() or file.stat().st_size > MOST_BYTES * 8:
            return HttpReply(status=404, body=b"none")
        return HttpReply(body=file.read_bytes(), media_type=mimetypes.guess_type(file.name)[0] or "text/plain")


class Found(msgspec.Struct, frozen=True):
    kind: str
    source: str
    host: str
    path: str
    file: str
    body: bytes


def packaged(folder: Path) -> Iterator[tuple[Found, FolderHost]]:
    """Yield pages of packages. A page of an application is served at the root of its host, as it is meant to be."""
    for kind in ("deb", "npm", "pip"):
        for package in sorted((folder / kind / "x").glob("*")):
            files = sorted(one for one in package.rglob("*.htm*") if one.is_file() and is_page(one))
            for number, file in enumerate(chosen_of(files, PAGES_EACH if kind == "deb" else 4)):
                root = package if kind == "deb" else file.parent
                host = f"h{number}-{hashlib.sha256(str(package).encode()).hexdigest()[:10]}.example"
                path = "/" + file.relative_to(root).as_posix()
                found = Found(kind, f"{kind} {package.name}", host, path, str(file), file.read_bytes())
                yield found, FolderHost(root)


def is_page(file: Path) -> bool:
    if file.suffix not in (".html", ".htm") or not 0 < file.stat().st_size < MOST_BYTES or file.is_symlink():
        return False
    body = file.read_bytes()
    return b"<script" in body and not _TEMPLATE.search(body[:4000]) and b"<head" in body[:20_000].lower()


def chosen_of(files: list[Path], count: int) -> list[Path]:
    """Return some of the files: those at an entry or of a search, which live by scripts most, and others evenly."""
    first = [one for one in files if one.name in ("index.html", "search.html", "genindex.html")][: count // 2]
    others = [one for one in files if one not in first]
    wanted = count - len(first)
    return first + others[:: max(1, len(others) // wanted)][:wanted] if wanted else first


def made_pages(pages: Iterable[Found]) -> Iterator[tuple[Found, FolderHost]]:
    """Yield pages of the documentation that a script fills."""
    for number, page in enumerate(page for page in pages if page.kind == "deb"):
        split = _BODY.search(page.body.decode("utf-8", "replace"))
        if number % 4 or not split or len(split[2]) < 3000:
            continue
        name = list(SHELLS)[number // 4 % len(SHELLS)]
        digest = hashlib.sha256(page.body).hexdigest()[:6]
        shell = SHELLS[name].format(digest=digest, footer=FOOTER)
        place = "document.querySelector('main,div')"
        script = f"fetch('/content.json').then((r) => r.json()).then((t) => {{ {place}.innerHTML = t; }});"
        head = "<!doctype html><html><head><title>Made</title></head>"
        whole = f"{head}{split[1]}{shell}<script>{script}</script></body></html>"
        host = f"m{number}.example"
        source = f"made of {page.source}"
        files = {"/": whole.encode(), "/content.json": json.dumps(split[2]).encode()}
        yield (
            Found("made", source, host, "/", f"{name} {page.file}", files["/"]),
            FolderHost(Path("/nonexistent"), files),
        )


def of_samples() -> Iterator[tuple[Found, FolderHost]]:
    """Yield pages of the WARC samples, each with what its archive has of its host."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    number = 0
    for path in sorted(DATA.glob("warc/*/*.warc.gz")) + sorted(DATA.glob("triple/*.warc.gz")):
        with path.open("rb") as file, suppress(Exception):
            for record in ArchiveIterator(file, record_types=WarcRecordType.response):
                body, kind = record.reader.read(), record.http_content_type or ""
                if record.http_headers is None or record.http_headers.status_code != 200 or "html" not in kind:
                    continue
                number += 1
                if b"<script" not in body or (path.parent.name == "triple" and number % 10):
                    continue
                url = record.headers.get("WARC-Target-URI")
                host = f"w{number}.example"
                yield (
                    Found("warc", f"warc {url.split('/')[2]}", host, "/page", url, body),
                    FolderHost(Path("/nonexistent"), {"/page": body}),
                )


def of_apps(folder: Path) -> Iterator[tuple[Found, Any]]:
    for app, paths in ROUTES.items():
        built = build(app, folder / "apps")
        server = AppHost(built)
        for path in paths:
            body = (built / page_file(built, path)).read_bytes()
            yield Found("app", f"app {app}", f"{app}.example", path, path, body), server


def page_file(folder: Path, path: str) -> str:
    names = (f"{path}.html".lstrip("/"), f"{path}/index.html".lstrip("/"))
    return next((name for name in names if (folder / name).is_file()), "index.html")


# --- judge -----------------------------------------------------------------------------------------------------------


def judge(folder: Path, *, part: int = 0, parts: int = 1) -> Iterator[TruePage]:
    """Yield what there is to say of the pages; with `parts`, of each so many one."""
    packages = list(packaged(folder))
    found = [*of_apps(folder), *packages, *made_pages([page for page, _ in packages]), *of_samples()][part::parts]
    hosts = {page.host: host for page, host in found} | {API: ApiHost()}
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with TestWeb(hosts=1, sites=hosts) as web, sync_playwright() as playwright:
        places = {host: web.resolve[host] for host in hosts}
        rules = ",".join(f"MAP {host} {address}:{port}" for host, (address, port) in places.items())
        browser = playwright.chromium.launch(
            executable_path=program,
            args=[*ARGUMENTS[1:], f"--host-resolver-rules={rules},MAP * ~NOTFOUND"],
            chromium_sandbox=False,
        )
        for page, _ in found:
            yield look(browser, page)


def look(browser: Browser, page: Found) -> TruePage:
    url = f"http://{page.host}{page.path}"
    made = TruePage(kind=page.kind, source=page.source, url=url, file=page.file, chosen=needs_browser(page.body))
    try:
        plain, shown = (
            measure(browser.new_context(java_script_enabled=is_on, viewport={"width": 1280, "height": 1024}), url)
            for is_on in (False, True)
        )
    except Error as error:
        return msgspec.structs.replace(made, error=str(error)[:200])
    return msgspec.structs.replace(
        made, plain=plain[0], plain_unlinked=plain[1], shown=shown[0], shown_unlinked=shown[1]
    )


def measure(context: BrowserContext, url: str) -> tuple[int, int]:
    """Return how much text a page shows, and how much of it outside of links."""
    context.set_default_timeout(TIME)
    try:
        page = context.new_page()
        page.on("dialog", lambda dialog: dialog.dismiss())
        page.goto(url, wait_until="load")
        with suppress(Error):
            page.wait_for_load_state("networkidle", timeout=3000)
        page.wait_for_timeout(200)
        text, unlinked = page.evaluate(TEXT)
        return int(text), int(unlinked)
    finally:
        context.close()


# --- the table -------------------------------------------------------------------------------------------------------


def table(pages: list[TruePage]) -> str:
    head = ("pages", "part", "number", "need a browser", "chosen", "static", "chosen", "empty either way", "chosen")
    rows = [f"| {' | '.join(head)} |", "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    groups: dict[tuple[str, str], list[TruePage]] = defaultdict(list)
    for page in pages:
        if not page.error:
            groups[page.kind, page.part].append(page)
            groups["all but made", page.part] += [page] if page.kind != "made" else []
    for (kind, part), found in sorted(groups.items()):
        rows.append(f"| {kind} | {part} | {len(found)} | {' | '.join(counts(found))} |")
    for part in ("tune", "test"):
        for kind, of in (("all but made", [p for p in pages if p.kind != "made"]), ("all", pages)):
            rows.append(f"\n{kind}, {part}: {rates([page for page in of if page.part == part and not page.error])}")
    return "\n".join(rows)


def counts(pages: list[TruePage]) -> list[str]:
    cells = []
    for truth in ("needs", "static", "empty"):
        of = [page for page in pages if page.truth == truth]
        cells += [str(len(of)), str(sum(page.chosen for page in of))]
    return cells


def rates(pages: list[TruePage]) -> str:
    right = sum(page.chosen for page in pages if page.truth == "needs")
    chosen = sum(page.chosen for page in pages if page.truth != "empty")
    needed = sum(page.truth == "needs" for page in pages)
    return f"precision {right / max(1, chosen):.2f}, recall {right / max(1, needed):.2f} of {needed}"


def main(arguments: list[str]) -> None:
    match arguments:
        case ["get", folder]:
            get(Path(folder))
        case ["judge", folder, *share]:
            part, parts = map(int, share or (0, 1))
            for page in judge(Path(folder), part=part, parts=parts):
                print(msgspec.json.encode(page).decode(), flush=True)
        case ["table", file]:
            print(table([msgspec.json.decode(line, type=TruePage) for line in Path(file).read_text().splitlines()]))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
