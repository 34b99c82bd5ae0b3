"""Versions over HTTP: cache policy, validators, ranges, codings; and what is not sent."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import brotli
import pytest
import zstandard

from tests.serve import sample_collection
from tests.serve.asgi_client import AsgiClient, asgi_client
from tests.serve.conftest import site_of
from webmill.infra.storage.memory import MemoryStorage
from webmill.serve.app import application
from webmill.serve.site import ClientLimits, Site

DECODERS = {"br": brotli.decompress, "gzip": gzip.decompress, "zstd": zstandard.ZstdDecompressor().decompress}


@pytest.fixture
def ask(site: Site) -> Iterator[AsgiClient]:
    with asgi_client(application(site)) as asker:
        yield asker


def pointer(root: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((root / "latest.json").read_text())
    return found


def snapshot(root: Path, name: str) -> str:
    return f"/snapshots/{pointer(root)['version']}/{name}"


def a_blob(root: Path) -> Path:
    """The largest: worth a coding."""
    return max((root / "blobs" / "sha256").iterdir(), key=lambda path: (path.stat().st_size, path.name))


def an_index(root: Path) -> bytes:
    return (root / snapshot(root, "index/all.json")[1:]).read_bytes()


def test_every_kind_of_file_has_the_cache_policy_of_its_kind(ask: AsgiClient, sample_root: Path) -> None:
    assert ask("/latest.json")["cache-control"].startswith("public, max-age=10,")
    assert ask(snapshot(sample_root, "index/all.json"))["cache-control"] == "public, max-age=31536000, immutable"
    assert ask(snapshot(sample_root, "_manifest.json"))["cache-control"] == "public, max-age=31536000, immutable"
    assert ask(snapshot(sample_root, "aux/diff.json"))["cache-control"] == "public, max-age=60"
    assert ask(f"/blobs/sha256/{a_blob(sample_root).name}")["cache-control"] == "public, max-age=31536000, immutable"


def test_every_file_of_a_version_is_served_as_it_was_published(ask: AsgiClient, sample_root: Path) -> None:
    folder = sample_root / "snapshots" / pointer(sample_root)["version"]
    for path in (path for path in folder.rglob("*.json")):
        answer = ask("/" + path.relative_to(sample_root).as_posix())
        assert (answer.status, answer.body) == (200, path.read_bytes())
        assert answer["content-type"] == "application/json"
        assert answer["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer["content-security-policy"]


def test_the_etag_of_a_blob_is_its_hash_and_another_in_each_coding(ask: AsgiClient, sample_root: Path) -> None:
    name = snapshot(sample_root, "index/all.json")
    etags = {ask(name, accept_encoding=coding)["etag"] for coding in ("identity", "br", "zstd", "gzip")}
    digest = hashlib.sha256(an_index(sample_root)).hexdigest()
    assert etags == {f'"{digest}"', f'"{digest}-br"', f'"{digest}-zstd"', f'"{digest}-gzip"'}
    assert ask(f"/blobs/sha256/{a_blob(sample_root).name}")["etag"] == f'"{a_blob(sample_root).stem}"'


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip"])
def test_a_coding_that_the_client_takes_is_used_and_decodes_to_the_same(
    ask: AsgiClient, sample_root: Path, coding: str
) -> None:
    for _ in range(2):  # made, and kept
        answer = ask(snapshot(sample_root, "index/all.json"), accept_encoding=coding)
        assert answer["content-encoding"] == coding
        assert answer["vary"] == "Accept-Encoding"
        assert len(answer.body) == int(answer["content-length"]) < len(an_index(sample_root))
        assert DECODERS[coding](answer.body) == an_index(sample_root)


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, zstd;q=0.9", "gzip"),
        ("br;q=0, gzip;q=0.1", "gzip"),
        ("*", "br"),
        ("identity", ""),
        ("", ""),
        ("br;q=0", ""),
        ("br;q=nonsense", ""),
        (";;;,,,=", ""),
    ],
)
def test_what_the_client_likes_most_is_chosen(ask: AsgiClient, sample_root: Path, accepted: str, coding: str) -> None:
    assert ask(snapshot(sample_root, "index/all.json"), accept_encoding=accepted)["content-encoding"] == coding


def test_what_is_small_is_not_coded(ask: AsgiClient, sample_root: Path) -> None:
    answer = ask(snapshot(sample_root, "aux/errors.json"), accept_encoding="br")
    assert answer["content-encoding"] == ""
    assert answer["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("{etag}", 304),
        ("W/{etag}", 304),
        ('"other", {etag}', 304),
        ('"a, b", W/"c",{etag}', 304),
        ("*", 304),
        ('"other"', 200),
        ("{bare}", 200),
        ('"', 200),
        ("", 200),
    ],
)
def test_who_has_it_already_is_told_so(ask: AsgiClient, sample_root: Path, condition: str, status: int) -> None:
    name = snapshot(sample_root, "index/all.json")
    etag = ask(name)["etag"]
    answer = ask(name, if_none_match=condition.format(etag=etag, bare=etag.strip('"')))
    assert answer.status == status
    assert answer["etag"] == etag
    assert answer.body == (b"" if status == 304 else an_index(sample_root))
    assert answer["content-length"] == ("" if status == 304 else str(len(an_index(sample_root))))


def test_who_means_another_value_is_refused(ask: AsgiClient, sample_root: Path) -> None:
    name = snapshot(sample_root, "index/all.json")
    assert ask(name, if_match='"other"').status == 412
    assert ask(name, if_match=ask(name)["etag"]).status == 200
    assert ask(name, if_match="*").status == 200


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=5-", 5, None),
        ("bytes=-7", -7, None),
        ("bytes=3-999999999", 3, None),
        ("bytes=-999999999", 0, None),
    ],
)
def test_a_range_is_given_as_it_lies_in_the_plain_bytes(
    ask: AsgiClient, sample_root: Path, wanted: str, start: int, end: int | None
) -> None:
    data = an_index(sample_root)
    answer = ask(snapshot(sample_root, "index/all.json"), range=wanted, accept_encoding="br")
    assert answer.status == 206
    assert answer.body == data[start:end]
    first = start % len(data) if start < 0 else start
    assert answer["content-range"] == f"bytes {first}-{first + len(answer.body) - 1}/{len(data)}"
    assert answer["content-encoding"] == ""


@pytest.mark.parametrize("wanted", ["bytes=999999-", "bytes=-0", "bytes=9999999999999999999-"])
def test_a_range_behind_the_end_is_refused_with_the_size(ask: AsgiClient, sample_root: Path, wanted: str) -> None:
    answer = ask(snapshot(sample_root, "index/all.json"), range=wanted)
    assert (answer.status, answer["content-range"]) == (416, f"bytes */{len(an_index(sample_root))}")


@pytest.mark.parametrize(
    "wanted",
    [
        *("bytes=5-1", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4", "bytes=" + ",".join(["0-0"] * 1000)),
        *("bytes=99999999999999999999999-", "bytes=--1", "bytes 0-1", "bytes=0-1;"),
    ],
)
def test_what_is_no_single_range_is_as_if_it_were_not_said(ask: AsgiClient, sample_root: Path, wanted: str) -> None:
    answer = ask(snapshot(sample_root, "index/all.json"), range=wanted)
    assert (answer.status, answer.body) == (200, an_index(sample_root))


def test_a_range_of_an_older_value_gives_the_whole_new_one(ask: AsgiClient, sample_root: Path) -> None:
    name = snapshot(sample_root, "index/all.json")
    assert ask(name, range="bytes=0-1", if_range='"older"').status == 200
    assert ask(name, range="bytes=0-1", if_range=ask(name)["etag"]).status == 206
    assert ask(name, range="bytes=0-1", if_range="Mon, 99 Nonsense").status == 200


def test_head_tells_the_same_without_a_body(ask: AsgiClient, sample_root: Path) -> None:
    name = snapshot(sample_root, "index/all.json")
    whole, head = ask(name), ask(name, method="HEAD")
    assert head.pairs == whole.pairs  # the server leaves the body out
    ranged = ask(name, method="HEAD", range="bytes=0-9")  # RFC 9110, 14.2: a range is one of a GET
    assert (ranged.status, ranged.pairs) == (200, whole.pairs)
    assert ask(name, method="POST").status == 405
    assert ask(name, method="DELETE").status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/snapshots/_history/000000000001.json",
        "/snapshots/_leases/begun.json",
        "/snapshots/_trash/" + "0" * 64 + ".json",
        "/snapshots/_runs/x",
        "/snapshots/",
        "/snapshots",
        "/snapshots/{version}",
        "/snapshots/{version}/",
        "/snapshots/{version}/index/",
        "/snapshots/{version}/../{version}/index/all.json",
        "/snapshots/{version}//index/all.json",
        "/snapshots/99999999-00000000/index/all.json",
        "/snapshots/{version}/../../latest.json",
        "/blobs/sha256/{upper}.json",
        "/blobs/sha256/{hash}",
        "/blobs/sha256/{hash}.json/",
        "/blobs/sha256//{hash}.json",
        "/blobs/sha256/x/{hash}.json",
        "/blobs/sha256/{hash}0.json",
        "/blobs/sha256/..%2f..%2flatest.json",
        "/blobs/{hash}.json",
        "/blobs/sha256/%00.json",
        "/latest.json/",
        "/latest.json%00",
    ],
)
def test_a_name_that_nobody_published_is_not_there(ask: AsgiClient, sample_root: Path, path: str) -> None:
    blob = a_blob(sample_root).stem
    asked = path.format(version=pointer(sample_root)["version"], hash=blob, upper=blob.upper())
    assert ask(asked).status == 404


@pytest.fixture
def copy(sample_root: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample_root, tmp_path / "town", symlinks=True))


def test_what_does_not_hash_to_its_name_is_not_sent(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    blob, index = a_blob(copy), copy / snapshot(copy, "index/all.json")[1:]
    blob.write_bytes(blob.read_bytes().replace(b"e", b"E"))
    index.write_bytes(b"{}")
    (copy / "latest.json").write_text("{")
    with asgi_client(application(site_of(copy))) as ask:
        for path in (f"/blobs/sha256/{blob.name}", "/" + str(index.relative_to(copy)), "/latest.json"):
            answer = ask(path)
            assert answer.status == 500
            assert "damaged" in json.loads(answer.body)["message"]
            assert answer["cache-control"] == "no-store"
            assert str(copy) not in answer.body.decode()
        assert "webmill_serve_damaged_total 3.0" in ask("/metrics").body.decode()
    assert len([record for record in caplog.records if "damaged" in record.message]) == 3


def test_a_version_that_is_not_committed_is_not_shown(copy: Path) -> None:
    shutil.copytree(copy / "snapshots" / pointer(copy)["version"], copy / "snapshots" / "00000009-00000000")
    with asgi_client(application(site_of(copy))) as ask:
        assert ask("/snapshots/00000009-00000000/index/all.json").status == 404


def test_a_new_version_is_seen_while_we_serve(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webmill.serve.files.published_files.POINTER_FRESH", 0.0)
    with asgi_client(application(site_of(copy))) as ask:
        before = ask("/latest.json")
        rows = {**sample_collection.ROWS, "https://town.example/new": ("New", "A page more.", "eng")}
        sample_collection.documents(copy, rows, when="20250101000000")
        sample_collection.run("publish", "documents", copy, "--facet", "language", "--facet", "domain")
        after = ask("/latest.json", if_none_match=before["etag"])
        assert after.status == 200
        assert json.loads(after.body)["sequence"] == json.loads(before.body)["sequence"] + 1
        assert ask(snapshot(copy, "index/all.json")).status == 200


def test_what_was_taken_away_goes_from_memory_too(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webmill.serve.files.published_files.FRESH", 0.0)
    blob = a_blob(copy)
    with asgi_client(application(site_of(copy))) as ask:
        assert ask(f"/blobs/sha256/{blob.name}").status == 200
        blob.unlink()
        assert ask(f"/blobs/sha256/{blob.name}").status == 404


def test_memory_is_bounded_and_what_is_too_large_for_it_is_streamed_and_checked(copy: Path) -> None:
    data = b'{"text":"' + b"long " * 100_000 + b'"}'
    name = hashlib.sha256(data).hexdigest()
    (copy / "blobs" / "sha256" / f"{name}.json").write_bytes(data)
    bad = hashlib.sha256(b"x").hexdigest()
    (copy / "blobs" / "sha256" / f"{bad}.json").write_bytes(data)
    site = replace(site_of(copy), limits=ClientLimits(cache_bytes=32 << 10))
    with asgi_client(application(site)) as ask:
        answer = ask(f"/blobs/sha256/{name}.json", accept_encoding="br")
        assert (answer.status, answer.body, answer["etag"]) == (200, data, f'"{name}"')
        assert ask(f"/blobs/sha256/{name}.json", if_none_match=f'"{name}"').status == 304
        assert ask(f"/blobs/sha256/{name}.json", range="bytes=9-12").body == b"long"
        assert ask(f"/blobs/sha256/{bad}.json").status == 500
        for path in (copy / "blobs" / "sha256").iterdir():
            ask(f"/blobs/sha256/{path.name}", accept_encoding="br")
        line = next(line for line in ask("/metrics").body.decode().splitlines() if line.startswith("webmill_serve_cac"))
        assert 0 < float(line.split()[1]) <= 32 << 10


def test_versions_may_be_in_another_storage(site: Site, sample_root: Path) -> None:
    storage = MemoryStorage()
    for stat in site.versions.list("snapshots/"):
        storage.write(stat.key, site.versions.read(stat.key))
    for key in ("latest.json", f"blobs/sha256/{a_blob(sample_root).name}"):
        storage.write(key, site.versions.read(key))
    with asgi_client(application(replace(site, versions=storage))) as ask:
        assert ask("/latest.json").status == 200
        assert ask(snapshot(sample_root, "index/all.json")).body == an_index(sample_root)
        assert ask(f"/blobs/sha256/{a_blob(sample_root).name}", range="bytes=0-3").status == 206
