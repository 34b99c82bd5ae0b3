"""What is made of captures, and where it goes: the same for all tasks of one extraction, wherever they are worked."""

from __future__ import annotations

from typing import Literal

import msgspec

from webmill.errors import Misconfigured
from webmill.extract.extractors import default_extractor
from webmill.extract.ignored_elements import IgnoredElements
from webmill.extract.kinds import ContentKind
from webmill.extract.outcomes import TEXT
from webmill.extract.recipe import Recipe
from webmill.formats.cld2 import can_detect_languages
from webmill.infra.address import scheme_of
from webmill.infra.custom_function import CustomFunction
from webmill.infra.sinks.backends import STREAMS
from webmill.infra.sinks.json_lines import Compression
from webmill.infra.storage.backends import STORAGES
from webmill.model import Document
from webmill.pipeline.plugins import document_plugins
from webmill.settings import CommonCrawlSettings, HttpSettings

Format = Literal["jsonl", "parquet"]
MIB = 1 << 20
FILE_SIZE = 128 * MIB
NOT_DOCUMENTS = frozenset({"other_type", "robots"})


class DocumentFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows are kept; None and () keep all. Rows that say why a page has no text are not filtered by text.

    `what`: of all captures, or only of those that have text by their type (no pictures, no styles).
    """

    min_text: int | None = None
    max_text: int | None = None
    languages: tuple[str, ...] = ()
    what: Literal["captures", "documents"] = "captures"

    def reason_against(self, document: Document, kind: ContentKind) -> str | None:
        if self.what == "documents" and document.outcome in NOT_DOCUMENTS:
            return kind
        if document.outcome not in TEXT:
            return None
        length = document.text_chars or 0
        if self.min_text is not None and length < self.min_text:
            return "too_short"
        if self.max_text is not None and length > self.max_text:
            return "too_long"
        if self.languages and document.language not in self.languages:
            return "other_language"
        return None

    def check(self, recipe: Recipe) -> None:
        """Raise Misconfigured if no page could be kept."""
        if recipe.extractor == "none" and (self.min_text is not None or self.max_text is not None):
            raise Misconfigured("--min-text and --max-text need text: choose an --extractor")
        if self.min_text is not None and self.max_text is not None and self.min_text > self.max_text:
            raise Misconfigured("--min-text is more than --max-text: no page can be kept")


def choose_recipe(extractor: str, *, links: bool) -> Recipe:
    """Return how documents are made here: `auto` is the best extractor that is installed, languages are found if they
    can be.
    """
    chosen = default_extractor() if extractor == "auto" else extractor
    plugins = document_plugins() or msgspec.UNSET
    return Recipe(extractor=chosen, detect=can_detect_languages(), links=links, plugins=plugins)


class OutputTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where rows go: a folder, `s3://…`, or a queue or stream. `compression` None: gzip for jsonl, zstd for parquet."""

    to: str
    format: Format = "jsonl"
    compression: Compression | None = None


class ArchiveFetching(msgspec.Struct, frozen=True, kw_only=True):
    """How archives are read. `cache`: a folder for files that are worth downloading whole; empty: one of its own.

    Once there is a file `stop`, nothing waits long any more.
    """

    http: HttpSettings = HttpSettings()
    commoncrawl: CommonCrawlSettings = CommonCrawlSettings()
    concurrency: int = 8  # downloads at once, of one worker
    cache: str = ""
    cache_size: int = 4096 * MIB
    stop: str = ""


class StreamReading(msgspec.Struct, frozen=True, kw_only=True):
    """How messages are read, where the source is a queue or stream: those that came `since` (seconds since 1970; 0: all
    that are there). `empty_receives`: after so many answers without a message it is read to its end; with `follow`,
    more is waited for until the run is stopped.
    """

    since: float = 0.0
    follow: bool = False
    empty_receives: int = 3


class ExtractPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker needs besides its task. Paths and addresses are absolute.

    A part is one file, and the step in which a task goes on: whichever limit is reached first ends it. With
    `spooled`, parts are small and lie in the state's spool until they are sealed into files of `file_size`.
    """

    name: str
    source: str  # file names of tasks are below it
    output: OutputTarget
    errors: OutputTarget
    state: str  # where receipts and the spool are
    recipe: Recipe
    otherwise: str = ""  # the extractor of files that come without a WET file, where the recipe's is wet
    keep: DocumentFilter = DocumentFilter()
    ignored: tuple[IgnoredElements, ...] = ()  # left out of texts
    function: CustomFunction | None = None  # in place of the recipe
    reader: CustomFunction | None = None  # a class that reads files or messages, in place of all of ours
    stream: StreamReading = StreamReading()
    spooled: bool = False
    file_size: int = FILE_SIZE
    pages_per_part: int = 10_000
    bytes_per_part: int = 32 * MIB
    fetching: ArchiveFetching = ArchiveFetching()
    timeout: float = 600.0  # seconds without a capture, then the worker is ended; 0: none
    memory: int = 0  # MiB that a task may take; 0: no limit
    killable: bool = True  # False: tasks share the process of who runs them


def is_queue(place: str) -> bool:
    """Return whether rows that go there are messages, not files."""
    return scheme_of(place)[0] not in STORAGES


def is_stream(place: str) -> bool:
    """Return whether it is a queue that is only written to."""
    return scheme_of(place)[0] in STREAMS
