"""What the nodes of a crawl share in Redis, each part for itself."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from webmill.crawl.backends import crawl_backends
from webmill.crawl.cluster.cluster_state import Attendee, Meeting, Report
from webmill.crawl.options import Backends
from webmill.crawl.politeness.host_schedule import Booking, Kept
from webmill.crawl.scheduler.commands import Compact, Exclude
from webmill.crawl.scheduler.inbox import LINKS, Mail, post_order
from webmill.errors import Conflict, Misconfigured
from webmill.infra.clock import Anchor
from webmill.model import Link

DAY = 86400.0
pytestmark = pytest.mark.server("redis")


@pytest.fixture
def name() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def backends(redis_url: str, name: str) -> Backends:
    return crawl_backends(redis_url, name=name)


@pytest.fixture
def meeting(redis_url: str, name: str) -> Iterator[Callable[..., Meeting]]:
    opened: list[Meeting] = []

    def open_(*, life: float = 60.0) -> Meeting:
        opened.append(Meeting(redis_url, name, life=life, timeout=60.0))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


def node(id_: str, *, place: str = "here", rebuilds: bool = False) -> Attendee:
    return Attendee(id=id_, place=place, seat=f"{place}/{id_}", host="h", pid=1, rebuilds=rebuilds)


# --- gates ---


def test_a_key_is_booked_once_and_free_when_the_booking_is_corrected(backends: Backends) -> None:
    gates = backends.gates(Path("gates.sqlite"))
    clock = gates.clock(None)
    now = clock()

    def booking(at: float) -> Booking:
        return Booking(now=at, window=10.0, waits={"a": 5.0, "b": 1.0})

    assert gates.book({1: booking(now), 2: booking(now)}, now=now, longest=DAY) == {2: now + 5.0}
    assert gates.book({3: Booking(now=now, window=10.0, waits={"c": 5.0})}, now=now, longest=DAY) == {}
    gates.correct([{"a": Kept(now + 15.0, now - 1.0), "b": Kept(now + 11.0, now - 1.0)}], clock=clock)
    assert gates.book({4: booking(now)}, now=now, longest=DAY) == {}
    gates.correct([{"a": Kept(1.0, 2.0)}], clock=clock)  # late news of the first do not free the second's time
    assert gates.book({5: booking(now)}, now=now, longest=DAY).keys() == {5}
    gates.correct([{"c": Kept(0.0, now + 500.0)}], clock=clock)
    assert gates.book({6: Booking(now=now, window=10.0, waits={"c": 5.0})}, now=now, longest=DAY) == {6: now + 500.0}
    assert gates.book({7: Booking(now=now, window=10.0, waits={"c": 5.0})}, now=now, longest=400.0) == {}


def test_those_who_wait_for_a_key_come_one_by_one(backends: Backends) -> None:
    gates = backends.gates(Path("gates.sqlite"))
    now = gates.clock(None)()
    waits = gates.book(
        {number: Booking(now=now, window=10.0, waits={"a": 1.0}) for number in range(4)}, now=now, longest=DAY
    )
    assert waits == {1: now + 1.0, 2: now + 2.0, 3: now + 3.0}


def test_all_nodes_have_one_clock_and_none_goes_back(backends: Backends) -> None:
    one, other = backends.gates(Path("gates.sqlite")), backends.gates(Path("gates.sqlite"))
    first = one.clock(None)
    assert abs(first() - time.time()) < 60  # Redis's, which is this machine's
    boot = first.anchor()
    ahead = other.clock(Anchor(boot.now + 1000, boot.since_boot, boot.boot))
    assert ahead() >= first() + 999
    assert one.clock(None)() >= first() + 999


# --- boxes and quotas ---


def test_letters_arrive_until_they_are_settled_and_orders_with_them(backends: Backends) -> None:
    boxes = [Path("mail-00.sqlite"), Path("mail-01.sqlite")]
    sender, reader = Mail(boxes, 0, open_box=backends.box), Mail(boxes, 1, open_box=backends.box)
    links = [Link(f"http://a.test/{number}", 3, 4) for number in range(LINKS + 5)]
    assert reader.is_empty()
    sender.send(1, links)
    post_order(backends.box(boxes[1]), Exclude(("a.test",)))
    post_order(backends.box(boxes[1]), Compact())
    assert not reader.is_empty()
    assert reader.receive() == links
    again = Mail(boxes, 1, open_box=backends.box)  # of who takes over
    assert again.receive() == links
    assert again.orders() == [Exclude(("a.test",)), Compact()]
    again.settle()
    sender.send(1, links[:1])
    reader.settle()  # late: what it had is gone already, what is new stays
    assert reader.receive() == links[:1]
    assert reader.orders() == []
    reader.settle()
    assert again.is_empty()


def test_a_quota_is_known_to_whoever_has_the_shard(backends: Backends) -> None:
    file = Path("frontier/shard-03/quota.sqlite")
    backends.quota(file, 5).count(Counter({"a.test": 7, "b.test": 1}))
    assert backends.quota(file, 5).left(["a.test", "b.test", "c.test"]) == {"a.test": 0, "b.test": 4, "c.test": 5}
    assert backends.quota(file, 5).left([]) == {}
    assert backends.quota(file, None).left(["a.test"]) is None
    assert backends.quota(Path("frontier/shard-04/quota.sqlite"), 5).left(["a.test"]) == {"a.test": 5}


# --- meetings ---


def test_a_shard_is_taken_once_and_by_others_when_its_owner_is_gone(meeting: Callable[..., Meeting]) -> None:
    here, there = meeting(), meeting()
    one, two = node("one"), node("two")
    run = here.join(one, flags={"scope": "host"}, limits={})
    assert there.join(two, flags={"scope": "host"}, limits={}) == run
    assert here.meet(one, Report(take=["0", "1"])).owners == {0: "one", 1: "one"}
    assert there.meet(two, Report(take=["0"])).owners == {0: "one", 1: "one"}
    assert here.meet(one, Report(drop=["1"])).owners == {0: "one"}
    assert there.meet(two, Report(take=["1"], drop=["0"])).owners == {0: "one", 1: "two"}
    here.leave(one)
    picture = there.meet(two, Report(take=["0"]))
    assert (picture.owners, picture.living) == ({0: "two", 1: "two"}, frozenset({"two"}))


def test_a_node_that_is_silent_is_dead_for_those_who_were_there_all_the_time(meeting: Callable[..., Meeting]) -> None:
    here, there = meeting(life=1.0), meeting(life=1.0)
    one, two = node("one"), node("two")
    here.join(one, flags={}, limits={})
    there.join(two, flags={}, limits={})
    here.meet(one, Report(take=["0"]))
    deadline = time.monotonic() + 60
    while there.meet(two, Report(take=["0"])).owners != {0: "two"}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # The first was stopped, and goes on: it was away itself, so that nobody else is dead to it.
    picture = here.meet(one, Report(take=["0"], records={"0": "{}"}))
    assert picture.owners == {0: "two"}
    assert picture.records == {}


def test_whoever_joins_agrees_with_those_who_are_there(meeting: Callable[..., Meeting]) -> None:
    here, there = meeting(), meeting()
    here.join(node("one"), flags={"delay": 1.0}, limits={"max_pages": 5})
    with pytest.raises(Conflict, match="other flags"):
        there.join(node("two"), flags={"delay": 2.0}, limits={"max_pages": 5})
    assert there.limits() == {"max_pages": 5}
    assert there.flags() == {"delay": 1.0}
    here.leave(node("one"))
    assert there.limits() is None
    there.join(node("two"), flags={"delay": 2.0}, limits={})
    assert there.flags() == {"delay": 2.0}


def test_the_number_of_shards_is_for_life(meeting: Callable[..., Meeting]) -> None:
    assert meeting().layout(None, default=8) == 8
    assert meeting().layout(8, default=4) == 8
    with pytest.raises(Misconfigured, match="8 shards"):
        meeting().layout(4, default=8)


def test_files_stay_where_they_are_until_nobody_has_them(meeting: Callable[..., Meeting]) -> None:
    here = meeting()
    one, two, three = node("one", place="a"), node("two", place="b"), node("three", place="c", rebuilds=True)
    for each in (one, two, three):
        here.join(each, flags={}, limits={})
    assert here.meet(one, Report(take=["0"])).homes == {0: "a"}
    here.meet(one, Report(drop=["0"]))
    assert here.meet(two, Report(take=["0"])).owners == {}
    assert here.meet(three, Report(take=["0"])).owners == {}
    here.leave(one)
    assert here.meet(two, Report(take=["0"])).owners == {}
    picture = here.meet(three, Report(take=["0"]))
    assert (picture.owners, picture.homes) == ({0: "three"}, {0: "c"})


def test_pages_are_granted_once_all_have_told_what_they_have_and_never_beyond_the_limit(
    meeting: Callable[..., Meeting],
) -> None:
    here = meeting()
    one = node("one")
    here.join(one, flags={}, limits={})
    here.meet(one, Report(take=["0", "1"], promised={"0": 10}))
    assert here.grant(one, {0: 50}, limit=100, shards=2) == {0: 0}
    here.meet(one, Report(promised={"0": 10, "1": 20}))
    assert here.grant(one, {0: 50, 1: 50, 2: 5}, limit=100, shards=2) == {0: 60, 1: 40, 2: 0}
    assert here.grant(one, {0: 1}, limit=100, shards=2) == {0: 0}
    assert here.grant(node("two"), {0: 1}, limit=1000, shards=2) == {0: 0}
    assert here.meet(one, Report(promised={"1": 30})).promised == {0: 60, 1: 30}
    assert here.grant(one, {0: 50}, limit=100, shards=2) == {0: 70}


def test_seeds_are_all_nodes(meeting: Callable[..., Meeting]) -> None:
    urls = {f"http://a.test/{number}" for number in range(2500)}
    meeting().add_seeds(urls)
    assert set(meeting().seeds()) == urls
