"""A copy of a crawl that runs is of one moment, whatever is on its way between its shards. The shards are played here:
what each does, and when, is decided by the test."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from webmill.crawl.backends import crawl_backends
from webmill.crawl.frontier.base import ClaimRequest, FrontierUpdate, LastVisit, TurnOutcomes, VisitDone
from webmill.crawl.frontier.framed_file import read_frames
from webmill.crawl.frontier.local import LocalFrontier, restore
from webmill.crawl.frontier_admin import export
from webmill.crawl.frontier_admin.backend import frontier_backend
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier, crawl_frontier
from webmill.crawl.frontier_admin.frontier_copy import copy_frontier
from webmill.crawl.frontier_admin.shard_copies import HoldSignal, messages_file, shard_copy
from webmill.crawl.layout import load_or_create_layout
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.scheduler.commands import BackUpFrontier, ShardCommand, apply_command
from webmill.crawl.scheduler.inbox import HOLD_FILE, HOLD_SECONDS, ShardMessages, publish_command, shard_of
from webmill.crawl.status_file import StatusFile
from webmill.errors import Unavailable, WebmillError
from webmill.infra import atomic
from webmill.infra.lock import exclusive
from webmill.model import Link

PATIENCE = 60.0
NOW = 1e9


def url_in(shard: int, name: str) -> str:
    """Of the first domain that belongs to the shard."""
    urls = (f"http://{name}{number}.test/" for number in range(1000))
    return next(url for url in urls if shard_of(url, 2) == shard)


class Player:
    """A shard that does one thing at a time, when it is told to."""

    def __init__(self, place: CrawlFrontier, shard: int) -> None:
        self.frontier = LocalFrontier(place.paths.shard(shard))
        boxes = [place.paths.inbox(number) for number in range(2)]
        self.messages = ShardMessages(boxes, shard, open_inbox=place.backends.open_inbox)

    def visit(self, url: str) -> None:
        turns = self.frontier.claim(ClaimRequest(turns=1, urls_per_turn=1, now=NOW, lease=60.0, hold=0.0))
        assert [item.url for turn in turns for item in turn.items] == [url]
        done = VisitDone(LastVisit(url=url, time=NOW, status=200))
        self.frontier.commit(FrontierUpdate(settled=[TurnOutcomes(turns[0].token, [done], next=NOW)]), now=NOW)

    def take_mail(self) -> tuple[list[Link], list[ShardCommand]]:
        """In the order in which a shard's store does it."""
        links, orders = self.messages.receive_links(), self.messages.received_commands()
        if links:
            self.frontier.commit(FrontierUpdate(links=links), now=NOW)
        for order in orders:
            apply_command(order, self.frontier)
        self.messages.acknowledge()
        return links, orders

    def close(self) -> None:
        self.messages.close()
        self.frontier.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[CrawlFrontier]:
    found = crawl_frontier(tmp_path / "crawl", crawl_backends(), frontier_backend())
    atomic.make_folder(found.folder)
    load_or_create_layout(found.paths, 2)
    with exclusive(found.folder, "crawl", doing="crawling"):  # it runs
        yield found


@pytest.fixture
def players(place: CrawlFrontier) -> Iterator[list[Player]]:
    both = [Player(place, 0), Player(place, 1)]
    yield both
    for player in both:
        player.close()


class Copying(threading.Thread):
    """The one who wants a copy. It is kept until `enough` is set."""

    def __init__(self, place: CrawlFrontier) -> None:
        super().__init__(daemon=True)
        self._place = place
        self.there, self.enough = threading.Event(), threading.Event()
        self.error: WebmillError | None = None
        self.start()

    def run(self) -> None:
        try:
            with copy_frontier(self._place):
                self.there.set()
                self.enough.wait(PATIENCE)
        except WebmillError as error:
            self.error = error

    def end(self) -> None:
        self.enough.set()
        self.join(PATIENCE)
        assert not self.is_alive()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def obeying(player: Player) -> None:
    """Until it has done what it was told."""
    wait_for(lambda: player.take_mail()[1])


def test_a_link_sent_before_one_copy_and_received_after_the_other_is_in_the_backup(
    place: CrawlFrontier, players: list[Player]
) -> None:
    sender, receiver = players
    page, link = url_in(0, "page"), url_in(1, "link")
    sender.frontier.commit(FrontierUpdate(links=[Link(page)]), now=NOW)
    copying = Copying(place)
    obeying(receiver)
    with place.inbox(1) as box:  # it is this crawl's alone
        publish_command(box, BackUpFrontier(str(place.folder / "elsewhere" / "shard-01")))
    sender.messages.send(1, [Link(link)])
    sender.visit(page)
    assert receiver.take_mail() == ([], [])  # it waits in the box
    assert not receiver.messages.is_empty()  # so that nobody thinks that the crawl is done
    obeying(sender)
    assert copying.there.wait(PATIENCE)
    folder = place.folder / "backup"
    restore(shard_copy(folder, 0), folder / "sender")
    with LocalFrontier(folder / "sender") as copy:
        assert copy.visit(page)
    letters = [msgspec.msgpack.decode(letter, type=list[Link]) for letter in read_frames(messages_file(folder, 1))]
    assert letters == [[Link(link)]]
    assert receiver.take_mail()[0] == [Link(link)]  # it goes on as soon as the boxes are copied
    copying.end()
    assert copying.error is None
    assert not folder.exists()


def test_an_order_that_comes_twice_is_done_once(place: CrawlFrontier, players: list[Player]) -> None:
    copying = Copying(place)
    for player in players:
        obeying(player)
    assert copying.there.wait(PATIENCE)
    copy = shard_copy(place.folder / "backup", 0)
    apply_command(BackUpFrontier(str(copy)), players[0].frontier)  # as after a kill
    copying.end()
    apply_command(BackUpFrontier(str(copy)), players[0].frontier)  # nobody wants it any more
    assert not copy.exists()


def test_a_copy_that_cannot_be_made_is_told_with_the_reason(place: CrawlFrontier, players: list[Player]) -> None:
    copying = Copying(place)
    obeying(players[0])
    status = StatusFile(place.folder, name="crawl", started=0.0, clock=time.time)
    status.write(CrawlProgress(shard=-1, command_error="BackUpFrontier: the disk is full"))
    copying.join(PATIENCE)
    assert isinstance(copying.error, Unavailable)
    assert "the disk is full" in str(copying.error)
    assert not (place.folder / "backup").exists()


def test_a_crawl_that_ends_meanwhile_is_copied_all_the_same(tmp_path: Path) -> None:
    place = crawl_frontier(tmp_path / "crawl", crawl_backends(), frontier_backend())
    atomic.make_folder(place.folder)
    load_or_create_layout(place.paths, 2)
    with exclusive(place.folder, "crawl", doing="crawling"):
        players = [Player(place, 0), Player(place, 1)]
        copying = Copying(place)
        obeying(players[0])
        for player in players:
            player.close()
    assert copying.there.wait(PATIENCE)
    assert shard_copy(place.folder / "backup", 1).exists()
    copying.end()
    assert copying.error is None


def test_letters_are_not_held_for_ever_by_one_who_died(place: CrawlFrontier, players: list[Player]) -> None:
    receiver, link = players[1], Link(url_in(1, "link"))
    backup = place.folder / "backup"
    atomic.make_folder(shard_copy(backup, 1))
    (backup / HOLD_FILE).touch()
    players[0].messages.send(1, [link])
    assert receiver.take_mail() == ([], [])
    old = time.time() - HOLD_SECONDS
    os.utime(backup / HOLD_FILE, (old, old))
    assert receiver.take_mail()[0] == [link]


def test_one_who_was_held_up_himself_knows_that_his_copy_is_worth_nothing(tmp_path: Path) -> None:
    now = [0.0]
    for clock in ("clock", "wall"):
        signal = HoldSignal(tmp_path / HOLD_FILE, **{clock: lambda: now[0]})
        now[0] += HOLD_SECONDS / 3
        signal.renew()
        now[0] += HOLD_SECONDS
        with pytest.raises(Unavailable, match="run it again"):
            signal.renew()


def test_what_waits_is_exported_while_the_crawl_runs(place: CrawlFrontier, players: list[Player]) -> None:
    urls = [url_in(0, "a"), url_in(1, "b")]
    for player, url in zip(players, urls, strict=True):
        player.frontier.commit(FrontierUpdate(links=[Link(url)]), now=NOW)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.extend(link.url for link in export.waiting_urls(place)), daemon=True)
    reader.start()
    for player in players:
        obeying(player)
    players[0].frontier.commit(FrontierUpdate(links=[Link(url_in(0, "later"))]), now=NOW)
    reader.join(PATIENCE)
    assert found == urls
    assert not (place.folder / "backup").exists()
    assert players[0].frontier.stats().waiting == 2  # it is not disturbed
