"""The problems of a site, collected in the background, one collection at a time; several pages show the same."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet

import msgspec

from webmill.errors import Unavailable
from webmill.pipeline.problems import ProblemGroup, ProblemReport, collect_problems
from webmill.serve.http.responses import message_of
from webmill.serve.site import Site

FRESH_SECONDS = 5.0
OUR_OWN = ("unreadable", "write_error")  # causes whose messages name our own files
PATIENCE = 2.0  # seconds that a page waits for the first report


class ProblemSurvey:
    """Keeps the problems of a site up to date. Thread-safe."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._last: tuple[float, ProblemReport] | None = None
        self._next: Future[ProblemReport] | None = None
        self._changes = 0  # how often something was retried

    def latest(self, *, patience: float = PATIENCE) -> ProblemReport | None:
        """Return the newest report available within `patience` seconds, or None while the first one is made."""
        with self._lock:
            if self._next is None and not self._is_fresh():
                self._next = self._begin()
            running = self._next
        try:
            return running.result(timeout=patience) if running else self._known()
        except NotYet:
            return self._known()

    def forget(self) -> None:
        """Collect anew at the next request: something was retried."""
        with self._lock:
            self._last, self._next = None, None
            self._changes += 1

    def _known(self) -> ProblemReport | None:
        last = self._last
        return last[1] if last else None

    def _is_fresh(self) -> bool:
        return self._last is not None and time.monotonic() - self._last[0] < FRESH_SECONDS

    def _begin(self) -> Future[ProblemReport]:
        future: Future[ProblemReport] = Future()
        changes = self._changes

        def work() -> None:
            try:
                made = collect_site_problems(self._site)
            except Exception as error:  # noqa: BLE001 - raised to those who wait; later callers try again
                self._end(None, changes)
                future.set_exception(error)
            else:
                self._end(made, changes)
                future.set_result(made)

        threading.Thread(target=work, name="webmill-problems", daemon=True).start()
        return future

    def _end(self, made: ProblemReport | None, changes: int) -> None:
        with self._lock:
            if changes != self._changes:  # what was collected is of before a retry
                return
            self._next = None
            if made is not None:
                self._last = time.monotonic(), made


def collect_site_problems(site: Site) -> ProblemReport:
    """Return the problems of a site as clients may see them: without folders outside of the collection."""
    report = collect_problems(site.root, versions=site.versions, folder=f"{site.title}/")
    groups = [hide_folders(group, site) if group.cause in OUR_OWN else group for group in report.groups]
    return msgspec.structs.replace(report, root=site.title, groups=groups)


def hide_folders(group: ProblemGroup, site: Site) -> ProblemGroup:
    examples = [
        msgspec.structs.replace(one, message=message_of(Unavailable(one.message), site.root)) for one in group.examples
    ]
    return msgspec.structs.replace(group, examples=examples)
