"""What the template promises, read from the template itself."""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.aws.template_file import FOLDER, TEMPLATE, load_template, of_kind
from webmill.aws import handlers, settings
from webmill.publish import fragments
from webmill.publish.keys import LATEST, RUNS


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return load_template()


def test_cfn_lint_finds_nothing() -> None:
    program = Path(sys.executable).parent / "cfn-lint"
    templates = [TEMPLATE, FOLDER / "web-acl.yaml"]
    done = subprocess.run([program, *templates], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_nobody_reads_the_bucket_but_through_cloudfront_and_nothing_but_versions(template: dict[str, Any]) -> None:
    for bucket in of_kind(template, "AWS::S3::Bucket").values():
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    policy = of_kind(template, "AWS::S3::BucketPolicy")["DataPolicy"]
    statements = {one["Sid"]: one for one in policy["PolicyDocument"]["Statement"]}
    assert statements["OnlyEncrypted"]["Effect"] == "Deny"
    readers = statements["ReadersThroughCloudFront"]
    assert (readers["Action"], readers["Principal"]) == ("s3:GetObject", {"Service": "cloudfront.amazonaws.com"})
    assert "AWS:SourceArn" in readers["Condition"]["StringEquals"]
    patterns = [one["Fn::Sub"].removeprefix("${Data.Arn}/") for one in readers["Resource"]]

    def readable(key: str) -> bool:
        return any(fnmatchcase(key, pattern) for pattern in patterns)

    for key in ("latest.json", f"blobs/sha256/{'a' * 64}.json", "snapshots/00000001-0d7d53e7/index/all.json"):
        assert readable(key)
    private = ["_runs/boards-20260101T000000Z-0a1b2c3d/plan.json", "_leases/turn.json", "_history/000000000001.json"]
    private += ["_trash/" + "a" * 64 + ".json", "_leases/run-boards-20260101T000000Z-0a1b2c3d.json"]
    for key in ("config/siteMap.json", ".webmill-probe/1", *(f"snapshots/{name}" for name in private)):
        assert not readable(key)


def test_readers_get_the_headers_of_the_reference(template: dict[str, Any]) -> None:
    headers = {
        name: policy["ResponseHeadersPolicyConfig"]
        for name, policy in of_kind(template, "AWS::CloudFront::ResponseHeadersPolicy").items()
    }
    reported = {name: one["CustomHeadersConfig"]["Items"][0]["Value"] for name, one in headers.items()}
    assert reported == {
        "PointerHeaders": "public, max-age=10",
        "ChangesHeaders": "public, max-age=60",
        "ImmutableHeaders": "public, max-age=31536000, immutable",
    }
    for policy in headers.values():
        condition, cors, nothing = policy["CorsConfig"]["Fn::If"]
        assert (condition, nothing) == ("HasOrigins", {"Ref": "AWS::NoValue"})
        assert cors["AccessControlAllowOrigins"]["Items"] == {"Ref": "AllowedOrigins"}
        assert cors["AccessControlAllowCredentials"] is False
        assert policy["SecurityHeadersConfig"]["ContentTypeOptions"]["Override"] is True
    (config,) = (one["DistributionConfig"] for one in of_kind(template, "AWS::CloudFront::Distribution").values())
    paths = {one["PathPattern"]: one["ResponseHeadersPolicyId"]["Ref"] for one in config["CacheBehaviors"]}
    assert paths == {"/latest.json": "PointerHeaders", "/snapshots/*/aux/*": "ChangesHeaders"}
    assert config["DefaultCacheBehavior"]["ResponseHeadersPolicyId"] == {"Ref": "ImmutableHeaders"}
    for behaviour in (config["DefaultCacheBehavior"], *config["CacheBehaviors"]):
        assert behaviour["ViewerProtocolPolicy"] == "https-only"
    assert all("OriginAccessControlId" in origin for origin in config["Origins"])


def test_no_scripts_of_other_origins_read_the_data_unless_they_are_named(template: dict[str, Any]) -> None:
    assert template["Parameters"]["AllowedOrigins"]["Default"] == ""
    assert of_kind(template, "AWS::S3::Bucket")["Data"]["CorsConfiguration"]["Fn::If"][0] == "HasOrigins"


def test_tls_is_1_3_unless_another_policy_is_chosen(template: dict[str, Any]) -> None:
    policy = template["Parameters"]["TlsPolicy"]
    assert policy["Default"] == "TLSv1.3_2025"
    assert all(
        one.startswith(("TLSv1.2_2021", "TLSv1.2_2025", "TLSv1.3", "cloudfront")) for one in policy["AllowedValues"]
    )


def test_readers_are_always_behind_a_web_acl_that_limits_requests(template: dict[str, Any]) -> None:
    (config,) = (one["DistributionConfig"] for one in of_kind(template, "AWS::CloudFront::Distribution").values())
    assert config["WebACLId"] == {"Fn::If": ["MakesAcl", {"Fn::GetAtt": ["Acl", "Arn"]}, {"Ref": "WebAclArn"}]}
    assert template["Conditions"]["MakesAcl"] == {"Fn::Equals": [{"Ref": "WebAclArn"}, ""]}
    elsewhere = load_template(FOLDER / "web-acl.yaml")
    for one in (template, elsewhere):
        (acl,) = of_kind(one, "AWS::WAFv2::WebACL").values()
        (rule,) = acl["Rules"]
        assert rule["Statement"]["RateBasedStatement"]["Limit"] == {"Ref": "RequestsPerFiveMinutes"}
        assert "Block" in rule["Action"]


def test_the_functions_cannot_overwrite_a_blob(template: dict[str, Any]) -> None:
    policy = of_kind(template, "AWS::S3::BucketPolicy")["DataPolicy"]
    (once,) = (one for one in policy["PolicyDocument"]["Statement"] if one["Sid"] == "BlobsAreWrittenOnce")
    assert (once["Effect"], once["Action"]) == ("Deny", "s3:PutObject")
    assert once["Resource"] == {"Fn::Sub": "${Data.Arn}/blobs/*"}
    assert once["Condition"]["Null"] == {"s3:if-none-match": "true"}
    writers = {one["Fn::GetAtt"][0] for one in once["Condition"]["ArnEquals"]["aws:PrincipalArn"]}
    for name, role in of_kind(template, "AWS::IAM::Role").items():
        statements = [one for policy in role.get("Policies", []) for one in policy["PolicyDocument"]["Statement"]]
        writable = [str(one["Resource"]) for one in statements if one["Action"] in ("s3:PutObject", "s3:DeleteObject")]
        assert name in writers or not any("/blobs/" in resource for resource in writable)
        deletable = [str(one["Resource"]) for one in statements if one["Action"] == "s3:DeleteObject"]
        assert not any("/blobs/" in resource for resource in deletable)


def test_the_storage_tells_of_ends_and_versions_and_readers_are_logged(template: dict[str, Any]) -> None:
    bucket = of_kind(template, "AWS::S3::Bucket")["Data"]
    ends, published = bucket["NotificationConfiguration"]["QueueConfigurations"]
    rules = {rule["Name"]: rule["Value"] for rule in ends["Filter"]["S3Key"]["Rules"]}
    assert rules["suffix"].removeprefix("/") == fragments.END_OF_BATCH
    assert rules["prefix"] == RUNS
    condition, version, _ = published["Fn::If"]
    assert condition == "HasSearch"
    assert version["Filter"]["S3Key"]["Rules"] == [{"Name": "prefix", "Value": LATEST}]
    sources = of_kind(template, "AWS::Lambda::EventSourceMapping")
    fed = {name: (one["EventSourceArn"]["Fn::GetAtt"][0], one["FunctionName"]["Ref"]) for name, one in sources.items()}
    assert fed["AggregatorSource"] == ("Ends", "Aggregator")
    assert fed["IndexerSource"] == ("Published", "Indexer")
    (config,) = (one["DistributionConfig"] for one in of_kind(template, "AWS::CloudFront::Distribution").values())
    assert config["Logging"]["Bucket"] == {"Fn::GetAtt": ["AccessLogs", "DomainName"]}
    assert bucket["LoggingConfiguration"]["DestinationBucketName"] == {"Ref": "AccessLogs"}


def test_alarms_watch_every_function_and_the_age_of_the_pointer(template: dict[str, Any]) -> None:
    alarms = of_kind(template, "AWS::CloudWatch::Alarm")
    watched = {one["Dimensions"][0]["Value"]["Ref"] for one in alarms.values() if one["Namespace"] == "AWS/Lambda"}
    assert watched == {"Orchestrator", "Worker", "Aggregator", "Indexer"}
    age = alarms["AgeAlarm"]
    assert (age["Namespace"], age["MetricName"]) == (handlers.METRICS, "LatestAge")
    assert (age["Threshold"], age["TreatMissingData"]) == ({"Ref": "MaxAgeSeconds"}, "breaching")


def test_no_role_may_do_everything_or_touch_everything(template: dict[str, Any]) -> None:
    for role in of_kind(template, "AWS::IAM::Role").values():
        for policy in role.get("Policies", []):
            for statement in policy["PolicyDocument"]["Statement"]:
                actions, resources = statement["Action"], statement["Resource"]
                assert not any("*" in action for action in ([actions] if isinstance(actions, str) else actions))
                assert "*" not in ([resources] if not isinstance(resources, list) else resources)


def test_jobs_have_a_dead_letter_queue_and_an_alarm(template: dict[str, Any]) -> None:
    queues = of_kind(template, "AWS::SQS::Queue")
    for name in ("Jobs", "DeadLetters"):
        assert queues[name]["FifoQueue"] is True
        assert queues[name]["MessageRetentionPeriod"] == 14 * 24 * 3600
    redrive = queues["Jobs"]["RedrivePolicy"]
    assert redrive["deadLetterTargetArn"] == {"Fn::GetAtt": ["DeadLetters", "Arn"]}
    assert redrive["maxReceiveCount"] >= template["Parameters"]["Attempts"]["MaxValue"] + 2
    timeout = of_kind(template, "AWS::Lambda::Function")["Worker"]["Timeout"]
    assert queues["Jobs"]["VisibilityTimeout"] >= 6 * timeout
    alarm = of_kind(template, "AWS::CloudWatch::Alarm")["DeadLetterAlarm"]
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": {"Fn::GetAtt": ["DeadLetters", "QueueName"]}}]
    source = of_kind(template, "AWS::Lambda::EventSourceMapping")["WorkerSource"]
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_the_functions_are_there_and_understand_their_environment(template: dict[str, Any]) -> None:
    values = {
        "WEBMILL_QUEUE_URL": "sqs://a.fifo",
        "WEBMILL_HTTP_CONTACT": "me@example.org",
        "WEBMILL_AWS_STORAGE": "s3://b",
        "WEBMILL_SEARCH_URL": "meilisearchs://key@search.example/notices",
        "WEBMILL_PUBLISH_LAYOUT": "uring",
    }
    for logical, function in of_kind(template, "AWS::Lambda::Function").items():
        module, _, name = function["Handler"].rpartition(".")
        assert module == handlers.__name__
        assert callable(getattr(handlers, name))
        variables = function["Environment"]["Variables"]
        around = settings.read_environment({variable: values.get(variable, "3") for variable in variables})
        if logical == "Indexer":
            settings.check_indexer(around)
        else:
            settings.check_publisher(around)
            assert around.queue.attempts == 3
