"""What crawls of many pages take, computed from the measured figures: for `docs/how-to/a-billion-pages.md`.

Figures of this repository are read from `benchmarks/RESULTS.md`; those of others, and prices, are named here with their
source. A table that was measured anew changes the page; `docs/generate.py --check` says so.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parents[1] / "benchmarks" / "RESULTS.md"
SIZES = (10_000_000, 1_000_000_000, 50_000_000_000)  # pages
DAYS = {10_000_000: 1, 1_000_000_000: 10, 50_000_000_000: 60}  # in which they are to be crawled: our choice
EXTRACT_DAYS = 2
MOST_SHARDS = 256

# Of others
KNOWN_PER_PAGE = 41 / 6.3  # URLs: IRLbot, 41 billion on 6.3 billion pages
LINKS_PER_PAGE = 394 / 6.3  # the same
PAGES_PER_HOST = 2_482_057_519 / 47_552_457  # Common Crawl, CC-MAIN-2024-42
HOSTS_PER_DOMAIN = 47_552_457 / 38_304_026  # the same

# Prices and machines, in US dollars
CORE_HOUR = 462 / (12 * 25.5 * 16)  # what the crawl of a billion pages of 2025 paid for a virtual core
STORAGE_GB_MONTH = 0.023  # list price of Amazon S3, standard class; PUT and GET requests for 1,000
PUT_1000, GET_1000 = 0.005, 0.0004
PART = 8 << 20  # bytes of an upload and of a download
CORES, MEMORY, DISK = 16, 128, 3_750  # of a machine; GB
USED = 0.7  # share of a core that a plan may count on

# Redirects, errors and robots.txt for each page: Common Crawl, CC-MAIN-2026-30 (9.3 % and 6.8 % beside 76.6 %)
OTHER_REQUESTS = (9.3 + 6.8) / 76.6 + 1 / PAGES_PER_HOST
FILE_BYTES = 4096  # of the disk, at least, for the file of a domain's URLs
DELAY = 70.0  # seconds between two pages of a domain while hundreds of domains wait


class Figures(NamedTuple):
    """What was measured here."""

    real_page_ms: float  # CPU of a real page over TLS, one process, languages included
    small_page_ms: float  # CPU of a small page, two processes
    link_us: float  # CPU of a new link in the frontier
    request_ms: float  # CPU of a request in the simulated crawl: all but the network, TLS and the archive
    requests_per_visit: float
    process_mib: float  # memory of a process at the end of the simulated crawl
    growth_mib: float  # more for a million URLs on as many hosts as the simulated web has
    simulated_urls: int
    simulated_domains: int
    queue_bytes: float  # of the disk, for a URL that waits
    hash_bytes: float
    visit_bytes: float
    domain_bytes: float
    redis_filter: float
    redis_waiting: float
    redis_domain: float
    redis_visit: float
    redis_robots: float
    indexed: float  # captures for a second of CPU
    warc_bytes: float  # of a real page
    extracted: float  # documents for a second of CPU


def read_figures(text: str) -> Figures:
    parts = dict(re.findall(r"^<!-- (\w+) -->\n(.*?)(?=^<!-- \w+ -->\n|\Z)", text, re.MULTILINE | re.DOTALL))
    frontier, redis, broad = parts["frontier"], parts["frontier_redis"].rpartition("BF.*:")[2], parts["broad_crawl"]
    largest = broad.rpartition("### Broad crawl")[2]
    columns = [name.strip() for name in found(largest, r"^(\| URLs known .*?)$").strip("| ").split("|")]
    lines = re.findall(r"^\| [0-9][^a-z\n]*$", largest, re.MULTILINE)
    rows = [dict(zip(columns, map(number, line.strip("| ").split("|")), strict=True)) for line in lines]
    first, last = rows[max(0, len(rows) // 2 - 1)], rows[-1]
    pattern = r"### Indexing real pages, (\d+) MB.*?\| webmill \| ([\d,]+) \| ([\d,]+)"
    real = re.search(pattern, parts["indexing"], re.DOTALL)
    new = re.search(r"no link known before.*?\n\| 10,000,000 \| ([\d,]+)", frontier, re.DOTALL)
    waiting = number(found(frontier, r"hashes of known URLs .*?per URL \(([\d,]+)\)"))
    assert real
    assert new
    return Figures(
        real_page_ms=number(
            found(parts["crawling"], r"### Real pages: TLS.*?\| webmill, defaults[^|]*\|[^|]*\| ([\d.]+)")
        ),
        small_page_ms=number(found(parts["crawling"], r"\| two processes \|.*?\|.*?\|.*?\| ([\d.]+)")),
        link_us=1e6 / number(new[1]),
        request_ms=last["CPU, ms each"],
        requests_per_visit=last["requests"] / last["visited"],
        process_mib=last["memory, MiB"],
        growth_mib=(last["memory, MiB"] - first["memory, MiB"]) / (last["URLs known"] - first["URLs known"]) * 1e6,
        simulated_urls=int(last["URLs known"]),
        simulated_domains=int(last["domains"]),
        queue_bytes=number(found(frontier, r"\| files of domains \| ([\d.]+)")) * (1 << 20) / waiting,
        hash_bytes=number(found(frontier, r"hashes of known URLs \| [\d.]+ \| ([\d.]+)")),
        visit_bytes=number(found(frontier, r"rows of visits \| [\d.]+ \| ([\d.]+)")),
        domain_bytes=number(found(frontier, r"rows of domains \| [\d.]+ \| ([\d.]+)")),
        redis_filter=number(found(redis, r"filter, per URL \| ([\d.]+)")),
        redis_waiting=number(found(redis, r"per URL that waits \| ([\d.]+)")),
        redis_domain=number(found(redis, r"domain that waits \| ([\d.]+)")),
        redis_visit=number(found(redis, r"visit \| ([\d.]+)")),
        redis_robots=number(found(redis, r"robots.txt of 1 KB \| ([\d.]+)")),
        indexed=number(real[3]),
        warc_bytes=number(real[1]) * 1e6 / number(real[2]),
        extracted=number(found(parts["extracting"], r"\| webmill, resiliparse \| [\d,]+ \| ([\d,]+)")),
    )


def found(text: str, pattern: str) -> str:
    match = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    if match is None:
        raise SystemExit(f"benchmarks/RESULTS.md has no {pattern}: docs/scale.py must follow it")
    return match[1]


def number(text: str) -> float:
    return float(text.strip().replace(",", ""))


class Plan(NamedTuple):
    """What a crawl of `pages` takes."""

    pages: int
    days: int
    known: float
    waiting: float
    hosts: float
    domains: float
    rate: float  # pages/s
    crawl_hours: float  # of a core
    index_hours: float
    extract_hours: float
    machines: int
    extract_machines: int
    shards: int
    memory_bytes: float
    frontier_bytes: float
    redis_bytes: float
    archive_bytes: float
    gbit: float
    per_domain: float  # pages of one domain that the delay allows in these days


def memory_of(urls: float, figures: Figures) -> float:
    """Return the bytes of a process that knows so many URLs, if memory grew on as it did at last in the simulation."""
    more = max(0.0, urls - figures.simulated_urls) / 1e6 * figures.growth_mib
    return (figures.process_mib + more) * (1 << 20)


def make_plan(pages: int, figures: Figures) -> Plan:
    days, known = DAYS[pages], pages * KNOWN_PER_PAGE
    hosts, waiting = pages / PAGES_PER_HOST, known - pages
    domains = hosts / HOSTS_PER_DOMAIN
    rate = pages / (days * 86400)
    crawl_hours = pages * (figures.real_page_ms + OTHER_REQUESTS * figures.request_ms) / 3.6e6
    extract_hours = pages / figures.extracted / 3600
    cores = crawl_hours / (24 * days * USED)
    disk = domains * (figures.domain_bytes + FILE_BYTES)
    disk += known * figures.hash_bytes + waiting * figures.queue_bytes + pages * figures.visit_bytes
    redis = known * figures.redis_filter + waiting * figures.redis_waiting + pages * figures.redis_visit
    shards = min(MOST_SHARDS, max(2, 1 << math.ceil(math.log2(max(2 * cores, 1.0)))))  # room for twice the cores
    memory = memory_of(known / shards, figures) * shards
    return Plan(
        pages=pages,
        days=days,
        known=known,
        waiting=waiting,
        hosts=hosts,
        domains=domains,
        rate=rate,
        crawl_hours=crawl_hours,
        index_hours=pages / figures.indexed / 3600,
        extract_hours=extract_hours,
        machines=math.ceil(max(cores / CORES, memory / (MEMORY * 1e9), disk / (DISK * 1e9))),
        extract_machines=math.ceil(extract_hours / (24 * EXTRACT_DAYS * USED * CORES)),
        shards=shards,
        memory_bytes=memory,
        frontier_bytes=disk,
        redis_bytes=redis + domains * figures.redis_domain + hosts * figures.redis_robots,
        archive_bytes=pages * figures.warc_bytes,
        gbit=rate * figures.warc_bytes * 8 / 1e9,
        per_domain=days * 86400 / DELAY,
    )
