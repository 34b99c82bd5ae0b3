"""Index files in columns, and keys with a space in them, wherever CDXJ is read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cli.command import Ended, webmill
from tests.unit.index.samples import write
from webmill.formats.cdx.cdxj import CdxjLine, format_line, from_columns, parse
from webmill.formats.cdx.columns import HEADERS, format_columns, parse_header, split_columns

DIGEST = "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"
NINE = f"com,a)/{{0:02d}} 20140126200624 http://a.com/{{0:02d}} text/html 200 {DIGEST} - 333 a.warc.gz\n"
ELEVEN = f"com,a)/{{0:02d}} 20140126200624 http://a.com/{{0:02d}} warc/revisit - {DIGEST} - - 1043 333 a.warc.gz\n"
SPACED = b'com,a)/0 7 %02d 20240101000000 {"url": "http://a.com/0 7", "n": "%d"}\n'
ALL = [f"com,a)/{n:02d}" for n in range(41)]


def files(folder: Path) -> tuple[Path, Path, Path]:
    nine = [b" CDX N b a m s k r V g\n", *(NINE.format(n).encode() for n in range(0, 40, 2))]
    eleven = gzip.compress("".join(ELEVEN.format(n) for n in range(1, 40, 2)).encode())
    other = CdxjLine("com,a)/40", "20240101000000", {"url": "http://a.com/40", "status": "200"})
    return (
        write(folder / "nine.cdx", nine),
        write(folder / "eleven.cdx.gz", [eleven]),
        write(folder / "new.cdxj", [format_line(other)]),
    )


def keys(done: Ended) -> list[str]:
    assert done.code == 0, done.err
    return [parse(line).urlkey for line in done.lines]


def test_a_line_in_columns_is_a_line_of_cdxj() -> None:
    nine = parse(NINE.format(7).encode())
    assert nine.fields == {
        "url": "http://a.com/07",
        "mime": "text/html",
        "status": "200",
        "digest": DIGEST,
        "offset": "333",
        "filename": "a.warc.gz",
    }
    eleven = parse(ELEVEN.format(7).encode())
    assert eleven.is_revisit
    assert (eleven.text("status"), eleven.text("length"), eleven.text("offset")) == ("-", "1043", "333")


def test_a_header_may_name_other_columns() -> None:
    columns = parse_header(b" CDX N b g V a\n")
    assert columns == ("urlkey", "timestamp", "filename", "offset", "url")
    line = from_columns(b"com,a)/ 20140126200624 a.warc.gz 7 http://a.com/\n", columns)
    assert parse(line).fields == {"filename": "a.warc.gz", "offset": "7", "url": "http://a.com/"}
    assert parse_header(b"CDX N b a\n")
    assert not parse_header(b"com,cdx)/ 20140126200624 {}\n")


words = st.text(
    st.characters(exclude_characters="-\x7f", min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=9
)


@pytest.mark.parametrize("count", [9, 10, 11])
@given(data=st.data())
@settings(deadline=None)
def test_what_is_written_in_columns_is_read_again(count: int, data: st.DataObject) -> None:
    names = parse_header(HEADERS[count].encode()) or ()
    values = {name: data.draw(words) for name in names if data.draw(st.booleans())}
    assert split_columns(format_columns(values, count)) == {"status": "-", **values}


@given(st.binary(max_size=200))
def test_no_line_breaks_the_reader(line: bytes) -> None:
    found = split_columns(line)
    assert found is None or all(found.values())


def test_every_command_reads_columns_as_it_reads_cdxj(tmp_path: Path) -> None:
    paths = files(tmp_path)
    merged = webmill("cdxj", "merge", *paths)
    assert keys(merged) == ALL
    assert merged.lines == sorted(merged.lines)
    flat = write(tmp_path / "merged.cdxj", merged.lines)
    for source in (flat, paths[0]):
        assert webmill("cdxj", "zipnum", source, "-o", tmp_path / source.stem, "--lines", "7").code == 0
        assert webmill("cdxj", "verify", tmp_path / source.stem).code == 0
    assert keys(webmill("cdxj", "flatten", tmp_path / "merged")) == ALL
    for index in paths[:2]:
        found = webmill("cdxj", "query", "a.com/*", "--index", index, "--filter", f"=digest:{DIGEST}")
        assert len(keys(found)) == 20
    assert keys(webmill("cdxj", "query", "a.com/07", *(f"--index={path}" for path in paths))) == ["com,a)/07"]
    as_json = webmill("cdxj", "query", "a.com/08", "--json", "--index", paths[0])
    assert json.loads(as_json.out)["filename"] == "a.warc.gz"


def test_a_file_whose_header_is_needed_is_not_cut(tmp_path: Path) -> None:
    nine, _, _ = files(tmp_path)
    assert webmill("cdxj", "zipnum", nine, "-o", tmp_path / "index", "--shards", "3").code == 0
    assert keys(webmill("cdxj", "flatten", tmp_path / "index")) == ALL[:40:2]


def test_lines_of_one_key_and_time_sort_as_their_json_does(tmp_path: Path) -> None:
    rows = [f"com,a)/ 20140126200624 http://a.com/{end} text/html 200 {DIGEST} - 3 a.gz\n" for end in ("", "!")]
    done = webmill("cdxj", "merge", write(tmp_path / "a.cdx", [row.encode() for row in rows]))
    assert done.code == 0, done.err
    assert done.lines == sorted(done.lines)


def test_keys_with_a_space_are_read_and_are_other_keys(tmp_path: Path) -> None:
    plain = b'com,a)/0 20240101000000 {"url": "http://a.com/0"}\n'
    path = write(tmp_path / "a.cdxj", [plain, *(SPACED % (n, n) for n in range(30))])
    assert webmill("cdxj", "query", "a.com/0", "--index", path).lines == [plain]
    assert webmill("cdxj", "query", "--surt", "com,a)/0 7 03", "--index", path).lines == [SPACED % (3, 3)]
    limited = webmill("cdxj", "query", "a.com/0*", "--index", path, "--from", "2024", "--filter", "=n:7")
    assert limited.lines == [SPACED % (7, 7)]
    assert webmill("cdxj", "field", "-f", "n", "--raw", path).out.split() == [b"%d" % n for n in range(30)]
    assert webmill("cdxj", "add-field", "-f", "x=y", path).out.count(b'"x": "y"}') == 31
    assert webmill("cdxj", "excessive", "auto", "-n", "5", path).out.count(b"\n") == 31
    assert webmill("cdxj", "zipnum", path, "-o", tmp_path / "index", "--lines", "4").code == 0
    assert webmill("cdxj", "verify", tmp_path / "index").code == 0
    found = webmill("cdxj", "query", "--surt", "com,a)/0 7 29", "--index", tmp_path / "index")
    assert found.lines == [SPACED % (29, 29)]
