"""A URL in the settings becomes the right part, or a sentence that says what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.config import Executor, Http, Queue
from webmill.errors import Misconfigured
from webmill.infra.queue.base import Message
from webmill.wiring import locate, open_executor, open_queue, open_readable, open_storage, user_agent


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_path_is_a_local_storage(tmp_path: Path, form: str) -> None:
    open_storage(form.format(tmp_path)).write("a/b", b"x")
    assert (tmp_path / "a" / "b").read_bytes() == b"x"


def test_memory_is_a_storage_of_its_own() -> None:
    storage = open_storage("memory:")
    storage.write("k", b"v")
    assert storage.read("k") == b"v"


def test_one_file_is_found_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "x.warc").write_bytes(b"WARC")
    storage, key = locate(str(tmp_path / "x.warc"), http=Http())
    assert storage.read(key) == b"WARC"


def test_one_file_is_found_by_its_address() -> None:
    _, key = locate("https://data.example/crawl/x.warc.gz", http=Http())
    assert key == "x.warc.gz"
    with pytest.raises(Misconfigured, match="names a folder"):
        locate("https://data.example/crawl/", http=Http())


def test_the_web_cannot_be_written_to() -> None:
    with pytest.raises(Misconfigured, match="cannot write to http://x/"):
        open_storage("http://x/")
    open_readable("http://x/", http=Http(contact="me@example.org"))
    assert user_agent("me@example.org").endswith("(+me@example.org)")


def test_the_default_queue_is_a_file_of_the_collection(tmp_path: Path) -> None:
    queue = open_queue(Queue(), name="batches", folder=tmp_path)
    assert queue.publish([Message("1", b"x")]) == 1
    queue.close()
    assert (tmp_path / "queue.sqlite").exists()


def test_a_memory_queue_needs_no_file(tmp_path: Path) -> None:
    queue = open_queue(Queue(url="memory:"), name="batches", folder=tmp_path)
    assert queue.publish([Message("1", b"x")]) == 1
    queue.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", ["inline", "pool"])
def test_executors_run(url: str) -> None:
    executor = open_executor(Executor(url=url, jobs=1))
    assert [outcome.value for outcome in executor.run(abs, [-1])] == [1]  # type: ignore[union-attr]
    executor.close()


def test_unknown_backends_are_refused_with_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="use sqlite:FILE"):
        open_queue(Queue(url="kafka://x"), name="q", folder=tmp_path)
    with pytest.raises(Misconfigured, match="use pool, inline"):
        open_executor(Executor(url="dask"))
    with pytest.raises(Misconfigured, match="use a folder"):
        open_storage("gs://x")
    with pytest.raises(Misconfigured, match="cannot read ftp://x/"):
        open_readable("ftp://x/", http=Http())
