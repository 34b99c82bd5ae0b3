"""Datasets that read from and write to other places than this disk: HTTP, S3, RabbitMQ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.contracts.range_server import RangeServer, etag_of, serving
from tests.pipeline.datasets import create, lines_of, run, snapshot, views, write_files
from tests.unit.cli.command import webmill
from webmill.infra.queue.rabbitmq import RabbitQueue
from webmill.infra.storage.backends import open_storage

WRITE: dict[str, object] = {"pages_per_part": 4}


@pytest.fixture
def server() -> Iterator[RangeServer]:
    with serving() as server:
        yield server


def test_files_are_read_over_http_with_one_request_each(tmp_path: Path, server: RangeServer) -> None:
    lines = write_files(tmp_path / "in", files=2, count=20)
    server.values = {file.name: file.read_bytes() for file in (tmp_path / "in").iterdir()}
    folder, calm = (
        create(tmp_path / "a", lines, source=server.url, write=WRITE),
        create(tmp_path / "b", lines, source=tmp_path / "in"),
    )
    assert run(folder).documents == 40
    run(calm)
    assert lines_of(folder.path / "output") == lines_of(calm.path / "output")
    gets = [path for method, path, _ in server.requests if method == "GET"]
    assert len(gets) == len(set(gets)) == 6  # also though there are five parts to a task


def test_a_connection_that_breaks_is_taken_up_where_it_broke(tmp_path: Path, server: RangeServer) -> None:
    lines = write_files(tmp_path / "in", files=1, count=20)
    server.values = {file.name: file.read_bytes() for file in (tmp_path / "in").iterdir()}
    whole, broken = server.values["f0.warc.gz"], []

    def break_once(handler: Any) -> None:
        if handler.command == "HEAD" or broken:
            handler.honest(whole)
            return
        broken.append(True)
        handler.answer(200, whole[: len(whole) // 2], length=len(whole), etag=etag_of(whole))
        handler.close_connection = True

    server.lies["f0.warc.gz"] = break_once
    folder = create(tmp_path, lines, source=server.url, write=WRITE)
    assert run(folder).documents == 20
    assert broken


def test_a_server_that_is_out_of_order_is_asked_again_in_the_next_round(tmp_path: Path, server: RangeServer) -> None:
    lines = write_files(tmp_path / "in", files=2, count=3)
    server.values = {file.name: file.read_bytes() for file in (tmp_path / "in").iterdir()}
    asked: list[str] = []

    def refuse_at_first(handler: Any) -> None:
        asked.append(handler.command)
        if len(asked) <= 5:  # all the patience of one attempt
            handler.answer(503, **{"Retry-After": "0"})
        else:
            handler.honest(server.values["f1.warc.gz"])

    server.lies["f1.warc.gz"] = refuse_at_first
    folder = create(tmp_path, [*lines, "none.warc.gz"], source=server.url, write=WRITE)
    report = run(folder)
    assert report.documents == 6
    assert [view.attempts for view in views(folder)] == [1, 2, 1]
    assert ["none.warc.gz" in failure.reason for failure in report.failures] == [True]  # of the first round


@pytest.mark.server("s3")
def test_a_dataset_from_s3_to_s3(tmp_path: Path, s3_url: str) -> None:
    parts = urlsplit(s3_url)
    source, target, errors = (
        parts._replace(path=f"/datasets/{tmp_path.name}/{name}").geturl() for name in ("in", "out", "errors")
    )
    lines = write_files(tmp_path / "in", files=2, count=10)
    for file in (tmp_path / "in").iterdir():
        open_storage(source).write(file.name, file)
    folder = create(tmp_path / "a", lines, source=source, write={"to": target, **WRITE}, errors={"to": errors})
    calm = create(tmp_path / "b", lines, source=tmp_path / "in", write=WRITE)
    run(calm)
    assert run(folder).documents == 20
    storage = open_storage(target)
    made = sorted(storage.read(stat.key) for stat in storage.list() if not stat.key.startswith(".webmill/"))
    assert made == sorted(snapshot(calm).values())
    folder.queue.unlink()
    assert run(folder).documents == 20  # known from the receipts alone


@pytest.mark.server("rabbitmq")
def test_documents_go_to_rabbitmq(tmp_path: Path, amqp_url: str) -> None:
    lines = write_files(tmp_path / "in", files=1, count=10)
    folder = create(tmp_path, lines, source=tmp_path / "in", write={"to": amqp_url, **WRITE})
    assert run(folder).documents == 10
    queue = RabbitQueue(amqp_url, name="test-write")
    found = {}
    with queue.consume() as consumer:
        while len(found) < 10 and (delivery := consumer.receive(timeout=10)):
            found[delivery.id] = json.loads(delivery.body)["url"]
            delivery.ack()
    queue.close()
    assert sorted(found.values()) == [f"https://example.org/0-{number}" for number in range(10)]


def test_passwords_in_addresses_are_not_shown(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=1, count=1)
    folder = create(tmp_path, lines, source=tmp_path / "in", write={"to": "s3://KEY:SECRET@bucket/x"})
    for options in ((), ("--json",)):
        shown = webmill("dataset", "view", folder.path, *options).out
        assert b"SECRET" not in shown
        assert b"s3://***@bucket/x" in shown
