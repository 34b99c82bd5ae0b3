"""Which node has which shard, and when a crawl on many nodes is over."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.crawl.cluster.cluster_state import Attendee, Picture, Record, Run
from webmill.crawl.cluster.completion import Judge
from webmill.crawl.cluster.shard_assignment import can_have, shares
from webmill.crawl.options import Limits
from webmill.crawl.progress import Snapshot

RUN = Run(id="r", started=100.0, limits="{}")


def attendee(id_: str, *, place: str = "p", rebuilds: bool = False) -> Attendee:
    return Attendee(id=id_, place=place, seat=id_, host="h", pid=1, rebuilds=rebuilds)


def picture(nodes: list[Attendee], owners: dict[int, str], **more: object) -> Picture:
    usual: dict[str, object] = {
        "now": 100.0,
        "nodes": {node.id: node for node in nodes},
        "living": frozenset(node.id for node in nodes),
        "owners": owners,
        "homes": {},
        "records": {},
        "promised": {},
        "bytes": 0,
        "run": RUN,
        "seeds": 1,
        "starving": False,
    }
    return Picture(**{**usual, **more})  # type: ignore[arg-type]


def test_shards_are_dealt_evenly_and_stay_where_they_can() -> None:
    one, two = attendee("one"), attendee("two")
    assert shares(picture([one], {}), 4) == dict.fromkeys(range(4), "one")
    alone = dict.fromkeys(range(4), "one")
    assert shares(picture([one, two], alone), 4) == {0: "one", 1: "one", 2: "two", 3: "two"}
    even = {0: "one", 1: "two", 2: "one", 3: "two"}
    assert shares(picture([one, two], even), 4) == even
    assert shares(picture([two], even), 4) == dict.fromkeys(range(4), "two")


def test_a_shard_stays_with_its_files() -> None:
    one, two = attendee("one", place="a"), attendee("two", place="b", rebuilds=True)
    homes = dict.fromkeys(range(4), "a")
    assert shares(picture([one, two], {}, homes=homes), 4) == dict.fromkeys(range(4), "one")
    assert shares(picture([two], {}, homes=homes), 4) == dict.fromkeys(range(4), "two")
    assert shares(picture([attendee("three", place="c")], {}, homes=homes), 4) == {}


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 9), st.sampled_from("01234x")),
    st.dictionaries(st.integers(0, 9), st.sampled_from("abcd")),
)
@settings(deadline=None)
def test_shares_are_even_among_those_who_can_have_a_shard_and_settle(
    nodes: list[tuple[str, bool]], owners: dict[int, str], homes: dict[int, str]
) -> None:
    living = [attendee(f"{n}", place=place, rebuilds=rebuilds) for n, (place, rebuilds) in enumerate(nodes)]
    seen = picture(living, owners, homes=homes)
    plan = shares(seen, 10)
    counts = Counter(plan.values())
    for shard in range(10):
        able = [node.id for node in living if can_have(node, shard, seen)]
        assert (shard in plan) == bool(able or seen.owner(shard))
        if able and shard in plan:
            assert counts[plan[shard]] <= min(counts[id_] for id_ in able) + 1
    assert shares(picture(living, plan, homes=homes), 10) == plan


def told(node: str, *, start: int = 1, work: int = 7, probe: int = 0, **more: object) -> Record:
    seen = Snapshot(shard=0, is_idle=True, work=work, probe=probe, **more)  # type: ignore[arg-type]
    return Record(node=node, start=start, seen=seen)


def test_it_is_over_when_all_were_idle_twice_and_nothing_was_done_in_between() -> None:
    nodes, owners = [attendee("one"), attendee("two")], {0: "one", 1: "two"}
    judge = Judge(Limits(), 2)

    def look(*records: Record) -> str:
        judge.look(picture(nodes, owners, records=dict(enumerate(records))))
        return judge.end

    assert look(told("one")) == ""  # one has not told yet
    assert look(told("one"), told("gone")) == ""
    assert look(told("one"), told("two")) == ""
    assert judge.probe == 1
    assert look(told("one", probe=1), told("two")) == ""  # it has not heard the question
    assert look(told("one", probe=1), told("two", probe=1, work=8)) == ""
    assert look(told("one", probe=2), told("two", probe=2, start=2, work=8)) == ""  # another process
    assert look(told("one", probe=3), told("two", probe=3, start=2, work=8)) == "finished"


def test_a_new_judge_begins_anew() -> None:
    nodes, owners = [attendee("one")], {0: "one"}
    judge = Judge(Limits(), 1)
    judge.look(picture(nodes, owners, records={0: told("one")}))
    later = Run(id="r", started=100.0, limits="{}", probe=5)
    judge.look(picture(nodes, owners, records={0: told("one", probe=5)}, run=later))
    assert (judge.end, judge.probe) == ("", 6)


def test_limits_are_those_of_all_nodes() -> None:
    nodes, owners = [attendee("one"), attendee("two")], {0: "one", 1: "two"}
    records = {0: told("one", pages=3), 1: told("two", pages=4)}
    for limits, end in (
        (Limits(pages=7), "pages"),
        (Limits(pages=8), ""),
        (Limits(seconds=10.0), "seconds"),
        (Limits(seconds=10.5), ""),
        (Limits(bytes=50), "bytes"),
        (Limits(bytes=51), ""),
    ):
        judge = Judge(limits, 2)
        judge.look(picture(nodes, owners, records=records, now=110.0, bytes=50))
        assert judge.end == end


def test_with_requisites_it_is_over_when_the_last_pages_are_whole() -> None:
    nodes, owners = [attendee("one"), attendee("two")], {0: "one", 1: "two"}
    judge = Judge(Limits(pages=7), 2, requisites=True)

    def look(*records: Record) -> str:
        judge.look(picture(nodes, owners, records=dict(enumerate(records))))
        return judge.end

    assert look(told("one", pages=3, is_spent=True), told("two", pages=4)) == ""
    assert look(told("one", pages=3, is_spent=True), told("two", pages=4, is_spent=True)) == ""
    spent = [told("one", probe=1, pages=3, is_spent=True), told("two", probe=1, pages=4, is_spent=True)]
    assert look(*spent) == "pages"


def test_what_waits_for_long_is_told_from_nothing() -> None:
    judge = Judge(Limits(), 1)
    for probe in (0, 1):
        judge.look(picture([attendee("one")], {0: "one"}, records={0: told("one", probe=probe, wake=1e9)}))
    assert judge.end == "waiting"
