"""The host map: which names exist, which address each has, and which host answers.

All names are under domains reserved by RFC 2606, so a mistake never reaches somebody's server. A name that starts with
`*.` stands for every name below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from webmill.testing.exchange import SimulatedHost

FIRST_NAMES = (
    "www.mill.example",
    "news.mill.example",
    "shop.grain.example",
    "blog.harvest.test",
    "mill.example",
    "recipes.grain.example",
    "weather.harvest.test",
    "www.example.org",  # a suffix that the Public Suffix List knows
    "library.mill.example",
    "museum.river.test",
    "xn--mhle-0ra.river.test",  # mühle
    "market.river.test",
    "school.bakery.example",
    "www.bakery.example",
    "archive.example.org",
    "travel.lighthouse.test",
    "letters.lighthouse.test",
    "wiki.harvest.test",
    "forum.grain.example",
    "music.bakery.example",
)


def ordinary_names(count: int) -> tuple[str, ...]:
    """Return `count` host names: first those chosen by hand, then seven per registered domain."""
    more = (f"site-{i:05}.field-{i // 7:04}.{'example' if i % 2 else 'test'}" for i in range(count - len(FIRST_NAMES)))
    return (*FIRST_NAMES[:count], *more)


class HostMap:
    """Maps names to hosts and addresses, round-robin; the first host of an address answers for the bare address."""

    def __init__(self, sites: Mapping[str, SimulatedHost], *, addresses: Sequence[str]) -> None:
        self._sites = dict(sites)
        self._addresses = {name: addresses[i % len(addresses)] for i, name in enumerate(self._sites)}
        self._owners = {address: name for name, address in reversed(self._addresses.items())}

    def __iter__(self) -> Iterator[str]:
        return iter(self._sites)

    def name_for(self, host: str, address: str) -> str | None:
        """Return the name that answers a request for `host` received at `address`, or None."""
        if host == address or not host:
            return self._owners.get(address)
        if host in self._sites:
            return host
        labels = host.split(".")
        above = ("*." + ".".join(labels[i:]) for i in range(1, len(labels)))
        return next((pattern for pattern in above if pattern in self._sites), None)

    def site(self, name: str) -> SimulatedHost:
        return self._sites[name]

    def address(self, name: str) -> str:
        return self._addresses[name]


class HostResolver(Mapping[str, tuple[str, int]]):
    """Maps a name to (address, port), for a crawler to use instead of DNS. Iteration omits names below a `*.`"""

    def __init__(self, hosts: HostMap, *, port: int, elsewhere: Mapping[str, tuple[str, int]]) -> None:
        self._hosts, self._port, self._elsewhere = hosts, port, elsewhere

    def __getitem__(self, name: str) -> tuple[str, int]:
        if name in self._elsewhere:
            return self._elsewhere[name]
        found = self._hosts.name_for(name, "") if name else None
        if found is None:
            raise KeyError(name)
        return self._hosts.address(found), self._port

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self._hosts if not name.startswith("*."))
        yield from self._elsewhere

    def __len__(self) -> int:
        return sum(1 for _ in self)
