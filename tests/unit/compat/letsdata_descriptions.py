"""Descriptions as users of letsdata have them: three files into one document, to Kinesis."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

CLASSES = "com.letsdata.commoncrawl.interfaces.implementations"
THREE_FILES: dict[str, Any] = {
    "datasetName": "CommonCrawl1",
    "region": "us-east-1",
    "accessGrantRoleArn": "<ACCESS_GRANT_IAM_ROLE_ARN_PLACEHOLDER>",
    "customerAccountForAccess": "123456789012",
    "readConnector": {
        "connectorDestination": "S3",
        "artifactImplementationLanguage": "Java",
        "artifactFileS3Link": "s3://jars/letsdata-common-crawl-1.0-SNAPSHOT-jar-with-dependencies.jar",
        "artifactFileS3LinkResourceLocation": "Customer",
        "readerType": "Multiple File State Machine Reader",
        "bucketName": "commoncrawl",
        "bucketResourceLocation": "LetsData",
        "singleFileStateMachineParserImplementationClassNameMap": {
            "WARC": f"{CLASSES}.parser.WARCFileParser",
            "WAT": f"{CLASSES}.parser.WATFileParser",
            "WET": f"{CLASSES}.parser.WETFileParser",
        },
        "multipleFileStateMachineReaderClassName": f"{CLASSES}.reader.CommonCrawlReader",
    },
    "writeConnector": {"connectorDestination": "Kinesis", "resourceLocation": "letsdata", "kinesisShardCount": 15},
    "errorConnector": {"connectorDestination": "S3", "resourceLocation": "letsdata"},
    "computeEngine": {
        "computeEngineType": "Lambda",
        "concurrency": 15,
        "memoryLimitInMegabytes": 10240,
        "timeoutInSeconds": 900,
        "logLevel": "WARN",
    },
    "manifestFile": {
        "manifestFileS3Uri": "s3://manifests/manifest.txt",
        "readerManifestResourceLocation": "Customer",
        "manifestType": "S3ReaderS3LinkManifestFile",
        "readerType": "MULTIPLEFILESTATEMACHINEREADER",
    },
}


def description(**changes: Any) -> dict[str, Any]:
    """The description above; `section={…}` replaces fields of a section, None removes one."""
    made = copy.deepcopy(THREE_FILES)
    for name, change in changes.items():
        if isinstance(change, dict):
            made[name] = {key: value for key, value in {**made.get(name, {}), **change}.items() if value is not None}
        else:
            made[name] = change
    return made


def write(folder: Path, **changes: Any) -> Path:
    file = folder / "dataset.json"
    file.write_text(json.dumps(description(**changes), indent=2))
    return file
