"""An address becomes the right part, or a sentence that says what would be right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.command import webmill

from webmill.errors import Misconfigured, NotFound
from webmill.infra.address import below, scheme_of
from webmill.infra.executor.backends import EXECUTORS, open_executor
from webmill.infra.queue.backends import QUEUES, VIEWS, existing_queue, open_queue, require_queue, view_queue
from webmill.infra.queue.base import Message, QueueOptions
from webmill.infra.registry import Registry
from webmill.infra.sinks.backends import STREAMS
from webmill.infra.storage.backends import PROBES, READ_ONLY, STORAGES, locate, open_readable, open_storage
from webmill.infra.user_agent import user_agent
from webmill.masking import hide_secrets
from webmill.pipeline.dataset.config import Dataset, ReadSection, WriteSection, check_dataset
from webmill.search.backends import ENGINES, REPLACERS, open_search, replacing_search

BATCHES = QueueOptions(name="batches")
PACKAGE = """
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.storage.memory import MemoryStorage
from webmill.infra.executor.inline import InlineExecutor
from webmill.search.embedded.engine import EmbeddedEngine

def open_queue(url, options):
    return MemoryQueue(max_attempts=options.attempts, lease=options.lease)

def open_storage(url, options):
    return MemoryStorage()

def open_executor(url, *, workers):
    return InlineExecutor()

def open_engine(url, *, create):
    from pathlib import Path
    return EmbeddedEngine(Path(url.partition(":")[2]), create=create)
"""
ENTRY_POINTS = """
[webmill.queue]
shoebox = shoebox_backends:open_queue
lost = no_such_module:open_queue
sqlite = shoebox_backends:open_queue
[webmill.storage]
shoebox = shoebox_backends:open_storage
[webmill.executor]
shoebox = shoebox_backends:open_executor
[webmill.search]
shoebox = shoebox_backends:open_engine
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another package, as pip would have installed it."""
    site = tmp_path / "site"
    about = site / "shoebox-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shoebox\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    (site / "shoebox_backends.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(site))
    return site


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
    storage, key = locate(str(tmp_path / "x.warc"))
    assert storage.read(key) == b"WARC"


def test_one_file_is_found_by_its_address() -> None:
    _, key = locate("https://data.example/crawl/x.warc.gz")
    assert key == "x.warc.gz"
    with pytest.raises(Misconfigured, match="names a folder"):
        locate("https://data.example/crawl/")


def test_the_web_cannot_be_written_to() -> None:
    with pytest.raises(Misconfigured, match="cannot write to http://x/"):
        open_storage("http://x/")
    open_readable("http://x/", contact="me@example.org")
    assert user_agent("me@example.org").endswith("(+me@example.org)")


def test_a_relative_queue_is_a_file_of_the_folder(tmp_path: Path) -> None:
    queue = open_queue("sqlite:queue.sqlite", QueueOptions(name="batches", folder=tmp_path))
    assert queue.publish([Message("1", b"x")]) == 1
    queue.close()
    assert (tmp_path / "queue.sqlite").exists()


def test_a_memory_queue_needs_no_file(tmp_path: Path) -> None:
    queue = open_queue("memory:", QueueOptions(name="batches", folder=tmp_path))
    assert queue.publish([Message("1", b"x")]) == 1
    queue.close()
    assert not list(tmp_path.iterdir())


def test_looking_for_a_queue_makes_none(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'queue.sqlite'}"
    for look in (view_queue, existing_queue):
        with pytest.raises(NotFound, match="no queue"), look(url, BATCHES):
            pass
    with pytest.raises(NotFound, match="no queue"):
        require_queue(url, BATCHES)
    assert not list(tmp_path.iterdir())


def test_looking_at_a_queue_changes_nothing_in_it(tmp_path: Path) -> None:
    file = tmp_path / "queue.sqlite"
    url, options = f"sqlite:{file}", QueueOptions(name="", attempts=1)
    queue = open_queue(url, options)
    queue.publish([Message(str(number), b"x") for number in range(3)])
    with queue.consume() as consumer:
        delivery = consumer.receive(timeout=1)
        assert delivery
        delivery.bury("no good")
    queue.close()
    before = file.read_bytes()
    with view_queue(url, options) as view:
        assert [(letter.id, letter.reason) for letter in view.dead_letters()] == [(delivery.id, "no good")]
        assert (view.stats().ready, view.stats().buried) == (2, 1)
    assert file.read_bytes() == before
    with existing_queue(url, options) as opened:
        assert opened.requeue() == 1


def test_a_queue_without_a_view_of_its_own_is_opened_to_be_looked_at() -> None:
    with view_queue("memory:", BATCHES) as view:
        assert view.stats().ready == 0


@pytest.mark.parametrize("url", ["inline", "pool"])
def test_executors_run(url: str) -> None:
    executor = open_executor(url, workers=1)
    assert [outcome.value for outcome in executor.run(abs, [-1])] == [1]  # type: ignore[union-attr]
    executor.close()


def test_unknown_backends_are_refused_with_what_there_is() -> None:
    with pytest.raises(Misconfigured, match="unknown queue kafka: use sqlite:FILE"):
        open_queue("kafka://x", BATCHES)
    with pytest.raises(Misconfigured, match="unknown executor dask: use pool, inline"):
        open_executor("dask")
    with pytest.raises(Misconfigured, match="cannot write to gs://x: use a folder"):
        open_storage("gs://x")
    with pytest.raises(Misconfigured, match="cannot read ftp://x/: use http"):
        open_readable("ftp://x/")
    with pytest.raises(Misconfigured, match="unknown search engine solr: use a folder, meilisearch://"):
        open_search("solr://x")


def test_refusals_have_no_secret() -> None:
    for call in (open_storage, open_readable, open_search, lambda url: open_queue(url, BATCHES)):
        with pytest.raises(Misconfigured) as refused:
            call("gs://KEY:s3cr3t@bucket/x")
        assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://user:pass@host/", "amqp://***@host/"),
        ("s3://K:S@bucket/x?proxy=http://u:p@proxy:1", "s3://***@bucket/x?proxy=http://***@proxy:1"),
        ("https://host/@someone", "https://host/@someone"),
        ("a/folder@home", "a/folder@home"),
    ],
)
def test_addresses_are_printed_without_their_secrets(url: str, shown: str) -> None:
    assert hide_secrets(url) == shown


@pytest.mark.parametrize("url", ["a/b", "/a:b/c", "C:\\x", "./s3:x"])
def test_a_path_is_no_address(url: str) -> None:
    assert scheme_of(url) == ("file", url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("out", "out/.x"),
        ("/a?b/", "/a?b/.x"),
        ("s3://bucket", "s3://bucket/.x"),
        ("s3://K:S@bucket/a/?endpoint=http://h:1/&region=x", "s3://K:S@bucket/a/.x?endpoint=http://h:1/&region=x"),
    ],
)
def test_what_is_below_an_address_keeps_its_options(url: str, expected: str) -> None:
    assert below(url, ".x") == expected


@pytest.mark.parametrize(
    "registry", [STORAGES, READ_ONLY, PROBES, QUEUES, VIEWS, EXECUTORS, STREAMS, ENGINES, REPLACERS]
)
def test_every_name_in_a_table_can_be_loaded(registry: Registry[object]) -> None:
    for scheme in registry.schemes():
        assert callable(registry.find(scheme))


def test_a_queue_is_added_by_one_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names queues asks the table: commands and datasets, too."""
    table = QUEUES._backends
    monkeypatch.setitem(table, "drawer", "webmill.infra.queue.memory:open_memory")  # type: ignore[arg-type]
    queue = open_queue("drawer:left", BATCHES)
    assert queue.publish([Message("1", b"x")]) == 1
    queue.close()
    listed = webmill("cc", "dead", "list", "--queue", "drawer:left")
    assert (listed.code, listed.err) == (0, "no failed tasks\n")
    with pytest.raises(Misconfigured, match=r"read\.from 'drawer:left': use a folder"):
        check_dataset(Dataset(name="x", read=ReadSection(source="drawer:left")), source="x.toml")
    check_dataset(Dataset(name="x", write=WriteSection(to="drawer:left")), source="x.toml")


def test_backends_of_another_package_are_opened_by_their_scheme(package: Path, tmp_path: Path) -> None:
    queue = open_queue("shoebox://a/b", BATCHES)
    assert queue.publish([Message("1", b"x")]) == 1
    queue.close()
    for opened in (open_storage, open_readable):
        assert opened("shoebox:x").list("") is not None  # type: ignore[attr-defined]
    assert [outcome.value for outcome in open_executor("shoebox").run(abs, [-1])] == [1]  # type: ignore[union-attr]
    url = f"shoebox:{tmp_path / 'index'}"
    engine = open_search(url)
    assert engine.count() == 0
    engine.close()
    with replacing_search(url) as fresh:
        assert fresh == url  # it is emptied, as nothing better is known


def test_a_name_of_ours_is_not_taken_by_another_package(package: Path, tmp_path: Path) -> None:
    open_queue(f"sqlite:{tmp_path / 'own.sqlite'}", BATCHES).close()
    assert (tmp_path / "own.sqlite").exists()


def test_backends_of_other_packages_are_named_where_one_is_unknown(package: Path) -> None:
    with pytest.raises(Misconfigured, match=r"memory:; or of other packages: lost, shoebox"):
        open_queue("kafka://x", BATCHES)


def test_a_backend_of_another_package_that_cannot_be_loaded_is_named(package: Path) -> None:
    with pytest.raises(Misconfigured, match=r"no_such_module:open_queue of another package, which cannot be loaded"):
        open_queue("lost://x", BATCHES)


def test_the_command_works_on_a_queue_of_another_package(package: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join([str(package), *filter(None, sys.path)])
    command = [sys.executable, "-m", "webmill", "doctor", "--queue", "shoebox://x"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert "queue" in ended.stdout, ended.stderr
    assert "unknown" not in ended.stderr
