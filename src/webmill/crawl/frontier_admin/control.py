"""What a person tells a crawl that runs: pause, go on, stop, read the settings again. Who did it is logged."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from webmill.crawl.control import ControlEvent, record_event, send_request, wait_for_answer
from webmill.crawl.frontier_admin import commands
from webmill.crawl.frontier_admin.commands import AddResult
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.scheduler.commands import PauseCrawl, ResumeCrawl
from webmill.errors import Misconfigured, NotFound
from webmill.model import Link
from webmill.settings import Sources

LISTED = 5  # URLs and domains that a line of the log names


class CrawlSteering(msgspec.Struct, frozen=True):
    """Steers the crawl for a person: `by` says who it is."""

    crawl: CrawlFrontier
    by: str

    def pause(self) -> None:
        """Pause the crawl on all processes and nodes. NotFound: none is running."""
        commands.pause_crawl(self.crawl, PauseCrawl())
        self._record("pause")

    def resume(self) -> None:
        commands.pause_crawl(self.crawl, ResumeCrawl())
        self._record("resume")

    def stop(self) -> None:
        """End the run, as Ctrl-C does: requests under way may end. NotFound: none is running."""
        self.crawl.refuse_unless_running()
        if self.crawl.backend.stop_run():
            self._record("stop")
        elif self.crawl.backend.is_shared:
            raise NotFound(f"no crawl is running in {self.crawl.root}")
        else:
            send_request(self.crawl.folder, "stop", by=self.by)

    def reload(self, sources: Sources) -> ControlEvent | None:
        """Let the crawl read its settings again, and return what came of it; None when it has not answered yet.

        `sources` has the settings file for nodes: it counts for all of them. A crawl on one machine reads its own.
        Misconfigured: the new settings cannot be meant, and nothing has changed.
        """
        self.crawl.refuse_unless_running()
        if self.crawl.backend.is_shared:
            details = self.crawl.backend.change_settings(sources)
            self._record("reload", details)
            return ControlEvent(0.0, "reload", self.by, details)
        request = send_request(self.crawl.folder, "reload", by=self.by)
        event = wait_for_answer(self.crawl.folder, request)
        if event and event.failed:
            raise Misconfigured(event.details.removeprefix("refused: "))
        return event

    def add(self, links: Iterable[Link]) -> AddResult:
        named: list[str] = []

        def noted() -> Iterable[Link]:
            for link in links:
                if len(named) <= LISTED:
                    named.append(link.url)
                yield link

        result = commands.add_urls(self.crawl, noted())
        self._record("add", list_some(named, result.sent + result.added + result.known + result.excluded))
        return result

    def exclude(self, domains: list[str]) -> bool:
        """Exclude domains. True: it is done already; else the running crawl does it with its next step."""
        is_done = commands.exclude_domains(self.crawl, domains)
        self._record("exclude", list_some(domains, len(domains)))
        return is_done

    def include(self, domains: list[str]) -> bool:
        is_done = commands.include_domains(self.crawl, domains)
        self._record("include", list_some(domains, len(domains)))
        return is_done

    def _record(self, action: str, details: str = "") -> None:
        record_event(self.crawl.folder, action, by=self.by, details=details)


def list_some(names: Iterable[str], count: int) -> str:
    """Return the first names, and how many others there are."""
    shown = list(names)[:LISTED]
    rest = count - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest > 0 else "")
