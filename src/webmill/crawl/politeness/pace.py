"""How long to wait between two requests to a host: as the operator said, or as slowly as the crawl can afford.

    pace.delay("example.org")      # 4.5

Where hundreds of domains wait, another one can always be asked: each rests for 70 s. Where there are few, a crawl of
500 pages would take ten hours so. There a host rests for five times as long as it took to answer, from 3 to 30 s, as
Heritrix does: a slow server is asked less often. `Crawl-delay`, `Retry-After` and 429 or 503 are above this.
"""

from __future__ import annotations

from collections import OrderedDict

from webmill.crawl.options import AUTO_DELAY, CROWDED_DELAY, Politeness

MANY_DOMAINS = 200  # that wait: then no host is asked more often than every 70 s
SHORTEST, FACTOR = 3.0, 5.0
MOST_HOSTS = 20_000  # whose times are kept
NEWEST_SHARE = 0.3  # of the newest response in the time that counts


class HostPace:
    """`domains_waiting` is set now and then by whoever knows the frontier."""

    def __init__(self, politeness: Politeness) -> None:
        self._politeness = politeness
        self._seconds: OrderedDict[str, float] = OrderedDict()
        self.domains_waiting = 0

    def delay(self, host: str) -> float:
        """Return the seconds between two requests to a host. One that has not answered yet is asked most carefully."""
        if not self._politeness.is_auto:
            return self._politeness.delay
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
