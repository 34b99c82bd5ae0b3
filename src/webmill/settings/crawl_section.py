"""The settings of a crawl, section [crawl]."""

from __future__ import annotations

from typing import Annotated, Literal

from webmill.settings.declaration import setting
from webmill.settings.purpose_settings import PurposeSettings
from webmill.settings.sites_section import SiteTables
from webmill.settings.value_formats import Duration, FixedAddresses, Pace, PatternList, Size, SizeOrZero, TextList

URLS, LIMITS, POLITENESS = "Which URLs", "Limits", "Politeness"
ARCHIVE, MACHINES, NETWORK = "Archive", "Many machines", "Network"


class CrawlSettings(PurposeSettings, frozen=True, kw_only=True):
    """What `webmill crawl` and `webmill run` crawl, and how. A crawl remembers the flags it was given."""

    seeds: Annotated[
        str,
        setting(
            "File in the collection with the seeds of `webmill run`: URLs or domains, one per line.",
            reach="path",
            only="file",
        ),
    ] = "seeds.txt"
    scope: Annotated[
        Literal["host", "domain", "path", "any"],
        setting("Follow links within the seeds' host, domain or path, or anywhere.", reach="inside", group=URLS),
    ] = "host"
    include: Annotated[
        PatternList,
        setting(
            "Crawl only URLs that match this regular expression (RE2); repeatable.",
            reach="inside",
            group=URLS,
            metavar="REGEX",
        ),
    ] = ()
    exclude: Annotated[
        PatternList,
        setting(
            "Skip URLs that match this regular expression (RE2); repeatable.",
            reach="inside",
            group=URLS,
            metavar="REGEX",
        ),
    ] = ()
    exclude_domains: Annotated[
        TextList,
        setting(
            "Never crawl these domains; on the command line, a file with one domain per line.",
            reach="inside",
            group=URLS,
            metavar="FILE",
        ),
    ] = ()
    depth: Annotated[
        int | None,
        setting(
            "Follow links up to this many steps away from a seed.", reach="inside", group=URLS, least=0, none="no limit"
        ),
    ] = None
    sitemaps: Annotated[bool, setting("Read the sitemaps listed in robots.txt.", reach="inside", group=URLS)] = True
    traps: Annotated[
        bool, setting("Skip URLs that look like crawler traps (calendars, loops).", reach="inside", group=URLS)
    ] = True
    trap_budget: Annotated[
        int,
        setting(
            "Requests that one pattern of URLs may cost without new text before its URLs are parked; pages with new "
            "text earn it more. 0: no limit.",
            reach="inside",
            group=URLS,
            least=0,
        ),
    ] = 100
    domain_trap_budget: Annotated[
        int,
        setting(
            "The same for all patterns of a domain together; beyond it, new patterns are parked after 5 requests.",
            reach="inside",
            group=URLS,
            least=0,
        ),
    ] = 500
    fold_parameters: Annotated[
        bool,
        setting(
            "Drop parameters of links that never change a page: utm_…, session ids, and what proves to be like them.",
            reach="inside",
            group=URLS,
        ),
    ] = True
    all_types: Annotated[
        bool, setting("Also follow links to PDF, office, image, video and zip files.", reach="inside", group=URLS)
    ] = False
    page_resources: Annotated[
        bool,
        setting(
            "Also fetch what pages need to display: images, styles, scripts, fonts.",
            reach="inside",
            group=URLS,
            old=("requisites",),
        ),
    ] = False
    max_page_resources: Annotated[
        int,
        setting(
            "Maximum page resources (images, styles, scripts) fetched per page.",
            reach="inside",
            group=URLS,
            least=1,
            old=("max_requisites",),
        ),
    ] = 1000
    refresh: Annotated[
        bool, setting("Keep revisiting pages; pages that change are revisited more often.", reach="inside", group=URLS)
    ] = False
    refresh_every: Annotated[
        Duration, setting("Time until the first revisit of a page.", reach="inside", group=URLS)
    ] = 86400.0

    order: Annotated[
        Literal["breadth", "best"],
        setting(
            "Which pages come first: breadth takes domains in turn; best, those that others link to (slower).",
            reach="inside",
            group=URLS,
        ),
    ] = "breadth"

    max_pages: Annotated[
        int | None,
        setting(
            "Stop after this many pages in the whole crawl, over all its runs.",
            reach="inside",
            group=LIMITS,
            least=1,
            none="no limit",
        ),
    ] = None
    max_pages_per_domain: Annotated[
        int | None,
        setting("Fetch at most this many pages per domain.", reach="inside", group=LIMITS, least=1, none="no limit"),
    ] = None
    max_time: Annotated[
        Duration | None,
        setting(
            "Stop this run after this time: 90s, 20m, 8h, 7d.",
            reach="inside",
            group=LIMITS,
            none="no limit; `run` with refresh: 1h",
        ),
    ] = None
    max_bytes: Annotated[
        Size | None,
        setting("Stop this run after fetching this much: 500M, 20G.", reach="inside", group=LIMITS, none="no limit"),
    ] = None
    max_wait: Annotated[
        Duration | None,
        setting(
            "Stop this run if every remaining host must wait longer than this.",
            reach="inside",
            group=LIMITS,
            none="1h; a run that watches: 10m; with refresh: no limit",
        ),
    ] = None
    max_body: Annotated[Size, setting("Truncate response bodies longer than this.", reach="inside", group=LIMITS)] = (
        64 << 20
    )

    delay: Annotated[
        Pace,
        setting(
            "Time between two requests to the same domain. auto: 70s while hundreds of domains wait, else 5 times the "
            "host's response time, from 3s to 30s. 0s, no pause, is for servers of your own.",
            reach="lower",
            group=POLITENESS,
        ),
    ] = None
    address_delay: Annotated[
        Duration, setting("Time between two requests to the same IP address.", reach="lower", group=POLITENESS)
    ] = 1.0
    page_resource_delay: Annotated[
        Duration,
        setting(
            "Delay before fetching a page resource, if shorter than the delay of its domain.",
            reach="lower",
            group=POLITENESS,
            old=("requisite_delay",),
        ),
    ] = 1.0
    max_crawl_delay: Annotated[
        Duration, setting("Honour the Crawl-delay of a robots.txt up to this time.", reach="lower", group=POLITENESS)
    ] = 60.0
    retry_wait: Annotated[
        Duration,
        setting(
            "Time before the first retry of a failed request; later retries wait longer.",
            reach="lower",
            group=POLITENESS,
        ),
    ] = 60.0
    robots: Annotated[
        bool, setting("Obey robots.txt. Turn this off only for your own site.", reach="other", group=POLITENESS)
    ] = True
    nofollow: Annotated[bool, setting("Obey nofollow in pages and headers.", reach="other", group=POLITENESS)] = True
    concurrency: Annotated[
        int, setting("Domains to fetch from at the same time, per process.", reach="inside", group=POLITENESS, least=1)
    ] = 500

    tls: Annotated[
        Literal["verify", "archive"],
        setting(
            "On a bad certificate, verify fails the request; archive fetches and records it.",
            reach="other",
            group=NETWORK,
        ),
    ] = "verify"
    http2: Annotated[
        Literal["auto", "off"],
        setting("auto speaks HTTP/2 with servers that prefer it; off never does.", reach="inside", group=NETWORK),
    ] = "auto"
    allow_private: Annotated[
        bool, setting("Allow private and loopback addresses, and any port.", reach="other", group=NETWORK)
    ] = False
    resolve: Annotated[
        FixedAddresses,
        setting("Connect to this address for HOST instead of asking DNS; repeatable.", reach="other", group=NETWORK),
    ] = {}  # noqa: RUF012 - msgspec gives each struct its own
    dns_servers: Annotated[
        TextList,
        setting(
            "Ask these name servers, in turns: ADDRESS or ADDRESS:PORT; repeatable. system: the system's resolver, "
            "which is slower.",
            reach="other",
            group=NETWORK,
            metavar="ADDRESS",
            none="those of /etc/resolv.conf",
        ),
    ] = ()

    cookies: Annotated[
        str,
        setting(
            "session keeps the cookies that sites set; off sends none; the path of a cookies.txt (Netscape format), as "
            "browsers export it, begins with these.",
            reach="path",
            group=NETWORK,
            metavar="off|session|FILE",
        ),
    ] = "session"
    sites: Annotated[
        SiteTables,
        setting(
            "What is different on single sites; in a file each is a [[site]].",
            reach="tables",
            only="file",
            secret=True,
            metavar="JSON",
        ),
    ] = ()

    proxy: Annotated[
        str,
        setting(
            "Connect through this proxy: http://HOST:PORT or socks5://HOST:PORT, with USER:PASSWORD@ if it wants them. "
            "Names are resolved here.",
            reach="other",
            group=NETWORK,
            metavar="URL",
        ),
    ] = ""
    source_address: Annotated[
        TextList,
        setting(
            "Connect from this IP address of this machine; repeatable: each host gets one of them.",
            reach="other",
            group=NETWORK,
            metavar="ADDRESS",
        ),
    ] = ()

    name: Annotated[str, setting("Name of the crawl.", reach="inside", group=ARCHIVE, none="the name of DIR")] = ""
    languages: Annotated[
        bool, setting("Detect the language of pages, for the metadata records.", reach="inside", group=ARCHIVE)
    ] = True
    file_size: Annotated[Size, setting("Start a new WARC file at this size.", reach="inside", group=ARCHIVE)] = 1 << 30

    upload: Annotated[
        str,
        setting(
            "Upload finished WARC files to this folder or bucket while the crawl runs.",
            reach="address",
            group=ARCHIVE,
            metavar="URL",
        ),
    ] = ""
    keep_local: Annotated[
        SizeOrZero | None,
        setting(
            "Delete the oldest uploaded WARC files here when they take more than this, once the store gave every byte "
            "back; 0: all of them.",
            reach="inside",
            group=ARCHIVE,
            least=0,
            none="keep all",
        ),
    ] = None

    upload_backlog: Annotated[
        Size | None,
        setting(
            "With --upload: fetch nothing more while finished WARC files of more than this wait to be uploaded.",
            reach="inside",
            group=ARCHIVE,
        ),
    ] = 50 << 30

    processes: Annotated[
        int | None,
        setting(
            "Number of processes; fixed when the crawl is created.",
            reach="inside",
            group=MACHINES,
            least=1,
            none="one per core",
        ),
    ] = None
    frontier: Annotated[
        str,
        setting(
            "Share the crawl with other machines through this Redis.",
            reach="address",
            group=MACHINES,
            metavar="redis://…",
        ),
    ] = ""
    shards: Annotated[
        int | None,
        setting(
            "With --frontier: number of shards, one process each; fixed when the crawl is created.",
            reach="inside",
            group=MACHINES,
            least=1,
            none="8",
        ),
    ] = None
    nodes: Annotated[
        int,
        setting("With --frontier: wait until this many machines have joined.", reach="inside", group=MACHINES, least=1),
    ] = 1
    join_wait: Annotated[
        Duration,
        setting(
            "With --frontier and no seeds: wait this long for the node that begins the crawl.",
            reach="inside",
            group=MACHINES,
        ),
    ] = 60.0
    strict: Annotated[
        bool, setting("Refuse a Redis that could lose writes it has acknowledged.", reach="inside", group=MACHINES)
    ] = False
    lost_files: Annotated[
        Literal["refuse", "rebuild"],
        setting(
            "If files of the frontier are gone: refuse to go on, or go on with new ones; those of a dead machine are "
            "rebuilt from Redis and --backup.",
            reach="inside",
            group=MACHINES,
        ),
    ] = "refuse"
    backup: Annotated[
        str,
        setting(
            "Latest backup of the frontier, for --lost-files rebuild.", reach="other", group=MACHINES, metavar="URL"
        ),
    ] = ""
