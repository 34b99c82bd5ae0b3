"""The text of `docs/how-to/a-billion-pages.md`, with the figures of `scale.py`."""

from __future__ import annotations

import math

from scale import (
    CORE_HOUR,
    CORES,
    DISK,
    EXTRACT_DAYS,
    GET_1000,
    HOSTS_PER_DOMAIN,
    KNOWN_PER_PAGE,
    LINKS_PER_PAGE,
    MEMORY,
    OTHER_REQUESTS,
    PAGES_PER_HOST,
    PART,
    PUT_1000,
    RESULTS,
    SIZES,
    STORAGE_GB_MONTH,
    USED,
    Figures,
    Plan,
    make_plan,
    read_figures,
)

REDIS_BYTES = MEMORY / 2 * 1e9  # of one Redis on a machine: it needs as much again while it writes a snapshot
INODE_BYTES = 16384  # of a disk for each inode, as mkfs.ext4 makes them
MANY_URLS = 1e9  # of one shard: beyond what anybody has tried

INTRODUCTION = """\
# What a billion pages take

Machines, memory, disks, files, network, Redis, object store, days and money for crawls of 10 million, 1 billion and
50 billion pages. `docs/scale.py` computes them from the figures that this repository has measured
([results](../../benchmarks/RESULTS.md)), from sizes of the web that others have published, and from list prices. They
are plans, not promises: [below](#what-this-is-computed-from) stands what was measured, and at which size. Nobody has
crawled 50 billion pages with webmill.
"""


def scale_page(made: str) -> str:
    figures = read_figures(RESULTS.read_text())
    plans = [make_plan(pages, figures) for pages in SIZES]
    parts = [
        f"{made}{INTRODUCTION}",
        f"## What it takes\n\n{needs_table(plans)}",
        f"## What it costs\n\n{money_table(plans)}",
        "## What breaks first, and what to do\n",
        *(f"### {short(plan.pages)} pages\n\n{bullets(limits_of(plan, figures))}" for plan in plans),
        f"## What this is computed from\n\n{figures_table(figures)}",
        f"## Beside the figures of others\n\n{others(plans[1])}",
    ]
    return "\n".join(parts)


def needs_table(plans: list[Plan]) -> str:
    rows = {
        "days (chosen)": [f"{one.days}" for one in plans],
        "pages/s": [f"{one.rate:,.0f}" for one in plans],
        f"URLs known, {KNOWN_PER_PAGE:.1f} for each page": [short(one.known) for one in plans],
        "hosts": [short(one.hosts) for one in plans],
        "domains": [short(one.domains) for one in plans],
        "core-hours: crawl": [short(one.crawl_hours) for one in plans],
        "core-hours: index": [short(one.index_hours) for one in plans],
        "core-hours: documents": [short(one.extract_hours) for one in plans],
        f"machines of {CORES} cores, {MEMORY} GB: crawl": [f"{one.machines:,}" for one in plans],
        f"machines: documents in {EXTRACT_DAYS} days (Ray)": [f"{one.extract_machines:,}" for one in plans],
        "shards, a process each": [f"{one.shards}" for one in plans],
        "memory of those processes": [size(one.memory_bytes) for one in plans],
        "disk: frontier": [size(one.frontier_bytes) for one in plans],
        "files of waiting URLs, one a domain at least": [short(one.domains) for one in plans],
        "Redis, where nodes share one": [size(one.redis_bytes) for one in plans],
        "object store: WARC files": [size(one.archive_bytes) for one in plans],
        "WARC files of 1 GiB": [short(one.archive_bytes / (1 << 30)) for one in plans],
        "network in, Gbit/s": [f"{one.gbit:,.2f}" for one in plans],
        "pages of one domain at most, 70 s apart": [f"{one.per_domain:,.0f}" for one in plans],
    }
    return table(["pages", *(short(one.pages) for one in plans)], rows)


def money_table(plans: list[Plan]) -> str:
    names = (
        "machines of the crawl",
        "machines of its Redis",
        "index",
        "documents",
        "requests of the store",
        "sum",
        "storing it, each month",
    )
    rows = dict(zip(names, map(list, zip(*map(prices, plans), strict=True)), strict=True))
    note = (
        f"A core costs ${CORE_HOUR:.3f} an hour: what a crawl of a billion pages paid in 2025, $462 for 12 machines "
        f"of 16 virtual cores for 25.5 hours. {USED:.0%} of it is used. Storage at ${STORAGE_GB_MONTH} for a GB and "
        "month; uploads in parts of 8 MiB, each read back once. Network into a cloud is free, out of it it is not.\n"
    )
    return f"{table(['US dollars', *(short(one.pages) for one in plans)], rows)}\n{note}"


def prices(plan: Plan) -> list[str]:
    redis = 0 if plan.machines == 1 else math.ceil(plan.redis_bytes / REDIS_BYTES)
    compute = [
        rent(plan),
        rent(plan) / plan.machines * redis,
        *(hours / USED * CORE_HOUR for hours in (plan.index_hours, plan.extract_hours)),
    ]
    requests = plan.archive_bytes / PART * (PUT_1000 + GET_1000) / 1000
    storage = plan.archive_bytes / 1e9 * STORAGE_GB_MONTH
    return [f"${price:,.0f}" for price in (*compute, requests, sum(compute) + requests, storage)]


def rent(plan: Plan) -> float:
    """Return the price of the crawl's machines for its days, whatever they do."""
    return plan.machines * CORES * 24 * plan.days * CORE_HOUR


# --- what breaks first -----------------------------------------------------------------------------------------------


def limits_of(plan: Plan, figures: Figures) -> list[str]:
    if plan.machines == 1:
        return [one_machine(plan), too_few_domains(plan), documents_limit(plan)]
    return [
        machines_needed(plan),
        redis_limit(plan, figures),
        memory_limit(plan),
        disk_limit(plan),
        files_limit(plan),
        shards_limit(plan, figures),
        network_limit(plan),
        large_domains(plan),
        documents_limit(plan),
    ]


def cores_of(plan: Plan) -> float:
    """Return how many cores the crawl keeps busy."""
    return plan.crawl_hours / (24 * plan.days * USED)


def one_machine(plan: Plan) -> str:
    days = f"{plan.days} day{'s' * (plan.days > 1)}"
    return (
        f"One machine does it in {days}: {cores_of(plan):.1f} of its cores are busy. No Redis, no Ray; "
        f"`--processes {plan.shards}`."
    )


def too_few_domains(plan: Plan) -> str:
    return (
        f"First to run short: domains. One page in 70 s makes {plan.per_domain:,.0f} of a domain in that time, so at "
        f"least {short(plan.pages / plan.per_domain)} domains must have that many. With fewer: more days, or "
        "agreements with sites and a shorter `delay` for them ([sites](../reference/sites.md))."
    )


def machines_needed(plan: Plan) -> str:
    return (
        f"{plan.machines:,} machines and {plan.shards} shards ([how](crawl-on-many-machines.md)), each machine with a "
        "folder of its own, `--upload` and `--keep-local 200G` ([how](upload-while-crawling.md))."
    )


def network_limit(plan: Plan) -> str:
    each = plan.gbit / plan.machines
    return f"Network: {each:,.2f} Gbit/s a machine, as much to the store, and as much again to read it back."


def large_domains(plan: Plan) -> str:
    return (
        f"Domains: {plan.per_domain:,.0f} pages of each at most in {plan.days} days. A few large sites are not "
        "finished, whatever the number of machines."
    )


def redis_limit(plan: Plan, figures: Figures) -> str:
    crawls = math.ceil(plan.redis_bytes / REDIS_BYTES)
    if crawls == 1:
        return f"One Redis holds it: {size(plan.redis_bytes)}."
    return (
        f"First to break: one Redis. It would hold {size(plan.redis_bytes)}, of which "
        f"{size(plan.pages * figures.redis_visit)} are visits, and a machine has {MEMORY} GB. Cut the seeds by domain "
        f"into {crawls:,} crawls, each with a Redis of {MEMORY // 2} GB and `--scope domain`. Links between them are "
        "lost to the crawls: take them from the WAT files of a round as the seeds of the next."
    )


def memory_limit(plan: Plan) -> str:
    each, busy = plan.memory_bytes / plan.machines, math.ceil(cores_of(plan) / CORES)
    return (
        f"Memory: {size(each)} a machine at worst, of {MEMORY} GB, and {size(plan.memory_bytes)} in all. That decides "
        f"how many machines there are: for the processors {busy:,} would do. Crawls in rounds (`--max-pages`, then a "
        "new crawl) need less."
    )


def disk_limit(plan: Plan) -> str:
    return f"Frontier on disk: {size(plan.frontier_bytes / plan.machines)} a machine, of {DISK / 1000:.2f} TB."


def files_limit(plan: Plan) -> str:
    each, inodes = plan.domains / plan.machines, DISK * 1e9 / INODE_BYTES
    is_tight = each * 2 > inodes  # a domain may have files of several priorities
    advice = (
        f"ext4 makes {short(inodes)} inodes on such a disk, so make it with `mkfs.ext4 -i 4096`, or use XFS."
        if is_tight
        else f"ext4 makes {short(inodes)} inodes on such a disk: enough."
    )
    return f"Small files: {short(each)} a machine, at least 4 KiB each ({size(each * 4096)}). {advice}"


def shards_limit(plan: Plan, figures: Figures) -> str:
    known = plan.known / plan.shards
    text = (
        f"Shards: each knows {short(known)} URLs, whose hashes ({size(known * figures.hash_bytes)}) are merged now and "
        "then. Ours was measured up to 10 million in one process."
    )
    return text + " This is far beyond it: cut it into crawls, as above." * (known > MANY_URLS)


def documents_limit(plan: Plan) -> str:
    ratio = plan.extract_hours / plan.crawl_hours
    how = (
        "`webmill extract` does it on the same machine."
        if plan.extract_machines < 2
        else "Take a Ray cluster for it, which reads from the store."
    )
    return f"Documents: {short(plan.extract_hours)} core-hours are {ratio:.2g} times those of the crawl. {how}"


# --- where it comes from ---------------------------------------------------------------------------------------------


def figures_table(one: Figures) -> str:
    simulated = f"`broad_crawl`, {one.simulated_urls:,} URLs on {one.simulated_domains:,} domains"
    disk = f"{one.queue_bytes:.0f}, {one.hash_bytes:.0f}, {one.visit_bytes:.0f} bytes"
    redis = f"{one.redis_filter:.1f}, {one.redis_waiting:.1f}, {one.redis_visit:.0f} bytes"
    rows = {
        "CPU of a real page over TLS, with languages": [f"{one.real_page_ms:.2f} ms", "`crawling`, real pages"],
        "other requests for each page": [f"{OTHER_REQUESTS:.2f}", "Common Crawl, CC-MAIN-2026-30"],
        "CPU of a small page": [f"{one.small_page_ms:.2f} ms", "`crawling`, two processes"],
        "CPU of a request without network and archive": [f"{one.request_ms:.2f} ms", simulated],
        "requests for each URL visited": [f"{one.requests_per_visit:.1f}", "`broad_crawl`: the first pages of hosts"],
        "memory of a process": [f"{one.process_mib:,.0f} MiB", "`broad_crawl`, at its end"],
        "memory, for a million URLs more": [f"{one.growth_mib:,.0f} MiB", "`broad_crawl`, its second half"],
        "CPU of a new link": [f"{one.link_us:.1f} µs", "`frontier`, 10 million URLs"],
        "disk: URL that waits, hash, visit": [disk, "`frontier`"],
        "Redis: known URL, URL that waits, visit": [redis, "`frontier_redis`, 200,000 URLs"],
        "Redis: domain": [f"{one.redis_domain:.0f} bytes", "`frontier_redis`"],
        "Redis: robots.txt of 1 KB": [f"{one.redis_robots:.0f} bytes", "`frontier_redis`"],
        "WARC bytes of a page": [f"{one.warc_bytes / 1000:.1f} KB", "`indexing`, captures of Common Crawl"],
        "captures indexed": [f"{one.indexed:,.0f}/s of a core", "`indexing`"],
        "documents": [f"{one.extracted:,.0f}/s of a core", "`extracting`, resiliparse"],
        "URLs known for each page": [f"{KNOWN_PER_PAGE:.1f}", "IRLbot, 6.3 billion pages (2007)"],
        "links of a page": [f"{LINKS_PER_PAGE:.0f}", "IRLbot"],
        "pages for each host": [f"{PAGES_PER_HOST:.0f}", "Common Crawl, CC-MAIN-2024-42"],
        "hosts for each domain": [f"{HOSTS_PER_DOMAIN:.2f}", "Common Crawl, CC-MAIN-2024-42"],
    }
    note = (
        "\nThe memory of a process is taken to grow on as it did at last in the simulated crawl, which was stopped "
        f"at {one.simulated_urls:,} URLs: that is the worst case. The frontier alone does not grow up to 10 million "
        "URLs (`frontier`).\n"
    )
    return table(["figure", "value", "measured by, at"], rows) + note


def others(billion: Plan) -> str:
    million = billion.crawl_hours / USED * CORE_HOUR / billion.pages * 1e6
    ours, theirs = billion.crawl_hours * 3.6e6 / billion.pages, 12 * 25.5 * 3600 * 16 / 1.005e9 * 1000
    rows = {
        "this plan": [
            short(billion.pages),
            f"{billion.days}",
            f"{billion.machines} of {CORES} cores",
            f"{billion.rate:,.0f}",
            f"{rent(billion):,.0f}",
        ],
        "[Chan, 2025](https://andrewkchan.dev/posts/crawler.html)": [
            "1.005 billion",
            "1.06",
            "12 of 16 virtual cores",
            f"{1.005e9 / 25.5 / 3600:,.0f}",
            "462",
        ],
        "[IRLbot, 2007](https://dl.acm.org/doi/10.1145/1541822.1541823)": ["6.3 billion", "41", "1", "1,789", ""],
        "[Common Crawl, 2024-51](https://commoncrawl.org/blog/december-2024-crawl-archive-now-available)": [
            "2.64 billion",
            "15",
            "",
            f"{2.64e9 / 15 / 86400:,.0f}",
            "",
        ],
    }
    note = (
        f"\n{ours:.1f} ms of a core for a page are ${million:.2f} for a million pages, with WARC files. Chan's "
        f"crawl paid $0.46 without them, for pages of 242 KB: {theirs:.1f} ms of its virtual cores for each, waiting "
        "included. IRLbot's pages had 24 KB and no TLS. How many pages a second a machine gives depends on how many "
        "hosts answer and on the delay; so it is the CPU of a page that is compared.\n"
    )
    return table(["crawl", "pages", "days", "machines", "pages/s", "dollars"], rows) + note


def table(head: list[str], rows: dict[str, list[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return "\n".join(lines) + "\n"


def bullets(sentences: list[str]) -> str:
    return "".join(f"- {sentence}\n" for sentence in sentences)


def short(count: float) -> str:
    for unit, name in ((1e9, "billion"), (1e6, "million")):
        if count >= unit:
            return f"{count / unit:,.3g} {name}"
    return f"{count:,.0f}" if count >= 10 else f"{count:.1f}"


def size(count: float) -> str:
    for unit, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= unit:
            return f"{count / unit:,.3g} {name}"
    return f"{count:,.0f} bytes"
