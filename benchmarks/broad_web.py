"""A simulated web of any number of hosts: what `broad_crawl` crawls. Nothing of it is stored; a URL says what it gives.

Shares are of hosts, or of answers, and come from published figures where there are any:

- Common Crawl, fetch status of CC-MAIN-2026-30 (github.com/commoncrawl/cc-crawl-statistics,
  plots/crawler/fetch_status_percentage.csv): of what was not skipped 76.6 % succeeded or had not changed, 9.3 % were
  redirects, 6.8 % failed, 7.3 % were denied by robots.txt.
- The same, plots/crawlsize/domain.csv, CC-MAIN-2024-42: 47.6 million hosts on 38.3 million domains.
- Lee, Leonard, Wang, Loguinov, "IRLbot: Scaling to 6 Billion Pages and Beyond" (2008): 394 billion links on 6.3 billion
  pages, 62 each; 117 million hosts gave them.
- Kohler and others, robotstxt-study (padlab.de, of Common Crawl's archives): 56 % of hosts have a robots.txt (2023).
- Princeton TR-643-02 (2002): half of all failures to communicate are those of DNS.

Assumed, because nobody has published it: the shares of dead hosts by kind, response times (lognormal, 0.4 s in the
median, 3 % of hosts take 5 to 25 s), traps on 1 % of hosts, how popular hosts are (a power law), and how many share an
address (three on average, some of them thousands).
"""

from __future__ import annotations

import random
from array import array
from zlib import crc32

HOSTS_PER_DOMAIN = 1.24
LINKS = 62  # of a page
OTHER_HOSTS = 0.25  # of them
DEAD_NAMES, SILENT_NAMES, REFUSING, SILENT = 0.05, 0.01, 0.02, 0.02  # of hosts
DENYING, HAS_ROBOTS, ASKS_DELAY = 0.073, 0.56, 0.03
SLOW_HOSTS, TRAP_HOSTS = 0.03, 0.01
REDIRECTS, NOT_FOUND, SERVER_ERRORS = 0.093, 0.05, 0.008  # of answers
TITLES = tuple(f"word{number}" for number in range(1000))


class BroadWeb:
    """A web of `hosts`, the same for the same `seed`."""

    def __init__(self, hosts: int, *, seed: int = 1) -> None:
        self.hosts, self.seed = hosts, seed
        self.domains = max(1, int(hosts / HOSTS_PER_DOMAIN))

    def host(self, number: int) -> str:
        """Return the name of a host: the first ones have a domain of their own, the others share one of them."""
        if number < self.domains:
            return f"www.site{number}.example"
        return f"h{number}.site{(number * 2654435761) % self.domains}.example"

    def number_of(self, host: str) -> int:
        first, _, rest = host.partition(".")
        return int(first[1:]) if first[0] == "h" else int(rest.partition(".")[0][4:])

    def dice(self, kind: str, key: str) -> random.Random:
        """Return random numbers that are always the same for a thing."""
        return random.Random(crc32(f"{self.seed} {kind} {key}".encode()))

    def seeds(self, count: int) -> list[str]:
        step = max(1, self.hosts // count)
        return [f"https://{self.host(number)}/" for number in range(0, self.hosts, step)][:count]

    def popular_host(self, dice: random.Random) -> int:
        """Return a host that a page links to: a tenth of the hosts gets nearly half of all such links."""
        return int(self.hosts * dice.random() ** 3)

    def address_of(self, number: int) -> str:
        """Return the address of a host: a third are alone, the others share one, some of them with thousands."""
        dice = self.dice("address", str(number))
        shared = number if dice.random() < 1 / 3 else int(self.hosts / 3 * dice.random() ** 2)
        return f"{11 + (shared >> 24)}.{shared >> 16 & 255}.{shared >> 8 & 255}.{shared & 255}"

    # --- what servers give ---

    def robots(self, dice: random.Random) -> tuple[int, bytes]:
        if dice.random() < DENYING:
            return 200, b"User-agent: *\nDisallow: /\n"
        if dice.random() > HAS_ROBOTS:
            return 404, b"<html><title>Not found</title></html>"
        delay = b"Crawl-delay: 40\n" if dice.random() < ASKS_DELAY else b""
        return 200, b"User-agent: *\nDisallow: /admin/\nDisallow: /cart\n" + delay

    def page(self, url: str, dice: random.Random, *, is_trap: bool) -> bytes:
        words = " ".join(dice.choices(TITLES, k=80))
        parts = [f"<html><head><title>{url}</title></head><body><p>{words}</p>"]
        parts += [f'<a href="{link}">{words[:9]}</a>' for link in self.links(dice, is_trap=is_trap)]
        return "\n".join([*parts, "</body></html>"]).encode()

    def links(self, dice: random.Random, *, is_trap: bool) -> list[str]:
        pages = 2 + int(2000 * dice.random() ** 6)  # of this host that its pages link to: few have many
        own = [f"/p/{dice.randrange(20 + pages)}.html" for _ in range(int(LINKS * (1 - OTHER_HOSTS)))]
        if is_trap:
            own[:20] = [f"/calendar?month={dice.randrange(1_000_000)}" for _ in range(20)]
        others = (self.popular_host(dice) for _ in range(LINKS - len(own)))
        away = [
            f"https://{self.host(one)}/" + ("" if dice.random() < 0.6 else f"p/{dice.randrange(40)}.html")
            for one in others
        ]
        return ["/", *own[1:], *away]


class PolitenessJudge:
    """Notes when each host, domain and address was asked, and the shortest time between two requests to one of them.
    24 bytes a host."""

    def __init__(self, web: BroadWeb) -> None:
        self.hosts = array("d", [-1e9]) * web.hosts
        self.domains = array("d", [-1e9]) * web.domains
        self.addresses: dict[str, float] = {}
        self.shortest = {"host": 1e9, "domain": 1e9, "address": 1e9}
        self.requests = 0

    def note(self, host: int, domain: int, address: str, *, now: float) -> None:
        self.requests += 1
        gaps = {
            "host": now - self.hosts[host],
            "domain": now - self.domains[domain],
            "address": now - self.addresses.get(address, -1e9),
        }
        self.hosts[host] = self.domains[domain] = self.addresses[address] = now
        self.shortest = {name: min(gap, gaps[name]) for name, gap in self.shortest.items()}
