"""Three synthetic webs of different shape, whose PageRank is known. Pages are numbers; each lies on a host.

    power law        sizes of hosts and links between them follow power laws: few hosts have most in-links (Zipf 1.1)
    dense            hosts of equal size in groups; nearly all links stay in the host or the group, and hosts are alike
    spam             six hosts of ten belong to a link farm: linked densely among themselves, rarely from good ones

Within a host the home page is linked from every page; others by a power law of their number, so that early pages are
sections and late ones articles.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

DAMPING = 0.85


@dataclass(frozen=True)
class SyntheticWeb:
    name: str
    hosts: list[int]  # of each page
    links: list[list[int]]
    first: list[int]  # page of each host: its home page
    seeds: list[int]
    rank: np.ndarray[tuple[int], np.dtype[np.float64]]

    def url(self, page: int) -> str:
        host = self.hosts[page]
        number = page - self.first[host]
        return f"https://www.h{host}.example/" + (f"a/{number}.html" if number else "")


class HostChooser:
    """Chooses hosts by their weights."""

    def __init__(self, dice: random.Random, hosts: list[int], weights: list[float]) -> None:
        self._dice, self._hosts = dice, hosts
        self._sums = list(np.cumsum(weights))

    def choose(self) -> int:
        return self._dice.choices(self._hosts, cum_weights=self._sums)[0]


def zipf_page(dice: random.Random, size: int) -> int:
    """Return a page of a host: the home page most often, the others by a power law of their number."""
    return min(size - 1, int(size ** dice.random()) - 1)


def build(
    name: str, dice: random.Random, sizes: list[int], outside: Callable[[int], int | None], *, seeds: list[int]
) -> SyntheticWeb:
    """`outside` chooses the host that a page of a host links to; None: it has no such link."""
    first = [0, *(int(end) for end in np.cumsum(sizes)[:-1])]
    hosts = [host for host, size in enumerate(sizes) for _ in range(size)]
    links: list[list[int]] = []
    for page, host in enumerate(hosts):
        start, size, number = first[host], sizes[host], page - first[host]
        own = [start, *(start + zipf_page(dice, size) for _ in range(8))]
        own += [start + child for child in range(number * 6 + 1, min(size, number * 6 + 7))]  # a tree: all are reached
        others = [other for _ in range(3) if (other := outside(host)) is not None]
        links.append(list(dict.fromkeys(own + [first[other] + zipf_page(dice, sizes[other]) for other in others])))
    return SyntheticWeb(name, hosts, links, first, [first[host] for host in seeds], page_rank(links))


def page_rank(links: list[list[int]], *, rounds: int = 60) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    count = len(links)
    sources = np.repeat(np.arange(count), [len(targets) for targets in links])
    targets = np.fromiter((target for some in links for target in some), dtype=np.int64)
    degree = np.array([max(1, len(some)) for some in links], dtype=np.float64)
    rank = np.full(count, 1.0 / count)
    for _ in range(rounds):
        passed = np.bincount(targets, weights=(rank / degree)[sources], minlength=count)
        rank = (1 - DAMPING) / count + DAMPING * (passed + (1 - passed.sum()) / count)
    return rank


def power_law(pages: int, seed: int = 1) -> SyntheticWeb:
    dice = random.Random(seed)
    count = pages // 25
    sizes = scaled([dice.paretovariate(1.1) for _ in range(count)], pages)
    order = dice.sample(range(count), count)
    chooser = HostChooser(dice, order, [1 / (place + 1) ** 1.1 for place in range(count)])
    seeds = dice.sample(range(count), 10)
    return build("power law", dice, sizes, lambda _: chooser.choose(), seeds=seeds)


def dense(pages: int, seed: int = 2) -> SyntheticWeb:
    dice = random.Random(seed)
    count, group = pages // 50, 20
    sizes = scaled([1.0] * count, pages)

    def outside(host: int) -> int | None:
        if dice.random() < 0.1:
            return dice.randrange(count)
        return min(count - 1, host // group * group + dice.randrange(group))

    return build("dense", dice, sizes, outside, seeds=dice.sample(range(count), 10))


def spam(pages: int, seed: int = 3) -> SyntheticWeb:
    dice = random.Random(seed)
    count = pages // 25
    farm = 6 * count // 10
    good = list(range(farm, count))
    sizes = scaled([2.0 if host < farm else dice.paretovariate(1.1) for host in range(count)], pages)
    chooser = HostChooser(dice, dice.sample(good, len(good)), [1 / (place + 1) for place in range(len(good))])

    def outside(host: int) -> int | None:
        if host < farm:
            return dice.randrange(farm)
        return dice.randrange(farm) if dice.random() < 0.03 else chooser.choose()

    return build("spam", dice, sizes, outside, seeds=dice.sample(good, 10))


def scaled(weights: list[float], pages: int) -> list[int]:
    """Return sizes of hosts that make up so many pages, about; none has more than a fiftieth of them."""
    total = sum(weights)
    return [max(1, min(pages // 50, round(weight / total * pages))) for weight in weights]


WEBS = (power_law, dense, spam)
