"""Declares every setting; `webmill.settings.declaration` explains what a declaration gives."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from webmill.errors import Misconfigured
from webmill.settings.alerts_section import AlertsSettings
from webmill.settings.changes_section import ChangesSettings
from webmill.settings.crawl_section import CrawlSettings
from webmill.settings.declaration import setting
from webmill.settings.serve_section import McpSettings, ServeSettings
from webmill.settings.value_formats import LIST_FORMAT, Duration, TextList

STAGES = ("crawl", "index", "extract", "publish", "search", "alert")
# Tables that a file may have many of, and the setting that each list of them is.
TABLES: dict[str, tuple[str, str]] = {
    "ignore": ("changes", "rules"),
    "alert": ("alerts", "rules"),
    "site": ("crawl", "sites"),
}
LINES_PER_BLOCK = 3000  # of Common Crawl's own indexes


class LogSettings(msgspec.Struct, frozen=True):
    """Log lines on stderr."""

    format: Annotated[
        Literal["text", "json"],
        setting("Format of log lines: text, or json for a log collector.", reach="inside", only="file"),
    ] = "text"


class HttpSettings(msgspec.Struct, frozen=True):
    """How webmill introduces itself to other servers, and how long it waits for them."""

    contact: Annotated[
        str, setting("Your e-mail address or web page; sent to every server in the User-Agent.", reach="inside")
    ] = ""
    timeout: Annotated[float, setting("Seconds to wait for one response.", reach="inside")] = 60.0


class IndexSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How `webmill index` and `webmill run` index WARC files."""

    blocklist: Annotated[
        str, setting("Drop index lines that match a regular expression in this file.", reach="path", metavar="FILE")
    ] = ""
    max_removed_share: Annotated[
        float,
        setting(
            "Fail if the blocklist drops more than this share of the lines.",
            reach="inside",
            least=0,
            most=1,
            metavar="0..1",
        ),
    ] = 1.0
    max_captures: Annotated[
        int | None, setting("Drop URLs with more captures than this.", reach="inside", least=0, none="no limit")
    ] = None
    keep: Annotated[int, setting("Captures to keep of a URL that has too many.", reach="inside", least=0)] = 0
    drop_revisits_first: Annotated[
        bool, setting("Of a URL that has too many captures, drop revisits first.", reach="inside")
    ] = False
    post_append: Annotated[
        bool, setting("Tell POST requests apart by their bodies, as pywb's collections do.", reach="inside")
    ] = True
    collection_field: Annotated[bool, setting('Add a "collection" field to every line.', reach="inside")] = True
    lines: Annotated[int, setting("Index lines per ZipNum block.", reach="inside", least=1)] = LINES_PER_BLOCK
    shards: Annotated[int | None, setting("Number of ZipNum shards.", reach="inside", least=1, none="by size")] = None
    parquet: Annotated[
        bool | None, setting("Also write the columnar index (Parquet).", reach="inside", none="if pyarrow is installed")
    ] = None


class ExtractSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How `webmill extract` and `webmill run` turn a collection's archives into documents."""

    extractor: Annotated[
        str,
        setting(
            "Text extractor: trafilatura, resiliparse, union, markdown, plain or none; auto is the best one installed.",
            reach="inside",
            metavar="NAME",
        ),
    ] = "auto"
    format: Annotated[
        Literal["jsonl", "parquet"],
        setting("File format of the documents; parquet needs webmill[parquet].", reach="inside"),
    ] = "jsonl"
    function: Annotated[
        str,
        setting(
            "Your own Python function, used instead of the extractor.",
            reach="other",
            metavar="FILE.py:NAME",
            only="command",
        ),
    ] = ""
    all_captures: Annotated[
        bool, setting("Write a document for every capture, even without text (images, scripts).", reach="inside")
    ] = False
    links: Annotated[bool, setting("Also store the links of each page.", reach="inside")] = False
    min_text: Annotated[
        int | None, setting("Skip pages with fewer characters of text than this.", reach="inside", least=0, none="none")
    ] = None
    max_text: Annotated[
        int | None, setting("Skip pages with more characters of text than this.", reach="inside", least=0, none="none")
    ] = None
    languages: Annotated[
        TextList,
        setting(
            "Keep only pages in this language (ISO 639-3: eng); repeatable.",
            reach="inside",
            option="language",
            metavar="CODE",
        ),
    ] = ()


class CurateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which documents `webmill curate` keeps."""

    recipe: Annotated[
        str,
        setting(
            "A recipe that comes with webmill (gopher, c4, fineweb, fineweb2, web-archive), or a TOML file.",
            reach="other",
            metavar="NAME|FILE",
        ),
    ] = "web-archive"
    respect: Annotated[
        TextList,
        setting(
            "Leave out documents whose site forbids this use: train-ai, tdm, search; separated by commas, or repeated.",
            reach="inside",
            metavar="USE",
        ),
    ] = ()
    on_unknown: Annotated[
        Literal["keep", "drop"],
        setting("With --respect: what becomes of documents whose site says nothing of the use.", reach="inside"),
    ] = "keep"


class PublishSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `webmill publish` and `webmill run` publish, and in which form."""

    facets: Annotated[
        Annotated[tuple[Literal["language", "domain"], ...], LIST_FORMAT],
        setting("Also index each version by this field; repeatable.", reach="inside", option="facet"),
    ] = ("language",)
    most_lost: Annotated[
        float,
        setting(
            "Refuse to publish if more than this share of documents would disappear.",
            reach="inside",
            least=0,
            most=1,
            metavar="SHARE",
        ),
    ] = 0.2
    layout: Annotated[
        Literal["webmill", "uring"],
        setting(
            "Form of the index files: uring writes the lists that clients of the uRing crawler read.", reach="inside"
        ),
    ] = "webmill"


class WatchSettings(msgspec.Struct, frozen=True):
    """How often `webmill run` looks at pages again: in every run, or less often at those that do not change."""

    every: Annotated[
        Duration | None,
        setting(
            "Time between two looks at a page, at the least; `run --every` overrides it.",
            reach="inside",
            only="file",
            none="pages are visited once",
        ),
    ] = 86400.0
    longest: Annotated[
        Duration | None,
        setting(
            "Time between two looks at a page that does not change, at the most: it is looked at less and less often. "
            "For sites whose pages are too many for every run.",
            reach="inside",
            only="file",
            none="every page in every run",
        ),
    ] = None


class RunSettings(msgspec.Struct, frozen=True):
    """Which stages `webmill run` runs, always in this order: crawl, index, extract, publish, search,
    alert."""

    stages: Annotated[TextList, setting("The stages to run.", reach="inside", only="file")] = STAGES

    def in_order(self) -> tuple[str, ...]:
        """Return the stages in the order of the work, whatever the order they are written in."""
        unknown = [name for name in self.stages if name not in STAGES]
        if unknown:
            raise Misconfigured(f"run.stages: unknown stage {unknown[0]!r}: use {', '.join(STAGES)}")
        return tuple(stage for stage in STAGES if stage in self.stages)


class QualitySettings(msgspec.Struct, frozen=True):
    """Whether `webmill run` has pages checked by `webmill qa` in the background, when captures have been indexed."""

    after_crawl: Annotated[
        bool, setting("Check in a browser how pages are replayed, after each run.", reach="inside", only="file")
    ] = False
    sample: Annotated[
        int,
        setting("Pages that are checked, the same in each run.", reach="inside", only="file", least=1, most=10_000),
    ] = 20


class QueueSettings(msgspec.Struct, frozen=True):
    """The queue that holds tasks for workers."""

    url: Annotated[
        str,
        setting(
            "sqlite:FILE (relative to the collection), amqp://…, sqs://NAME.fifo or memory:",
            reach="address",
            option="queue",
        ),
    ] = "sqlite:queue.sqlite"
    type: Annotated[
        Literal["quorum", "classic"],
        setting(
            "Type of a new RabbitMQ queue. quorum: no batch is lost; classic: not durable, as commoncrawl-pipeline "
            "declares it, for workers that share the queue.",
            reach="inside",
            only="file",
        ),
    ] = "quorum"
    attempts: Annotated[
        int, setting("Attempts at a task before it becomes a dead letter.", reach="inside", only="file")
    ] = 5
    lease: Annotated[
        float,
        setting("Seconds without a heartbeat until a task is given to another worker.", reach="inside", only="file"),
    ] = 60.0


class ExecutorSettings(msgspec.Struct, frozen=True):
    """What runs tasks in parallel."""

    url: Annotated[
        str,
        setting(
            "Where tasks run: pool (processes on this machine), inline, ray:local (a Ray cluster of its own), ray:auto "
            "or ray://HOST:PORT",
            reach="address",
            option="executor",
        ),
    ] = "pool"
    jobs: Annotated[
        int,
        setting(
            "Number of tasks to run in parallel.",
            reach="inside",
            option="processes",
            old=("jobs",),
            least=0,
            none="one per core",
        ),
    ] = 0


class CommonCrawlSettings(msgspec.Struct, frozen=True):
    """Where `webmill cc` reads crawls from, and how fast. All processes of a machine share the rate."""

    base_url: Annotated[
        str,
        setting("https://…, s3://…, a folder, or the address of another webmill server.", reach="other", metavar="URL"),
    ] = "https://data.commoncrawl.org"
    rate: Annotated[
        float,
        setting("Maximum requests per second; 0 means no limit (only for your own server).", reach="other", least=0),
    ] = 5.0


class SearchSettings(msgspec.Struct, frozen=True):
    """Where `webmill search`, `publish`, `run` and `serve` keep the search index."""

    url: Annotated[
        str,
        setting(
            "Search index: a folder, meilisearch://KEY@HOST:PORT/INDEX or "
            "opensearch://USER:PASSWORD@HOST:PORT/INDEX; add an s to the scheme for TLS.",
            reach="address",
            option="index",
            metavar="URL",
            none="search/ in the collection",
        ),
    ] = ""
    model: Annotated[
        str,
        setting(
            "Folder with a sentence model, to search by meaning: tokenizer.json, and model.safetensors (static "
            "vectors) or model.onnx.",
            reach="other",
            metavar="DIR",
            none="words alone",
        ),
    ] = ""
    noindex: Annotated[
        Literal["leave-out", "keep"],
        setting("Pages whose site does not want them found by search.", reach="inside", only="file"),
    ] = "leave-out"


class MetricsSettings(msgspec.Struct, frozen=True):
    """Where commands serve Prometheus metrics."""

    host: Annotated[str, setting("Address to listen on; use 0.0.0.0 in a container.", reach="other", only="file")] = (
        "127.0.0.1"
    )
    port: Annotated[
        int | None,
        setting(
            "Serve Prometheus metrics on this port (usually 8001).",
            reach="inside",
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
    curate: CurateSettings = CurateSettings()
    publish: PublishSettings = PublishSettings()
    run: RunSettings = RunSettings()
    qa: QualitySettings = QualitySettings()
    watch: WatchSettings = WatchSettings()
    changes: ChangesSettings = ChangesSettings()
    search: SearchSettings = SearchSettings()
    alerts: AlertsSettings = AlertsSettings()
    serve: ServeSettings = ServeSettings()
    mcp: McpSettings = McpSettings()
    queue: QueueSettings = QueueSettings()
    executor: ExecutorSettings = ExecutorSettings()
    commoncrawl: CommonCrawlSettings = CommonCrawlSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()
