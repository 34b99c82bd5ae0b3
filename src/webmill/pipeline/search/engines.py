"""The engine of a collection: the one that its settings name, with a sentence model if they name one."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from webmill.collection import PublishFolders
from webmill.errors import Misconfigured
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.publish.gc import find_reachable
from webmill.search.backends import open_search, search_address
from webmill.search.base import SearchEngine
from webmill.search.words_engine import WordsEngine
from webmill.settings import SearchSettings

if TYPE_CHECKING:  # they need numpy
    from webmill.search.meaning.engine import MeaningEngine
    from webmill.search.meaning.model import SentenceModel

CollectionEngine: TypeAlias = "WordsEngine | MeaningEngine"
MOST_THREADS = 4  # of an encoder


def open_engine(root: Path, settings: SearchSettings, *, create: bool = True, place: str = "") -> CollectionEngine:
    """Open the index of the collection in `root`, or the one at `place`."""
    model = find_model(root, settings)
    engine = open_search(place or search_address(settings.url, root), create=create)
    if not model:
        return WordsEngine(engine)
    try:
        return _with_meaning(engine, PublishFolders(root).meaning, model)
    except BaseException:
        engine.close()
        raise


def find_model(root: Path, settings: SearchSettings) -> Path | None:
    """Return the folder of the model; None if there is none."""
    return root / settings.model if settings.model else None


def _with_meaning(engine: SearchEngine, folder: Path, model: Path) -> MeaningEngine:
    try:
        import numpy  # noqa: F401
    except ImportError as missing:
        raise Misconfigured("search by meaning needs an extra: pip install 'webmill[meaning]'") from missing
    from webmill.search.meaning.engine import MeaningEngine

    opened = _opened_model(model, _stamp(model))
    return MeaningEngine(engine, folder=folder / opened.fingerprint, model=opened)


@lru_cache(maxsize=2)
def _opened_model(path: Path, _stamp: object) -> SentenceModel:
    """Open a model once in a process: it takes longer than a search."""
    from webmill.search.meaning.model import open_model

    return open_model(path, threads=min(MOST_THREADS, os.cpu_count() or 1))


def _stamp(model: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what changes with the files of a model."""
    files = sorted(path for path in model.rglob("*") if path.is_file())
    return tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files)


def drop_unpublished(engine: CollectionEngine, versions: Storage) -> None:
    """Drop the vectors of contents that no version has any more."""
    if isinstance(engine, WordsEngine):
        return
    engine.retain(digest.hex() for digest in find_reachable(versions, history.list_versions(versions)))
