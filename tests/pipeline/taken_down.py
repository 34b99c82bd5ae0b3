"""A collection with pages that are to be taken down, and everything that anybody can get out of it.

The words of `SECRET` stand in those pages and nowhere else; `PATHS` are in their addresses.
"""

from __future__ import annotations

import gzip
import io
import json
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet
from click.testing import CliRunner
from starlette.testclient import TestClient

import webmill
from tests.serve.conftest import ADDRESS, REPLAY, site_of
from webmill.cli.main import webmill as command
from webmill.infra.storage.local import LocalStorage
from webmill.publish import history
from webmill.serve.app import application, replay_application

SECRET = b"zqxjlumen"
PATHS = (b"hush-hush", b"gone.test")
WORDS = "Words about ferries and islands, enough of them to be a page of its own. " * 10
OPEN = [f"http://open.test/page{number}" for number in range(6)]
CLOSED = ["http://open.test/hush-hush", "http://www.gone.test/", "http://www.gone.test/deep?a=1"]


def page(url: str, day: int) -> bytes:
    secret = f"{SECRET.decode()} " * 5 if url in CLOSED else ""
    title = f"{secret.split()[0]} of {day}" if secret else f"Ferry {url[-1]}"
    return (
        f"<html><title>{title}</title><p>{WORDS} {secret} {url[-1]} on day {day if secret else 0}</p></html>".encode()
    )


def write_archive(path: Path, day: int, urls: list[str]) -> None:
    """Write requests, responses and pictures of a browser, compressed record by record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        for url in urls:
            asked, body = f"GET / HTTP/1.1\r\nX-Via: {url}\r\n\r\n".encode(), page(url, day)
            answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
            out.write(packed_record("request", url, day, "application/http; msgtype=request", asked))
            out.write(packed_record("response", url, day, "application/http; msgtype=response", answer))
            out.write(packed_record("resource", f"urn:view:{url}", day, "image/png", b"PNG" + body))


def packed_record(kind: str, url: str, day: int, media_type: str, block: bytes) -> bytes:
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {day}")
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{name}>\r\nWARC-Target-URI: {url}\r\n"
        f"WARC-Date: 2026-01-{day:02}T00:00:00Z\r\nContent-Type: {media_type}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + block + b"\r\n\r\n", mtime=0)


def make_collection(root: Path) -> None:
    """Make a collection with two versions: in the second, the secret pages have changed."""
    folder = root / "crawl-data" / root.name / "segments" / "1" / "warc"
    for day in (1, 2):
        write_archive(folder / f"day{day}.warc.gz", day, [*OPEN[: 3 + 3 * (day - 1)], *CLOSED])
        webmill.index(root, jobs=1)
        webmill.extract(root, jobs=1)
        webmill.publish(root)
    webmill.update_search(root)
    run("derive", "all", *folder.glob("*.gz"), "--in-place", "--processes", "1")
    (root / "recipe.toml").write_text('[[step]]\nuse = "length"\nmin_chars = 10\n')
    run("curate", "run", root, "--recipe", root / "recipe.toml", "--executor", "inline")


def run(*arguments: object) -> bytes:
    """Run a command in this process; return all that it prints."""
    ended = CliRunner().invoke(command, [str(one) for one in arguments], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.output.encode()


def printed(*arguments: object) -> str:
    """Run a command; return its data."""
    return CliRunner().invoke(command, [str(one) for one in arguments], catch_exceptions=False).stdout


def captures(root: Path) -> list[tuple[str, bytes, str]]:
    """Return every capture with the bytes of its record, and its line in the index."""
    got = []
    for query in (("*.test",), ("urn:view:http://", "--match", "prefix")):
        for line in printed("cdxj", "query", *query, "--index", root).splitlines():
            fields = json.loads(line.split(" ", 2)[2])
            with (root / fields["filename"]).open("rb") as file:
                file.seek(int(fields["offset"]))
                got.append((f"{fields['url']} {line.split()[1]}", file.read(int(fields["length"])), line))
    return got


def found(root: Path, out: Path) -> list[str]:
    """Return the doors at which a secret page is found."""
    return [name for name, data in doors(root, out) if SECRET in data]


# --- doors ---


def doors(root: Path, out: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what every command, page, API, feed, file and export gives, by its name."""
    yield from commands(root)
    yield from exports(root, out)
    yield from served(root)


def commands(root: Path) -> Iterator[tuple[str, bytes]]:
    versions = [version.version for version in history.list_versions(LocalStorage(root))]
    for line in (
        ("search", root, SECRET.decode()),
        ("search", root, "ferries", "--json"),
        ("cdxj", "query", "*.test", "--index", root),
        ("status", root),
        ("problems", root),
        ("changes", root),
        ("changes", root, "--since", versions[0], "--json"),
        ("publish", "list", root),
        ("publish", "diff", root, versions[0], versions[-1]),
        ("curate", "stats", root),
        *(("publish", "show", root, name, "--items", "--json") for name in versions),
        *(("publish", "show", root, name) for name in versions),
    ):
        yield " ".join(map(str, line)), run(*line)
    for name in versions:
        for url in CLOSED:
            ended = CliRunner().invoke(command, ["publish", "show", str(root), name, "--item", key_of(url)])
            yield f"item {name} {url}", b"" if ended.exit_code else ended.output.encode()
    yield "documents", b"\n".join(msgspec.json.encode(one) for one in webmill.documents(root))
    yield "corpus", b"\n".join(msgspec.json.encode(one) for one in webmill.corpus(root))
    with webmill.open_collection(root) as collection:
        for line in collection.lines("*.test"):
            yield f"Python {line.capture.url}", collection.read(line.capture).body


def key_of(url: str) -> str:
    from webmill.formats.url.surt import surt

    return surt(url)


def exports(root: Path, out: Path) -> Iterator[tuple[str, bytes]]:
    out.mkdir(parents=True)
    run("export", "wacz", root, out / "site.wacz")
    run("curate", "export", root, "--hf", out / "data", "--name", "news")
    for path in out.rglob("*"):
        if path.is_file():
            yield str(path), unpacked(path.read_bytes())


def served(root: Path) -> Iterator[tuple[str, bytes]]:
    versions = [version.version for version in history.list_versions(LocalStorage(root))]
    site = site_of(root)
    with (
        TestClient(application(site), base_url=ADDRESS) as pages,
        TestClient(replay_application(site), base_url=REPLAY) as replay,
    ):
        for path in addresses(root, versions):
            answer = pages.get(path, follow_redirects=False)
            yield f"{answer.status_code} {path}", unpacked(answer.content) + str(answer.headers).encode()
        for url in CLOSED:
            for each in (f"/web/2026/{url}", f"/web/20260101000000/{url}"):
                answer = replay.get(each, follow_redirects=False)
                yield f"{answer.status_code} replay {each}", answer.content


def addresses(root: Path, versions: list[str]) -> Iterator[str]:
    yield from ("/", "/corpus", "/crawl", "/problems", "/versions", "/feeds/changes.atom", "/latest.json", "/history")
    yield from ("/cdx?url=*.test&output=json", f"/{root.name}-index?url=*.test&output=json", "/history?url=*.test")
    yield from ("/api/search?q=ferries", "/search?q=ferries", "/feeds/search.atom?q=ferries")  # they repeat the query
    for version in versions:
        yield from (f"/documents?version={version}", f"/api/documents?version={version}", f"/versions/{version}")
        yield f"/api/documents?version={version}&facet=domain=gone.test"
        yield from (f"/{path}diff?from={versions[0]}&to={version}" for path in ("versions/", "api/versions/"))
        for url in CLOSED:
            yield f"/api/documents/item?id={key_of(url)}&version={version}"
            yield f"/documents/item?id={key_of(url)}&version={version}"
    for url in CLOSED:
        yield from (f"/raw/2026/{url}", f"/raw/20260101000000warc_/{url}", f"/raw/2026/urn:view:{url}")
        yield from (f"/timemap/link/{url}", f"/timegate/{url}", f"/wacz/2026/{url}", f"/web/2026/{url}")
    for folder in ("blobs", "snapshots", "crawl-data", "cc-index"):
        yield from (f"/{path.relative_to(root)}" for path in sorted((root / folder).rglob("*")) if path.is_file())


def unpacked(data: bytes) -> bytes:
    """Return what can be read in a file, whatever it is packed in."""
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if data.startswith(b"PAR1"):
        return json.dumps(pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist(), default=str).encode()
    if data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            return b"".join(unpacked(packed.read(name)) for name in packed.namelist())
    return data
