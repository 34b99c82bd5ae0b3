"""The fields of letsdata's dataset.json that are known here. All are optional, but for the name of the dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec


class ReadConnector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    connector_destination: str = "S3"
    bucket_name: str = ""
    queue_name: str = ""
    stream_name: str = ""
    stream_arn: str = ""
    multiple_file_state_machine_reader_class_name: str = ""
    single_file_state_machine_reader_implementation_class_name: str = ""
    single_file_parser_implementation_class_name: str = ""
    queue_message_reader_class_name: str = ""
    kinesis_record_reader_class_name: str = ""

    @property
    def reader_class(self) -> str:
        return (
            self.multiple_file_state_machine_reader_class_name
            or self.single_file_state_machine_reader_implementation_class_name
            or self.single_file_parser_implementation_class_name
            or self.queue_message_reader_class_name
            or self.kinesis_record_reader_class_name
        )


class OutputConnector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`resourceLocation` letsdata: the queue or stream is made if it is not there."""

    connector_destination: str = ""
    resource_location: str = ""
    bucket_name: str = ""
    queue_name: str = ""
    stream_name: str = ""
    stream_arn: str = ""
    kinesis_shard_count: int = 1

    @property
    def is_managed(self) -> bool:
        return self.resource_location.lower() == "letsdata"


class LambdaEngine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    lambda_concurrency: int = 0
    lambda_memory_limit_in_megabytes: int = 0
    lambda_timeout_in_seconds: float = 0


class ComputeEngine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    compute_engine_type: str = "Lambda"
    concurrency: int = 0
    memory_limit_in_megabytes: int = 0
    timeout_in_seconds: float = 0
    in_lambda: LambdaEngine = msgspec.field(default=LambdaEngine(), name="lambda")


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    manifest_file_s3_uri: str = ""
    file_contents: str = ""
    sqs_reader_task_stop_condition: str = ""
    sqs_reader_task_stop_after_consecutive_empty_receives: int = 0
    kinesis_reader_task_stop_condition: str = ""
    kinesis_reader_task_start_from_condition: str = ""


class LetsdataDescription(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    dataset_name: str
    region: str = ""
    read_connector: ReadConnector = ReadConnector()
    write_connector: OutputConnector = OutputConnector()
    error_connector: OutputConnector = OutputConnector()
    compute_engine: ComputeEngine = ComputeEngine()
    manifest_file: ManifestFile = ManifestFile()


# What letsdata's service needs and we do not: your own credentials are used, code is not fetched from elsewhere.
NOT_NEEDED = frozenset(
    {
        "accessGrantRoleArn",
        "customerAccountForAccess",
        "customerAccessRoleArn",
        "createDatetime",
        "readConnector.artifactFileS3Link",
        "readConnector.artifactFileS3LinkResourceLocation",
        "readConnector.artifactImplementationLanguage",
        "readConnector.bucketResourceLocation",
        "readConnector.interfaceECRImagePath",
        "readConnector.interfaceECRImageResourceLocation",
        "readConnector.readerType",
        "readConnector.resourceLocation",
        "readConnector.singleFileStateMachineParserImplementationClassName",
        "readConnector.singleFileStateMachineParserImplementationClassNameMap",
        "computeEngine.logLevel",
        "computeEngine.lambda.logLevel",
        "manifestFile.kinesisReaderTaskContinuousPollFrequency",
        "manifestFile.manifestType",
        "manifestFile.readerManifestResourceLocation",
        "manifestFile.readerType",
        "manifestFile.region",
    }
)


def other_fields(table: Mapping[str, object], kind: type = LetsdataDescription, *, at: str = "") -> Iterator[str]:
    """Yield the fields of a description that are mapped to nothing, with those they are in: `a.b`."""
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in table.items():
        if name not in known:
            yield f"{at}{name}"
        elif isinstance(value, dict):
            yield from other_fields(value, known[name], at=f"{at}{name}.")
