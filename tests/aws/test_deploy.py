"""The template as a stack in MiniStack, with IAM enforced: a cycle from the board list to `latest.json` and search."""

from __future__ import annotations

import io
import json
import secrets
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.aws.site import serving
from tests.services import CannotStart, ministack
from webmill.errors import Misconfigured, NotFound
from webmill.infra.queue.sqs import SqsQueue
from webmill.search.backends import open_search
from webmill.search.base import SearchRequest
from webmill.search.query import parse

pytestmark = [pytest.mark.server("aws"), pytest.mark.server("meilisearch"), pytest.mark.slow]

ROOT = Path(__file__).parent.parent.parent
TEMPLATE = ROOT / "deploy" / "aws" / "template.yaml"
STACK = "notices"
LONG = 120.0
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
# Amazon counts batches as the single action; MiniStack has actions of their own for them.
BATCHES = {"Effect": "Allow", "Action": ["sqs:SendMessageBatch", "sqs:ChangeMessageVisibilityBatch"], "Resource": "*"}


class Stack:
    def __init__(self, endpoint: str, *, region: str = "us-east-1") -> None:
        self.endpoint = endpoint
        keys = {**KEYS, "region_name": region}
        session, config = (
            boto3.session.Session(),
            Config(proxies={}, read_timeout=LONG, retries={"total_max_attempts": 1}),
        )
        self._clients: dict[str, Any] = {
            name: session.client(name, endpoint_url=endpoint, config=config, **keys)
            for name in ("s3", "cloudformation", "lambda", "iam", "events")
        }
        self.s3 = self._clients["s3"]
        self.outputs: dict[str, str] = {}

    def in_region(self, region: str) -> Stack:
        return Stack(self.endpoint, region=region)

    def upload_code(self) -> None:
        self.s3.create_bucket(Bucket="code")
        self.s3.put_object(Bucket="code", Key="webmill.zip", Body=package())

    def deploy(self, **parameters: str) -> None:
        given = {"Contact": "test@example.org", "CodeBucket": "code", "DelaySeconds": "0", "Attempts": "2"}
        given |= {"Schedule": "rate(1 day)", **parameters}
        cloud = self._clients["cloudformation"]
        cloud.create_stack(
            StackName=STACK,
            TemplateBody=TEMPLATE.read_text(),
            Capabilities=["CAPABILITY_IAM"],
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()],
        )
        stack = wait_for(lambda: self._ended(cloud))
        assert stack["StackStatus"] == "CREATE_COMPLETE", self._why(cloud)
        self.outputs = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}

    def _ended(self, cloud: Any) -> dict[str, Any] | None:
        (stack,) = cloud.describe_stacks(StackName=STACK)["Stacks"]
        return None if stack["StackStatus"].endswith("IN_PROGRESS") else dict(stack)

    def _why(self, cloud: Any) -> list[tuple[str, str]]:
        events = cloud.describe_stack_events(StackName=STACK)["StackEvents"]
        failed = [event for event in events if event["ResourceStatus"].endswith("FAILED")]
        return [(event["LogicalResourceId"], event.get("ResourceStatusReason", "")) for event in failed]

    def loosen(self) -> None:
        """What is no fault of the template: MiniStack speaks no TLS, which the bucket asks for, and see `BATCHES`."""
        policy = json.loads(self.s3.get_bucket_policy(Bucket=self.bucket)["Policy"])
        policy["Statement"] = [one for one in policy["Statement"] if one["Sid"] != "OnlyEncrypted"]
        self.s3.put_bucket_policy(Bucket=self.bucket, Policy=json.dumps(policy))
        iam = self._clients["iam"]
        for role in iam.list_roles()["Roles"]:
            document = json.dumps({"Version": "2012-10-17", "Statement": [BATCHES]})
            iam.put_role_policy(RoleName=role["RoleName"], PolicyName="batches", PolicyDocument=document)

    @property
    def bucket(self) -> str:
        return self.outputs["Bucket"]

    def call(self, function: str) -> dict[str, Any]:
        answer = self._clients["lambda"].invoke(FunctionName=f"{STACK}-{function}", Payload=b"{}")
        reported = json.loads(answer["Payload"].read())
        assert not answer.get("FunctionError"), reported
        return dict(reported)

    def get(self, key: str) -> Any:
        return json.loads(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def stop_schedules(self) -> None:
        """From now on the storage's events alone call the functions."""
        events = self._clients["events"]
        for rule in events.list_rules()["Rules"]:
            events.disable_rule(Name=rule["Name"])

    def published(self) -> dict[str, Any] | None:
        found = self.s3.list_objects_v2(Bucket=self.bucket, Prefix="latest.json").get("Contents")
        return dict(self.get("latest.json")) if found else None

    def queue(self) -> SqsQueue:
        keys = f"{KEYS['aws_access_key_id']}:{KEYS['aws_secret_access_key']}"
        address = self.outputs["Queue"].replace("sqs://", f"sqs://{keys}@")
        return SqsQueue(f"{address}&endpoint={self.endpoint}", max_attempts=2)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def package() -> bytes:
    """Our part of what deploy/aws/build.sh makes; what we need of others is in MiniStack's environment."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for file in sorted((ROOT / "src" / "webmill").rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(ROOT / "src"))
    return data.getvalue()


def indexed(url: str) -> dict[str, Any] | None:
    """Return the titles of what is found by a word of all texts; None before the indexer has filled the index."""
    try:
        engine = open_search(url, create=False)
    except (NotFound, Misconfigured):  # not there, or being made
        return None
    with closing(engine):
        if ">" in (engine.cursor() or ">"):
            return None
        found = engine.search(SearchRequest(query=parse("about"), limit=100))
        return {hit.id: hit.document.title for hit in found.hits}


def wait_for(look: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
    deadline = time.monotonic() + LONG
    while (found := look()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


@pytest.fixture
def stack() -> Iterator[Stack]:
    folder = Path(tempfile.mkdtemp(prefix="webmill-ministack-"))
    try:
        server = ministack.start(folder)
    except CannotStart as error:
        if ".venv-ministack" in str(error):
            pytest.skip(str(error))
        raise
    stack = Stack(server.url)
    try:
        yield stack
    finally:
        stack.close()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def search_url(meilisearch_url: str) -> str:
    return f"{meilisearch_url}/{STACK}{secrets.token_hex(4)}"


def test_the_stack_is_made_and_a_cycle_ends_in_a_version_and_in_the_search_index(stack: Stack, search_url: str) -> None:
    stack.upload_code()
    with pytest.raises(ClientError, match="TlsPolicy=cloudfront-default"):
        stack.deploy()
    with pytest.raises(ClientError, match=r"web-acl\.yaml"):
        stack.in_region("eu-central-1").deploy(TlsPolicy="cloudfront-default")
    stack.deploy(TlsPolicy="cloudfront-default", SearchUrl=search_url, Layout="uring")
    stack.stop_schedules()
    with pytest.raises(AssertionError, match=r"(?i)forbidden|privileges"):
        stack.call("orchestrator")  # the bucket refuses what is not encrypted
    stack.loosen()
    with serving() as site:
        site.boards = {f"{campus}-board": {at: f"{campus} {at}" for at in range(1, 5)} for campus in "abc"}
        site.broken = {"c-board"}
        stack.s3.put_object(Bucket=stack.bucket, Key="config/siteMap.json", Body=site.site_map())
        assert stack.call("orchestrator")["jobs"] == 3
        pointer = wait_for(stack.published)  # workers are called by the queue, the aggregator by the end of the batch
    version = f"snapshots/{pointer['version']}"
    listed = stack.get(f"{version}/index/all.json")
    assert {item["title"] for item in listed} == {f"{campus} {at}" for campus in "ab" for at in range(1, 5)}
    assert {error["source"] for error in stack.get(f"{version}/aux/errors.json")} == {"c-board"}
    assert wait_for(lambda: indexed(search_url)) == {item["id"]: item["title"] for item in listed}
    queue = stack.queue()
    try:
        assert ["503" in buried.reason for buried in queue.dead_letters()] == [True]
        assert stack.call("orchestrator")["run"]  # its boards are read again: it drops what was buried
        assert list(queue.dead_letters()) == []
    finally:
        queue.close()
