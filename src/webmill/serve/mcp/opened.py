"""The collections that are asked: each with what `serve` reads it by, opened once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from webmill.errors import NotFound, WrongUse
from webmill.serve.api.capture_texts import CaptureTexts
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.pages.problem_survey import ProblemSurvey
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site


class OpenedCollection:
    """One collection by its name."""

    def __init__(self, name: str, site: Site, threads: BoundedThreads) -> None:
        self.name, self.site = name, site
        self.reader = ContentReader(site, threads, search_threads=threads)
        self.texts = CaptureTexts(site)
        self.problems = ProblemSurvey(site)


class OpenedCollections:
    """All collections of a server; threads may share them."""

    def __init__(self, sites: Mapping[str, Site], threads: BoundedThreads) -> None:
        self._opened = {name: OpenedCollection(name, site, threads) for name, site in sites.items()}

    def all(self) -> Sequence[OpenedCollection]:
        return list(self._opened.values())

    def find(self, name: str) -> OpenedCollection:
        """Return the collection of this name; without one, the only one."""
        names = ", ".join(self._opened)
        if not name and len(self._opened) > 1:
            raise WrongUse(f"there are several collections: choose one with `collection`: {names}")
        if name and name not in self._opened:
            raise NotFound(f"there is no collection {name[:100]}; there is {names}")
        return self._opened[name] if name else next(iter(self._opened.values()))
