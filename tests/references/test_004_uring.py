"""The architecture document of the uRing crawler: orchestrator, workers and aggregator, blobs and snapshots, on AWS."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.aws.amazon import Amazon, Minutes
from tests.aws.site import serving
from tests.aws.template_file import load_template, of_kind
from tests.boards.publishing import MemoryBoardReader, boards, working
from tests.references.claim import differs, works
from tests.references.uring_cycles import Cycles, index_name, site_map, two_cycles
from webmill.aws import handlers, settings
from webmill.boards.aggregator import aggregate
from webmill.boards.board_list import read_board_list
from webmill.boards.jobs import parse_job
from webmill.boards.orchestrator import start_run
from webmill.boards.types import board_manners
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.storage.local import LocalStorage
from webmill.publish import fragments, guard
from webmill.publish.gc import collect_garbage
from webmill.publish.keys import RUNS
from webmill.publish.publication import utc_now
from webmill.search.backends import open_search
from webmill.search.base import SearchRequest
from webmill.search.query import parse
from webmill.serve.files.published_paths import PublishedPaths


@pytest.fixture(scope="module")
def cycles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cycles]:
    with two_cycles(tmp_path_factory.mktemp("uring")) as cycles:
        yield cycles


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return load_template()


def distribution(template: dict[str, Any]) -> dict[str, Any]:
    (one,) = of_kind(template, "AWS::CloudFront::Distribution").values()
    return dict(one["DistributionConfig"])


def blobs(cycles: Cycles) -> dict[str, bytes]:
    """Return the blobs by the name of their file."""
    folder = cycles.root / "notices" / "blobs" / "sha256"
    return {file.name: file.read_bytes() for file in folder.iterdir()}


# --- design principles ------------------------------------------------------------------------------------------------


@works("Data is stored based on its content hash (SHA-256), not its location.")
@works("`blobs/sha256/a1b2...e4.json   # Actual content of a notice`")
def test_content_is_stored_under_its_hash(cycles: Cycles) -> None:
    stored = blobs(cycles)
    assert len(stored) == 21
    assert all(hashlib.sha256(data).hexdigest() + ".json" == name for name, data in stored.items())


@works("This eliminates 99% of redundant writes.")
def test_what_is_unchanged_is_not_written_again(cycles: Cycles) -> None:
    counts = cycles.second.counts
    assert counts
    assert (counts.blobs_written, counts.added, counts.changed) == (2, 1, 1)


@works("Crawl jobs are distributed across concurrent workers via queues, decoupled from the scheduling logic.")
@works("Reads all Notice Fragments from the staging area.")
def test_planning_working_and_publishing_are_apart(tmp_path: Path) -> None:
    storage, queue, reader = LocalStorage(tmp_path), MemoryQueue(), MemoryBoardReader(boards(4))
    plan = start_run(storage, queue, reader.boards)
    assert (queue.stats().ready, sum(reader.readings.values())) == (4, 0)
    assert aggregate(storage, queue, plan.run) is None  # nobody has worked yet
    with working(storage, queue, reader), working(storage, queue, reader):
        while (outcome := aggregate(storage, queue, plan.run)) is None:
            time.sleep(0.01)
    assert outcome.counts
    assert (outcome.counts.items, outcome.missing) == (12, 0)


@works("The system is designed to succeed even if specific target sites fail. Errors are cataloged, not fatal.")
@works("Failed boards are logged in `snapshots/{version}/aux/errors.json`.")
def test_a_version_is_published_although_boards_fail(cycles: Cycles) -> None:
    assert cycles.second.is_new
    failed = {error["source"]: error["message"] for error in cycles.get(cycles.second, "aux/errors.json")}
    assert failed == {
        "wonju/nursing/notice": "failed after 2 attempts: status 503",
        "wonju/closed/notice": "forbidden by robots.txt",
    }


@works("EventBridge (Cron) → Orchestrator Lambda → SQS FIFO Queue → Worker Lambdas → S3 → Aggregator Lambda → S3")
def test_the_stack_has_the_parts_of_the_figure(template: dict[str, Any]) -> None:
    functions = of_kind(template, "AWS::Lambda::Function")
    called = {name: one["Handler"].rpartition(".")[2] for name, one in functions.items()}
    assert called == {"Orchestrator": "orchestrate", "Worker": "work", "Aggregator": "aggregate", "Indexer": "index"}
    assert of_kind(template, "AWS::SQS::Queue")["Jobs"]["FifoQueue"] is True


# --- the orchestrator -------------------------------------------------------------------------------------------------


@works("Runs every 10 minutes via EventBridge.")
def test_runs_begin_every_ten_minutes(template: dict[str, Any]) -> None:
    assert template["Parameters"]["Schedule"]["Default"] == "rate(10 minutes)"
    rule = of_kind(template, "AWS::Events::Rule")["RunSchedule"]
    assert rule["ScheduleExpression"] == {"Ref": "Schedule"}
    assert rule["Targets"] == [{"Id": "orchestrator", "Arn": {"Fn::GetAtt": ["Orchestrator", "Arn"]}}]


@pytest.mark.server("aws")
@works("Reads the `siteMap.json`. It does **not** fetch external websites.")
@works('Splits the sitemap into discrete "Job Messages" (e.g., `Crawl { Dept: CS, URL: ... }`)')
@differs(
    "pushes them to an Amazon SQS FIFO queue to ensure exactly-once delivery",
    now="the same queue; and of two results of a job the first counts",
    why="SQS removes duplicates for five minutes only",
)
def test_the_orchestrator_makes_a_job_of_each_board(amazon: Amazon) -> None:
    with serving() as site:
        amazon.put("config/siteMap.json", site_map(site))
        reported = handlers.orchestrate({}, Minutes())
        assert (reported["jobs"], sum(site.asked.values())) == (4, 0)
        url = amazon.sqs.get_queue_url(QueueName=f"{amazon.name}.fifo")["QueueUrl"]
        messages = amazon.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        jobs = [parse_job(message["Body"].encode()) for message in messages]
        addresses = {job.board.facets["department"]: job.board.url for job in jobs}
        assert addresses["Computer Science"] == f"{site.url}/cs-board"
    storage = handlers.open_resources().storage
    first, second = fragments.Fragment(job="cs", kept=("1",)), fragments.Fragment(job="cs", kept=("2",))
    assert fragments.submit_fragment(storage, reported["run"], first)
    assert not fragments.submit_fragment(storage, reported["run"], second)


# --- the workers ------------------------------------------------------------------------------------------------------


@works("SQS Lambda Event Source Mapping (scales automatically based on queue depth)")
def test_the_queue_calls_the_workers(template: dict[str, Any]) -> None:
    source = of_kind(template, "AWS::Lambda::EventSourceMapping")["WorkerSource"]
    assert (source["EventSourceArn"], source["FunctionName"]) == ({"Fn::GetAtt": ["Jobs", "Arn"]}, {"Ref": "Worker"})
    assert source["ScalingConfig"] == {"MaximumConcurrency": {"Ref": "WorkerConcurrency"}}


@works("Fetch HTML from the target URL. Parse notices.")
@differs(
    "Compute **SHA-256 Hash** of the notice body.",
    now="of title, date, author, category, link, text and attachments",
    why="an edited title is a change, too",
)
def test_a_notice_is_what_its_page_says(cycles: Cycles) -> None:
    (notice,) = (one for title, one in cycles.notices(cycles.second).items() if title == "cs 3, edited")
    content = json.loads(blobs(cycles)[f"{notice['content_hash']}.json"])
    assert content == {
        "title": "cs 3, edited",
        "date": "2026-03-03",
        "author": "",
        "category": "",
        "url": f"{cycles.site.url}/cs-board/3",
        "text": "All about cs 3, edited",
        "attachments": [],
    }


@works("**CAS Check**: If `blobs/sha256/{hash}.json` exists, skip writing the body. If not, write it.")
@works("never overwritten")
def test_a_blob_is_written_once(cycles: Cycles, template: dict[str, Any]) -> None:
    folder = cycles.root / "notices" / "blobs" / "sha256"
    kept = cycles.notices(cycles.second)["cs 4"]["content_hash"]
    written = cycles.get(cycles.first, "aux/stats.json")["finished_at"]
    assert (folder / f"{kept}.json").stat().st_mtime <= utc_now().fromisoformat(written).timestamp()
    policy = of_kind(template, "AWS::S3::BucketPolicy")["DataPolicy"]["PolicyDocument"]
    (once,) = (one for one in policy["Statement"] if one["Sid"] == "BlobsAreWrittenOnce")
    assert (once["Effect"], once["Condition"]["Null"]) == ("Deny", {"s3:if-none-match": "true"})


@works("Write a lightweight **Notice Fragment** (metadata + hash reference) to a temporary staging area in S3.")
def test_a_worker_leaves_a_fragment(tmp_path: Path) -> None:
    storage, queue, reader = LocalStorage(tmp_path), MemoryQueue(), MemoryBoardReader(boards(1), notices=2)
    plan = start_run(storage, queue, reader.boards)
    with working(storage, queue, reader):
        while not fragments.read_progress(storage, plan).is_complete:
            time.sleep(0.01)
    ((_, fragment),) = fragments.read_fragments(storage, plan)
    assert fragment
    assert [(item.metadata["title"], len(item.hash)) for item in fragment.items] == [
        ("Seoul/d000/notice 0", 64),
        ("Seoul/d000/notice 1", 64),
    ]
    aggregate(storage, queue, plan.run)
    assert not [*storage.list(RUNS)]


# --- the aggregator ---------------------------------------------------------------------------------------------------


@differs(
    'Triggered once the SQS queue is drained or by a "EndOfBatch" message.',
    now="by `end-of-batch.json`, which the worker of the last job writes; and at the deadline of the run",
    why="an empty queue proves nothing: a message may be on its way, or with a worker that is paused",
)
def test_a_run_ends_with_its_last_job_and_not_with_an_empty_queue(tmp_path: Path, template: dict[str, Any]) -> None:
    storage, queue, reader = LocalStorage(tmp_path), MemoryQueue(), MemoryBoardReader(boards(2))
    plan = start_run(storage, queue, reader.boards)
    for letter in plan.jobs[:1]:
        assert fragments.submit_fragment(storage, plan.run, fragments.Fragment(job=letter.id))
    with queue.consume() as consumer:
        for _ in range(2):
            delivery = consumer.receive(timeout=5.0)
            assert delivery
            delivery.ack()
    assert queue.stats().ready == 0
    assert not fragments.announce_end(storage, plan.run)
    assert aggregate(storage, queue, plan.run) is None
    assert fragments.submit_fragment(storage, plan.run, fragments.Fragment(job=plan.jobs[1].id))
    assert fragments.announce_end(storage, plan.run)
    assert storage.stat(f"{RUNS}{plan.run}/end-of-batch.json").size
    source = of_kind(template, "AWS::Lambda::EventSourceMapping")["AggregatorSource"]
    assert source["EventSourceArn"] == {"Fn::GetAtt": ["Ends", "Arn"]}
    late = utc_now() + timedelta(hours=1)
    assert aggregate(storage, queue, plan.run, now=lambda: late) is not None


@works("Generates the aggregate `index/` files and `aux/diff.json`. Writes the versioned snapshot.")
@works("Updates the `latest.json` pointer to make the new data live.")
def test_the_pointer_names_the_new_version(cycles: Cycles) -> None:
    pointer = json.loads(cycles.storage.read("latest.json"))
    assert (pointer["version"], pointer["count"]) == (cycles.second.version, 19)
    assert cycles.first.version != cycles.second.version
    assert cycles.get(cycles.first, "index/all.json")  # the old version is still there


# --- blobs and snapshots ----------------------------------------------------------------------------------------------


@differs(
    "Files here are never deleted (unless via long-term lifecycle policies)",
    now="`webmill publish gc` deletes blobs that no kept version needs, after three days in a trash",
    why="a lifecycle policy knows the age of a blob, not whether it is still needed",
)
def test_only_gc_deletes_blobs_and_none_that_a_kept_version_needs(cycles: Cycles) -> None:
    before = blobs(cycles)
    report = collect_garbage(cycles.storage, keep=2, now=utc_now())
    assert (report.trashed, blobs(cycles).keys()) == (0, before.keys())


@works("Snapshots now act as **Manifests**. They map canonical IDs to Content Hashes.")
@works(
    '`index/all.json       # List: [{ "id": 101, "title": "...", "content_hash": "a1b2..." }]`, with `layout = "uring"`'
)
@differs(
    '`"id": 101`',
    now='`"id": "seoul/Engineering/cs/notice/101"`',
    why="45 departments have a board called `notice`, and a number is unique in its board only",
)
def test_the_index_is_a_list_of_ids_titles_and_hashes(cycles: Cycles) -> None:
    listed = cycles.get(cycles.second, "index/all.json")
    assert isinstance(listed, list)
    assert all({"id", "title", "content_hash"} <= one.keys() for one in listed)
    assert {f"{one['content_hash']}.json" for one in listed} <= blobs(cycles).keys()
    assert len({one["id"] for one in listed}) == 19
    departments = {one["id"].rpartition("/")[0] for one in listed}
    assert departments == {
        f"{place}/notice" for place in ("seoul/Engineering/cs", "seoul/Engineering/ee", "wonju/nursing")
    }


@works("`index/campus/seoul.json`")
def test_a_campus_has_a_list_of_its_own(cycles: Cycles) -> None:
    seoul = cycles.get(cycles.second, "index/campus/seoul.json")
    assert seoul == [one for one in cycles.get(cycles.second, "index/all.json") if one["campus"] == "seoul"]
    assert len(seoul) == 13


@works("`meta/`")
def test_a_version_describes_itself(cycles: Cycles) -> None:
    assert [one["value"] for one in cycles.get(cycles.second, "meta/facets.json")["campus"]] == ["seoul", "wonju"]
    states = {one["source"]: one["status"] for one in cycles.get(cycles.second, "meta/sources.json")}
    assert states["wonju/nursing/notice"] == "stale"


@works('`aux/diff.json      # Delta: "Notice 101 changed hash A -> hash B"`')
def test_the_difference_has_both_hashes(cycles: Cycles) -> None:
    before, after = (cycles.notices(outcome) for outcome in (cycles.first, cycles.second))
    diff = cycles.get(cycles.second, "aux/diff.json")
    old, new = before["cs 3"], after["cs 3, edited"]
    assert diff["changed"] == [{"id": new["id"], "old": old["content_hash"], "new": new["content_hash"]}]
    assert (old["id"], diff["added"][0]["id"]) == (new["id"], after["ee 9"]["id"])
    assert diff["removed"][0]["id"] == before["ee 2"]["id"]


@works(
    "**Pointer** `root/latest.json` `max-age=10`; **Index** `immutable`; **Blob** `immutable`; **Delta** `max-age=60`"
)
@works("All reads are served via a CDN (CloudFront) with aggressive caching policies.")
def test_files_are_cached_as_long_as_they_stay(cycles: Cycles, template: dict[str, Any]) -> None:
    paths, version = PublishedPaths(cycles.storage), f"/snapshots/{cycles.second.version}"
    hash_ = cycles.get(cycles.second, "index/all.json")[0]["content_hash"]
    policies = {
        "/latest.json": "max-age=10",
        f"{version}/index/all.json": "immutable",
        f"{version}/index/campus/seoul.json": "immutable",
        f"/blobs/sha256/{hash_}.json": "immutable",
        f"{version}/aux/diff.json": "max-age=60",
    }
    assert all(policy in paths.resolve(path).policy.decode() for path, policy in policies.items())
    config = distribution(template)
    served = {one["PathPattern"]: one["ResponseHeadersPolicyId"]["Ref"] for one in config["CacheBehaviors"]}
    served["*"] = config["DefaultCacheBehavior"]["ResponseHeadersPolicyId"]["Ref"]
    headers = of_kind(template, "AWS::CloudFront::ResponseHeadersPolicy")
    sent = {
        path: headers[name]["ResponseHeadersPolicyConfig"]["CustomHeadersConfig"]["Items"][0]["Value"]
        for path, name in served.items()
    }
    assert sent == {
        "/latest.json": "public, max-age=10",
        "/snapshots/*/aux/*": "public, max-age=60",
        "*": "public, max-age=31536000, immutable",
    }


# --- resilience -------------------------------------------------------------------------------------------------------


@works("If a Worker Lambda crashes or times out repeatedly on a specific URL, the message is moved to an SQS DLQ.")
@works('This prevents "poison pill" notices from blocking the queue.')
def test_a_board_that_fails_every_time_becomes_a_dead_letter(cycles: Cycles, template: dict[str, Any]) -> None:
    (letter,) = cycles.queue.dead_letters()
    assert (parse_job(letter.body).board.facets["department"], letter.reason) == ("Nursing", "status 503")
    assert cycles.queue.stats().ready == 0
    redrive = of_kind(template, "AWS::SQS::Queue")["Jobs"]["RedrivePolicy"]
    assert redrive["deadLetterTargetArn"] == {"Fn::GetAtt": ["DeadLetters", "Arn"]}


@works('The frontend can use this to display a "Data may be incomplete for [Department Name]" warning.')
@differs(
    "If a specific board fails to crawl, the Aggregator can optionally copy the *previous version's* fragments",
    now="always, and its notices are marked `stale_since`",
    why="a reader can tell them from fresh ones",
)
def test_a_board_that_fails_keeps_its_notices(cycles: Cycles) -> None:
    listed = cycles.get(cycles.second, "index/all.json")
    assert {one["department_name"] for one in listed if "stale_since" in one} == {"Nursing"}
    assert len([one for one in listed if one["campus"] == "wonju"]) == 6
    assert not any("stale_since" in one for one in cycles.get(cycles.first, "index/all.json"))


# --- security ---------------------------------------------------------------------------------------------------------


@works("The S3 bucket strictly blocks public access.")
@works("Acts as the only gateway to the data. Uses **Origin Access Control (OAC)** to authenticate with S3.")
def test_cloudfront_alone_reads_the_bucket(template: dict[str, Any]) -> None:
    bucket = of_kind(template, "AWS::S3::Bucket")["Data"]
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    statements = of_kind(template, "AWS::S3::BucketPolicy")["DataPolicy"]["PolicyDocument"]["Statement"]
    (allowed,) = (one for one in statements if one["Effect"] == "Allow")
    assert allowed["Principal"] == {"Service": "cloudfront.amazonaws.com"}
    assert [one["OriginAccessControlId"] for one in distribution(template)["Origins"]] == [
        {"Fn::GetAtt": ["Access", "Id"]}
    ]


@differs(
    "Enforces HTTPS/TLS 1.3.",
    now="the same with a domain name of your own; without one the stack must be told `TlsPolicy=cloudfront-default`",
    why="for CloudFront's own name Amazon chooses the TLS versions, and allows older ones",
)
def test_tls_1_3_is_the_default(template: dict[str, Any]) -> None:
    assert template["Parameters"]["TlsPolicy"]["Default"] == "TLSv1.3_2025"
    config = distribution(template)
    assert config["DefaultCacheBehavior"]["ViewerProtocolPolicy"] == "https-only"
    _, own, _ = config["ViewerCertificate"]["Fn::If"]
    assert own["MinimumProtocolVersion"] == {"Ref": "TlsPolicy"}
    (assertion,) = template["Rules"]["TlsNeedsName"]["Assertions"]
    assert assertion["Assert"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "DomainName"}, ""]}]}


@works("**WAF**: Attached to CloudFront. Rate limits IP addresses to prevent scraping abuse.")
def test_the_requests_of_an_address_are_limited(template: dict[str, Any]) -> None:
    assert "WebACLId" in distribution(template)
    (acl,) = of_kind(template, "AWS::WAFv2::WebACL").values()
    (rule,) = acl["Rules"]
    assert rule["Statement"]["RateBasedStatement"]["AggregateKeyType"] == "IP"
    assert "ReadersAreLimited" in template["Rules"]


@works("**CORS**: Configured at the CloudFront level to allow only specific app origins.")
def test_only_named_origins_read_the_data(template: dict[str, Any]) -> None:
    assert template["Parameters"]["AllowedOrigins"]["Default"] == ""
    for policy in of_kind(template, "AWS::CloudFront::ResponseHeadersPolicy").values():
        _, cors, _ = policy["ResponseHeadersPolicyConfig"]["CorsConfig"]["Fn::If"]
        assert cors["AccessControlAllowOrigins"] == {"Items": {"Ref": "AllowedOrigins"}}


# --- search -----------------------------------------------------------------------------------------------------------


@differs(
    "S3 emits an event `s3:ObjectCreated:Put` when a new file lands in `blobs/`.",
    now="when `latest.json` is written; the indexer then reads what changed between two versions",
    why="a blob does not say which notice it belongs to, and a notice that is removed causes no event",
)
@works("The search index is updated near real-time")
@works("**Indexer Lambda**: A small Lambda triggers on this event.")
def test_a_new_version_calls_the_indexer(template: dict[str, Any]) -> None:
    configurations = of_kind(template, "AWS::S3::Bucket")["Data"]["NotificationConfiguration"]["QueueConfigurations"]
    condition, published, _ = configurations[1]["Fn::If"]
    assert (condition, published["Queue"]) == ("HasSearch", {"Fn::GetAtt": ["Published", "Arn"]})
    source = of_kind(template, "AWS::Lambda::EventSourceMapping")["IndexerSource"]
    assert (source["EventSourceArn"], source["FunctionName"]) == (published["Queue"], {"Ref": "Indexer"})


@pytest.mark.server("meilisearch")
@works("It pushes the JSON document into **Meilisearch** or **AWS OpenSearch**.")
@works("only processing *new* or *changed* content (deduplicated by the CAS nature of the `blobs` directory)")
def test_the_indexer_sends_what_changed(
    cycles: Cycles, meilisearch_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"{meilisearch_url}/{index_name()}"
    monkeypatch.setenv("WEBMILL_AWS_STORAGE", str(cycles.root / "notices"))
    monkeypatch.setenv("WEBMILL_AWS_SCRATCH", str(tmp_path))
    monkeypatch.setenv("WEBMILL_SEARCH_URL", url)
    reported = handlers.index({}, Minutes())
    assert (reported["version"], reported["changed"], reported["documents"]) == (cycles.second.version, 19, 19)
    assert handlers.index({}, Minutes())["changed"] == 0
    with closing(open_search(url, create=False)) as engine:
        (hit,) = engine.search(SearchRequest(query=parse("edited"))).hits
        assert hit.document.facets["department"] == "Computer Science"


# --- the summary ------------------------------------------------------------------------------------------------------


@works("It gains the ability to crawl hundreds of departments in parallel without timeout risks.")
def test_a_board_is_given_less_time_than_its_function_has(template: dict[str, Any]) -> None:
    timeout = of_kind(template, "AWS::Lambda::Function")["Worker"]["Timeout"]
    around = settings.read_environment({"WEBMILL_AWS_STORAGE": "s3://b", "WEBMILL_HTTP_CONTACT": "me@example.org"})
    limits = handlers.reader_options(around, seconds=timeout).limits
    assert limits.seconds <= timeout - handlers.LAST_SECONDS
    assert template["Parameters"]["WorkerConcurrency"]["MaxValue"] == 1000


# --- what its program did, beside the document ------------------------------------------------------------------------


@differs(
    "Selectors are looked up by the id of a board.",
    now="by its place in the board list",
    why="45 departments had a board called `notice`",
)
def test_boards_of_the_same_id_have_their_own_selectors() -> None:
    departments = [
        {"id": id_, "boards": [{"id": "notice", "url": f"https://{id_}.example/", "row_selector": f"tr.{id_}"}]}
        for id_ in ("cs", "ee")
    ]
    found = read_board_list(json.dumps([{"campus": "seoul", "departments": departments}]).encode()).boards
    assert {board.source: board.selectors.item for board in found} == {
        "seoul/cs/notice": "tr.cs",
        "seoul/ee/notice": "tr.ee",
    }


@differs(
    "A run with 20 % fewer notices than those of this month is not published.",
    now="compared with the whole live version; `--most-lost`, `--force`",
    why="notices of earlier months are published, too",
)
def test_a_run_that_lost_too_much_is_not_published() -> None:
    guard.check_size(before=100, now=85, fresh=85)
    with pytest.raises(guard.VersionShrunk, match="--force"):
        guard.check_size(before=100, now=70, fresh=70)


@differs(
    "`robots.txt` is ignored, and 5 pages are fetched at once, from whichever host.",
    now="`robots.txt` is obeyed, and a host gets one request at a time, with a delay (1 s)",
    why="boards are read again every ten minutes",
)
def test_servers_are_asked_politely(cycles: Cycles) -> None:
    asked = cycles.asked[0] + cycles.asked[1]
    assert not any(path.startswith("/closed-board") for path in asked)
    assert asked["/robots.txt"] == 1
    manners = board_manners("x")
    assert (manners.obey_robots, manners.delay) == (True, 1.0)


@differs(
    "Every notice is fetched in every run.",
    now="those that are new or edited; the others once a day, by a conditional request",
    why="most runs find nothing new",
)
def test_known_notices_are_not_fetched_again(cycles: Cycles) -> None:
    notices = {path for path in cycles.asked[1] if path.count("/") == 2}
    assert notices == {"/cs-board/3", "/ee-board/9"}


@differs(
    "The first page of each board is read.", now="`--pages N`", why="a notice may leave the first page between two runs"
)
def test_further_pages_are_read(cycles: Cycles) -> None:
    assert cycles.asked[0]["/cs-board?page=2"] == 1
    assert "cs 1" in cycles.notices(cycles.second)
