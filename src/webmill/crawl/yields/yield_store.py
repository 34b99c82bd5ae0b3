"""What the patterns of a shard's domains have given, in memory as far as it is needed, and in SQLite.

    yields.observe(sample, url=url, status=200, via=page)   # a page was fetched
    yields.standing(url)                                    # "open", "slow" or "parked", and the pattern
    yields.share(url)                                       # of its pattern's pages with something new: 0 to 1

A domain belongs to one shard, so what is found out about it is found out here, and is the same after a restart. Rows
are written every few seconds and when a shard ends; a kill or a power cut costs the observations of the last seconds:
then a few more requests are spent. Memory has a bound, whatever is crawled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import msgspec

from webmill.crawl.frontier.base import domain_of
from webmill.crawl.yields.domain_yield import (
    NEW_TEXT,
    REDIRECT,
    DomainYield,
    PatternYield,
    Standing,
    YieldBudget,
)
from webmill.crawl.yields.folding import without_key
from webmill.crawl.yields.page_sample import PageSample
from webmill.crawl.yields.seen_text import SeenText, decode_seen
from webmill.crawl.yields.url_pattern import patterns_of
from webmill.infra.sqlite import Database, Schema, open_read_only

FILE_NAME = "yields.sqlite"
PARKED = "parked"  # the kind of error of a URL that was parked; the pattern stands behind a colon
MOST_MEMORY = 32 << 20  # bytes
MOST_RECENT = 50_000  # pages whose text later ones may be compared with
MOST_KEYS_OF_URL = 4
SAVE_EVERY = 5.0  # seconds
GONE = frozenset({400, 404, 405, 406, 410, 414})
SCHEMA = Schema(
    tag=int.from_bytes(b"wmYi"),
    steps=(
        """
        CREATE TABLE domain (
            name TEXT PRIMARY KEY,
            judged INTEGER NOT NULL,  -- whether a pattern of it is parked or slow, or a parameter is folded
            body BLOB NOT NULL,  -- MessagePack: the DomainYield
            young BLOB NOT NULL,  -- hashes of the text that it has shown, 4 bytes each
            old BLOB NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX domain_judged ON domain (name) WHERE judged;
        """,
    ),
)
_decode = msgspec.msgpack.Decoder(DomainYield).decode
_encode = msgspec.msgpack.Encoder().encode


class FoundStanding(msgspec.Struct, frozen=True):
    standing: Standing
    pattern: str


OPEN = FoundStanding("open", "")


class YieldStore:
    """The yields of one shard. Without a path they live in memory."""

    def __init__(self, path: Path | None, budget: YieldBudget, *, memory: int = MOST_MEMORY) -> None:
        self._budget, self._most = budget, memory
        self._database = Database(path, schema=SCHEMA)
        self._domains: OrderedDict[str, DomainYield] = OrderedDict()
        self._seen: dict[str, SeenText] = {}  # of the same domains
        self._sizes: dict[str, int] = {}
        self._total = 0
        self._changed: set[str] = set()
        self._judged = {name for (name,) in self._database.read("SELECT name FROM domain WHERE judged")}
        self._recent: OrderedDict[int, int] = OrderedDict()  # digests of pages, by the hash of their URL
        self._saved_at = 0.0

    # --- what was fetched ---

    def observe(
        self, sample: PageSample | None, *, url: str, status: int, via: str = "", leads_on: bool = False
    ) -> None:
        """Count a first visit. `leads_on`: it is a redirect into the crawl. `via`: the page that had its link."""
        domain = domain_of(url)
        found = self._domain(domain)
        pattern = found.pattern_of(url)
        if status == 200 and sample is not None:
            is_new = self._seen[domain].add(sample.pieces) >= NEW_TEXT
            self._compare(found, sample, url=url, is_new=is_new)
            if is_new:
                found.earn(pattern, self._budget)
                self._credit_leader(domain, pattern, via)
            else:
                self._spend(found, pattern, 1.0, url)
        elif status in GONE or 300 <= status < 400:
            self._spend(found, pattern, REDIRECT if leads_on else 1.0, url)
        else:
            return
        self._mark_changed(domain, found)

    def _spend(self, found: DomainYield, pattern: str, cost: float, url: str) -> None:
        if found.spend(pattern, cost, self._budget):
            found.patterns[pattern].example = url[:200]

    def _credit_leader(self, domain: str, pattern: str, via: str) -> None:
        """Credit the pattern of the page that led to a new one. Not its own: each page of a trap leads to the next."""
        if via and domain_of(via) == domain:
            found = self._domain(domain)
            if (leader := found.pattern_of(via)) != pattern:
                found.earn_by_leading(leader, self._budget)

    def _compare(self, found: DomainYield, sample: PageSample, *, url: str, is_new: bool) -> None:
        """Compare a page with the one at its URL without each of its parameters, if that was fetched of late."""
        self._recent[crc32(url.encode())] = sample.digest
        if len(self._recent) > MOST_RECENT:
            self._recent.popitem(last=False)
        address, _, query = url.partition("?")
        if not query:
            return
        keys = dict.fromkeys(pair.partition("=")[0] for pair in query.split("&"))
        for key in list(keys)[:MOST_KEYS_OF_URL]:
            base = without_key(url, key)
            known = self._recent.get(crc32(base.encode()))
            if known is not None or (base == sample.canonical and not is_new):
                is_same = known is None or known == sample.digest
                found.note_key(_key_name(address, key), base=crc32(base.encode()), is_same=is_same)

    # --- what may be fetched ---

    def is_judged(self, url: str) -> bool:
        """Tell whether anything is held against the domain of a URL: if not, there is nothing to look up."""
        return domain_of(url) in self._judged

    def standing(self, url: str) -> FoundStanding:
        if not self.is_judged(url):
            return OPEN
        found = self._domain(domain_of(url))
        pattern = found.pattern_of(url)
        standing = found.standing(pattern)
        if standing == "parked" and not self._budget.pattern:
            return OPEN
        return FoundStanding(standing, pattern)

    def fold(self, url: str) -> str:
        """Return a URL without the parameters that have never changed a page of its kind."""
        if "?" not in url or not self.is_judged(url):
            return url
        keys = self._domain(domain_of(url)).keys
        address, _, query = url.partition("?")
        for key in dict.fromkeys(pair.partition("=")[0] for pair in query.split("&")):
            evidence = keys.get(_key_name(address, key))
            if evidence and evidence.never_matters:
                url = without_key(url, key)
        return url

    def share(self, url: str) -> float:
        """Return the share of the pages of a URL's pattern that had something new; a half where nothing is known."""
        found = self._domain(domain_of(url))
        known = found.patterns.get(found.pattern_of(url))
        return known.share if known else 0.5

    def count_parked(self, url: str, pattern: str) -> None:
        domain = domain_of(url)
        found = self._domain(domain)
        if known := found.patterns.get(pattern):
            known.parked += 1
            self._changed.add(domain)

    def release(self, pattern: str) -> bool:
        """Never park a pattern again. True: it was parked here. The pattern names its domain."""
        domain = domain_of(f"http://{pattern.removeprefix('*.').partition('/')[0]}/")
        found = self._domain(domain)
        known = found.patterns.get(pattern)
        if known is None or known.state != "parked":
            return False
        known.state, known.parked = "released", 0
        self._mark_changed(domain, found)
        return True

    # --- keeping it ---

    def _domain(self, name: str) -> DomainYield:
        if (found := self._domains.get(name)) is not None:
            self._domains.move_to_end(name)
            return found
        rows = self._database.read("SELECT body, young, old FROM domain WHERE name = ?", (name,))
        found = _decode(rows[0][0]) if rows else DomainYield(self._budget.of_domain)
        self._domains[name] = found
        self._seen[name] = decode_seen(rows[0][1:]) if rows else SeenText()
        self._resize(name, found)
        return found

    def _mark_changed(self, name: str, found: DomainYield) -> None:
        self._changed.add(name)
        if name not in self._judged and found.is_judged:
            self._judged.add(name)
        self._resize(name, found)

    def _resize(self, name: str, found: DomainYield) -> None:
        """Note how much memory a domain takes, and forget those that were used longest ago."""
        size = found.size + self._seen[name].size
        self._total += size - self._sizes.get(name, 0)
        self._sizes[name] = size
        while self._total > self._most and len(self._domains) > 1:
            oldest = next(iter(self._domains))
            if oldest in self._changed:
                self.save()
            del self._domains[oldest], self._seen[oldest]
            self._total -= self._sizes.pop(oldest)

    def save_now_and_then(self, now: float) -> None:
        if now - self._saved_at >= SAVE_EVERY:
            self._saved_at = now
            self.save()

    def save(self) -> None:
        if not self._changed:
            return
        self._judged -= {name for name in self._changed if not self._domains[name].is_judged}
        rows = [
            (name, name in self._judged, _encode(self._domains[name]), *self._seen[name].encode())
            for name in self._changed
        ]
        with self._database.write_relaxed():
            self._database.many("INSERT OR REPLACE INTO domain VALUES (?, ?, ?, ?, ?)", rows)
        self._changed.clear()

    def close(self) -> None:
        try:
            self.save()
        finally:
            self._database.close()


def _key_name(address: str, key: str) -> str:
    """Return the name of a parameter of pages of one shape."""
    return f"{patterns_of(f'{address}?')[0]}?{key}"[:300]


def read_judged(path: Path) -> Iterator[tuple[str, DomainYield]]:
    """Yield the domains of a shard of which something is parked, slow or folded, while another process may have it."""
    with open_read_only(path) as read:
        last = ""
        while rows := read("SELECT name, body FROM domain WHERE judged AND name > ? ORDER BY name LIMIT 100", (last,)):
            for name, body in rows:
                yield name, _decode(body)
            last = rows[-1][0]


def parked_patterns(path: Path) -> Iterator[tuple[str, PatternYield]]:
    """Yield the parked patterns of a shard."""
    for _, found in read_judged(path):
        yield from ((name, each) for name, each in sorted(found.patterns.items()) if each.state == "parked")
