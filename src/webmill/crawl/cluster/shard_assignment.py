"""Which node has which shard: as evenly as can be, with few changes. Every node comes to the same result."""

from __future__ import annotations

from collections import Counter

from webmill.crawl.cluster.cluster_state import ClusterView, NodeInfo


def assign_shards(view: ClusterView, shards: int) -> dict[int, str]:
    """Return the node for each shard that any living one can have."""
    nodes = _living_nodes(view)
    able = {shard: [node for node in nodes if can_own(node, shard, view)] for shard in range(shards)}
    plan = {shard: owner for shard in range(shards) if (owner := view.owner(shard))}
    counts = Counter(plan.values())
    for shard in range(shards):
        if shard not in plan and able[shard]:
            plan[shard] = min(able[shard], key=lambda node: (counts[node.id], node.id)).id
            counts[plan[shard]] += 1
    while move := _find_move(plan, able, counts):
        shard, node = move
        counts[plan[shard]] -= 1
        counts[node] += 1
        plan[shard] = node
    return plan


def can_own(node: NodeInfo, shard: int, view: ClusterView) -> bool:
    """Tell whether a node has the shard's files, or may rebuild what no living node has."""
    home = view.homes.get(shard)
    if home is None or home == node.folder:
        return True
    return node.rebuilds and all(other.folder != home for other in _living_nodes(view))


def _living_nodes(view: ClusterView) -> list[NodeInfo]:
    return [view.nodes[id_] for id_ in sorted(view.living) if id_ in view.nodes]


def _find_move(plan: dict[int, str], able: dict[int, list[NodeInfo]], counts: Counter[str]) -> tuple[int, str] | None:
    """Return a shard for a node that has at least two less than its owner. The last ones go first: the owner of the
    first decides about the end."""
    for shard in sorted(plan, reverse=True):
        for node in sorted(able[shard], key=lambda node: (counts[node.id], node.id)):
            if counts[node.id] + 2 <= counts[plan[shard]]:
                return shard, node.id
    return None
