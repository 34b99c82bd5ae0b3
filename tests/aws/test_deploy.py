"""The template as a stack in MiniStack, with IAM enforced: one cycle from the board list to `latest.json`."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.aws.site import serving
from tests.services import CannotStart, ministack
from webmill.infra.queue.sqs import SqsQueue

pytestmark = [pytest.mark.server("aws"), pytest.mark.slow]

ROOT = Path(__file__).parent.parent.parent
TEMPLATE = ROOT / "deploy" / "aws" / "template.yaml"
STACK = "notices"
LONG = 120.0
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
# Amazon counts batches as the single action; MiniStack has actions of their own for them.
BATCHES = {"Effect": "Allow", "Action": ["sqs:SendMessageBatch", "sqs:ChangeMessageVisibilityBatch"], "Resource": "*"}


class Stack:
    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        session, config = (
            boto3.session.Session(),
            Config(proxies={}, read_timeout=LONG, retries={"total_max_attempts": 1}),
        )
        self._clients: dict[str, Any] = {
            name: session.client(name, endpoint_url=endpoint, config=config, **KEYS)
            for name in ("s3", "cloudformation", "lambda", "iam")
        }
        self.s3 = self._clients["s3"]
        self.outputs: dict[str, str] = {}

    def deploy(self) -> None:
        self.s3.create_bucket(Bucket="code")
        self.s3.put_object(Bucket="code", Key="webmill.zip", Body=package())
        given = {"Contact": "test@example.org", "CodeBucket": "code", "DelaySeconds": "0", "Attempts": "2"}
        given["Schedule"] = "rate(1 day)"
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
        told = json.loads(answer["Payload"].read())
        assert not answer.get("FunctionError"), told
        return dict(told)

    def get(self, key: str) -> Any:
        return json.loads(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def published(self) -> dict[str, Any] | None:
        self.call("aggregator")
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


def test_the_stack_is_made_and_a_cycle_ends_in_a_version(stack: Stack) -> None:
    stack.deploy()
    with pytest.raises(AssertionError, match=r"(?i)forbidden|privileges"):
        stack.call("orchestrator")  # the bucket refuses what is not encrypted
    stack.loosen()
    with serving() as site:
        site.boards = {f"{campus}-board": {at: f"{campus} {at}" for at in range(1, 5)} for campus in "abc"}
        site.broken = {"c-board"}
        stack.s3.put_object(Bucket=stack.bucket, Key="config/siteMap.json", Body=site.site_map())
        assert stack.call("orchestrator")["jobs"] == 3
        pointer = wait_for(stack.published)  # the workers are called by the queue, the aggregator by its schedule, too
    version = f"snapshots/{pointer['version']}"
    titles = {item["metadata"]["title"] for item in stack.get(f"{version}/index/all.json")["items"]}
    assert titles == {f"{campus} {at}" for campus in "ab" for at in range(1, 5)}
    assert {error["source"] for error in stack.get(f"{version}/aux/errors.json")} == {"c-board"}
    queue = stack.queue()
    try:
        assert ["503" in buried.reason for buried in queue.dead_letters()] == [True]
        assert stack.call("orchestrator")["run"]  # its boards are read again: it drops what was buried
        assert list(queue.dead_letters()) == []
    finally:
        queue.close()
