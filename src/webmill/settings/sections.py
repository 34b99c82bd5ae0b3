"""Every setting there is, declared once: see `webmill.settings.declared` for what follows from a line."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from webmill.errors import Misconfigured
from webmill.settings.declared import setting
from webmill.settings.kinds import WORDS, Duration, FixedAddresses, Size, Texts, Words

STAGES = ("crawl", "index", "extract", "publish", "search")
LINES_PER_BLOCK = 3000  # of Common Crawl's own indexes
URLS, LIMITS, POLITENESS = "Which URLs", "Limits", "Politeness"
ARCHIVE, MACHINES, NETWORK = "Archive", "Many machines", "Network"


class LogSettings(msgspec.Struct, frozen=True):
    """How log lines on stderr look."""

    format: Annotated[Literal["text", "json"], setting("text, or json for a log collector", only="file")] = "text"


class HttpSettings(msgspec.Struct, frozen=True):
    """Who we say we are when we ask other people's servers."""

    contact: Annotated[str, setting("Your e-mail or page: every server is told whom to ask.")] = ""
    timeout: Annotated[float, setting("Seconds for one answer.")] = 60.0


class CrawlSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `webmill crawl` and `webmill run` crawl, and how. A crawl keeps what the command line said."""

    seeds: Annotated[
        str, setting("The file in the collection that `webmill run` begins with: URLs or domains.", only="file")
    ] = "seeds.txt"
    scope: Annotated[
        Literal["host", "domain", "path", "any"], setting("How far from the seeds links are followed.", group=URLS)
    ] = "host"
    include: Annotated[
        Texts, setting("Only URLs that match this regular expression (RE2); repeatable.", group=URLS, metavar="REGEX")
    ] = ()
    exclude: Annotated[
        Texts, setting("Skip URLs that match this regular expression (RE2); repeatable.", group=URLS, metavar="REGEX")
    ] = ()
    exclude_domains: Annotated[
        Words, setting("Domains never to ask; on the command line, a file of them.", group=URLS, metavar="FILE")
    ] = ()
    depth: Annotated[int | None, setting("Links from a seed.", group=URLS, least=0, none="no limit")] = None
    sitemaps: Annotated[bool, setting("Read the sitemaps that robots.txt names.", group=URLS)] = True
    traps: Annotated[bool, setting("Guard against endless URLs (calendars, loops).", group=URLS)] = True
    all_types: Annotated[
        bool, setting("Follow links to PDF, office, picture, video and zip files, too.", group=URLS)
    ] = False
    page_resources: Annotated[
        bool,
        setting("Fetch what pages need to be shown: images, styles, scripts, fonts.", group=URLS, old=("requisites",)),
    ] = False
    max_page_resources: Annotated[
        int, setting("Maximum page resources fetched per page.", group=URLS, least=1, old=("max_requisites",))
    ] = 1000
    refresh: Annotated[bool, setting("Visit pages again, more often those that change.", group=URLS)] = False
    refresh_every: Annotated[Duration, setting("Until the first such visit.", group=URLS)] = 86400.0

    max_pages: Annotated[
        int | None, setting("Stop after so many pages, in the whole crawl.", group=LIMITS, least=1, none="no limit")
    ] = None
    max_pages_per_domain: Annotated[
        int | None, setting("No more pages of one domain.", group=LIMITS, least=1, none="no limit")
    ] = None
    max_time: Annotated[
        Duration | None,
        setting("Stop this run after 90s, 20m, 8h, 7d.", group=LIMITS, none="no limit; `run` with refresh: 1h"),
    ] = None
    max_bytes: Annotated[Size | None, setting("Stop this run after 500M, 20G.", group=LIMITS, none="no limit")] = None
    max_wait: Annotated[
        Duration | None,
        setting(
            "Stop this run if every remaining host must wait longer than this.",
            group=LIMITS,
            none="1h; with refresh: no limit",
        ),
    ] = None
    max_body: Annotated[Size, setting("Cut longer answers.", group=LIMITS)] = 64 << 20

    delay: Annotated[Duration, setting("Between two requests to a domain.", group=POLITENESS)] = 70.0
    address_delay: Annotated[Duration, setting("Between two requests to an address.", group=POLITENESS)] = 1.0
    page_resource_delay: Annotated[
        Duration,
        setting("Before a page resource, if shorter than the delay.", group=POLITENESS, old=("requisite_delay",)),
    ] = 1.0
    max_crawl_delay: Annotated[
        Duration, setting("Longest Crawl-delay of a robots.txt that is kept.", group=POLITENESS)
    ] = 60.0
    retry_wait: Annotated[Duration, setting("Before a second attempt.", group=POLITENESS)] = 60.0
    robots: Annotated[bool, setting("Obey robots.txt. Only switch it off on your own site.", group=POLITENESS)] = True
    nofollow: Annotated[bool, setting("Obey nofollow in pages and headers.", group=POLITENESS)] = True
    concurrency: Annotated[int, setting("Domains asked at once, per process.", group=POLITENESS, least=1)] = 500

    tls: Annotated[
        Literal["verify", "archive"],
        setting("archive: fetch in spite of a bad certificate, and say so.", group=NETWORK),
    ] = "verify"
    allow_private: Annotated[
        bool, setting("Connect to private and loopback addresses and any port.", group=NETWORK)
    ] = False
    resolve: Annotated[FixedAddresses, setting("Instead of DNS; repeatable.", group=NETWORK)] = {}

    name: Annotated[str, setting("Name of the crawl.", group=ARCHIVE, none="that of DIR")] = ""
    languages: Annotated[bool, setting("Detect languages for the metadata records.", group=ARCHIVE)] = True
    file_size: Annotated[Size, setting("Begin a new WARC file then.", group=ARCHIVE)] = 1 << 30

    processes: Annotated[
        int | None, setting("Processes, for the crawl's life.", group=MACHINES, least=1, none="one per core")
    ] = None
    frontier: Annotated[
        str, setting("Crawl on many machines that meet in this Redis.", group=MACHINES, metavar="redis://…")
    ] = ""
    shards: Annotated[
        int | None,
        setting("With --frontier: parts, for life, each one process.", group=MACHINES, least=1, none="8"),
    ] = None
    nodes: Annotated[int, setting("With --frontier: begin when so many are here.", group=MACHINES, least=1)] = 1
    strict: Annotated[bool, setting("Refuse a Redis that may lose what it has acknowledged.", group=MACHINES)] = False
    lost_files: Annotated[
        Literal["refuse", "rebuild"],
        setting("Take over shards of a dead machine without its files, from Redis and --backup.", group=MACHINES),
    ] = "refuse"
    backup: Annotated[
        str, setting("The last backup of the frontier, for --lost-files rebuild.", group=MACHINES, metavar="URL")
    ] = ""


class IndexSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `webmill index` and `webmill run` make of WARC files."""

    blocklist: Annotated[str, setting("Rules of lines to drop.", metavar="FILE")] = ""
    max_removed_share: Annotated[float, setting("Fail if rules drop more.", least=0, most=1, metavar="0..1")] = 1.0
    max_captures: Annotated[int | None, setting("Drop URLs with more captures.", least=0, none="no limit")] = None
    keep: Annotated[int, setting("Captures left of such a URL.", least=0)] = 0
    drop_revisits_first: Annotated[bool, setting("Its revisits go first; if that is enough, the rest stays.")] = False
    post_append: Annotated[bool, setting("Tell POST requests apart by their bodies, as pywb does.")] = False
    collection_field: Annotated[bool, setting('Add "collection" to every line.')] = True
    lines: Annotated[int, setting("Lines to a block.", least=1)] = LINES_PER_BLOCK
    shards: Annotated[int | None, setting("How many shards.", least=1, none="by size")] = None
    parquet: Annotated[bool | None, setting("Write the columnar index too.", none="if pyarrow is there")] = None


class ExtractSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `webmill extract` and `webmill run` make of a collection's own archives."""

    extractor: Annotated[
        str, setting("trafilatura, resiliparse, plain or none; auto: the best that is installed.", metavar="NAME")
    ] = "auto"
    format: Annotated[Literal["jsonl", "parquet"], setting("Of the documents; parquet needs webmill[parquet].")] = (
        "jsonl"
    )
    function: Annotated[
        str,
        setting("A function of yours in place of the extractor.", metavar="FILE.py:NAME", only="command"),
    ] = ""
    all_captures: Annotated[bool, setting("A row for every capture: of pictures, too, without text.")] = False
    links: Annotated[bool, setting("Keep the links of pages.")] = False
    min_text: Annotated[int | None, setting("Leave out pages with fewer characters.", least=0, none="none")] = None
    max_text: Annotated[int | None, setting("Leave out pages with more characters.", least=0, none="none")] = None
    languages: Annotated[
        Words, setting("Keep pages in this language (eng); repeatable.", option="language", metavar="CODE")
    ] = ()


class PublishSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `webmill publish documents` and `webmill run` publish."""

    facets: Annotated[
        Annotated[tuple[Literal["language", "domain"], ...], WORDS],
        setting("Index versions by it, too; repeatable.", option="facet"),
    ] = ("language",)
    most_lost: Annotated[float, setting("Refuse to lose more pages than this.", least=0, most=1, metavar="SHARE")] = 0.2


class RunSettings(msgspec.Struct, frozen=True):
    """What `webmill run` does, in this order."""

    stages: Annotated[Words, setting("Of crawl, index, extract, publish, search.", only="file")] = STAGES

    def in_order(self) -> tuple[str, ...]:
        """Return the stages in the order of the work, whatever the order they are written in."""
        unknown = [name for name in self.stages if name not in STAGES]
        if unknown:
            raise Misconfigured(f"run.stages: no stage {unknown[0]!r}: there are {', '.join(STAGES)}")
        return tuple(stage for stage in STAGES if stage in self.stages)


class QueueSettings(msgspec.Struct, frozen=True):
    """Where work waits for workers."""

    url: Annotated[
        str,
        setting("sqlite:FILE (in the collection when relative), amqp://…, sqs://NAME.fifo or memory:", option="queue"),
    ] = "sqlite:queue.sqlite"
    attempts: Annotated[int, setting("Attempts at a job before it is a dead letter.", only="file")] = 5
    lease: Annotated[
        float, setting("Seconds until a job of a worker that is silent is given to another.", only="file")
    ] = 60.0


class ExecutorSettings(msgspec.Struct, frozen=True):
    """What runs tasks in parallel."""

    url: Annotated[
        str, setting("pool (processes on this machine), inline, ray:auto or ray://HOST:PORT", option="executor")
    ] = "pool"
    jobs: Annotated[int, setting("Tasks at once.", option="processes", old=("jobs",), least=0, none="one per core")] = 0


class CommonCrawlSettings(msgspec.Struct, frozen=True):
    """Whose crawls `webmill cc` reads, and how fast this machine asks for them, all its processes together."""

    base_url: Annotated[str, setting("An address, s3://…, a folder, or another webmill.", metavar="URL")] = (
        "https://data.commoncrawl.org"
    )
    rate: Annotated[float, setting("Requests a second; 0: no limit, for a server of your own.", least=0)] = 5.0


class SearchSettings(msgspec.Struct, frozen=True):
    """Where the index is that `webmill search`, `publish`, `run` and `serve` use."""

    url: Annotated[
        str,
        setting(
            "A folder, meilisearch://KEY@HOST:PORT/INDEX or opensearch://USER:PASSWORD@HOST:PORT/INDEX; with an s "
            "after the scheme, over TLS.",
            option="index",
            metavar="URL",
            none="search/ in the collection",
        ),
    ] = ""


class ServeSettings(msgspec.Struct, frozen=True):
    """Where `webmill serve` listens, for whom, and what one client may cost."""

    host: Annotated[str, setting("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, setting("Port to listen on; 0 takes a free one.", least=0, most=65535)] = 8080
    replay_port: Annotated[
        int,
        setting("Archived pages get an origin of their own.", least=0, most=65535, none="the port after --port"),
    ] = 0
    address: Annotated[str, setting("The origin that clients see, when a proxy is in front.", metavar="URL")] = ""
    replay_address: Annotated[
        str, setting("The same for archived pages: another name, never the same.", metavar="URL")
    ] = ""
    processes: Annotated[int, setting("Processes that answer.", least=1)] = 1
    hosts: Annotated[Words, setting("A name that clients may call us by.", option="allow-host", metavar="NAME")] = ()
    origins: Annotated[
        Words, setting("A site whose scripts may read (CORS), or *.", option="origin", metavar="URL")
    ] = ()
    proxies: Annotated[
        Words, setting("An address whose X-Forwarded-For is believed.", option="proxy", metavar="ADDRESS")
    ] = ()
    rate: Annotated[float, setting("Requests a second of one client; 0: any.", least=0)] = 50.0
    certificate: Annotated[str, setting("PEM file, for https.", metavar="FILE")] = ""
    key: Annotated[
        str, setting("PEM file of its private key, when it is not in the certificate's.", metavar="FILE", secret=True)
    ] = ""
    token: Annotated[
        str, setting("What a request that changes something must bear.", metavar="SECRET", secret=True)
    ] = ""
    access_log: Annotated[str, setting("File for one JSON line a request; -: stderr.", metavar="FILE")] = ""


class MetricsSettings(msgspec.Struct, frozen=True):
    """Where commands with a metrics port answer Prometheus."""

    host: Annotated[str, setting("Address to listen on; in a container 0.0.0.0.", only="file")] = "127.0.0.1"
    port: Annotated[
        int | None,
        setting(
            "Serve Prometheus metrics there (usual: 8001).",
            option="metrics-port",
            only="command",
            least=0,
            most=65535,
        ),
    ] = None


class Settings(msgspec.Struct, frozen=True):
    """All sections of webmill.toml."""

    http: HttpSettings = HttpSettings()
    crawl: CrawlSettings = CrawlSettings()
    index: IndexSettings = IndexSettings()
    extract: ExtractSettings = ExtractSettings()
    publish: PublishSettings = PublishSettings()
    run: RunSettings = RunSettings()
    search: SearchSettings = SearchSettings()
    serve: ServeSettings = ServeSettings()
    queue: QueueSettings = QueueSettings()
    executor: ExecutorSettings = ExecutorSettings()
    commoncrawl: CommonCrawlSettings = CommonCrawlSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()
