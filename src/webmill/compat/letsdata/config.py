"""letsdata's dataset.json as a dataset of ours: what is known is mapped, what is not is named and kept.

    readConnector    ─▶ read, document        manifestFile     ─▶ manifest, or how a queue or stream is read
    writeConnector   ─▶ write                 computeEngine    ─▶ compute
    errorConnector   ─▶ errors

Names of buckets, queues and streams may also be addresses of ours (`s3://…?endpoint=…`, a folder with a `/`). A class
of letsdata-common-crawl is our own reading; a class of yours is named as `FILE.py:ClassName`.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from webmill.compat.letsdata.fields import NOT_NEEDED, LetsdataDescription, OutputConnector, other_fields
from webmill.errors import Misconfigured
from webmill.pipeline.dataset.config import (
    ComputeSection,
    Dataset,
    DocumentSection,
    ErrorsSection,
    ReadSection,
    WriteSection,
    check_dataset,
)

FILE_NAME = "letsdata.json"  # the description as it was given, in the dataset's folder
THEIR_CLASSES = "com.letsdata.commoncrawl."  # those of letsdata-common-crawl: what they do is ours
_ARN = re.compile(r"arn:aws[a-z-]*:(?:kinesis|sqs):([a-z0-9-]*):[0-9]*:(?:stream/)?([A-Za-z0-9._-]+)")


class ManagedResource(msgspec.Struct, frozen=True):
    """A queue or stream that the description wants made, if it is not there."""

    address: str
    shards: int = 1


class ReadDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A description as a dataset. `unknown` fields have no effect, and are kept in `original`."""

    dataset: Dataset
    original: bytes
    unknown: tuple[str, ...] = ()
    not_needed: tuple[str, ...] = ()
    managed: tuple[ManagedResource, ...] = ()


def is_description(file: Path) -> bool:
    """Return whether a file is a description of letsdata's: JSON with its name of the name."""
    try:
        text = file.read_bytes()
    except OSError:
        return False
    return text.lstrip().startswith(b"{") and b'"datasetName"' in text


def load_description(file: Path) -> ReadDescription:
    """Return a description of letsdata's. Misconfigured: it asks for what is not here, or is not filled in."""
    try:
        original = file.read_bytes()
        table = msgspec.json.decode(original, type=dict[str, object])
        given = msgspec.convert(table, LetsdataDescription, strict=False)
    except FileNotFoundError:
        raise Misconfigured(f"no dataset file {file}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Misconfigured(f"{file}: {error}") from None
    if placeholder := re.search(rb'"([A-Za-z0-9]+)"\s*:\s*"[^"]*(<[A-Z0-9_]+>)', original):
        name, value = (part.decode() for part in placeholder.groups())
        if name not in {field.rpartition(".")[2] for field in NOT_NEEDED}:
            raise Misconfigured(f"{file}: {name} is still the placeholder {value}: replace it")
    others = [*other_fields(table)]
    dataset = check_dataset(_dataset(given, source=str(file)), source=str(file))
    return ReadDescription(
        dataset=dataset,
        original=original,
        unknown=tuple(name for name in others if name not in NOT_NEEDED),
        not_needed=tuple(name for name in others if name in NOT_NEEDED),
        managed=_managed(given, dataset),
    )


def _dataset(given: LetsdataDescription, *, source: str) -> Dataset:
    write = _target(given, given.write_connector, section="writeConnector", folder="output", source=source)
    errors = _target(given, given.error_connector, section="errorConnector", folder="errors", source=source)
    return Dataset(
        name=given.dataset_name,
        manifest=_manifest(given),
        read=_read(given, source=source),
        document=_document(given.read_connector.reader_class, source=source),
        write=WriteSection(to=write),
        errors=ErrorsSection(to=errors),
        compute=_compute(given, source=source),
    )


def _manifest(given: LetsdataDescription) -> str | list[str]:
    manifest = given.manifest_file
    if manifest.file_contents:
        return manifest.file_contents.splitlines()
    return with_region(manifest.manifest_file_s3_uri, given.region) or "manifest.txt"


def _read(given: LetsdataDescription, *, source: str) -> ReadSection:
    connector, manifest = given.read_connector, given.manifest_file
    kind = connector.connector_destination.upper()
    if kind == "S3":
        return ReadSection(source=address_of("s3", connector.bucket_name, given.region) or ".")
    if kind == "SQS":
        name = _required(connector.queue_name, "readConnector.queueName", source=source)
        empty = manifest.sqs_reader_task_stop_after_consecutive_empty_receives or ReadSection().empty_receives
        follow = manifest.sqs_reader_task_stop_condition.lower() == "continuous"
        return ReadSection(source=address_of("sqs", name, given.region), empty_receives=empty, follow=follow)
    if kind == "KINESIS":
        name = connector.stream_name or connector.stream_arn
        name = _required(name, "readConnector.streamArn", source=source)
        latest = manifest.kinesis_reader_task_start_from_condition.lower() == "latest"
        return ReadSection(
            source=address_of("kinesis", name, given.region),
            start="latest" if latest else "earliest",
            follow=manifest.kinesis_reader_task_stop_condition.lower() == "continuous",
        )
    raise Misconfigured(
        f"{source}: readConnector.connectorDestination {connector.connector_destination}: S3, SQS and KINESIS are "
        "read; copy a table of DynamoDB to S3 or Kinesis first (AWS exports it)"
    )


def _document(name: str, *, source: str) -> DocumentSection:
    if not name or name.startswith(THEIR_CLASSES):
        return DocumentSection(kind="index-record")
    if ":" in name:
        return DocumentSection(reader=name)
    raise Misconfigured(
        f"{source}: the reader {name} is a class in Java: write it in Python with the same methods "
        "(webmill.compat.letsdata has the classes to inherit from), and name it as FILE.py:ClassName"
    )


def _target(given: LetsdataDescription, connector: OutputConnector, *, section: str, folder: str, source: str) -> str:
    kind = connector.connector_destination.upper()
    own_name = given.dataset_name if connector.is_managed else ""
    if kind in ("", "S3"):
        place = address_of("s3", connector.bucket_name, given.region, path=f"{given.dataset_name}/{folder}")
        return place or folder
    if kind == "KINESIS":
        name = connector.stream_name or connector.stream_arn or own_name
        name = _required(name, f"{section}.streamName", source=source)
        return address_of("kinesis", name, given.region)
    if kind == "SQS":
        name = _required(connector.queue_name or own_name, f"{section}.queueName", source=source)
        return address_of("sqs", name, given.region)
    raise Misconfigured(
        f"{source}: {section}.connectorDestination {connector.connector_destination}: S3, SQS and Kinesis are written"
    )


def _compute(given: LetsdataDescription, *, source: str) -> ComputeSection:
    engine, inner, usual = given.compute_engine, given.compute_engine.in_lambda, ComputeSection()
    if engine.compute_engine_type.lower() != "lambda":
        raise Misconfigured(
            f"{source}: computeEngine.computeEngineType {engine.compute_engine_type}: only Lambda is known here, as "
            "processes of this machine or of a Ray cluster; for Spark see docs/how-to/spark-and-dask.md; vectors are "
            "made from the documents by a program of yours"
        )
    return ComputeSection(
        jobs=engine.concurrency or inner.lambda_concurrency or usual.jobs,
        timeout=engine.timeout_in_seconds or inner.lambda_timeout_in_seconds or usual.timeout,
        memory=engine.memory_limit_in_megabytes or inner.lambda_memory_limit_in_megabytes or usual.memory,
    )


def _managed(given: LetsdataDescription, dataset: Dataset) -> tuple[ManagedResource, ...]:
    """Return the queues and streams that letsdata would have made itself."""
    targets = ((given.write_connector, dataset.write.to), (given.error_connector, dataset.errors.to))
    return tuple(
        ManagedResource(place, connector.kinesis_shard_count)
        for connector, place in targets
        if connector.is_managed and place.startswith(("kinesis://", "sqs://"))
    )


def address_of(scheme: str, name: str, region: str, *, path: str = "") -> str:
    """Return the address of a bucket, queue or stream; a name that is an address or a path stays as it is."""
    arn = _ARN.fullmatch(name)
    if arn:
        region, name = arn[1] or region, arn[2]
    elif not name or ":" in name or "/" in name:
        return name
    return with_region(f"{scheme}://{name}{'/' * bool(path)}{path}", region)


def with_region(address: str, region: str) -> str:
    has_place = address.startswith(("s3://", "sqs://", "kinesis://")) and "?" not in address
    return f"{address}?region={region}" if region and has_place else address


def _required(value: str, field: str, *, source: str) -> str:
    if not value:
        raise Misconfigured(
            f"{source}: {field} is missing: name it, or set resourceLocation to letsdata to have it made"
        )
    return value
