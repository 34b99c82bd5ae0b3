"""Framework apps built from npm (tests/serve/apps), and what each of their routes shows: for tests and the race.

built = {app: build(app, folder / app) for app in ROUTES}
collection(root, records(built), "--post-append")
"""

from __future__ import annotations

import mimetypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.serve.living_web import OPEN, WHEN, request_of
from tests.serve.warc_fixtures import response

APPS = Path(__file__).parent / "apps"
API = "http://api.example"
ITEMS = b'[{"id": 1, "name": "First"}, {"id": 2, "name": "Second"}]'
# By app and path: the element that a route shows, and its text.
ROUTES = {
    "react": {
        "/": ("h1", "Home of React"), "/items": ("li:nth-child(2)", "Second"),
        "/item/1": ("#item", "First at react.example"),
        "/about": ("#about", "About"), "/stored": ("#stored", "stored"),
    },
    "vue": {
        "/": ("h1", "Home of Vue"), "/items": ("li:nth-child(2)", "Second"),
        "/item/1": ("#item", "First at vue.example"),
        "/worker": ("#worker", "42 First"), "/form": ("#form", "posted"),
    },
    "svelte": {
        "/": ("h1", "Home of Svelte"), "/items": ("li:nth-child(2)", "Second"),
        "/item/1": ("#item", "First at svelte.example"),
        "/stored": ("#stored", "stored"),
    },
    "next": {
        "/": ("h1", "Home of Next"), "/items": ("li:nth-child(2)", "Second"),
        "/item/1": ("#item", "First at next.example"),
        "/about": ("#about", "About, made by the server"), "/stored": ("#stored", "stored"),
    },
    "docusaurus": {
        "/": ("h1", "Home of Docusaurus"), "/items": ("#list li:nth-child(2)", "Second"),
        "/item/1": ("#item", "First at docusaurus.example"),
        "/docs/first": ("h1", "The first"), "/docs/second": ("h1", "The second"),
    },
}  # fmt: skip


def build(app: str, folder: Path) -> Path:
    """Return the folder of the built app. It fetches its framework from npm."""
    shutil.copytree(APPS / app, folder)
    quiet = {**os.environ, "NEXT_TELEMETRY_DISABLED": "1", "DO_NOT_TRACK": "1"}
    for command in (["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], ["npm", "run", "build"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=900, env=quiet)
    return folder / "dist"


def records(built: dict[str, Path]) -> Iterator[bytes]:
    """The records of an archive of these apps."""
    json = (("Content-Type", "application/json"), *OPEN)
    yield response(f"{API}/items.json?_=1700000000000", WHEN, ITEMS, head=json)
    yield response(f"{API}/ask", WHEN, b'{"answer": "posted"}', head=json)
    yield request_of(f"{API}/ask", WHEN, "application/json", b'{"q":"deep"}')
    for app, folder in built.items():
        host = f"http://{app}.example"
        yield response(f"{host}/api/item/1", WHEN, b'{"id": 1, "name": "First"}', head=json)
        for path in ROUTES[app]:
            yield response(host + path, WHEN, page_of(folder, path).read_bytes())
        for file in (one for one in folder.rglob("*") if one.is_file() and one.suffix != ".html"):
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            yield response(
                f"{host}/{file.relative_to(folder)}", WHEN, file.read_bytes(), head=(("Content-Type", kind),)
            )


def page_of(folder: Path, path: str) -> Path:
    """Return the page that a server sends for a path: of a site with a page for each, or of an app with one for all."""
    name = path.strip("/")
    made = (folder / f"{name}.html", folder / name / "index.html")
    return next((file for file in made if name and file.is_file()), folder / "index.html")
