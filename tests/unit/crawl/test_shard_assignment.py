"""Which node has which shard."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.crawl.cluster.cluster_state import ClusterView, NodeInfo
from webmill.crawl.cluster.shard_assignment import assign_shards, can_own


def make_node(id_: str, *, place: str = "p", rebuilds: bool = False) -> NodeInfo:
    return NodeInfo(id=id_, folder=place, slot=id_, host="h", pid=1, rebuilds=rebuilds)


def make_view(nodes: list[NodeInfo], owners: dict[int, str], **more: object) -> ClusterView:
    usual: dict[str, object] = {
        "now": 100.0,
        "nodes": {node.id: node for node in nodes},
        "living": frozenset(node.id for node in nodes),
        "owners": owners,
        "homes": {},
        "reports": {},
        "promised": {},
        "bytes": 0,
        "run": None,
        "seeds": 1,
        "starving": False,
    }
    return ClusterView(**{**usual, **more})  # type: ignore[arg-type]


def test_shards_are_dealt_evenly_and_stay_where_they_can() -> None:
    one, two = make_node("one"), make_node("two")
    assert assign_shards(make_view([one], {}), 4) == dict.fromkeys(range(4), "one")
    alone = dict.fromkeys(range(4), "one")
    assert assign_shards(make_view([one, two], alone), 4) == {0: "one", 1: "one", 2: "two", 3: "two"}
    even = {0: "one", 1: "two", 2: "one", 3: "two"}
    assert assign_shards(make_view([one, two], even), 4) == even
    assert assign_shards(make_view([two], even), 4) == dict.fromkeys(range(4), "two")


def test_a_shard_stays_with_its_files() -> None:
    one, two = make_node("one", place="a"), make_node("two", place="b", rebuilds=True)
    homes = dict.fromkeys(range(4), "a")
    assert assign_shards(make_view([one, two], {}, homes=homes), 4) == dict.fromkeys(range(4), "one")
    assert assign_shards(make_view([two], {}, homes=homes), 4) == dict.fromkeys(range(4), "two")
    assert assign_shards(make_view([make_node("three", place="c")], {}, homes=homes), 4) == {}


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 9), st.sampled_from("01234x")),
    st.dictionaries(st.integers(0, 9), st.sampled_from("abcd")),
)
@settings(deadline=None)
def test_shares_are_even_among_those_who_can_own_a_shard_and_settle(
    nodes: list[tuple[str, bool]], owners: dict[int, str], homes: dict[int, str]
) -> None:
    living = [make_node(f"{n}", place=place, rebuilds=rebuilds) for n, (place, rebuilds) in enumerate(nodes)]
    seen = make_view(living, owners, homes=homes)
    plan = assign_shards(seen, 10)
    counts = Counter(plan.values())
    for shard in range(10):
        able = [node.id for node in living if can_own(node, shard, seen)]
        assert (shard in plan) == bool(able or seen.owner(shard))
        if able and shard in plan:
            assert counts[plan[shard]] <= min(counts[id_] for id_ in able) + 1
    assert assign_shards(make_view(living, plan, homes=homes), 10) == plan
