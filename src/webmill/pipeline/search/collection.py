"""Search a collection, and keep its index up to the live version: where both are, who may write, what is behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from webmill.errors import NotFound, WebmillError
from webmill.formats.url.surt import surt
from webmill.index.lookup.newest import open_collection_index
from webmill.infra.address import scheme_of
from webmill.infra.lock import exclusive
from webmill.infra.storage.backends import open_storage
from webmill.infra.storage.base import Storage
from webmill.pipeline.progress import ProgressReporter
from webmill.pipeline.search import feed
from webmill.pipeline.search.documents import to_indexed, with_captures
from webmill.pipeline.search.engines import drop_unpublished, open_engine
from webmill.pipeline.search.feed import FeedReport
from webmill.pipeline.search.past import build_past_index, open_past_engine, version_as_of
from webmill.publish import history
from webmill.publish.manifest import read_version_index
from webmill.publish.shards import find_item
from webmill.search import asked
from webmill.search.backends import replacing_search, search_address
from webmill.search.base import IndexedDocument, SearchAnswer, SearchEngine, SearchRequest
from webmill.settings import SearchSettings


class SearchUpdate(msgspec.Struct, frozen=True):
    """The result of an update, and how many documents the index has now."""

    fed: FeedReport
    documents: int


class SearchResult(msgspec.Struct, frozen=True):
    """The result of a search. `behind` says what the index lacks, `problem` why captures cannot be looked up."""

    answer: SearchAnswer
    behind: str = ""
    problem: str = ""


def update_index(
    root: Path,
    settings: SearchSettings,
    *,
    progress: ProgressReporter,
    storage: str | None = None,
    work: Callable[..., FeedReport] = feed.update,
) -> SearchUpdate:
    """Bring the index up to the live version; `work` may be `feed.reconcile`, which compares all of it."""
    versions, place = open_published(root, storage), search_address(settings.url, root)
    with ExitStack() as stack:
        if not index_folder(place):  # a folder knows itself who writes to it
            stack.enter_context(exclusive(root, "search-rebuild", doing="writing to a search server"))
        engine = stack.enter_context(closing(open_engine(root, settings)))
        fed = work(versions, engine, progress=progress, wants=wanted_items(settings))
        if fed.compared:
            drop_unpublished(engine, versions)
        return SearchUpdate(fed, engine.count())


def build_index_as_of(
    root: Path, settings: SearchSettings, period: str, *, progress: ProgressReporter, storage: str | None = None
) -> SearchUpdate:
    """Build the index of the version that was live at the end of a period."""
    versions = open_published(root, storage)
    return SearchUpdate(
        *build_past_index(root, versions, settings, period, progress=progress, wants=wanted_items(settings))
    )


def rebuild_index(
    root: Path, settings: SearchSettings, *, progress: ProgressReporter, storage: str | None = None
) -> SearchUpdate:
    """Make the index anew, beside the old one, whose place it takes when it is whole."""
    versions, place = open_published(root, storage), search_address(settings.url, root)
    folder = index_folder(place)
    with (
        exclusive(folder.parent if folder else root, "search-rebuild", doing="making a search index"),
        replacing_search(place) as fresh,
        closing(open_engine(root, settings, place=fresh)) as engine,
    ):
        fed = feed.update(versions, engine, progress=progress, wants=wanted_items(settings))
        drop_unpublished(engine, versions)
        return SearchUpdate(fed, engine.count())


def update_existing_index(
    root: Path, settings: SearchSettings, *, progress: ProgressReporter, storage: str | None = None
) -> FeedReport | None:
    """Update an existing index after a publication. Return None if there is no index."""
    place = search_address(settings.url, root)
    folder = index_folder(place)
    if folder and not folder.is_dir():
        return None
    with closing(open_engine(root, settings, create=False)) as engine:
        versions = open_published(root, storage)
        return feed.update(versions, engine, progress=progress, wants=wanted_items(settings))


def wanted_items(settings: SearchSettings) -> feed.WantItem:
    """Return which items are searched: all, or those whose sites do not mind."""
    return feed.any_item if settings.noindex == "keep" else feed.is_searchable


def search_collection(
    root: Path,
    request: SearchRequest,
    settings: SearchSettings,
    *,
    like: str = "",
    as_of: str = "",
    collapse: bool = False,
) -> SearchResult:
    """Search what is published in `root`, or what was published as of a period. `like`: the id or URL of a document,
    to find others like it; `collapse`: of near-duplicates show the first."""
    document = find_document(root, like, as_of=as_of) if like else None
    with open_as_of(root, settings, as_of) as engine:
        answer = asked.answer(engine.search, request, like=document, collapse=collapse)
        lacking = "" if as_of else behind(root, engine.cursor())
    problem = ""
    try:
        if not all(hit.capture for hit in answer.hits):
            answer = with_captures(answer, open_collection_index(root.resolve()))
    except NotFound:  # what is published need not be archived here
        pass
    except WebmillError as error:
        problem = str(error)
    return SearchResult(answer, lacking, problem)


def find_document(root: Path, name: str, *, as_of: str = "") -> IndexedDocument:
    """Return a published document by its id, or by the URL of its page."""
    versions = open_storage(str(root))
    version = version_as_of(versions, as_of) if as_of else history.live_version(versions)
    index = read_version_index(versions, version)
    for id_ in (name, *([surt(name)] if "://" in name else [])):
        if item := find_item(versions, index, id_):
            return to_indexed(versions, item, version=version.version)
    raise NotFound(f"no document {name[:200]} is published in version {version.version}")


@contextmanager
def open_as_of(root: Path, settings: SearchSettings, as_of: str) -> Iterator[SearchEngine]:
    """Open the index; with `as_of`, that of the version that was live then."""
    versions = open_storage(str(root))
    version = version_as_of(versions, as_of) if as_of else None
    if version and version.version != history.live_version(versions).version:
        with closing(open_past_engine(root, settings, version)) as engine:
            yield engine
    else:
        with open_for_reading(root, settings) as engine:
            yield engine


@contextmanager
def open_for_reading(root: Path, settings: SearchSettings) -> Iterator[SearchEngine]:
    shown, root = root, root.resolve()
    try:
        engine = open_engine(root, settings, create=False)
    except NotFound as error:
        option = " --index …" if settings.url else ""
        raise NotFound(f"{error} yet: `webmill search update {shown}{option}`") from None
    with closing(engine):
        yield engine


def open_published(root: Path, storage: str | None) -> Storage:
    """Open the versions; `NotFound` before the first: then there is nothing to index, and nothing is made."""
    versions = open_storage(storage or str(root))
    if not history.list_versions(versions):
        raise NotFound(f"nothing has been published in {root}: `webmill publish documents` or `webmill publish run`")
    return versions


def behind(root: Path, cursor: str | None) -> str:
    """Return what the index lacks of the version that is live in `root`, if there is one."""
    if cursor is None or ">" in cursor:
        return "not whole"
    try:
        live = history.live_version(open_storage(str(root))).version
    except WebmillError:  # versions are elsewhere, or cannot be read: the index can
        return ""
    return f"of version {cursor}, and {live} is live" if live != cursor else ""


def index_folder(index: str) -> Path | None:
    """Return the folder of an index; None: it is on a server."""
    scheme, path = scheme_of(index)
    return Path(path) if scheme == "file" else None
