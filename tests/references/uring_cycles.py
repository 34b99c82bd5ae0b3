"""Two cycles of a small university, published in the layout of the uRing crawler; what is left of them."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.aws.site import SELECTORS, Site, serving
from tests.boards.publishing import cycle
from webmill.boards.aggregator import RunOutcome
from webmill.boards.board_list import Board, read_board_list
from webmill.boards.reader import BoardReader
from webmill.boards.types import BoardLimits, BoardResult, KnownNotice, ReaderOptions, board_manners
from webmill.crawl.options import CrawlLimits, NetworkAccess
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.storage.local import LocalStorage
from webmill.publish.publication import PublishOptions

OPTIONS = PublishOptions(facets=("campus", "category"), layout="uring")
ROBOT = "webmill-test/1 (+https://example.org/)"


def site_map(site: Site) -> bytes:
    """Every department calls its board "notice"."""

    def department(id_: str, name: str) -> dict[str, object]:
        board = {"id": "notice", "name": "학사공지", "url": f"{site.url}/{id_}-board"}
        selectors = {("row" if key == "item" else key) + "_selector": css for key, css in SELECTORS.items()}
        return {"id": id_, "name": name, "boards": [board | selectors]}

    engineering = [department("cs", "Computer Science"), department("ee", "Electrical Engineering")]
    seoul = {"campus": "seoul", "colleges": [{"name": "Engineering", "departments": engineering}]}
    wonju = {"campus": "wonju", "departments": [department("nursing", "Nursing"), department("closed", "Closed")]}
    return json.dumps([seoul, wonju]).encode()


class PoliteReader:
    """A reader with its boards, as `cycle` takes them."""

    def __init__(self, reader: BoardReader, boards: Sequence[Board]) -> None:
        self.reader, self.boards = reader, boards

    def read(self, board: Board, *, known: Mapping[str, KnownNotice]) -> BoardResult:
        return self.reader.read(board, known=known)


class Cycles(msgspec.Struct, frozen=True):
    """The storage and the queue after two cycles, what each came to, and which pages each asked for.

    Between them a notice of `cs` was edited, one of `ee` was removed, one was added, and `nursing` broke down.
    """

    root: Path
    storage: LocalStorage
    queue: MemoryQueue
    site: Site
    first: RunOutcome
    second: RunOutcome
    asked: tuple[Counter[str], Counter[str]]

    def get(self, outcome: RunOutcome, key: str) -> Any:
        return json.loads(self.storage.read(f"snapshots/{outcome.version}/{key}"))

    def notices(self, outcome: RunOutcome) -> dict[str, dict[str, Any]]:
        """Return the notices of `index/all.json` by title."""
        return {one["title"]: one for one in self.get(outcome, "index/all.json")}


@contextmanager
def two_cycles(root: Path) -> Iterator[Cycles]:
    storage, queue = LocalStorage(root / "notices"), MemoryQueue(max_attempts=2)
    options = ReaderOptions(
        politeness=board_manners(ROBOT, delay=0.001, address_delay=0.001),
        gates=root / "gates.sqlite",
        cache=root / "cache.sqlite",
        limits=BoardLimits(pages=2),
        requests=CrawlLimits(body=1 << 20, deadline=30.0, attempts=1, retry_wait=0.01, redirects=5),
        network=NetworkAccess(allow_private=True),
        parsers=1,
    )
    with serving() as site, closing(BoardReader(options)) as reader:
        site.boards = {
            f"{id_}-board": {n: f"{id_} {n}" for n in range(2, 8)} for id_ in ("cs", "ee", "nursing", "closed")
        }
        site.older["cs-board"] = {1: "cs 1"}
        site.closed = {"closed-board"}
        boards = PoliteReader(reader, read_board_list(site_map(site)).boards)
        first = cycle(storage, queue, boards, options=OPTIONS)  # type: ignore[arg-type]
        asked = site.asked.copy()
        site.boards["cs-board"][3] = "cs 3, edited"
        del site.boards["ee-board"][2]
        site.boards["ee-board"][9] = "ee 9"
        site.broken = {"nursing-board"}
        second = cycle(storage, queue, boards, options=OPTIONS)  # type: ignore[arg-type]
        yield Cycles(root, storage, queue, site, first, second, (asked, site.asked - asked))


def index_name() -> str:
    return f"notices{secrets.token_hex(4)}"
