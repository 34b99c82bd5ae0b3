"""The collection's public part over HTTP: as Common Crawl's bucket, and not a byte of anything else."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.serve.asgi_client import AsgiClient, asgi_client
from tests.serve.conftest import site_of
from webmill.serve.app import application
from webmill.serve.files.crawl_data import CrawlData
from webmill.serve.files.published_files import PublishedFiles
from webmill.serve.site import Site

TRAVERSALS = (
    *("/../webmill.toml", "/%2e%2e/webmill.toml", "/..%2fwebmill.toml", "/%2e%2e%2fwebmill.toml", "/..\\webmill.toml"),
    *("/..%5cwebmill.toml", "/..;/webmill.toml", "/.%2e/webmill.toml", "/x/../../webmill.toml", "//etc/passwd"),
    *("/%2fetc%2fpasswd", "//../../../../etc/passwd", "/../../../../../../etc/passwd", "/..%c0%af..%c0%afetc/passwd"),
    *("/%252e%252e/webmill.toml", "/..%00/webmill.toml", "/%00", "/a%00.gz", "/.", "/..", "/", "//", "/./", "/~root"),
    *(
        "/..%ef%bc%8fwebmill.toml",
        "/%u002e%u002e/x",
        "/....//webmill.toml",
        "/C:/x",
        "/con",
        "/a/b\nc",
        "/%0a",
        "/$HOME",
    ),
    *("/" + "a/" * 600 + "b", "/" + "a" * 300, "/" + "%41" * 5000, "/%ed%a0%80", "/.webmill-mark", "/.git/config"),
)


@pytest.fixture
def ask(site: Site) -> Iterator[AsgiClient]:
    with asgi_client(application(site)) as asker:
        yield asker


def a_warc(root: Path) -> Path:
    return next(iter(sorted(root.glob("crawl-data/*/segments/*/warc/*.warc.gz"))))


def address(root: Path, path: Path) -> str:
    return "/" + path.relative_to(root).as_posix()


def test_every_file_of_the_public_part_is_served(ask: AsgiClient, sample_root: Path) -> None:
    found = [
        path for folder in ("crawl-data", "cc-index") for path in (sample_root / folder).rglob("*") if path.is_file()
    ]
    shown = [path for path in found if not any(part.startswith(".") for part in path.relative_to(sample_root).parts)]
    assert any(path.name == "cluster.idx" for path in shown)
    for path in shown:
        answer = ask(address(sample_root, path))
        assert (answer.status, answer.body) == (200, path.read_bytes())
        assert answer["content-encoding"] == ""
        assert answer["x-content-type-options"] == "nosniff"
        assert answer["content-type"].startswith("application/")


def test_ranges_and_validators_are_those_of_one_value(ask: AsgiClient, sample_root: Path) -> None:
    path = a_warc(sample_root)
    data, name = path.read_bytes(), address(sample_root, path)
    whole = ask(name)
    part = ask(name, range="bytes=10-19", if_range=whole["etag"])
    assert (part.status, part.body, part["content-range"]) == (206, data[10:20], f"bytes 10-19/{len(data)}")
    assert ask(name, range="bytes=0-9", if_range=whole["last-modified"]).status == 206
    assert ask(name, range="bytes=0-9", if_range='"other"').body == data
    assert ask(name, range=f"bytes={len(data)}-").status == 416
    assert ask(name, if_none_match=whole["etag"]).status == 304
    assert ask(name, if_modified_since=whole["last-modified"]).status == 304
    assert ask(name, if_modified_since="Mon, 01 Jan 2001 00:00:00 GMT").status == 200
    assert ask(name, if_unmodified_since="Mon, 01 Jan 2001 00:00:00 GMT").status == 412
    assert ask(name, if_match='"other"').status == 412
    assert ask(name, if_match=whole["etag"]).status == 200
    head = ask(name, method="HEAD")
    assert (head.body, head["content-length"], head["etag"]) == (b"", str(len(data)), whole["etag"])
    ranged = ask(name, method="HEAD", range="bytes=0-9")  # RFC 9110, 14.2: a range is one of a GET
    assert (ranged.status, ranged.pairs) == (200, head.pairs)


@pytest.mark.parametrize("value", ["\x00", "junk", '"', "W/", "*, *", "99999999999999999999", "Mon, 32 Foo 99999"])
@pytest.mark.parametrize("name", ["if_match", "if_none_match", "if_range", "if_modified_since", "if_unmodified_since"])
def test_nonsense_in_a_condition_is_answered(ask: AsgiClient, sample_root: Path, name: str, value: str) -> None:
    answer = ask(address(sample_root, a_warc(sample_root)), range="bytes=0-0", **{name: value})
    assert answer.status in (200, 206, 304, 412)


@pytest.mark.parametrize("folder", ["/crawl-data", "/cc-index", "/snapshots", "/blobs/sha256", "/x"])
def test_no_way_leads_out(ask: AsgiClient, folder: str) -> None:
    for path in TRAVERSALS:
        assert (path, ask(folder + path).status) == (path, 404)


@pytest.mark.parametrize(
    "path",
    ["/webmill.toml", "/frontier/crawl.json", "/cdxj/x", "/search/meta.json", "/queue.sqlite", "/documents/town.jsonl"],
)
def test_the_private_part_is_not_there(ask: AsgiClient, path: str) -> None:
    assert ask(path).status == 404


def test_other_links_folders_and_hidden_files_are_not_there(sample_root: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sample_root, tmp_path / "town", symlinks=True))
    secret = tmp_path / "secret.gz"
    secret.write_text("secret")
    folder = a_warc(root).parent
    (folder / "link.gz").symlink_to(secret)
    (folder / "nowhere.warc.gz").symlink_to(tmp_path / "nothing")
    (root / "crawl-data" / "out").symlink_to(tmp_path)
    (folder / ".hidden.warc.gz").write_text("secret")
    (folder / "not-a-file.warc.gz").mkdir()
    os.mkfifo(folder / "pipe.warc.gz")
    with asgi_client(application(site_of(root))) as ask:
        for name in ("link.gz", "nowhere.warc.gz", ".hidden.warc.gz", "not-a-file.warc.gz", "pipe.warc.gz", ""):
            answer = ask(address(root, folder) + "/" + name)
            assert answer.status == 404
            assert str(root) not in answer.body.decode()
        assert ask("/crawl-data/out/secret.gz").status == 404


def test_a_file_that_is_replaced_while_it_is_read_is_whole_or_refused(sample_root: Path, tmp_path: Path) -> None:
    """The same in memory as the backend's contract: here, what HTTP makes of it."""
    root = Path(shutil.copytree(sample_root, tmp_path / "town", symlinks=True))
    path = a_warc(root)
    site = site_of(root)
    with asgi_client(application(site)) as ask:
        first = ask(address(root, path))
        other = path.with_name("next")
        other.write_bytes(first.body[::-1])
        other.replace(path)
        second = ask(address(root, path), range="bytes=0-9", if_range=first["etag"])
        assert (second.status, second.body) == (200, first.body[::-1])
        assert ask(address(root, path), if_match=first["etag"]).status == 412


def test_memory_does_not_grow_with_the_file(sample_root: Path, tmp_path: Path) -> None:
    import tracemalloc

    root = Path(shutil.copytree(sample_root, tmp_path / "town", symlinks=True))
    large = a_warc(root).with_name("large.warc.gz")
    with large.open("wb") as file:
        file.truncate(64 << 20)
    site = replace(site_of(root))
    sizes: list[int] = []

    class Counting(AsgiClient):
        async def _ask(self, scope: dict[str, Any], sent: bytes) -> Any:
            async def send(message: Any) -> None:
                sizes.append(len(message.get("body", b"")))

            await self.app(scope, asyncio.Event().wait, send)  # type: ignore[arg-type]  # it never leaves

    with asgi_client(CrawlData(site)) as asker:
        counting = Counting(asker.app, asker.runner)
        tracemalloc.start()
        try:
            counting(address(root, large))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= 64 << 10
    assert peak < 16 << 20


def test_nothing_is_read_for_a_client_that_has_gone(sample_root: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sample_root, tmp_path / "town", symlinks=True))
    large = a_warc(root).with_name("large.warc.gz")
    with large.open("wb") as file:
        file.truncate(256 << 20)
    sizes: list[int] = []

    class Leaving(AsgiClient):
        async def _ask(self, scope: dict[str, Any], sent: bytes) -> Any:
            left = asyncio.Event()

            async def receive() -> dict[str, Any]:
                await left.wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                sizes.append(len(message.get("body", b"")))
                if sum(sizes):
                    left.set()

            await self.app(scope, receive, send)

    with asgi_client(application(site_of(root))) as asker:
        Leaving(asker.app, asker.runner)(address(root, large))
    assert 0 < sum(sizes) < 16 << 20


def test_no_file_outside_the_collection_is_opened(site: Site) -> None:
    """The kernel is asked for the root, and from there for plain names only."""
    opened: list[str] = []
    watching = [False]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching[0] and event == "open":
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)  # for as long as this process lives: silent but here
    folders = ("/crawl-data", "/cc-index", "/snapshots", "/blobs/sha256", "")
    for app in (CrawlData(site), PublishedFiles(site)):
        with asgi_client(app) as ask:
            ask("/latest.json")
            watching[0] = True
            try:
                for folder in folders:
                    for path in TRAVERSALS:
                        assert ask(folder + path).status == 404
            finally:
                watching[0] = False
    assert opened
    outside = [path for path in opened if path != str(site.root) and ("/" in path or path in (".", ".."))]
    assert not outside
