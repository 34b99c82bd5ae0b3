"""letsdata's dataset.json: what becomes of each field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command import webmill
from tests.unit.compat.letsdata_descriptions import write
from webmill.compat.letsdata.config import is_description, load_description
from webmill.errors import Misconfigured

LOCAL: dict[str, Any] = {
    "readConnector": {"bucketName": "./"},
    "writeConnector": {"connectorDestination": "S3"},
    "manifestFile": {"manifestFileS3Uri": None, "fileContents": "WARC:a.warc.gz|WAT:a.wat|WET:a.wet"},
}


def test_known_fields_are_mapped(tmp_path: Path) -> None:
    read = load_description(write(tmp_path))
    dataset = read.dataset
    assert (dataset.name, dataset.manifest) == ("CommonCrawl1", "s3://manifests/manifest.txt?region=us-east-1")
    assert dataset.read.source == "s3://commoncrawl?region=us-east-1"
    assert dataset.document.kind == "index-record"
    assert (dataset.write.to, dataset.errors.to) == ("kinesis://CommonCrawl1?region=us-east-1", "errors")
    assert (dataset.compute.jobs, dataset.compute.memory, dataset.compute.timeout) == (15, 10240, 900)
    assert [(one.address, one.shards) for one in read.managed] == [(dataset.write.to, 15)]
    assert read.unknown == ()
    assert "accessGrantRoleArn" in read.not_needed


def test_unknown_fields_are_named_and_kept(tmp_path: Path) -> None:
    file = write(tmp_path, **LOCAL, owner={"team": "search"}, computeEngine={"colour": "blue"})
    made = webmill("dataset", "create", file, "--in", tmp_path / "d")
    assert made.code == 0
    assert "unknown fields, kept in letsdata.json without effect: computeEngine.colour, owner" in made.err
    kept = tmp_path / "d" / "CommonCrawl1" / "letsdata.json"
    assert json.loads(kept.read_text()) == json.loads(file.read_text())
    assert kept.stat().st_mode & 0o077 == 0  # its addresses may hold keys


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ({"manifestFileS3Uri": "lines.txt"}, "lines.txt"),
        ({"manifestFileS3Uri": None, "fileContents": "a.warc.gz\nb.warc.gz\n"}, ["a.warc.gz", "b.warc.gz"]),
        ({"manifestFileS3Uri": "s3://K:S@b/m.txt?endpoint=http://h:1"}, "s3://K:S@b/m.txt?endpoint=http://h:1"),
    ],
)
def test_a_manifest_is_an_address_a_file_or_its_lines(tmp_path: Path, manifest: dict[str, Any], says: object) -> None:
    assert load_description(write(tmp_path, manifestFile=manifest)).dataset.manifest == says


def test_queues_and_streams_are_read_as_the_manifest_says(tmp_path: Path) -> None:
    queue = {"connectorDestination": "SQS", "queueName": "words", "multipleFileStateMachineReaderClassName": None}
    stop = {"sqsReaderTaskStopCondition": "DrainQueues", "sqsReaderTaskStopAfterConsecutiveEmptyReceives": 10}
    read = load_description(write(tmp_path, readConnector=queue, manifestFile=stop)).dataset.read
    assert (read.source, read.empty_receives, read.follow) == ("sqs://words?region=us-east-1", 10, False)
    arn = "arn:aws:kinesis:eu-west-1:223413462631:stream/tldwce4a4"
    stream = {"connectorDestination": "KINESIS", "streamArn": arn, "multipleFileStateMachineReaderClassName": None}
    go_on = {"kinesisReaderTaskStopCondition": "Continuous", "kinesisReaderTaskStartFromCondition": "Latest"}
    read = load_description(write(tmp_path, readConnector=stream, manifestFile=go_on)).dataset.read
    assert (read.source, read.start, read.follow) == ("kinesis://tldwce4a4?region=eu-west-1", "latest", True)


def test_a_class_of_yours_is_named_in_python(tmp_path: Path) -> None:
    named = {"multipleFileStateMachineReaderClassName": "readers.py:Mine"}
    assert load_description(write(tmp_path, readConnector=named)).dataset.document.reader == "readers.py:Mine"


def test_the_lambda_of_other_engines_is_nested(tmp_path: Path) -> None:
    engine = {"lambda": {"lambdaConcurrency": 2, "lambdaTimeoutInSeconds": 60}, "concurrency": None}
    read = load_description(write(tmp_path, computeEngine={**engine, "timeoutInSeconds": None}))
    assert (read.dataset.compute.jobs, read.dataset.compute.timeout) == (2, 60)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"datasetName": "<DATASET_NAME_PLACEHOLDER>"},
            "datasetName is still the placeholder <DATASET_NAME_PLACEHOLDER>",
        ),
        ({"datasetName": 7.5}, "datasetName"),
        ({"readConnector": {"connectorDestination": "DYNAMODB"}}, "S3, SQS and KINESIS are read"),
        ({"readConnector": {"connectorDestination": "SQS"}}, "readConnector.queueName is missing"),
        (
            {"readConnector": {"multipleFileStateMachineReaderClassName": "com.mine.R"}},
            "a class in Java: write it in Python",
        ),
        ({"writeConnector": {"connectorDestination": "Kafka"}}, "S3, SQS and Kinesis are written"),
        ({"writeConnector": {"resourceLocation": "Customer"}}, "writeConnector.streamName is missing"),
        ({"computeEngine": {"computeEngineType": "Spark"}}, "spark-and-dask.md"),
        ({"computeEngine": {"computeEngineType": "LAMBDA_AND_SAGEMAKER"}}, "vectors are made from the documents"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Misconfigured, match=says):
        load_description(write(tmp_path, **changes))


def test_other_files_are_not_taken_for_letsdatas(tmp_path: Path) -> None:
    ours = tmp_path / "ours.json"
    ours.write_text('{"name": "x"}')
    assert not is_description(ours)
    assert not is_description(tmp_path / "none.json")
    broken = tmp_path / "broken.json"
    broken.write_text('{"datasetName": "x", ')
    made = webmill("dataset", "create", broken)
    assert made.code == 1
    assert "broken.json" in made.err
