"""How long to wait between two requests to a host: as the operator said, or as slowly as the crawl can afford.

    pace.delay("example.org")      # 4.5

Where hundreds of domains wait, another one can always be asked: each rests for 70 s. Where there are few, a crawl of
500 pages would take ten hours so. There a host rests for five times as long as it took to answer, from 3 to 30 s, as
Heritrix does: a slow server is asked less often. `Crawl-delay`, `Retry-After` and 429 or 503 are above this. A [[site]]
table may say another delay for its URLs (`delay_of`); with an `agreement` it is not slowed down by a `Crawl-delay`.
"""

from __future__ import annotations

from collections import OrderedDict

from webmill.crawl.options import AUTO_DELAY, CROWDED_DELAY, Politeness
from webmill.crawl.sites import CrawlSites
from webmill.formats.url.normalise import host_of

MANY_DOMAINS = 200  # that wait: then no host is asked more often than every 70 s
SHORTEST, FACTOR = 3.0, 5.0
MOST_HOSTS = 20_000  # whose times are kept
NEWEST_SHARE = 0.3  # of the newest response in the time that counts


class HostPace:
    """`domains_waiting` is set now and then by whoever knows the frontier."""

    def __init__(self, politeness: Politeness, sites: CrawlSites | None = None) -> None:
        self._politeness, self._sites = politeness, CrawlSites() if sites is None else sites
        self._seconds: OrderedDict[str, float] = OrderedDict()
        self.domains_waiting = 0

    def delay_of(self, url: str) -> float:
        """Return the seconds between two requests to the host of a URL, whose site may have a delay of its own."""
        rule = self._sites.find(url)
        if rule is None or rule.delay is None:
            return self.delay(host_of(url))
        return self._auto_delay(host_of(url)) if rule.delay == "auto" else float(rule.delay)

    def resource_delay_of(self, url: str) -> float:
        """Return the seconds between any request to the host of a URL and the next page resource from it."""
        rule = self._sites.find(url)
        if rule is None or rule.delay is None or rule.delay == "auto":
            return self._politeness.resource_delay
        return min(float(rule.delay), self._politeness.page_resource_delay)

    def crawl_delay(self, url: str, asked: float) -> float:
        """Return what counts of the delay that a robots.txt asks for: nothing where its owner has agreed to another."""
        rule = self._sites.find(url)
        return 0.0 if rule and rule.agreement and rule.delay is not None else asked

    def delay(self, host: str) -> float:
        """Return the seconds between two requests to a host. One that has not answered yet is asked most carefully."""
        return self._auto_delay(host) if self._politeness.is_auto else self._politeness.delay

    def _auto_delay(self, host: str) -> float:
        if self.domains_waiting >= MANY_DOMAINS:
            return CROWDED_DELAY
        seconds = self._seconds.get(host)
        return AUTO_DELAY if seconds is None else min(max(FACTOR * seconds, SHORTEST), AUTO_DELAY)

    def learn(self, host: str, seconds: float) -> None:
        """Note how long a response took."""
        before = self._seconds.pop(host, seconds)
        self._seconds[host] = (1 - NEWEST_SHARE) * before + NEWEST_SHARE * seconds
        if len(self._seconds) > MOST_HOSTS:
            self._seconds.popitem(last=False)

    def typical(self) -> float:
        """Return the mean delay of the hosts that were asked of late; 0.0 when there is none."""
        hosts = list(self._seconds)[-100:]
        if not hosts or not self._politeness.is_auto:
            return self._politeness.delay if not self._politeness.is_auto else 0.0
        return sum(map(self.delay, hosts)) / len(hosts)
