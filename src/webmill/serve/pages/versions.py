"""/versions: the published versions; /versions/NAME: one version, how it was made and what it holds."""

from __future__ import annotations

from itertools import pairwise
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.errors import BadInput, NotFound
from webmill.publish.manifest import ITEM_FOLDERS
from webmill.publish.types import ManifestEntry, Version
from webmill.publish.version import VersionStats
from webmill.serve.api import links
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.parameters import read_number
from webmill.serve.api.published import PublishedVersions
from webmill.serve.pages.paging import make_pager, page_count
from webmill.serve.pages.render import render

PAGE = 25
SHOWN = 100  # sources, errors and files listed; the files of the version have all


class VersionRow(msgspec.Struct, frozen=True):
    """A version; `counts` is None if they cannot be read."""

    version: Version
    counts: VersionStats | None
    diff: str  # URL of the diff with the version before


def routes(reader: ContentReader) -> list[BaseRoute]:
    return [
        Route("/versions", reader.endpoint(versions)),
        Route("/versions/{name}", reader.endpoint(version)),
    ]


def versions(reader: ContentReader, request: Request) -> Response:
    every = reader.published.versions()[::-1]
    if not every:
        return render(reader.site, request, "versions_none.html")
    last = page_count(len(every), PAGE)
    page = min(last, read_number(request, "page", default=1, low=1, high=10**9))
    before = {one.version: other.version for one, other in pairwise(every)}
    shown = every[(page - 1) * PAGE : page * PAGE]
    return render(
        reader.site,
        request,
        "versions.html",
        rows=[_row(reader.published, each, before.get(each.version, "")) for each in shown],
        total=len(every),
        every=every[:200],
        old=before.get(every[0].version, every[0].version),
        new=every[0].version,
        pager=make_pager(page, last, lambda number: links.with_query("/versions", [("page", str(number))])),
    )


def _row(published: PublishedVersions, version: Version, before: str) -> VersionRow:
    try:
        counts = published.counts(version)
    except (BadInput, NotFound):
        counts = None
    return VersionRow(version, counts, diff_address(before, version.version) if before else "")


def diff_address(old: str, new: str) -> str:
    return links.with_query("/versions/diff", [("from", old), ("to", new)])


def version(reader: ContentReader, request: Request) -> Response:
    published = reader.published
    found = published.find(request.path_params["name"])
    sources = sorted(published.sources(found), key=lambda source: (source.status == "fresh", source.source))
    problems = published.problems(found)
    manifest = published.manifest(found)
    is_there = manifest.parent and any(each.version == manifest.parent for each in published.versions())
    return render(
        reader.site,
        request,
        "version.html",
        version=found,
        counts=published.counts(found),
        parent=manifest.parent,
        diff=diff_address(manifest.parent, found.version) if manifest.parent and is_there else "",
        sources=sources[:SHOWN],
        source_count=len(sources),
        problems=problems[:SHOWN],
        problem_count=len(problems),
        files=[(entry, file_address(found, entry)) for entry in _first_files(manifest.files)],
        file_count=len(manifest.files),
        manifest=f"/snapshots/{found.version}/_manifest.json",
    )


def _first_files(files: tuple[ManifestEntry, ...]) -> list[ManifestEntry]:
    """Return the first files; those of facets are many and come last."""
    folders = tuple(ITEM_FOLDERS.values())
    ordered = sorted(files, key=lambda entry: (entry.key.startswith(folders) and entry.key.count("/") > 1, entry.key))
    return ordered[:SHOWN]


def file_address(version: Version, entry: ManifestEntry) -> str:
    return f"/snapshots/{version.version}/{quote(entry.key)}"
