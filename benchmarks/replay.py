"""Replay of pages that live by scripts, and of old captures, beside pywb and replayweb.page: what is right, what left.

Three sets, each read by all from the same files with their own index, server and internet gone:

- our own pages (tests/serve/living_web.py): right is a page that says what it says on the web. They have one author
  with the replay: expect less of pages that nobody has seen;
- apps of frameworks, built from npm when the race runs: right is a route that shows its element;
- old captures, the samples of pywb's and replayweb.page's own repositories (`BENCH_SAMPLES` names a folder with them;
  none is kept here): every page in them. The judge is a browser that is fed by the archive at the addresses of the web,
  nothing rewritten. Right is a page with 95 % of its text (pairs of words) and no image less.

Every name but this machine's leads to a trap: a connection there has left the archive. Pages are visited one by one in
a browser that is a child of a child: it is killed when a page takes two minutes, and the rest go on in another. What is
known so far is in the file that stderr names.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from tests.serve import framework_apps
from tests.serve.living_web import CASES, WHEN, records
from tests.serve.sample_collection import run
from tests.serve.warc_fixtures import collection

from benchmarks.replay_rivals import System, pywb, replayweb_page, webmill
from benchmarks.replay_visits import PageToVisit, VisitedPage, Visits
from webmill.errors import WebmillError
from webmill.formats.cdx.query import KeyRange
from webmill.index.lookup.indexes import open_index
from webmill.pipeline.captures import parse_index_lines
from webmill.serve.qa.compare import text_likeness

DEADLINE = 120.0  # seconds until a browser that says nothing of its page is killed
ENOUGH = 0.95  # of the text
MOST_PAGES = 60  # of one old archive
MOST_SHOWN = 70  # characters of a URL
SAMPLES = (".warc.gz", ".warc", ".arc.gz", ".arc", ".wacz")


@dataclass(frozen=True)
class Archive:
    """`pages` have the addresses of the web. `root` is our collection of `files`, which the rivals read themselves."""

    name: str
    files: list[Path]
    root: Path
    pages: list[PageToVisit]


@dataclass
class Score:
    pages: int = 0
    right: int = 0
    left: list[str] = field(default_factory=list)
    words: int = 0
    images: int = 0
    wrong: list[str] = field(default_factory=list)


def main() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webmill-replay-")))
        log = Path(tempfile.gettempdir()) / f"webmill-replay-race-{os.getpid()}.jsonl"
        print(f"what is known so far: {log}", file=sys.stderr)
        wanted = os.environ.get("BENCH_SETS", "living apps old").split()
        if "living" in wanted:
            tell("Pages that live by scripts", race([living(folder / "living")], log))
        if "apps" in wanted:
            if shutil.which("npm"):
                tell("Routes of apps: React, Vue, Svelte, Next, Docusaurus", race([apps(folder / "apps")], log))
            else:
                print("\n## Routes of apps\n\nnpm is not installed: not raced.")
        if "old" in wanted:
            tell_old(old_archives(folder / "old"), log)


# --- the archives


def living(folder: Path) -> Archive:
    root = collection(folder, records(), "--post-append")
    pages = [
        PageToVisit(
            name=name, address=case.url, timestamp=WHEN, selector="#out", ready="body[data-done]", text=case.expected
        )
        for name, case in CASES.items()
    ]
    return Archive("living", list(root.glob("crawl-data/**/*.warc.gz")), root, pages)


def apps(folder: Path) -> Archive:
    built = {app: framework_apps.build(app, folder / app) for app in framework_apps.ROUTES}
    root = collection(folder / "archive", framework_apps.records(built), "--post-append")
    pages = [
        PageToVisit(
            name=f"{app}{path}",
            address=f"http://{app}.example{path}",
            timestamp=WHEN,
            selector=selector,
            text=text,
            is_part=True,
        )
        for app, routes in framework_apps.ROUTES.items()
        for path, (selector, text) in routes.items()
    ]
    return Archive("apps", list(root.glob("crawl-data/**/*.warc.gz")), root, pages)


def old_archives(folder: Path) -> list[Archive]:
    samples = Path(os.environ.get("BENCH_SAMPLES", ""))
    files = (
        sorted(one for one in samples.iterdir() if one.name.endswith(SAMPLES))
        if os.environ.get("BENCH_SAMPLES")
        else []
    )
    found = []
    for number, file in enumerate(files):
        root = folder / str(number)
        try:
            run("init", root)
            run("add", root, file)
            run("index", root, "--post-append")
            pages = list(pages_of(root))
        except (WebmillError, AssertionError, SystemExit) as error:
            print(f"{file.name} is left out: {error}", file=sys.stderr)
            continue
        if pages:
            found.append(Archive(file.name, [file], root, pages[:MOST_PAGES]))
    return found


def pages_of(root: Path) -> Iterable[PageToVisit]:
    """Yield the pages of an archive, the newest capture of each."""
    newest: dict[str, PageToVisit] = {}
    (index,) = root.glob("cc-index/collections/*/indexes")
    for line in parse_index_lines(open_index(index).lines(KeyRange(b"", b"\xff"))):
        url = line.capture.url
        if line.status == "200" and line.mime.startswith(("text/html", "application/xhtml")) and url.startswith("http"):
            newest[line.capture.urlkey] = PageToVisit(name=url, address=url, timestamp=line.capture.timestamp)
    return newest.values()


# --- the race


def race(archives: list[Archive], log: Path) -> dict[str, dict[str, VisitedPage]]:
    """Return what became of each page in each system."""
    found: dict[str, dict[str, VisitedPage]] = {}
    for archive in archives:
        for start in systems(archive):
            with start as system:
                if system is not None:
                    visited = visit(system_pages(system, archive), log, archive.root.parent, label=system.name)
                    found.setdefault(system.name, {}).update(visited)
    return found


def systems(archive: Archive) -> list[AbstractContextManager[System | None]]:
    parts = Path(tempfile.mkdtemp(dir=archive.root.parent))
    return [
        webmill(archive.root),
        pywb(archive.files, parts / "pywb"),
        replayweb_page(archive.files, parts / "replayweb"),
    ]


def system_pages(system: System, archive: Archive) -> list[PageToVisit]:
    return [
        msgspec.structs.replace(page, address=system.address_of(page.address, page.timestamp), frame=system.frame)
        for page in archive.pages
    ]


def visit(
    pages: list[PageToVisit], log: Path, folder: Path, *, label: str, fed_from: str = ""
) -> dict[str, VisitedPage]:
    """Return what became of each page. A browser that takes too long is killed with all its children."""
    found: dict[str, VisitedPage] = {}
    rest = [msgspec.structs.replace(pages[0], name=""), *pages]  # the first is visited twice: once to start all
    while rest:
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".json") as file:
            file.write(msgspec.json.encode(Visits(pages=rest, fed_from=fed_from)))
            file.flush()
            came = visit_in_child(file.name, len(rest), lambda one: note(log, label, one))
        found |= {one.name: one for one in came}
        rest = rest[len(came) :]
        if rest:
            lost = VisitedPage(name=rest[0].name, failure="killed: the browser said nothing of it")
            note(log, label, lost)
            found[lost.name] = lost
            rest = rest[1:]
    found.pop("", None)
    return found


def visit_in_child(file: str, count: int, on_page: Callable[[VisitedPage], None]) -> list[VisitedPage]:
    """Return what a child found until it ended, or was killed."""
    command = [sys.executable, "-m", "benchmarks.replay_visits", file]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout
    found: list[VisitedPage] = []
    buffer = b""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while len(found) < count and selector.select(DEADLINE):
                data = os.read(child.stdout.fileno(), 1 << 16)
                if not data:
                    break
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    found.append(msgspec.json.decode(line, type=VisitedPage))
                    on_page(found[-1])
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    return found


def note(log: Path, label: str, found: VisitedPage) -> None:
    with log.open("ab") as out:
        out.write(msgspec.json.encode([label, found]) + b"\n")


# --- what is told


def tell(title: str, found: dict[str, dict[str, VisitedPage]]) -> None:
    count = max(len(pages) for pages in found.values())
    print(f"\n## {title} ({count})\n\n| | right | connections outside the archive |\n|---|---:|---:|")
    for name, pages in found.items():
        right = sum(one.is_right for one in pages.values())
        print(f"| {name} | {right} | {sum(len(one.left) for one in pages.values())} |")
    for name, pages in found.items():
        wrong = sorted(one.name for one in pages.values() if not one.is_right)
        print(f"\nWrong in {name}: {', '.join(wrong) or 'none'}.")


def tell_old(archives: list[Archive], log: Path) -> None:
    if not archives:
        print("\n## Old captures\n\nBENCH_SAMPLES names no folder with WARC and WACZ files: not raced.")
        return
    scores: dict[str, Score] = {}
    for archive in archives:
        judged = [msgspec.structs.replace(page, frame="^https?://") for page in archive.pages]
        fed = visit(judged, log, archive.root.parent, label="fed", fed_from=str(archive.root))
        for name, pages in race([archive], log).items():
            add_up(scores.setdefault(name, Score()), archive, pages, fed)
    count = sum(len(archive.pages) for archive in archives)
    print(f"\n## Old captures: {count} pages of {len(archives)} archives\n")
    print("| | right | words shown | images shown | connections outside the archive |\n|---|---:|---:|---:|---:|")
    for name, score in scores.items():
        print(f"| {name} | {score.right} | {score.words:,} | {score.images:,} | {len(score.left)} |")
    for name, score in scores.items():
        print(f"\nWrong in {name}: {'; '.join(score.wrong) or 'none'}.")
    print(f"\nOf {', '.join(archive.name for archive in archives)}.")


def add_up(score: Score, archive: Archive, pages: dict[str, VisitedPage], fed: dict[str, VisitedPage]) -> None:
    for page in archive.pages:
        shown, wanted = pages[page.name], fed[page.name]
        score.pages += 1
        score.left += shown.left
        score.words += len(shown.text.split())
        score.images += shown.images
        alike = text_likeness(wanted.text, shown.text)
        if shown.is_right and alike >= ENOUGH and shown.images >= wanted.images:
            score.right += 1
        else:
            why = shown.failure or f"{alike:.0%} of the text, {shown.images} of {wanted.images} images"
            score.wrong.append(f"{page.name[:MOST_SHOWN]} ({archive.name}: {why})")


if __name__ == "__main__":
    main()
