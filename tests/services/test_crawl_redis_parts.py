"""What the nodes of a crawl share in Redis, each part for itself."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from webmill.crawl.backends import crawl_backends
from webmill.crawl.cluster.cluster_state import ClusterState, NodeInfo, NodeReport
from webmill.crawl.options import CrawlBackends
from webmill.crawl.scheduler.commands import CompactFrontier, ExcludeDomains
from webmill.crawl.scheduler.inbox import LINKS_PER_MESSAGE, ShardMessages, publish_command
from webmill.errors import Conflict, Misconfigured
from webmill.infra.clock import Anchor
from webmill.infra.host_schedule.fixed_delays import Reservation, ReservationUpdate
from webmill.model import Link

DAY = 86400.0
pytestmark = pytest.mark.server("redis")


@pytest.fixture
def name() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def backends(redis_url: str, name: str) -> CrawlBackends:
    return crawl_backends(redis_url, name=name)


@pytest.fixture
def cluster(redis_url: str, name: str) -> Iterator[Callable[..., ClusterState]]:
    opened: list[ClusterState] = []

    def open_(*, life: float = 60.0) -> ClusterState:
        opened.append(ClusterState(redis_url, name, life=life, timeout=60.0))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


def node(id_: str, *, place: str = "here", rebuilds: bool = False) -> NodeInfo:
    return NodeInfo(id=id_, folder=place, slot=f"{place}/{id_}", host="h", pid=1, rebuilds=rebuilds)


# --- the host schedule ---


def test_a_key_is_booked_once_and_free_when_the_booking_is_corrected(backends: CrawlBackends) -> None:
    schedule = backends.open_host_schedule(Path("gates.sqlite"))
    clock = schedule.clock(None)
    now = clock()

    def reservation(at: float) -> Reservation:
        return Reservation(now=at, window=10.0, delays={"a": 5.0, "b": 1.0})

    assert schedule.reserve({1: reservation(now), 2: reservation(now)}, now=now, longest=DAY) == {2: now + 5.0}
    assert schedule.reserve({3: Reservation(now=now, window=10.0, delays={"c": 5.0})}, now=now, longest=DAY) == {}
    schedule.update(
        [{"a": ReservationUpdate(now + 15.0, now - 1.0), "b": ReservationUpdate(now + 11.0, now - 1.0)}], clock=clock
    )
    assert schedule.reserve({4: reservation(now)}, now=now, longest=DAY) == {}
    schedule.update(
        [{"a": ReservationUpdate(1.0, 2.0)}], clock=clock
    )  # late news of the first do not free the second's time
    assert schedule.reserve({5: reservation(now)}, now=now, longest=DAY).keys() == {5}
    schedule.update([{"c": ReservationUpdate(0.0, now + 500.0)}], clock=clock)
    assert schedule.reserve({6: Reservation(now=now, window=10.0, delays={"c": 5.0})}, now=now, longest=DAY) == {
        6: now + 500.0
    }
    assert schedule.reserve({7: Reservation(now=now, window=10.0, delays={"c": 5.0})}, now=now, longest=400.0) == {}


def test_those_who_wait_for_a_key_come_one_by_one(backends: CrawlBackends) -> None:
    schedule = backends.open_host_schedule(Path("gates.sqlite"))
    now = schedule.clock(None)()
    waits = schedule.reserve(
        {number: Reservation(now=now, window=10.0, delays={"a": 1.0}) for number in range(4)}, now=now, longest=DAY
    )
    assert waits == {1: now + 1.0, 2: now + 2.0, 3: now + 3.0}


def test_all_nodes_have_one_clock_and_none_goes_back(backends: CrawlBackends) -> None:
    one, other = backends.open_host_schedule(Path("gates.sqlite")), backends.open_host_schedule(Path("gates.sqlite"))
    first = one.clock(None)
    assert abs(first() - time.time()) < 60  # Redis's, which is this machine's
    boot = first.anchor()
    ahead = other.clock(Anchor(boot.now + 1000, boot.since_boot, boot.boot))
    assert ahead() >= first() + 999
    assert one.clock(None)() >= first() + 999


# --- inboxes and budgets ---


def test_letters_arrive_until_they_are_settled_and_orders_with_them(backends: CrawlBackends) -> None:
    boxes = [Path("mail-00.sqlite"), Path("mail-01.sqlite")]
    sender, reader = (
        ShardMessages(boxes, 0, open_inbox=backends.open_inbox),
        ShardMessages(boxes, 1, open_inbox=backends.open_inbox),
    )
    links = [Link(f"http://a.test/{number}", 3, 4) for number in range(LINKS_PER_MESSAGE + 5)]
    assert reader.is_empty()
    sender.send(1, links)
    publish_command(backends.open_inbox(boxes[1]), ExcludeDomains(("a.test",)))
    publish_command(backends.open_inbox(boxes[1]), CompactFrontier())
    assert not reader.is_empty()
    assert reader.receive_links() == links
    again = ShardMessages(boxes, 1, open_inbox=backends.open_inbox)  # of who takes over
    assert again.receive_links() == links
    assert again.received_commands() == [ExcludeDomains(("a.test",)), CompactFrontier()]
    again.acknowledge()
    sender.send(1, links[:1])
    reader.acknowledge()  # late: what it had is gone already, what is new stays
    assert reader.receive_links() == links[:1]
    assert reader.received_commands() == []
    reader.acknowledge()
    assert again.is_empty()


def test_a_quota_is_known_to_whoever_has_the_shard(backends: CrawlBackends) -> None:
    file = Path("frontier/shard-03/quota.sqlite")
    backends.open_domain_budget(file, 5).spend(Counter({"a.test": 7, "b.test": 1}))
    assert backends.open_domain_budget(file, 5).remaining(["a.test", "b.test", "c.test"]) == {
        "a.test": 0,
        "b.test": 4,
        "c.test": 5,
    }
    assert backends.open_domain_budget(file, 5).remaining([]) == {}
    assert backends.open_domain_budget(file, None).remaining(["a.test"]) is None
    assert backends.open_domain_budget(Path("frontier/shard-04/quota.sqlite"), 5).remaining(["a.test"]) == {"a.test": 5}


# --- the cluster ---


def test_a_shard_is_taken_once_and_by_others_when_its_owner_is_gone(cluster: Callable[..., ClusterState]) -> None:
    here, there = cluster(), cluster()
    one, two = node("one"), node("two")
    run = here.join(one, flags={"scope": "host"}, limits={})
    assert there.join(two, flags={"scope": "host"}, limits={}) == run
    assert here.exchange(one, NodeReport(take=["0", "1"])).owners == {0: "one", 1: "one"}
    assert there.exchange(two, NodeReport(take=["0"])).owners == {0: "one", 1: "one"}
    assert here.exchange(one, NodeReport(drop=["1"])).owners == {0: "one"}
    assert there.exchange(two, NodeReport(take=["1"], drop=["0"])).owners == {0: "one", 1: "two"}
    here.leave(one)
    view = there.exchange(two, NodeReport(take=["0"]))
    assert (view.owners, view.living) == ({0: "two", 1: "two"}, frozenset({"two"}))


def test_a_node_that_is_silent_is_dead_for_those_who_were_there_all_the_time(
    cluster: Callable[..., ClusterState],
) -> None:
    here, there = cluster(life=1.0), cluster(life=1.0)
    one, two = node("one"), node("two")
    here.join(one, flags={}, limits={})
    there.join(two, flags={}, limits={})
    here.exchange(one, NodeReport(take=["0"]))
    deadline = time.monotonic() + 60
    while there.exchange(two, NodeReport(take=["0"])).owners != {0: "two"}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # The first was stopped, and goes on: it was away itself, so that nobody else is dead to it.
    view = here.exchange(one, NodeReport(take=["0"], records={"0": "{}"}))
    assert view.owners == {0: "two"}
    assert view.reports == {}


def test_whoever_joins_agrees_with_those_who_are_there(cluster: Callable[..., ClusterState]) -> None:
    here, there = cluster(), cluster()
    here.join(node("one"), flags={"delay": 1.0}, limits={"max_pages": 5})
    with pytest.raises(Conflict, match="other flags"):
        there.join(node("two"), flags={"delay": 2.0}, limits={"max_pages": 5})
    assert there.run_limits() == {"max_pages": 5}
    assert there.flags() == {"delay": 1.0}
    here.leave(node("one"))
    assert there.run_limits() is None
    there.join(node("two"), flags={"delay": 2.0}, limits={})
    assert there.flags() == {"delay": 2.0}


def test_the_number_of_shards_is_for_life(cluster: Callable[..., ClusterState]) -> None:
    assert cluster().layout(None, default=8) == 8
    assert cluster().layout(8, default=4) == 8
    with pytest.raises(Misconfigured, match="8 shards"):
        cluster().layout(4, default=8)


def test_files_stay_where_they_are_until_nobody_has_them(cluster: Callable[..., ClusterState]) -> None:
    here = cluster()
    one, two, three = node("one", place="a"), node("two", place="b"), node("three", place="c", rebuilds=True)
    for each in (one, two, three):
        here.join(each, flags={}, limits={})
    assert here.exchange(one, NodeReport(take=["0"])).homes == {0: "a"}
    here.exchange(one, NodeReport(drop=["0"]))
    assert here.exchange(two, NodeReport(take=["0"])).owners == {}
    assert here.exchange(three, NodeReport(take=["0"])).owners == {}
    here.leave(one)
    assert here.exchange(two, NodeReport(take=["0"])).owners == {}
    view = here.exchange(three, NodeReport(take=["0"]))
    assert (view.owners, view.homes) == ({0: "three"}, {0: "c"})


def test_pages_are_granted_once_all_have_told_what_they_have_and_never_beyond_the_limit(
    cluster: Callable[..., ClusterState],
) -> None:
    here = cluster()
    one = node("one")
    here.join(one, flags={}, limits={})
    here.exchange(one, NodeReport(take=["0", "1"], promised={"0": 10}))
    assert here.grant(one, {0: 50}, limit=100, shards=2) == {0: 0}
    here.exchange(one, NodeReport(promised={"0": 10, "1": 20}))
    assert here.grant(one, {0: 50, 1: 50, 2: 5}, limit=100, shards=2) == {0: 60, 1: 40, 2: 0}
    assert here.grant(one, {0: 1}, limit=100, shards=2) == {0: 0}
    assert here.grant(node("two"), {0: 1}, limit=1000, shards=2) == {0: 0}
    assert here.exchange(one, NodeReport(promised={"1": 30})).promised == {0: 60, 1: 30}
    assert here.grant(one, {0: 50}, limit=100, shards=2) == {0: 70}


def test_seeds_are_all_nodes(cluster: Callable[..., ClusterState]) -> None:
    urls = {f"http://a.test/{number}" for number in range(2500)}
    cluster().add_seeds(urls)
    assert set(cluster().seeds()) == urls
