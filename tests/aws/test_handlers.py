"""The functions of Lambda on a server of S3 and SQS: cycles from board list to version, and what may go wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.aws.amazon import LONG, Amazon, Minutes
from tests.aws.bucket_policy import enforcing_policy
from tests.aws.site import Site, serving
from webmill.aws import handlers, settings
from webmill.errors import Misconfigured
from webmill.publish.types import encode_sealed

pytestmark = pytest.mark.server("aws")


@pytest.fixture
def site(amazon: Amazon) -> Iterator[Site]:
    with serving() as site:
        site.boards = {f"{campus}-board": {at: f"{campus} {at}" for at in range(1, 6)} for campus in "abc"}
        amazon.put("config/siteMap.json", site.site_map())
        yield site


def test_a_cycle_ends_in_a_version_and_the_next_writes_what_changed(amazon: Amazon, site: Site) -> None:
    outcome = amazon.cycle()
    assert (outcome["planned"], outcome["missing"], outcome["failed"]) == (3, 0, [])
    pointer = amazon.get("latest.json")
    assert (pointer["version"], pointer["count"]) == (outcome["version"], 15)
    titles = {item["metadata"]["title"] for item in amazon.index()["items"]}
    assert titles == {f"{campus} {at}" for campus in "abc" for at in range(1, 6)}
    assert f"snapshots/{pointer['version']}/index/campus/a.json" in amazon.keys("snapshots/")
    assert len(amazon.keys("blobs/")) == 15
    assert not amazon.keys("snapshots/_runs/")

    site.boards["a-board"][6] = "a new one"
    site.broken.add("b-board")
    mistaken = json.loads(site.site_map())
    mistaken["sources"][2]["selectors"] = {"item": "tr[["}
    amazon.put("config/siteMap.json", json.dumps(mistaken).encode())
    outcome = amazon.cycle()
    assert sorted(outcome["failed"]) == ["b-board", "c-board"]  # both keep what they had
    assert (outcome["counts"]["added"], outcome["counts"]["removed"], outcome["counts"]["stale"]) == (1, 0, 10)
    errors = amazon.get(f"snapshots/{outcome['version']}/aux/errors.json")
    assert {one["stage"] for one in errors if one["source"] == "c-board"} == {"site_map"}
    assert outcome["counts"]["blobs_written"] == 1
    (buried,) = handlers.open_resources().queue.dead_letters()
    assert json.loads(buried.body)["board"]["source"] == "b-board"
    assert (buried.attempts, "503" in buried.reason) == (2, True)


def test_one_run_at_a_time_and_the_jobs_of_one_host_are_one_group(amazon: Amazon, site: Site) -> None:
    assert handlers.orchestrate({}, Minutes())["jobs"] == 3
    second = handlers.orchestrate({}, Minutes())
    assert second["run"] is None
    assert "under way" in second["why"]
    assert handlers.aggregate({}, Minutes())["ended"] == []
    url = amazon.sqs.get_queue_url(QueueName=f"{amazon.name}.fifo")["QueueUrl"]
    answer = amazon.sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["MessageGroupId"]
    )
    assert len({message["Attributes"]["MessageGroupId"] for message in answer["Messages"]}) == 1


def test_a_message_that_is_no_job_is_buried_and_its_neighbours_are_worked(amazon: Amazon, site: Site) -> None:
    handlers.orchestrate({}, Minutes())
    url = amazon.sqs.get_queue_url(QueueName=f"{amazon.name}.fifo")["QueueUrl"]
    amazon.sqs.send_message(QueueUrl=url, MessageBody="hello", MessageGroupId="g", MessageDeduplicationId="d")
    deadline = time.monotonic() + LONG
    while not (reported := handlers.aggregate({}, Minutes()))["ended"]:
        amazon.deliver()
        assert time.monotonic() < deadline
    assert reported["ended"][0]["failed"] == []
    assert [buried.body for buried in handlers.open_resources().queue.dead_letters()] == [b"hello"]


def test_a_message_that_came_before_its_time_is_left_alone(amazon: Amazon, site: Site) -> None:
    """A board that could not be read goes back with a delay: Lambda gets it at once, and must not delete it."""
    site.boards = {"a-board": {1: "a"}}
    amazon.put("config/siteMap.json", site.site_map())
    site.broken.add("a-board")
    handlers.orchestrate({}, Minutes())
    assert amazon.deliver() == []  # sent anew
    (early,) = amazon.deliver()
    assert early
    assert handlers.open_resources().queue.stats().delayed == 1


def test_the_last_worker_announces_the_end_of_the_batch(amazon: Amazon, site: Site) -> None:
    run = handlers.orchestrate({}, Minutes())["run"]
    end = f"snapshots/_runs/{run}/end-of-batch.json"
    deadline = time.monotonic() + LONG
    while end not in amazon.keys("snapshots/_runs/"):
        amazon.deliver()
        assert time.monotonic() < deadline
    record = {"messageId": "1", "body": json.dumps({"Records": [{"s3": {"object": {"key": end}}}]})}
    (outcome,) = handlers.aggregate({"Records": [record]}, Minutes())["ended"]  # as the queue of ends calls it
    assert (outcome["run"], outcome["missing"]) == (run, 0)
    assert not amazon.keys("snapshots/_runs/")


def test_the_age_of_the_pointer_is_a_metric_and_an_unchanged_run_makes_it_young(
    amazon: Amazon, site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEBMILL_AWS_STACK", "notices")
    handlers.aggregate({}, Minutes())
    assert ages(capfd) == []  # nothing is published
    amazon.cycle()
    assert [age < LONG for age in ages(capfd)] == [True]
    pointer = amazon.get("latest.json")
    unsealed = {key: value for key, value in pointer.items() if key != "crc32"}
    amazon.put("latest.json", encode_sealed({**unsealed, "updated_at": "2026-01-01T00:00:00Z"}))
    handlers.aggregate({}, Minutes())
    assert [age > 1000 for age in ages(capfd)] == [True]
    outcome = amazon.cycle()
    assert (outcome["is_new"], outcome["version"]) == (False, pointer["version"])
    assert ages(capfd)[-1] < LONG


def ages(capfd: pytest.CaptureFixture[str]) -> list[float]:
    """Return the values that CloudWatch would take from the log since the last call."""
    events = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    metrics = [event for event in events if "_aws" in event]
    for event in metrics:
        (metric,) = event["_aws"]["CloudWatchMetrics"]
        assert (metric["Namespace"], metric["Dimensions"]) == (handlers.METRICS, [["Stack"]])
        assert event["Stack"] == "notices"
    return [event[metric["Name"]] for event in metrics for metric in event["_aws"]["CloudWatchMetrics"][0]["Metrics"]]


def test_a_cycle_works_where_a_blob_may_be_written_only_if_it_is_absent(
    amazon: Amazon, site: Site, aws_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with enforcing_policy(aws_url) as front:
        monkeypatch.setenv("WEBMILL_AWS_STORAGE", f"s3://{amazon.name}?region=us-east-1&endpoint={front.url}")
        assert amazon.cycle()["counts"]["blobs_written"] == 15
        assert (len(set(front.blobs)), front.denied) == (15, [])
        hash_ = amazon.index()["items"][0]["hash"]
        trashed = amazon.s3.get_object(Bucket=amazon.name, Key=f"blobs/sha256/{hash_}.json")["Body"].read()
        amazon.put(f"snapshots/_trash/{hash_}.json", trashed)
        amazon.s3.delete_object(Bucket=amazon.name, Key=f"blobs/sha256/{hash_}.json")
        amazon.cycle()  # it is taken from the trash
        assert front.denied == []
    assert f"blobs/sha256/{hash_}.json" in amazon.keys("blobs/")


@pytest.mark.soak
def test_a_drop_is_refused_unless_it_is_forced(amazon: Amazon, site: Site) -> None:
    amazon.cycle()
    site.boards = {"a-board": site.boards["a-board"]}
    amazon.put("config/siteMap.json", site.site_map())
    outcome = amazon.cycle()
    assert (outcome["version"], bool(outcome["refused"])) == (None, True)
    handlers.orchestrate({}, Minutes())
    deadline = time.monotonic() + LONG
    while not (reported := handlers.aggregate({"force": True}, Minutes()))["ended"]:
        amazon.deliver()
        assert time.monotonic() < deadline
    assert amazon.get("latest.json")["version"] == reported["ended"][0]["version"]
    assert amazon.get("latest.json")["count"] == 5


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"WEBMILL_AWS_STORAGE": ""}, "storage"),
        ({"WEBMILL_AWS_DEADLINE": "soon"}, "deadline"),
        ({"WEBMILL_AWS_TYPO": "1"}, "typo"),
        ({"WEBMILL_QUEUE_URL": "amqp://x/"}, "WEBMILL_QUEUE_URL"),
        ({"WEBMILL_HTTP_CONTACT": ""}, "WEBMILL_HTTP_CONTACT"),
    ],
)
def test_an_environment_that_cannot_work_is_refused(wrong: dict[str, str], reported: str) -> None:
    right = {
        "WEBMILL_QUEUE_URL": "sqs://a.fifo",
        "WEBMILL_HTTP_CONTACT": "me@example.org",
        "WEBMILL_AWS_STORAGE": "s3://b",
    }
    assert settings.check_publisher(settings.read_environment(right)).settings.storage == "s3://b"
    with pytest.raises(Misconfigured, match=reported):
        settings.check_publisher(settings.read_environment({**right, **wrong}))


def test_an_indexer_without_a_search_server_is_refused() -> None:
    around = settings.read_environment({"WEBMILL_AWS_STORAGE": "s3://b", "WEBMILL_SEARCH_URL": "search"})
    with pytest.raises(Misconfigured, match="WEBMILL_SEARCH_URL"):
        settings.check_indexer(around)


def test_another_endpoint_is_for_both_unless_they_name_their_own() -> None:
    around = settings.read_environment(
        {
            "AWS_ENDPOINT_URL": "http://127.0.0.1:4566",
            "WEBMILL_QUEUE_URL": "sqs://a.fifo?region=x",
            "WEBMILL_HTTP_CONTACT": "me@example.org",
            "WEBMILL_AWS_STORAGE": "s3://b?endpoint=http://other:1",
        }
    )
    assert around.queue.url == "sqs://a.fifo?region=x&endpoint=http://127.0.0.1:4566"
    assert around.settings.storage == "s3://b?endpoint=http://other:1"
