"""Archives made elsewhere come in byte for byte and once, and all commands work on them as on our own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.faults import needs_killer
from tests.faults.refusing import Refusing
from tests.pipeline.foreign import HOST, package_of, put, resources, wacz, warc, zipped
from tests.serve.sample_collection import NAME
from tests.serve.warc_fixtures import serve_both_origins
from tests.unit.cli.command import Ended, webmill
from webmill.collection import Collection
from webmill.formats.compression import zip_members
from webmill.index.lookup.newest import open_collection_index
from webmill.index.lookup.query import Query, run_query, url_range
from webmill.infra import lock
from webmill.pipeline.add.run import add_archives


@pytest.fixture
def news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection that is not there yet."""
    monkeypatch.setenv("WEBMILL_EXECUTOR_URL", "inline")
    return tmp_path / "news"


def add(root: Path, *files: str | Path, code: int = 0) -> dict[str, Any]:
    ended = webmill("add", root, *files, "--json")
    assert ended.code == code, ended.err
    report: dict[str, Any] = json.loads(ended.out)
    return report


def reasons(report: dict[str, Any]) -> list[str]:
    return [reject["reason"] for reject in report["rejects"]]


def archives(root: Path) -> dict[str, bytes]:
    """What is in the segment, by name."""
    folder = root / "crawl-data" / root.name / "segments" / "added" / "warc"
    return {path.name: path.read_bytes() for path in folder.glob("*")}


def captures(root: Path, *left_out: str) -> list[tuple[str, dict[str, str]]]:
    lines = [
        line.decode().split(" ", 2)
        for line in run_query(open_collection_index(root), Query(range=url_range("*.example")))
    ]
    return [
        (f"{key} {time}", {name: value for name, value in json.loads(fields).items() if name not in left_out})
        for key, time, fields in lines
    ]


# --- it is as our own -------------------------------------------------------------------------------------------------


def test_a_collection_exported_and_added_to_an_empty_one_has_the_same_captures(sample_root: Path, news: Path) -> None:
    packed = news.parent / "town.wacz"
    assert webmill("export", "wacz", sample_root, packed).code == 0
    report = add(news, packed, "--name", NAME)
    assert (len(report["added"]), report["there"], report["rejects"]) == (2, [], [])
    assert sum(one["captures"] for one in report["added"]) == 87
    assert webmill("index", news).code == 0
    assert captures(news, "filename") == captures(sample_root, "filename")
    theirs = {path.read_bytes() for path in sample_root.rglob("*.warc.gz")}
    assert {path.read_bytes() for path in news.rglob("*.warc.gz")} == theirs


def test_a_query_exported_and_added_has_what_it_found(sample_root: Path, news: Path) -> None:
    packed = news.parent / "page.wacz"
    assert webmill("export", "wacz", sample_root, packed, "--url", "https://town.example/*").code == 0
    add(news, packed, "--name", NAME)
    assert webmill("index", news).code == 0
    others = ("filename", "offset")
    wanted = [line for line in captures(sample_root, *others) if line[1]["url"].startswith("https://town.example/")]
    assert captures(news, *others) == wanted


def test_every_stage_works_on_what_was_added(news: Path) -> None:
    files = [put(news.parent / "crawl.wacz", wacz({"rec-0.warc.gz": warc(*range(8))})), news.parent / "plain.warc"]
    put(files[1], warc(20, 21, gzipped=False))
    add(news, *files)
    status = printed(webmill("status", news))
    assert "archive    news: 2 WARC files" in status
    assert "extract: archives to read: 2" in status
    ended = webmill("run", news)
    assert ended.code == 0, ended.err
    assert "index      news: 10 captures" in printed(webmill("status", news))
    assert "Lighthouse 7" in printed(webmill("search", news, "lighthouse 7"))
    assert "Lighthouse 21" in printed(webmill("search", news, "lighthouse 21"))
    with serve_both_origins(news) as (own, _):
        assert b"Lighthouse 3" in own.get(f"/raw/20240203040503/{HOST}/3").content
        assert b"Lighthouse 20" in own.get(f"/raw/20240203040520/{HOST}/20").content
    assert webmill("export", "wacz", news, news.parent / "again.wacz").code == 0
    report = add(news, news.parent / "again.wacz")
    assert (report["added"], len(report["there"])) == ([], 2), "its own archives are there"


def printed(ended: Ended) -> str:
    return ended.err + ended.out.decode()


def test_every_record_is_where_the_index_says_by_the_judgement_of_warcio(news: Path) -> None:
    add(news, put(news.parent / "a.wacz", wacz({"rec-0.warc.gz": warc(*range(30))})))
    assert webmill("index", news).code == 0
    found = captures(news)
    assert len(found) == 30
    for _, fields in found:
        data = (news / fields["filename"]).read_bytes()[int(fields["offset"]) :][: int(fields["length"])]
        (record,) = ArchiveIterator(io.BytesIO(data), check_digests="raise")
        assert record.rec_headers.get_header("WARC-Target-URI") == fields["url"]


def test_pywb_indexes_the_same_captures(news: Path, judges: Path) -> None:
    add(news, put(news.parent / "a.wacz", wacz({"rec-0.warc.gz": warc(*range(5))})))
    assert webmill("index", news, "--no-collection-field").code == 0
    (file,) = news.rglob("*.warc.gz")
    lines = subprocess.run([judges / "cdx-indexer", "-j", file], capture_output=True, text=True, check=True).stdout
    theirs = sorted(json.loads(line.split(" ", 2)[2])["digest"] for line in lines.splitlines())
    assert sorted(fields["digest"] for _, fields in captures(news)) == theirs


# --- what comes in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed_index", [True, False], ids=["index.cdx.gz", "index.cdx"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "seekable"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflate"])
def test_a_wacz_of_browsertrix_comes_in_byte_for_byte(
    news: Path, method: int, streamed: bool, compressed_index: bool
) -> None:
    inside = {"rec-a-0.warc.gz": warc(1, 2), "rec-b-0.warc.gz": warc(3), "text-c.warc": warc(4, gzipped=False)}
    data = wacz(inside, method=method, streamed=streamed, compressed_index=compressed_index)
    report = add(news, put(news.parent / "crawl.wacz", data))
    assert archives(news) == inside
    assert [one["captures"] for one in report["added"]] == [2, 1, 1]


def test_several_crawls_in_one_file_come_in(news: Path) -> None:
    parts = {f"crawl-{number}.wacz": wacz({"rec-0.warc.gz": warc(number)}) for number in range(3)}
    data = zipped(parts | {"datapackage.json": json.dumps(package_of(parts, profile="multi-wacz-package")).encode()})
    report = add(news, put(news.parent / "all.wacz", data))
    assert sorted(archives(news).values()) == sorted(warc(number) for number in range(3))
    assert report["added"][0]["source"].endswith("all.wacz: crawl-0.wacz: archive/rec-0.warc.gz")


def test_a_zip_of_archives_comes_in_whatever_its_folders(news: Path) -> None:
    add(news, put(news.parent / "mine.zip", zipped({"mine/": b"", "mine/a.warc.gz": warc(1), "b.WARC.gz": warc(2)})))
    assert archives(news) == {"a.warc.gz": warc(1), "b.WARC.gz": warc(2)}


def test_one_of_several_that_is_wrong_does_not_keep_the_others_out(news: Path) -> None:
    good = wacz({"rec-0.warc.gz": warc(1)})
    deeper = zipped({"in.wacz": zipped({"in.wacz": good})})
    parts = {"good.wacz": good, "cut.wacz": good[:-9], "deep.wacz": deeper, "none.wacz": zipped({"readme": b"x"})}
    report = add(news, put(news.parent / "all.wacz", zipped(parts)), code=3)
    assert len(report["added"]) == 1
    assert sorted(reasons(report)) == ["bad_zip", "bad_zip", "no_archives"]


def test_arc_files_and_names_without_an_ending_are_known_by_their_bytes(news: Path, shared_data: Path) -> None:
    samples = shared_data / "warc" / "warcio"
    put(news.parent / "one", (samples / "example.arc.gz").read_bytes())
    put(news.parent / "two.dat", (samples / "example.warc").read_bytes())
    put(news.parent / "three.WARC.GZ", (samples / "example.warc.gz").read_bytes())
    add(news, *(news.parent / name for name in ("one", "two.dat", "three.WARC.GZ")), samples / "example.arc")
    assert sorted(archives(news)) == ["example.arc", "one.warc.gz", "three.WARC.GZ", "two.dat.warc"]
    assert webmill("index", news).code == 0


def test_pages_of_an_arc_file_can_be_searched_for(news: Path) -> None:
    """The format before WARC: https://archive.org/web/researcher/ArcFileFormat.php"""
    body = b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<title>Old</title><p>A steamer leaves at six.</p>"
    line = b"http://old.example/ 192.0.2.7 19970304050607 text/html %d\n" % len(body)
    head = b"filedesc://old.arc 0.0.0.0 19970304050607 text/plain 76\n1 0 Somebody\n"
    head += b"URL IP-address Archive-date Content-type Archive-length\n\n\n\n\n\n\n\n"
    report = add(news, put(news.parent / "old.arc", head + b"\n" + line + body + b"\n"))
    assert report["added"][0]["captures"] == 1
    assert webmill("run", news).code == 0
    assert "http://old.example/" in printed(webmill("search", news, "steamer"))
    with serve_both_origins(news) as (own, _):
        assert b"steamer" in own.get("/raw/19970304050607/http://old.example/").content


def test_files_of_common_crawl_come_in_but_for_what_is_derived(news: Path, shared_data: Path) -> None:
    report = add(news, *sorted((shared_data / "triple").glob("*.warc.w?t.gz")), code=3)
    assert (report["added"], reasons(report)) == ([], ["derived", "derived"])


# --- once -------------------------------------------------------------------------------------------------------------


def test_what_is_there_by_its_bytes_is_not_taken_again(news: Path) -> None:
    one, other = put(news.parent / "one.warc.gz", warc(1)), put(news.parent / "x" / "other.wacz", b"")
    other.write_bytes(wacz({"data.warc.gz": one.read_bytes()}))
    assert len(add(news, one, one)["there"]) == 1
    report = add(news, other, one)
    assert ([*archives(news)], report["added"]) == (["one.warc.gz"], [])
    assert {entry["key"] for entry in report["there"]} == {"crawl-data/news/segments/added/warc/one.warc.gz"}
    by_hand = put(news / "mine.warc.gz", warc(2))
    assert len(add(news, by_hand)["there"]) == 1, "it is in the collection, wherever it lies there"
    copy = put(news.parent / "copy.warc.gz", by_hand.read_bytes())
    assert add(news, copy)["there"][0]["key"] == "mine.warc.gz"


def test_other_bytes_under_the_same_name_are_another_archive(news: Path) -> None:
    for number in range(3):
        add(news, put(news.parent / str(number) / "data.warc.gz", warc(number)))
    names = sorted(archives(news))
    assert len(names) == 3
    assert names[-1] == "data.warc.gz"
    assert all(name.startswith("data-") and len(name) == len("data-.warc.gz") + 16 for name in names[:2])


def test_a_crawl_of_another_name_has_archives_of_its_own(news: Path) -> None:
    file = put(news.parent / "a.warc.gz", warc(1))
    add(news, file, "--name", "ONE")
    assert len(add(news, file, "--name", "TWO")["added"]) == 1
    ended = webmill("add", news, file)
    assert (ended.code, "choose one with --name ONE | TWO" in ended.err) == (2, True)


def test_a_link_shares_its_bytes_and_a_copy_does_not(news: Path) -> None:
    one, two = put(news.parent / "one.warc.gz", warc(1)), put(news.parent / "two.warc.gz", warc(2))
    pointer = news.parent / "pointer.warc.gz"
    pointer.symlink_to(one)
    package = put(news.parent / "a.wacz", wacz({"three.warc.gz": warc(3)}))
    add(news, pointer, package, "--link")
    add(news, two)
    folder = news / "crawl-data" / "news" / "segments" / "added" / "warc"
    assert (folder / "pointer.warc.gz").samefile(one)
    assert not (folder / "pointer.warc.gz").is_symlink()
    assert (folder / "two.warc.gz").stat().st_nlink == 1
    assert sorted(archives(news)) == ["pointer.warc.gz", "three.warc.gz", "two.warc.gz"]
    assert len(add(news, one, "--link")["there"]) == 1


def test_a_link_to_another_disk_says_what_to_do(news: Path, other_disk: Path) -> None:
    ended = webmill("add", news, put(other_disk / "a.warc.gz", warc(1)), "--link")
    assert (ended.code, "run it without --link" in ended.err) == (1, True)
    assert archives(news) == {}


def test_a_dry_run_says_the_same_and_changes_nothing(news: Path) -> None:
    files = [put(news.parent / "a.warc.gz", warc(1)), put(news.parent / "b.warc.gz", warc(2)[:-10])]
    dry = add(news, *files, "--dry-run", code=3)
    assert not news.exists()
    assert dry == add(news, *files, code=3)
    before = {path: path.stat().st_mtime_ns for path in news.rglob("*")}
    assert len(add(news, *files, "--dry-run")["there"]) == 2
    assert before == {path: path.stat().st_mtime_ns for path in news.rglob("*")}


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_a_torn_archive_is_taken_and_its_damage_told(news: Path) -> None:
    data = warc(1, 2, 3)
    ended = webmill("add", news, put(news.parent / "torn.warc.gz", data[:-20]))
    assert ended.code == 3
    assert "torn.warc.gz: added, but damaged: 1 truncated_member; first: bytes " in ended.err
    assert archives(news) == {"torn.warc.gz": data[:-20]}
    assert webmill("index", news).code == 3


def test_a_record_with_a_wrong_checksum_is_counted(news: Path) -> None:
    data = bytearray(warc(*range(9)))
    data[len(data) // 2] ^= 1
    report = add(news, put(news.parent / "bad.warc.gz", bytes(data)), code=3)
    assert sum(report["added"][0]["damage"].values()) >= 1
    assert report["added"][0]["captures"] >= 7


GOOD = {"rec-0.warc.gz": warc(1, 2), "rec-1.warc.gz": warc(3)}


def listing(**changes: Any) -> dict[str, Any]:
    """A list that says something wrong about the first archive."""
    package = package_of(resources(GOOD, compressed_index=True))
    package["resources"][0] |= changes
    return package


@pytest.mark.parametrize(
    ("package", "reason", "words"),
    [
        (
            listing(hash="sha256:" + "0" * 64),
            "bad_digest",
            "the sha256 of the file is not the one that datapackage.json states",
        ),
        (listing(hash="md5:" + "0" * 32), "bad_digest", "the md5 of the file is not"),
        (listing(bytes=7), "bad_size", "but datapackage.json states 7"),
        (listing(path="archive/gone.warc.gz"), "missing", "get a whole copy"),
    ],
    ids=["sha256", "md5", "bytes", "missing"],
)
def test_an_archive_that_is_not_what_its_package_says_is_refused(
    news: Path, package: dict[str, Any], reason: str, words: str
) -> None:
    report = add(news, put(news.parent / "a.wacz", wacz(GOOD, package=package)), code=3)
    (reject,) = report["rejects"]
    assert reject["reason"] == reason
    assert words in reject["message"]
    assert "a.wacz: archive/" in reject["file"]
    there = {"rec-1.warc.gz"} if reason != "missing" else set(GOOD)
    assert set(archives(news)) == there


@pytest.mark.parametrize("digest", ["sha512:00", 7, None, "nothing"], ids=str)
def test_a_digest_that_we_cannot_compute_is_not_compared(news: Path, digest: object) -> None:
    add(news, put(news.parent / "a.wacz", wacz(GOOD, package=listing(hash=digest))))
    assert archives(news) == GOOD


def test_a_package_that_is_not_the_one_signed_is_refused(news: Path) -> None:
    data = wacz(GOOD)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        files = {name: file.read(name) for name in file.namelist()}
    files["datapackage.json"] = files["datapackage.json"].replace(b"Browsertrix", b"Somebodyelse")
    report = add(news, put(news.parent / "a.wacz", zipped(files)), code=3)
    assert (reasons(report), archives(news)) == (["bad_package"], {})


def test_a_wacz_without_a_package_has_nothing_to_be_compared_with(news: Path) -> None:
    add(news, put(news.parent / "a.wacz", zipped({"archive/a.warc.gz": warc(1)})))
    assert list(archives(news)) == ["a.warc.gz"]


WRONG: dict[str, tuple[bytes, str]] = {
    "empty.warc.gz": (b"", "no_records"),
    "text.warc": (b"words\n" * 1000, "no_records"),
    "gzip.warc.gz": (bytes.fromhex("1f8b08") + bytes(range(256)), "no_records"),
    "text.wacz": (b"words", "bad_zip"),
    "cut.wacz": (wacz(GOOD)[:-30], "bad_zip"),
    "empty.wacz": (zipped({}), "no_archives"),
    "other.zip": (zipped({"readme.txt": b"x", "archive/readme.txt": b"y"}), "no_archives"),
    "no-json.wacz": (zipped({"archive/a.warc.gz": warc(1), "datapackage.json": b"\xff{"}), "bad_package"),
    "no-list.wacz": (zipped({"archive/a.warc.gz": warc(1), "datapackage.json": b'{"resources": 7}'}), "bad_package"),
    "deep.wacz": (zipped({"archive/a.warc": b"", "datapackage.json": b"[" * 100_000}), "bad_package"),
    "no-warc.wacz": (zipped({"archive/a.warc.gz": b"words" * 99}), "no_records"),
    "bomb.wacz": (zipped({"archive/a.warc": bytes(20 << 20)}, method=zipfile.ZIP_DEFLATED), "bomb"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_archive_is_refused_with_its_name_and_the_rest_comes_in(news: Path, name: str) -> None:
    data, reason = WRONG[name]
    report = add(news, put(news.parent / name, data), put(news.parent / "good.warc.gz", warc(1)), code=3)
    assert (reasons(report), list(archives(news))) == ([reason], ["good.warc.gz"])
    assert name in report["rejects"][0]["file"]


@pytest.mark.parametrize(
    "name",
    [
        "archive/../../../../../../tmp/evil.warc.gz",
        "archive//etc/evil.warc.gz",
        "archive/..\\..\\evil.warc.gz",
        "archive/.webmill-tmp-1-0123456789abcdef.warc.gz",
        "archive/\x1b[31m[red]\n.warc.gz",
        "archive/" + "é" * 5000 + ".warc.gz",
        "archive/-rf.warc.gz",
        "archive/...warc.gz",
    ],
    ids=range(8),
)
def test_a_name_in_a_zip_is_never_a_path(news: Path, name: str) -> None:
    report = add(news, put(news.parent / "a.wacz", zipped({name: warc(1)})))
    ((file, data),) = archives(news).items()
    assert data == warc(1)
    assert file[0] not in ".-"
    assert file.isprintable()
    assert report["added"][0]["key"] == f"crawl-data/news/segments/added/warc/{file}"
    assert sorted(path.name for path in news.parent.iterdir()) == ["a.wacz", "news"]
    assert webmill("index", news).code == 0


def test_a_file_whose_name_is_no_utf_8_comes_in(news: Path) -> None:
    name = os.fsdecode(b"caf\xe9 1.warc.gz")
    try:
        good, bad = put(news.parent / name, warc(1)), put(news.parent / "in" / name, b"words")
    except OSError:
        pytest.skip("this file system refuses such names")
    report = add(news, good, bad, code=3)
    assert list(archives(news)) == ["caf-1.warc.gz"]
    assert report["rejects"][0]["file"].endswith("in/caf\\udce9 1.warc.gz")
    assert len(add(news, good, "--link")["there"]) == 1


def test_more_archives_than_ten_thousand_are_refused_before_they_fill_the_memory(
    news: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zip_members, "MAX_MEMBERS", 10)
    many = {f"{number}.warc": warc(number, gzipped=False) for number in range(6)}
    parts = {f"{number}.wacz": zipped({f"archive/{name}": data for name, data in many.items()}) for number in range(5)}
    report = add(news, put(news.parent / "a.wacz", zipped(parts)), code=3)
    assert reasons(report) == ["too_large"]
    assert (len(report["added"]), len(report["there"])) == (6, 4)


def test_a_surrogate_in_the_list_of_a_package_is_told_in_json(news: Path) -> None:
    ended = webmill("add", news, put(news.parent / "a.wacz", wacz(GOOD, package=listing(path="\ud800.warc"))), "--json")
    (reject,) = json.loads(ended.out)["rejects"]
    assert (ended.code, reject["reason"], reject["file"][-19:]) == (3, "missing", "a.wacz: \\ud800.warc")


@pytest.mark.parametrize("there", [False, True], ids=["no folder", "a folder"])
def test_when_nothing_is_taken_nothing_is_made(news: Path, there: bool) -> None:
    root = news / "deep" / "er"
    if there:
        news.mkdir()
    add(root, put(news.parent / "text.warc", b"words"), code=3)
    assert (news.exists(), root.parent.exists()) == (there, False)


def test_a_collection_that_was_made_for_an_archive_is_told(news: Path) -> None:
    file = put(news.parent / "a.warc.gz", warc(1))
    assert "crawl-data/news: 0 archives added" in webmill("add", news, put(news.parent / "b.warc", b"words")).err
    assert "crawl-data/news (new): 1 archive added" in webmill("add", news, file).err
    assert "crawl-data/news: 0 archives added" in webmill("add", news, file).err


def test_a_file_that_is_still_written_is_refused(news: Path) -> None:
    report = add(news, put(news.parent / "CRAWL-20240102030405-a-00000.warc.gz.open", warc(1)), code=3)
    assert (reasons(report), news.exists()) == (["open"], False)


def test_a_file_that_changes_while_it_is_read_is_refused(news: Path) -> None:
    file = put(news.parent / "a.warc", warc(*range(200), gzipped=False))

    class Writer:
        """Somebody who writes to it at the first sign of our reading."""

        def advance(self, count: int = 1) -> None:
            if file.stat().st_mtime_ns != 1:
                os.utime(file, ns=(1, 1))

    @contextmanager
    def progress(title: str, *, total: int | None = None, unit: str) -> Iterator[Writer]:
        yield Writer()

    report = add_archives(Collection(news, "news"), [file], progress=progress)
    assert [reject.reason for reject in report.rejects] == ["changed"]


def test_a_pipe_is_refused_without_waiting_for_it(news: Path) -> None:
    os.mkfifo(news.parent / "pipe.warc.gz")
    report = add(news, news.parent / "pipe.warc.gz", code=3)
    assert reasons(report) == ["bad_path"]


@needs_killer
def test_a_full_disk_says_what_to_do_and_leaves_nothing(news: Path, tmp_path: Path) -> None:
    file = put(tmp_path / "a.warc.gz", warc(*range(200)))
    disk = Refusing("full", each=1, under=news)
    news.mkdir()
    command = [sys.executable, "-m", "webmill", "add", str(news), str(file)]
    ended = subprocess.run(command, env=disk.environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "run the same command again" in ended.stderr
    assert archives(news) == {}
    add(news, file)
    assert list(archives(news)) == ["a.warc.gz"]


def test_two_do_not_add_at_the_same_time(news: Path) -> None:
    news.mkdir()
    with lock.exclusive(news, "add", doing="adding archives"):
        ended = webmill("add", news, put(news.parent / "a.warc.gz", warc(1)))
    assert (ended.code, "another process is adding archives" in ended.err) == (1, True)
