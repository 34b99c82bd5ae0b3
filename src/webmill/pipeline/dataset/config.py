"""What a dataset is: where its files are read, what is made of their pages, where that goes, and who computes it.

Written by hand as TOML or JSON; kept in the dataset's folder as JSON with every default spelled out.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from webmill.errors import Misconfigured
from webmill.infra.address import scheme_of
from webmill.infra.executor.backends import EXECUTORS
from webmill.infra.queue.backends import QUEUES
from webmill.infra.registry import Registry
from webmill.infra.sinks.backends import STREAMS
from webmill.infra.sinks.json_lines import Compression
from webmill.infra.sources.backends import SOURCES, is_source
from webmill.infra.storage.backends import READ_ONLY, STORAGES
from webmill.masking import hide_secrets
from webmill.pipeline.extract.plan import is_queue

Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
Jobs = Annotated[int, msgspec.Meta(ge=0, le=10_000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=31 * 86400)]
Mebibytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 30)]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
READ_FROM: tuple[Registry[Any], ...] = (STORAGES, READ_ONLY, SOURCES)
WRITE_TO: tuple[Registry[Any], ...] = (STORAGES, QUEUES, STREAMS)
INDEX_RECORD = "webmill.compat.index_record:make_index_record"
INDEX_RECORD_MESSAGES = "webmill.compat.letsdata.message_readers:IndexRecordMessageReader"


class ReadSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from"}):
    """`from` is a folder (relative to the dataset file), `s3://…` or `https://…`: the manifest's paths are below it.

    Or it is a queue or stream of messages, `sqs://…` or `kinesis://…`, which has no manifest. The rest is for these:
    where a stream is read from at first, and when it is read to its end.
    """

    source: str = "."
    start: Literal["earliest", "latest"] = "earliest"
    follow: bool = False
    empty_receives: Count = 3


class DocumentSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`function` (FILE.py:name or module:name) takes the place of `kind`, and `reader` (a class) that of our reading.
    `text` is an extractor; auto: the WET file's text where the manifest names one, else the best that is installed.
    `keep` is for documents: of all captures, or only of those that have text by their type; so are the filters after.
    """

    kind: Literal["document", "index-record"] = "document"
    text: str = "auto"
    keep: Literal["captures", "documents"] = "captures"
    links: bool = False
    min_text: Count | None = None
    max_text: Count | None = None
    languages: tuple[str, ...] = ()
    function: str = ""
    reader: str = ""

    @property
    def function_name(self) -> str:
        """Return what makes the rows, when that is not a document: FILE.py:name or module:name."""
        return self.reader or self.function or (INDEX_RECORD if self.kind == "index-record" else "")


class WriteSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`to` is a folder (relative to the dataset's), `s3://…`, `stdout`, or a queue: `amqp://…`, `sqs://…`,
    `kinesis://…`, `sqlite:FILE`.

    A part is one file, and the step in which a task goes on: whichever limit is reached first ends it.
    """

    to: str = "output"
    format: Literal["jsonl", "parquet"] = "jsonl"
    compression: Compression | None = None  # gzip for jsonl, zstd for parquet
    pages_per_part: Count = 10_000
    bytes_per_part: Count = 32 << 20  # of JSON, not compressed


class ErrorsSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: str = "errors"
    format: Literal["jsonl", "parquet"] = "jsonl"
    compression: Compression | None = "none"


class ComputeSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the dataset is computed; may be changed at any time."""

    executor: str = ""  # pool, inline, ray:local, ray:auto, ray://HOST:PORT; empty: as webmill.toml says
    jobs: Jobs = 0
    attempts: Count = 3
    timeout: Seconds = 600.0  # seconds without a page
    memory: Mebibytes = 0  # MiB that a task may take; 0: no limit


class Dataset(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`manifest` is a file or address of one line per task, or those lines; a queue or stream has none."""

    name: str
    manifest: str | list[str] = "manifest.txt"
    read: ReadSection = ReadSection()
    document: DocumentSection = DocumentSection()
    write: WriteSection = WriteSection()
    errors: ErrorsSection = ErrorsSection()
    compute: ComputeSection = ComputeSection()

    @property
    def reads_messages(self) -> bool:
        return is_source(self.read.source)

    @property
    def function_name(self) -> str:
        """Return the function or class that makes the rows, where they are not documents of ours or as they came."""
        if self.reads_messages and not self.document.reader:
            return INDEX_RECORD_MESSAGES if self.document.kind == "index-record" else ""
        return self.document.function_name

    @property
    def reader_name(self) -> str:
        """Return the class that reads files or messages in place of ours, if there is one."""
        return self.function_name if self.document.reader or self.reads_messages else ""


def load_dataset(file: Path) -> Dataset:
    try:
        text = file.read_text(encoding="utf-8")
        table = msgspec.json.decode(text) if file.suffix == ".json" else tomllib.loads(text)
        dataset = msgspec.convert(table, Dataset)
    except FileNotFoundError:
        raise Misconfigured(f"no dataset file {file}") from None
    except UnicodeDecodeError:
        raise Misconfigured(f"{file}: not UTF-8 text") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Misconfigured(f"{file}: {error}") from None
    return check_dataset(dataset, source=str(file))


def check_dataset(dataset: Dataset, *, source: str) -> Dataset:
    if not _NAME.fullmatch(dataset.name):
        raise Misconfigured(f"{source}: name {dataset.name!r}: use letters, digits, '.', '_' and '-'")
    check_places(dataset, source=source)
    check_reading(dataset, source=source)
    if dataset.document.keep == "documents" and dataset.document.function_name:
        raise Misconfigured(f'{source}: document.keep = "documents" is for kind = "document" without a function')
    for target in (dataset.write, dataset.errors):
        if target.format == "parquet" and not is_file_storage(target.to):
            raise Misconfigured(f'{source}: Parquet goes to files: {hide_secrets(target.to)!r} takes format = "jsonl"')
    if dataset.errors.to == "stdout":
        raise Misconfigured(f"{source}: errors cannot go to stdout, where documents go: name a folder or a queue")
    return dataset


def check_reading(dataset: Dataset, *, source: str) -> None:
    """Check that what reads goes with what is read and written."""
    make = dataset.document
    if make.reader and make.function:
        raise Misconfigured(f"{source}: document.reader takes the place of document.function: name one of them")
    if make.function and is_source(dataset.read.source):
        raise Misconfigured(f"{source}: a function is given pages; messages are read by a class: document.reader")
    if (make.reader or is_source(dataset.read.source)) and dataset.write.format == "parquet":
        raise Misconfigured(
            f'{source}: what a reader of your own or a message says has no columns: write.format = "jsonl"'
        )


def check_places(dataset: Dataset, *, source: str) -> None:
    """Check that addresses are of a supported kind; whether something is there is seen when it is used."""
    read, write, errors = dataset.read.source, dataset.write.to, dataset.errors.to
    for setting, place, kinds in (
        ("read.from", read, READ_FROM),
        ("write.to", write, WRITE_TO),
        ("errors.to", errors, WRITE_TO),
    ):
        scheme = scheme_of(place)[0]
        if not place or scheme == "memory" or not any(scheme in kind for kind in kinds):
            forms = "; ".join(kind.forms() for kind in kinds)
            raise Misconfigured(f"{source}: {setting} {hide_secrets(place)!r}: use {forms}")
    executor = dataset.compute.executor
    if executor and executor.partition(":")[0] not in EXECUTORS:
        raise Misconfigured(f"{source}: compute.executor {executor!r}: use {EXECUTORS.forms()}")


def is_address(place: str) -> bool:
    """Return whether it is not a path."""
    return scheme_of(place)[0] != "file" or place.startswith("file:")


def is_file_storage(place: str) -> bool:
    return place != "stdout" and not is_queue(place)
