"""Stores that ignore conditions, answer 409, break down or are not there: a stub. And what the real one does."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from rich.pretty import pretty_repr

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable
from webmill.infra.storage.base import Absent, Matches
from webmill.infra.storage.s3 import CONDITIONAL_LIMIT, S3Options, S3Storage


class CarelessStore(ThreadingHTTPServer):
    """As some gateways do: takes every write, whatever its condition."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.values: dict[str, bytes] = {}
        self.put_status = self.post_status = 200
        self.cut = False
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"s3://key:secret@bucket?endpoint=http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CarelessStore

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.put_status == 200:
            self.server.values[self.path] = body
        self.answer(self.server.put_status)

    def do_GET(self) -> None:
        value = self.server.values.get(self.path)
        if value is None:
            self.answer(404)
        else:
            self.answer(200, value)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:  # the bulk delete
        keys = re.findall(r"<Key>(.*?)</Key>", self.rfile.read(int(self.headers["Content-Length"])).decode())
        for key in keys:
            self.server.values.pop(f"/bucket/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self.answer(self.server.post_status, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def answer(self, status: int, body: bytes = b"") -> None:
        self.server.requests.append(self.command)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"always-the-same"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if self.server.cut else body)
        self.close_connection = self.server.cut

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def faulty() -> Iterator[CarelessStore]:
    with CarelessStore() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def storage(faulty: CarelessStore) -> S3Storage:
    return S3Storage(S3Options.from_url(faulty.url))


# --- conditions ------------------------------------------------------------------------------------------------------


def test_a_store_that_ignores_conditions_is_refused(faulty: CarelessStore, storage: S3Storage) -> None:
    storage.write("k", b"1", condition=Absent())
    storage.write("k", b"2", condition=Absent())  # the fault is there
    with pytest.raises(Misconfigured, match="If-None-Match"):
        storage.probe_conditional_writes()
    assert not any("probe" in path for path in faulty.values)


def test_a_probe_that_may_not_write_says_so_also_when_it_may_not_delete_either(
    faulty: CarelessStore, storage: S3Storage
) -> None:
    faulty.put_status, faulty.post_status = 403, 501
    with pytest.raises(Misconfigured, match="403") as caught:
        storage.probe_conditional_writes()
    assert "PUT" in str(caught.value)
    assert "POST" in faulty.requests


@pytest.mark.server("s3")
def test_a_store_that_honours_conditions_passes_and_is_left_clean(s3_url: str) -> None:
    storage = S3Storage(S3Options.from_url(s3_url.replace("?", "/probing?")))
    storage.probe_conditional_writes()
    assert list(storage.list()) == []


@pytest.mark.parametrize("status", [409, 412])
def test_a_create_that_lost_is_a_conflict_only_if_somebody_won(
    faulty: CarelessStore, storage: S3Storage, status: int
) -> None:
    faulty.put_status = status
    with pytest.raises(Unavailable):
        storage.write("k", b"x", condition=Absent())
    faulty.values["/bucket/k"] = b"the winner's"
    with pytest.raises(Conflict):
        storage.write("k", b"x", condition=Absent())


@pytest.mark.parametrize("condition", [Absent(), Matches('"always-the-same"')])
def test_a_conditional_write_is_sent_once(
    faulty: CarelessStore, storage: S3Storage, condition: Absent | Matches
) -> None:
    faulty.put_status = 503
    with pytest.raises(Unavailable):
        storage.write("k", b"x", condition=condition)
    assert faulty.requests.count("PUT") == 1
    faulty.requests.clear()
    with pytest.raises(Unavailable):
        storage.write("k", b"x")
    assert faulty.requests.count("PUT") == 4  # this one may be sent again


def test_a_condition_on_a_large_value_is_refused(storage: S3Storage, faulty: CarelessStore) -> None:
    with pytest.raises(BadInput) as caught:
        storage.write("k", io.BytesIO(bytes(CONDITIONAL_LIMIT + 1)), condition=Absent())
    assert caught.value.reason == "too_large"
    assert faulty.requests == []


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_short_body_and_a_whole_file_for_a_range_are_unavailable(faulty: CarelessStore, storage: S3Storage) -> None:
    faulty.values["/bucket/k"] = b"0123456789"
    assert storage.read("k") == b"0123456789"
    with pytest.raises(Unavailable):
        storage.read("k", start=2, length=3)  # this store does not know ranges and answers 200
    faulty.cut = True
    with pytest.raises(Unavailable):
        storage.read("k")


def test_a_bucket_that_is_not_there_is_the_operators_matter(faulty: CarelessStore, storage: S3Storage) -> None:
    faulty.put_status = 404
    for condition in (None, Absent()):
        with pytest.raises(Misconfigured, match="bucket"):
            storage.write("k", b"x", condition=condition)
    with pytest.raises(Misconfigured, match="bucket"):
        list(storage.list())
    with pytest.raises(NotFound):
        storage.read("k")


def test_access_denied_is_the_operators_matter(faulty: CarelessStore, storage: S3Storage) -> None:
    faulty.put_status = 403
    with pytest.raises(Misconfigured):
        storage.write("k", b"x")


@pytest.mark.server("s3")
def test_a_wrong_secret_is_the_operators_matter(s3_url: str) -> None:
    address, at, rest = s3_url.partition("@")
    storage = S3Storage(S3Options.from_url(f"{address}wrong{at}{rest}"))
    for call in (lambda: storage.write("k", b"x"), lambda: storage.stat("k"), lambda: list(storage.list())):
        with pytest.raises(Misconfigured) as caught:
            call()
        assert "wrong" not in str(caught.value)


def test_nobody_listening_is_unavailable(faulty: CarelessStore) -> None:
    faulty.server_close()
    with pytest.raises(Unavailable):
        S3Storage(S3Options.from_url(faulty.url)).stat("k")


def test_the_environments_proxy_is_not_used(faulty: CarelessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    S3Storage(S3Options.from_url(faulty.url)).write("k", b"x")
    assert faulty.values == {"/bucket/k": b"x"}


# --- addresses -------------------------------------------------------------------------------------------------------


def test_an_address_says_everything() -> None:
    url = "s3://AK:s%2Fe%40c@my-bucket/some/where?endpoint=http://127.0.0.1:8333&region=eu-west-1"
    assert S3Options.from_url(url) == S3Options(
        bucket="my-bucket",
        prefix="some/where",
        endpoint="http://127.0.0.1:8333",
        region="eu-west-1",
        access_key="AK",
        secret_key="s/e@c",
    )
    assert S3Options.from_url("s3://commoncrawl/") == S3Options(bucket="commoncrawl")


@pytest.mark.parametrize("url", ["", "s3://", "http://bucket", "s3:///key", "s3://bucket?regoin=x", "s3://bucket#x"])
def test_an_address_that_is_none_is_the_operators_matter(url: str) -> None:
    with pytest.raises(Misconfigured, match="s3://"):
        S3Options.from_url(url)


def test_secrets_are_not_shown() -> None:
    options = S3Options.from_url("s3://AK:hidden@bucket")
    assert "hidden" not in repr(options) + str(options) + pretty_repr(options)


@pytest.mark.server("s3")
def test_a_prefix_is_a_world_of_its_own(s3_url: str) -> None:
    one, two = (S3Storage(S3Options.from_url(s3_url.replace("?", f"/worlds/{name}?"))) for name in ("one", "two"))
    one.write("a/k", b"1")
    two.write("a/k", b"2")
    assert [one.read(stat.key) for stat in one.list()] == [b"1"]
    one.delete("a/k")
    assert [two.read(stat.key) for stat in two.list("a/")] == [b"2"]


def test_without_its_extra_the_repair_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(Misconfigured, match=r"pip install 'webmill\[s3\]'"):
        S3Storage(S3Options(bucket="bucket"))


FORKING = """
import os, sys
from webmill.errors import Misconfigured, NotFound
from webmill.infra.storage.s3 import S3Options, S3Storage
options = S3Options.from_url(sys.argv[1])
def look(storage):
    try:
        storage().stat("k")
    except (Misconfigured, NotFound) as error:
        print(type(error).__name__, flush=True)
storage = S3Storage(options)
look(lambda: storage)
if os.fork() == 0:
    look(lambda: storage)
    look(lambda: S3Storage(options))
    os._exit(0)
os.wait()
"""


def test_a_forked_process_is_told_instead_of_hanging(faulty: CarelessStore) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKING, faulty.url]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert printed.split() == ["NotFound", "Misconfigured", "Misconfigured"]


@pytest.mark.server("s3")
def test_a_missing_object_is_named_with_its_bucket(s3_url: str) -> None:
    storage = S3Storage(S3Options.from_url(s3_url.replace("?", "/deep?")))
    name = f"s3://{S3Options.from_url(s3_url).bucket}/deep/no/such.warc.gz: not found"
    for ask in (storage.stat, storage.read, storage.open):
        with pytest.raises(NotFound, match=re.escape(name)):
            ask("no/such.warc.gz")
