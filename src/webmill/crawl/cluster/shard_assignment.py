"""Which node has which shard: as evenly as can be, with few changes. Every node comes to the same result."""

from __future__ import annotations

from collections import Counter

from webmill.crawl.cluster.cluster_state import Attendee, Picture


def shares(picture: Picture, shards: int) -> dict[int, str]:
    """The node for each shard that any living one can have."""
    able = {shard: [node for node in _living(picture) if can_have(node, shard, picture)] for shard in range(shards)}
    plan = {shard: owner for shard in range(shards) if (owner := picture.owner(shard))}
    counts = Counter(plan.values())
    for shard in range(shards):
        if shard not in plan and able[shard]:
            plan[shard] = min(able[shard], key=lambda node: (counts[node.id], node.id)).id
            counts[plan[shard]] += 1
    while move := _move(plan, able, counts):
        shard, node = move
        counts[plan[shard]] -= 1
        counts[node] += 1
        plan[shard] = node
    return plan


def can_have(node: Attendee, shard: int, picture: Picture) -> bool:
    """Where the files are, or where nothing is lost but what nobody has any more."""
    home = picture.homes.get(shard)
    if home is None or home == node.place:
        return True
    return node.rebuilds and all(other.place != home for other in _living(picture))


def _living(picture: Picture) -> list[Attendee]:
    return [picture.nodes[id_] for id_ in sorted(picture.living) if id_ in picture.nodes]


def _move(plan: dict[int, str], able: dict[int, list[Attendee]], counts: Counter[str]) -> tuple[int, str] | None:
    """A shard for a node that has at least two less than its owner. The last ones go first: the first has the judge."""
    for shard in sorted(plan, reverse=True):
        for node in sorted(able[shard], key=lambda node: (counts[node.id], node.id)):
            if counts[node.id] + 2 <= counts[plan[shard]]:
                return shard, node.id
    return None
