"""The architecture document of commoncrawl-pipeline: batcher, RabbitMQ, workers, Prometheus."""

from __future__ import annotations

import json
import secrets
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest
import yaml

from tests.contracts.range_server import serving
from tests.pipeline.cc_pages import Page, rows
from tests.pipeline.dispatch_samples import capture, in_blocks, write_index
from tests.references.claim import differs, works
from tests.references.pipeline_crawl import (
    CRAWL,
    DEPLOY,
    INDEXES,
    VARIABLE,
    batch,
    batches_of,
    published,
    queued,
    reference,
    running,
    wait_until,
    work,
    write_configuration,
    write_site,
)
from tests.services import Running, started
from tests.services.nginx import Nginx
from tests.services.prometheus import prometheus_reading
from tests.services.test_rabbitmq import control
from tests.unit.cli.command import webmill
from webmill.commoncrawl.crawl_storage import open_crawl_storage
from webmill.errors import Unavailable
from webmill.formats.cdx.cdxj import capture_of, parse
from webmill.formats.cdx.zipnum import ZipnumBlock, parse_summary_line
from webmill.formats.url.surt import surt
from webmill.infra.queue.base import Message
from webmill.infra.queue.rabbitmq import RabbitQueue
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.retry import BackoffPolicy
from webmill.settings import CommonCrawlSettings, HttpSettings


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Page]]:
    """A crawl, and those of its pages that are English and have status 200."""
    root = tmp_path_factory.mktemp("crawl")
    return root, write_site(root, pages=600)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where the limiter keeps its pace
    return tmp_path


# --- ports and files --------------------------------------------------------------------------------------------------


@works("RabbitMQ AMQP 5672, RabbitMQ Management 15672, Prometheus 9090: `docker compose -f docker-compose.host.yml up`")
def test_the_servers_have_the_ports_of_the_document() -> None:
    services = yaml.safe_load((DEPLOY / "docker-compose.host.yml").read_text())["services"]
    assert {"127.0.0.1:5672:5672", "127.0.0.1:15672:15672"} <= set(services["rabbitmq"]["ports"])
    assert "--web.listen-address=127.0.0.1:9090" in services["prometheus"]["command"]


@works("`0,100,22,165)/ 20240722120756   cdx-00000.gz    0       188224  1`: the lines of `cluster.idx`")
def test_the_summary_of_the_document_is_read() -> None:
    lines = [
        b"0,100,22,165)/ 20240722120756\tcdx-00000.gz\t0\t188224\t1",
        b"101,141,199,66)/robots.txt 20240714155331\tcdx-00000.gz\t188224\t178351\t2",
        b"104,223,1,100)/ 20240714230020\tcdx-00000.gz\t366575\t178055\t3",
    ]
    blocks = [parse_summary_line(line, line_number=number) for number, line in enumerate(lines, 1)]
    assert blocks[1] == ZipnumBlock(b"101,141,199,66)/robots.txt 20240714155331", "cdx-00000.gz", 188224, 178351, 2)
    assert [block.number for block in blocks] == [1, 2, 3]
    assert blocks[0].offset + blocks[0].length == blocks[1].offset


EXAMPLE = {
    "url": "http://165.22.100.0/",
    "mime": "text/html",
    "status": "200",
    "languages": "eng",
    "length": "689",
    "offset": "3499",
    "filename": "crawl-data/CC-MAIN-2024-30/.../file.warc.gz",
}
EXAMPLE_LINE = f"0,100,22,165)/ 20240722120756 {json.dumps(EXAMPLE)}".encode()


@works('`0,100,22,165)/ 20240722120756 {"url": "http://165.22.100.0/", …, "offset": "3499", "length": "689"}`')
def test_a_line_of_the_index_names_its_record() -> None:
    found = capture_of(parse(EXAMPLE_LINE))
    assert (found.filename, found.offset, found.length) == (EXAMPLE["filename"], 3499, 689)


@works('Messages: `[{"surt_url": "0,100,22,165)/", "timestamp": "20240722120756", "metadata": {…}}]`')
def test_a_message_is_as_in_the_document(here: Path) -> None:
    ((message,),) = batches_of([EXAMPLE_LINE], here)
    assert message == {"surt_url": "0,100,22,165)/", "timestamp": "20240722120756", "metadata": EXAMPLE}


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://example.com/page", "com,example)/page"),
        ("http://165.22.100.0/", "0,100,22,165)/"),
        ("https://subdomain.example.com/path", "com,example,subdomain)/path"),
    ],
)
@works("SURT: `http://example.com/page` is `com,example)/page`, `http://165.22.100.0/` is `0,100,22,165)/`")
def test_keys_of_urls(url: str, key: str) -> None:
    assert surt(url) == key


# --- the batcher ------------------------------------------------------------------------------------------------------


@works("`cluster.idx`: downloaded once with wget")
@works("Downloads chunks with `Range: bytes=188224-366574`: only the requested portion of a CDX file")
@pytest.mark.server("nginx")
def test_a_downloaded_summary_leads_to_ranges_of_the_files_of_its_crawl(
    crawl: tuple[Path, list[Page]], nginx: Callable[..., Nginx], here: Path
) -> None:
    root, _ = crawl
    server = nginx(root)
    summary = (root / "downloaded" / "cluster.idx").read_text().splitlines()
    (here / "cluster.idx").write_text(summary[1] + "\n")
    _, name, offset, length, _ = summary[1].split("\t")
    ended = batch(server.url, here / "cluster.idx", "sqlite:q.sqlite")
    assert ended.code == 0, ended.err
    asked = [one for one in server.log() if one.path.endswith(".gz")]
    assert [(one.path, one.range, one.status, one.sent) for one in asked] == [
        (f"/{INDEXES}/{name}", f"bytes={offset}-{int(offset) + int(length) - 1}", 206, int(length))
    ]


@works("`BATCH_SIZE = 50`; the rest is published at the end")
def test_batches_have_fifty_captures(here: Path) -> None:
    lines = [capture(f"com,example)/{number:03}") for number in range(120)]
    assert [len(batch) for batch in batches_of(lines, here)] == [50, 50, 20]


@differs(
    "Crawl version `CC-MAIN-2024-30`, batch size, metrics port, filters: hardcoded",
    now="the same by default; `cc-batcher` takes `--crawl`, `--batch-size` and every other flag of `webmill cc batch`",
)
def test_what_was_a_constant_is_a_flag(here: Path) -> None:
    folder = here / "site" / INDEXES.replace(CRAWL, "CC-MAIN-2025-05")
    cluster = write_index(folder, [[capture(f"com,example)/{number}") for number in range(5)]])
    ended = batch(here / "site", cluster, "sqlite:q.sqlite", "--crawl", "CC-MAIN-2025-05", "--batch-size", "2")
    assert ended.code == 0, ended.err
    assert [len(batch) for batch in queued(here / "q.sqlite")] == [2, 2, 1]


@works('Filters: `metadata["status"] == "200"`')
@differs('`"eng" in metadata["languages"]` also takes `xeng`', now="whole codes only")
def test_english_and_status_200_are_taken(here: Path) -> None:
    codes = {"a": "eng", "b": "fra,eng", "c": "xeng", "d": "deu", "e": None}
    lines = [capture(f"com,example)/{key}", languages=codes[key]) for key in codes]
    lines.append(capture("com,example)/f", status="404"))
    ((*found,),) = batches_of(lines, here)
    assert [one["surt_url"] for one in found] == ["com,example)/a", "com,example)/b"]


@differs("spaces inside the JSON of an index line are lost", now="kept", why="`text/html; charset=utf-8` is one value")
def test_spaces_in_values_are_kept(here: Path) -> None:
    ((message,),) = batches_of([capture("com,example)/", mime="text/html; charset=utf-8")], here)
    assert message["metadata"]["mime"] == "text/html; charset=utf-8"


@differs(
    'a line of `cluster.idx` that begins with `"` swallows the lines after it',
    now="a line like any other",
    why="the file is not CSV",
)
def test_a_quote_is_a_byte(here: Path) -> None:
    lines = [capture(f'"com,example)/{number}') for number in range(6)]
    assert [len(batch) for batch in batches_of(lines, here, block=2)] == [6]


@works("`test_filter_non_english_documents`")
def test_a_redirect_without_languages_is_not_published() -> None:
    assert published([capture("com,a)/", status="301", languages=None)], batch_size=2) == 0


@works("`test_filter_bad_status_code`")
def test_an_english_redirect_is_not_published() -> None:
    assert published([capture("com,a)/", status="301")], batch_size=2) == 0


@works("`test_publish_all_urls`")
@differs(
    "`Downloader`, `IndexReader`, `MessageQueueChannel` (ABC), with fakes instead of mocks",
    now="`Protocol`s (`ShardReader`, `Readable`, `Queue`); the queue and the storage in memory are part of webmill",
    why="a class need not inherit to be one; other packages add theirs by entry points",
)
def test_three_chunks_of_two_are_three_batches() -> None:
    assert published([capture("com,a)/"), capture("com,b)/")], batch_size=2) == 3


@differs(
    "after a kill the batcher starts from the beginning and publishes everything again", now="it continues where it was"
)
def test_a_second_run_publishes_nothing_again(crawl: tuple[Path, list[Page]], here: Path) -> None:
    root, pages = crawl
    flags = (root, root / "downloaded" / "cluster.idx", "sqlite:q.sqlite")
    assert batch(*flags).code == 0
    assert "nothing to do" in batch(*flags).err
    assert [one["metadata"]["url"] for body in queued(here / "q.sqlite") for one in body] == [
        page.url for page in pages
    ]


# --- workers ----------------------------------------------------------------------------------------------------------


@works("Downloads the range of a record, parses WARC, extracts the text with trafilatura")
@differs("`text = trafilatura.extract(record.content)  # TODO: process text`", now="the text is kept, as rows of files")
@differs(
    "one request for each page, one after the other",
    now="neighbouring records in one request, several requests at a time, 5 per second for the whole machine",
    why="Common Crawl blocks clients that send more; `--rate` for a server of your own",
)
@pytest.mark.server("nginx")
def test_the_text_of_the_pages_is_written(
    crawl: tuple[Path, list[Page]], nginx: Callable[..., Nginx], here: Path
) -> None:
    import trafilatura

    root, pages = crawl
    server = nginx(root)
    assert batch(root, root / "downloaded" / "cluster.idx", "sqlite:q.sqlite").code == 0
    ended = work(server.url, "sqlite:q.sqlite", here / "documents", "--cache-size", "0", "--extractor", "trafilatura")
    assert ended.code == 0, ended.err
    found = {row["url"]: row["text"] for row in rows(here / "documents")}
    assert found.keys() == {page.url for page in pages}
    assert found[pages[0].url] == trafilatura.extract(pages[0].html.decode(), fast=True, include_comments=False)
    asked = server.log()
    assert {one.status for one in asked} == {206}
    assert len(asked) < len(pages)


@differs(
    "if a server ignores `Range`, the gigabyte that it sends is unpacked",
    now="refused: only a 206 with the right range and length is accepted",
)
@differs(
    "No retry logic for failed HTTP requests, no timeout", now="five tries with growing waits; `[http] timeout`, 60 s"
)
def test_a_server_without_ranges_is_refused_and_one_that_stumbles_is_asked_again(here: Path) -> None:
    cluster = write_index(here / "site" / INDEXES, in_blocks([capture(f"com,a)/{n}") for n in range(9)], 3), shards=1)
    key = f"{INDEXES}/cdx-00000.gz"
    with serving() as server:
        server.values[key] = (here / "site" / key).read_bytes()

        def stumble(handler: Any) -> None:
            del server.lies[key]
            handler.answer(503, **{"Retry-After": "0"})

        server.lies[key] = stumble
        ended = batch(server.url, cluster, "sqlite:q.sqlite")
        assert (ended.code, [len(body) for body in queued(here / "q.sqlite")]) == (0, [9]), ended.err
        server.lies[key] = lambda handler: handler.answer(200, server.values[key])
        asked = {"http": HttpSettings(), "commoncrawl": CommonCrawlSettings(rate=0)}
        storage = open_crawl_storage(server.url, **asked, policy=BackoffPolicy(attempts=1))
        with pytest.raises(Unavailable, match="200"):
            storage.read(key, start=0, length=10)


@differs(
    "one bad record fails its batch, which is retried for ever; no validation of JSON metadata",
    now="its row says what is wrong; a message that is no batch becomes a dead letter, after five attempts any other: "
    "`webmill dead list`",
    why="one page must not block the queue",
)
def test_bad_records_and_bad_messages_stop_nothing(crawl: tuple[Path, list[Page]], here: Path) -> None:
    root, pages = crawl
    good = [
        {"surt_url": page.surt, "timestamp": page.timestamp, "metadata": {**page.fields, **change}}
        for page, change in zip(pages, ({}, {"offset": str(int(pages[1].fields["offset"]) + 1)}, {}), strict=False)
    ]
    with closing(SqliteQueue(here / "q.sqlite")) as queue:
        queue.publish([Message("poison", b"{]"), Message("batch", json.dumps(good).encode())])
    ended = work(root, "sqlite:q.sqlite", here / "documents", "--extractor", "resiliparse")
    assert ended.code == 3
    outcomes = {row["url"]: row["outcome"] for row in rows(here / "documents")}
    assert [outcomes[page.url] == "ok" for page in pages[:3]] == [True, False, True]
    listed = webmill("dead", "list", "--queue", "sqlite:q.sqlite")
    assert listed.out.startswith(b"poison\t")


# --- RabbitMQ ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address() -> str:
    """Of this machine, and of no other test: the ports of the document are free there."""
    return f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250)}.{secrets.randbelow(250) + 1}"


@pytest.fixture(scope="module")
def broker(address: str) -> Iterator[Running]:
    with started("rabbitmq", metrics_at=address) as server:
        yield server
        server.kill()  # there is nothing to keep, and to end in order takes it many seconds


@pytest.fixture
def empty_broker(broker: Running) -> Iterator[Running]:
    yield broker
    with closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        for name in ("batches", "batches.buried"):
            connection.channel().queue_delete(name)


rabbitmq = pytest.mark.server("rabbitmq")


@works("`channel.queue_declare(queue=QUEUE_NAME)`: its batcher fills a queue that `cc-worker` empties")
@rabbitmq
def test_its_batcher_works_with_our_workers(
    crawl: tuple[Path, list[Page]],
    empty_broker: Running,
    nginx: Callable[..., Nginx],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, pages = crawl
    with reference("batcher", nginx(root).url, root / "downloaded" / "cluster.idx", empty_broker.url) as (
        program,
        reported,
    ):
        assert program.wait(60) == 0, reported
    monkeypatch.setenv(VARIABLE, empty_broker.url)
    ended = webmill(
        *("dropin", "cc-worker", "--base-url", root, "-o", here / "documents", "--format", "jsonl", "--no-metrics"),
        *("--until-empty", "--executor", "inline", "--extractor", "plain"),
    )
    assert ended.code == 0, ended.err
    assert "WARNING infra.queue.rabbitmq_declaration: the queue batches is shared" in ended.err
    assert "when RabbitMQ restarts, the queue and all its messages are lost" in ended.err
    assert sorted(row["url"] for row in rows(here / "documents")) == sorted(page.url for page in pages)


@works(
    "`RABBITMQ_CONNECTION_STRING`; `cc-batcher --cluster-idx-filename cluster.idx`: fills a queue that its worker reads"
)
@pytest.mark.parametrize("first", ["worker", "batcher"])
@rabbitmq
def test_our_batcher_works_with_its_workers(
    first: str,
    crawl: tuple[Path, list[Page]],
    empty_broker: Running,
    nginx: Callable[..., Nginx],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, pages = crawl
    monkeypatch.setenv(VARIABLE, empty_broker.url)
    cluster = root / "downloaded" / "cluster.idx"
    flags = ("--base-url", root, "--no-metrics", "--state", "state")
    server = nginx(root)

    def batch_all(*more: str) -> None:
        ended = webmill("dropin", "cc-batcher", "--cluster-idx-filename", cluster, *flags, *more)
        assert ended.code == 0, ended.err

    if first == "batcher":
        batch_all("--queue-type", "classic")
    with reference("worker", server.url, str(-(-len(pages) // 50)), empty_broker.url) as (worker, reported):
        if first == "worker":
            wait_until(lambda: "waiting\n" in reported, reported)
            batch_all()
        assert worker.wait(60) == 0, reported
    texts = dict(json.loads(line) for line in reported if line.startswith("["))
    assert texts.keys() == {page.url for page in pages}
    assert all(texts.values())


@works("Connection string: From environment variable `RABBITMQ_CONNECTION_STRING`")
def test_without_the_variable_it_is_asked_for_and_elsewhere_it_is_not_passed_over(
    here: Path, crawl: tuple[Path, list[Page]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = crawl
    ended = webmill("dropin", "cc-worker")
    assert (ended.code, "RABBITMQ_CONNECTION_STRING" in ended.err) == (2, True)
    monkeypatch.setenv(VARIABLE, "amqp://guest:guest@127.0.0.1:9/")
    flags = ("--cluster-idx", root / INDEXES / "cluster.idx", "--queue", "sqlite:q.sqlite", "--no-metrics")
    assert "RABBITMQ_CONNECTION_STRING is not used" in webmill("cc", "batch", *flags).err


@differs(
    "the queue is not durable, messages are not persistent: a restart of the broker loses all work",
    now="durable, replicated, confirmed; a queue that its programs have declared is shared, with a warning",
    why="[share its queue](#share-its-queue)",
)
@rabbitmq
def test_a_queue_of_ours_is_durable_and_says_so_to_programs_that_declare_another(broker: Running) -> None:
    with closing(RabbitQueue(broker.url, name="kept", new_queue_pause=0)) as queue:
        queue.publish([Message("a", b"body")])
    with closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        _, properties, body = connection.channel().basic_get("kept", auto_ack=True)
        assert (properties.delivery_mode, body) == (pika.DeliveryMode.Persistent.value, b"body")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"PRECONDITION_FAILED.*durable"):
            connection.channel().queue_declare(queue="kept")


@differs("No recovery from RabbitMQ connection loss", now="batcher and workers connect again")
@rabbitmq
def test_a_lost_connection_is_made_again(broker: Running) -> None:
    with closing(RabbitQueue(broker.url, name="lost", new_queue_pause=0)) as queue, queue.consume() as consumer:
        control(broker, "close_all_connections", "test")
        queue.publish([Message("a", b"")])
        delivery = consumer.receive(timeout=60)
        assert delivery
        delivery.ack()


# --- Prometheus -------------------------------------------------------------------------------------------------------


@works("`rate(batcher_batches[5m])`, also of a batcher that ends within seconds")
@works("`sum(rate(worker_batches[5m]))`")
@works('`rabbitmq_queue_messages{queue="batches"}`')
@works("Batcher Metrics 9000, Worker Metrics 9001+ (9001, 9002, …): `http://localhost:9001/metrics`")
@works("Worker: Multiple (scalable); RabbitMQ handles load balancing automatically")
@differs("the port of a further worker is set by hand", now="it takes the next free port, and says which")
@rabbitmq
@pytest.mark.slow
def test_prometheus_answers_the_queries_of_the_document(
    crawl: tuple[Path, list[Page]], empty_broker: Running, address: str, here: Path
) -> None:
    root, pages = crawl
    webmill("dropin", "install", here / "bin")
    variables = {VARIABLE: empty_broker.url, "WEBMILL_METRICS_HOST": address, "WEBMILL_COMMONCRAWL_BASE_URL": str(root)}
    batcher = (here / "bin" / "cc-batcher", "--cluster-idx-filename", root / "downloaded" / "cluster.idx")
    batcher = (*batcher, "--batch-size", "10", "--state", here / "state")
    worker = (here / "bin" / "cc-worker", "-o", here / "documents", "--executor", "inline", "--extractor", "plain")
    count = -(-len(pages) // 10)
    with prometheus_reading(write_configuration(here, address)) as prometheus:
        ask = prometheus.ask
        wait_until(lambda: ask("batcher_batches") and ask('up{job="rabbitmq"} == 1'))
        with running(*batcher, **variables) as (process, reported):
            assert process.wait(60) == 0, reported
        wait_until(lambda: ask("rate(batcher_batches[5m]) > 0"), reported)
        assert [one.value for one in ask("max_over_time(batcher_batches_total[5m])")] == [count]
        assert [one.labels["instance"] for one in ask("batcher_batches")] == [f"{address}:9000"]
        wait_until(lambda: [one.value for one in ask('rabbitmq_queue_messages{queue="batches"}')] == [count])
        with running(*worker, **variables) as (_, first), running(*worker, **variables) as (_, second):
            wait_until(lambda: ask("sum(rate(worker_batches[5m])) > 0"), first)
            wait_until(lambda: [one.value for one in ask('rabbitmq_queue_messages{queue="batches"}')] == [0], first)
            assert f"metrics: http://{address}:9002/metrics (port 9001 is taken)\n" in [*first, *second]
            for port in (9001, 9002):
                with urllib.request.urlopen(f"http://{address}:{port}/metrics", timeout=30) as answer:
                    assert b"worker_batches_total" in answer.read()
