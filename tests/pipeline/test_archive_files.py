"""The files of a crawl go through the rest of the house: check, index, derive, with a writer still at work."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from warcio.checker import Checker

from tests.pipeline.index_samples import lines_of
from tests.unit.archive.captures import NAME, PAGE, capture, sealed, writer
from tests.unit.cli.command import webmill
from webmill.formats.warc.capture import WrittenCapture
from webmill.formats.warc.record_headers import OriginalCapture


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBMILL_EXECUTOR_URL", "inline")


def archive(root: Path) -> list[WrittenCapture]:
    """A page as it is mostly sent, one that is truncated, a redirect, a revisit of each kind, a robots.txt."""
    packed = gzip.compress(PAGE, mtime=0)
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    coded = "Content-Type: text/html\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked"
    with writer(root) as out:
        page = out.append(capture(0, body=chunked, head=coded, payload=PAGE))
        original = OriginalCapture(record_id=page.record_id, uri="http://site.example/0")
        return [
            page,
            out.append(capture(1, body=PAGE[:40], truncated="length")),
            out.append(capture(2, subset="crawldiagnostics", status=301, head="Location: /3", body=b"")),
            out.append(capture(3, subset="crawldiagnostics", status=304, kind="not_modified", original=original)),
            out.append(capture(4, body=chunked, head=coded, payload=PAGE, kind="identical", original=original)),
            out.append(capture(5, subset="robotstxt", head="Content-Type: text/plain", body=b"User-agent: *\n")),
        ]


class Arguments:
    """What warcio's `check` is told on its command line."""

    def __init__(self, *files: Path) -> None:
        self.inputs = [str(file) for file in files]
        self.verbose = True


def test_the_checks_of_webmill_and_warcio_find_nothing_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive(tmp_path)
    assert webmill("warc", "check", *sealed(tmp_path)).code == 0
    checker = Checker(Arguments(*sealed(tmp_path)))
    checker.process_all()
    assert checker.exit_value == 0
    assert "digest pass" in capsys.readouterr().out


def test_the_index_points_to_what_the_writer_gave_out_and_does_not_see_open_files(tmp_path: Path) -> None:
    places = archive(tmp_path)
    with writer(tmp_path, stem="b") as out:
        out.append(capture(9))
        out.sync()
        ended = webmill("index", tmp_path, "--name", NAME)
        assert ended.code == 0, ended.err
    lines = [json.loads(line.split(b" ", 2)[2]) for line in lines_of(tmp_path)]
    found = {(line["filename"], int(line["offset"]), int(line["length"])) for line in lines}
    assert found == {(place.capture.filename, place.capture.offset, place.capture.length) for place in places}
    page = next(
        line for line in lines if int(line["offset"]) == places[0].capture.offset and "/warc/" in line["filename"]
    )
    assert (page["mime-detected"], page["charset"], page["status"]) == ("text/html", "UTF-8", "200")
    assert f"sha1:{page['digest']}" == places[0].capture.digest


def test_wat_and_wet_are_derived(tmp_path: Path) -> None:
    places = archive(tmp_path)
    ended = webmill("derive", "all", tmp_path / places[0].capture.filename, "--in-place")
    assert ended.code == 0, ended.err
    [wet] = tmp_path.rglob("*.wet.gz")
    assert b"plain English for a reader" in gzip.decompress(wet.read_bytes())
