"""The stages as functions, for programs: what `webmill crawl`, `index`, `extract`, `curate`, `publish`, `search` and
`run` do.

    webmill.crawl("news/", ["https://example.org/"], contact="me@example.org", max_pages=100)
    webmill.run("news/", stages=["index", "extract", "publish", "search"])
    webmill.search("news/", "annual report").hits

Settings come from where the command has them: keyword arguments, then WEBMILL_* variables, then webmill.toml of the
collection. A keyword is the name of a setting (`max_pages=100`, `delay="5s"`). A struct is the whole truth of its
section: `settings=CrawlSettings(max_pages=100)`. Errors are those of `webmill.errors`; nothing is printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from webmill.collection import Collection, default_crawl_name
from webmill.crawl import stored_settings
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.run import CrawlWatcher
from webmill.crawl.scheduler.coordinator import Coordinator
from webmill.crawl.seeds import Seeds
from webmill.curate.recipe import recipe_of_steps
from webmill.curate.steps import CurateStep
from webmill.errors import NotFound, WrongUse
from webmill.pipeline.crawl_archive import CrawlReport, crawl_archive
from webmill.pipeline.curate.run import CurateResult, curate_collection
from webmill.pipeline.extract.collection import extract_collection
from webmill.pipeline.extract.totals import ExtractReport
from webmill.pipeline.index import IndexReport, index_crawl
from webmill.pipeline.progress import ProgressCallback, StepProgress, progress_to
from webmill.pipeline.publish.run import PublishReport, publish_collection
from webmill.pipeline.run import RunCallbacks, RunReport, StageFinished, StageSkipped, lock_for_run, run_stages
from webmill.pipeline.save import MAX_WAIT, SaveReport, save_page
from webmill.pipeline.search.collection import SearchUpdate, search_collection, update_index
from webmill.pipeline.trust import is_trusted, refuse_outside_links
from webmill.search.base import SearchAnswer, SearchFilters, SearchRequest
from webmill.search.query import parse
from webmill.settings import (
    SECTIONS,
    STAGES,
    CrawlSettings,
    CurateSettings,
    ExtractSettings,
    IndexSettings,
    PublishSettings,
    SearchSettings,
    Settings,
    Sources,
    all_settings,
    read_sources,
    select_settings,
)

Place = str | os.PathLike[str]


def crawl(
    place: Place,
    urls: Iterable[str] = (),
    *,
    seeds: Iterable[Place] = (),
    settings: CrawlSettings | Settings | None = None,
    progress: ProgressCallback | None = None,
    started: Callable[[Coordinator], None] = lambda _: None,
    **keywords: Any,
) -> CrawlReport:
    """Crawl from `urls` and files of `seeds` into the collection at `place`, or go on with its crawl.

    `started` gets the coordinator of the crawl: its `stop()`, called from another thread, ends the crawl in good order.
    """
    sources = settings_sources(place, ("crawl", "http.contact"), settings, keywords)
    watcher = CrawlWatcher(show=_page_progress(progress, sources.settings()), started=started, verbosity=-1)
    return crawl_archive(_root(place), Seeds(urls, files=map(Path, seeds)), sources=sources, watcher=watcher)


def save(
    place: Place,
    url: str,
    *,
    max_wait: float = MAX_WAIT,
    notice: Callable[[str], None] = lambda _: None,
    settings: CrawlSettings | Settings | None = None,
    **keywords: Any,
) -> SaveReport:
    """Save one page now into the collection at `place`, politely, and index it; also while a crawl is running there.

    `page_resources=True` saves what the page needs to be displayed, too. `max_wait`: seconds to wait for a host that
    must not be asked yet. `notice` gets sentences about the progress.
    """
    sources = settings_sources(place, ("crawl", "http.contact"), settings, keywords)
    return save_page(_root(place), url, sources=sources, max_wait=max_wait, notice=notice)


def index(
    place: Place,
    *,
    name: str | None = None,
    from_scratch: bool = False,
    settings: IndexSettings | Settings | None = None,
    progress: ProgressCallback | None = None,
    **keywords: Any,
) -> IndexReport:
    """Index the archives of the collection at `place`: CDXJ, ZipNum, Parquet, lists of paths, as far as they changed.

    `name` chooses a crawl where there are several.
    """
    root = _existing_root(place)
    chosen = settings_sources(place, ("index", "executor.jobs"), settings, keywords).settings()
    collection = Collection(root, name or default_crawl_name(root))
    return index_crawl(collection, chosen, progress=progress_to(progress), from_scratch=from_scratch)


def extract(
    place: Place,
    *,
    settings: ExtractSettings | Settings | None = None,
    progress: ProgressCallback | None = None,
    **keywords: Any,
) -> ExtractReport:
    """Make documents of the new archives of the collection at `place`."""
    chosen = settings_sources(place, ("extract", "executor.jobs"), settings, keywords).settings()
    return extract_collection(_existing_root(place), chosen, progress=progress_to(progress))


def curate(
    place: Place,
    recipe: str | Iterable[CurateStep | Mapping[str, Any]] | None = None,
    *,
    origin: str | None = None,
    settings: CurateSettings | Settings | None = None,
    progress: ProgressCallback | None = None,
    **keywords: Any,
) -> CurateResult:
    """Decide which documents of the collection at `place` are kept, by a recipe: a name, a file, or a list of steps.

    A step is a table as in TOML, `{"use": "length", "min_chars": 200}`, or a struct of `webmill.curate.registry`.
    `origin` is where the documents are, when not in the collection. `webmill.corpus` yields what was kept.
    """
    if isinstance(recipe, str):
        keywords["recipe"] = recipe
    steps = recipe_of_steps(recipe) if recipe is not None and not isinstance(recipe, str) else None
    chosen = settings_sources(place, ("curate", "executor"), settings, keywords).settings()
    root = _root(place) if origin else _existing_root(place)
    return curate_collection(root, chosen, progress=progress_to(progress), origin=origin, recipe=steps)


def publish(
    place: Place,
    *,
    origin: str | None = None,
    storage: str | None = None,
    force: bool = False,
    settings: PublishSettings | Settings | None = None,
    progress: ProgressCallback | None = None,
    **keywords: Any,
) -> PublishReport:
    """Publish the documents of the collection at `place` as a version.

    `origin` is where the documents are and `storage` where versions go, when not in the collection. `force` publishes
    also when nothing changed, or when too many documents are missing.
    """
    chosen = settings_sources(place, ("publish",), settings, keywords).settings()
    return publish_collection(
        _root(place), chosen, progress=progress_to(progress), origin=origin, storage=storage, force=force
    )


def update_search(
    place: Place,
    *,
    storage: str | None = None,
    settings: SearchSettings | Settings | None = None,
    progress: ProgressCallback | None = None,
    **keywords: Any,
) -> SearchUpdate:
    """Update the search index of the collection at `place` to its live version; create it when there is none."""
    chosen = settings_sources(place, ("search",), settings, keywords).settings()
    return update_index(_root(place), chosen.search, progress=progress_to(progress), storage=storage)


def search(
    place: Place,
    words: str = "",
    *,
    filters: SearchFilters | None = None,
    mode: str = "words",
    sort: str = "relevance",
    limit: int = 10,
    offset: int = 0,
    facets: Iterable[str] = (),
    like: str = "",
    as_of: str = "",
    collapse: bool = False,
    settings: SearchSettings | Settings | None = None,
    **keywords: Any,
) -> SearchAnswer:
    """Search the published documents at `place`; without words, return all. `facets` are counted, too.

    `mode` is words, meaning or both; the last two need the setting `model`. `like` is the id or URL of a document, to
    find others like it; `as_of` a date, to search the version that was live then; `collapse` shows of near-duplicates
    the first.
    """
    chosen = settings_sources(place, ("search",), settings, keywords).settings()
    request = msgspec.convert(
        {"query": parse(words), "filters": filters or SearchFilters(), "sort": sort, "limit": limit, "offset": offset}
        | {"facets": list(facets), "mode": mode},
        SearchRequest,
        from_attributes=True,
    )
    root = _existing_root(place)
    return search_collection(root, request, chosen.search, like=like, as_of=as_of, collapse=collapse).answer


def run(
    place: Place,
    *,
    stages: Iterable[str] = (),
    settings: Settings | None = None,
    progress: ProgressCallback | None = None,
) -> RunReport:
    """Run every stage of the collection at `place` that is due; only `stages`, if any are named."""
    root, wanted = _existing_root(place), tuple(stages)
    if unknown := [name for name in wanted if name not in STAGES]:
        raise WrongUse(f"no stage {unknown[0]!r}: there are {', '.join(STAGES)}")
    sources = settings_sources(place, (), settings, {})
    chosen = tuple(stage for stage in STAGES if stage in wanted) or sources.settings().run.in_order()

    @contextmanager
    def watched(settings: Settings) -> Iterator[CrawlWatcher]:
        yield CrawlWatcher(show=_page_progress(progress, settings), verbosity=-1)

    watching = RunCallbacks(crawl=watched, progress=progress_to(progress))
    with lock_for_run(root):
        events = list(run_stages(root, chosen, read=lambda: sources, watching=watching))
    return RunReport(
        [event for event in events if isinstance(event, StageSkipped)],
        [event for event in events if isinstance(event, StageFinished)],
    )


def settings_sources(
    place: Place, names: tuple[str, ...], given: msgspec.Struct | None, keywords: Mapping[str, Any]
) -> Sources:
    """Return the settings from all sources; `keywords` must name settings that the function takes."""
    known = {name: one for one in select_settings(names) for name in (one.name, one.key, *one.declared.old)}
    flags: dict[stored_settings.Name, Any] = dict(_given_values(given)) if given else {}
    for name, value in keywords.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise WrongUse(f"no setting {name!r} here" + (f": did you mean {near[0]!r}?" if near else ""))
        flags[known[name].section, known[name].key] = value
    root = _root(place)
    refuse_outside_links(root)
    folder = root if root.is_dir() else None
    return read_sources(None, collection=folder, environment=os.environ, is_trusted=is_trusted, flags=flags)


def _given_values(given: msgspec.Struct) -> Iterator[tuple[stored_settings.Name, Any]]:
    """Yield the values of a section's struct, or of all sections: every field counts, also one at its default."""
    for one in all_settings():
        section = getattr(given, one.section, None) if isinstance(given, Settings) else given
        if isinstance(section, SECTIONS[one.section]):
            yield (one.section, one.key), getattr(section, one.key)


def _page_progress(progress: ProgressCallback | None, settings: Settings) -> Callable[[CrawlProgress], None]:
    """Return a function that reports the pages of a crawl as its progress."""

    def show(seen: CrawlProgress) -> None:
        if progress:
            progress(StepProgress("Crawling", seen.pages, settings.crawl.max_pages, "pages"))

    return show


def _root(place: Place) -> Path:
    return Path(place).resolve()


def _existing_root(place: Place) -> Path:
    root = _root(place)
    if not root.is_dir():
        raise NotFound(f"no collection at {root}; `webmill.crawl` creates one")
    return root
