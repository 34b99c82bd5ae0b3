from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from webmill.errors import BadInput
from webmill.formats.cdx import cdxj
from webmill.formats.cdx.cdxj import CdxjLine
from webmill.formats.url.surt import surt

LINE = b'com,example)/ 20240101000000 {"url": "http://example.com/", "mime": "text/html", "status": "200"}\n'
TEXT = st.text() | st.text(alphabet='ab"\\ {},:\n\r\t\x00\x85\u2028\ud800\udc85😀')
CAPTURES = st.builds(
    CdxjLine,
    urlkey=TEXT.map(surt),
    timestamp=st.integers(0, 10**14 - 1).map("{:014}".format),
    fields=st.dictionaries(TEXT.map(lambda text: text.encode("utf-8", "replace").decode()), TEXT),
)


def reason_of(line: bytes) -> str:
    with pytest.raises(BadInput) as refused:
        cdxj.parse(line)
    return refused.value.reason


def test_a_line_is_cut_into_its_parts() -> None:
    assert cdxj.key_of(LINE) == b"com,example)/"
    assert cdxj.prefix_of(LINE) == b"com,example)/ 20240101000000"
    assert json.loads(cdxj.json_of(LINE))["status"] == "200"
    capture = cdxj.parse(LINE)
    assert (capture.urlkey, capture.timestamp) == ("com,example)/", "20240101000000")
    assert list(capture.fields.items()) == [("url", "http://example.com/"), ("mime", "text/html"), ("status", "200")]


def test_both_spellings_mean_the_same() -> None:
    capture = cdxj.parse(LINE)
    assert cdxj.format_line(capture) == LINE
    compact = cdxj.format_compact_line(capture)
    assert compact == b'com,example)/ 20240101000000 {"url":"http://example.com/","mime":"text/html","status":"200"}\n'
    assert cdxj.parse(compact) == capture


@given(CAPTURES)
@settings(deadline=None, max_examples=examples(500))
def test_a_capture_is_one_line_whatever_it_holds_and_reads_back(capture: CdxjLine) -> None:
    for write in (cdxj.format_line, cdxj.format_compact_line):
        line = write(capture)
        assert line.isascii()
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        back = cdxj.parse(line)
        assert write(back) == line
        assert (back.urlkey, back.timestamp) == (capture.urlkey, capture.timestamp)
        assert list(back.fields) == list(capture.fields)
        for name, value in capture.fields.items():
            assert isinstance(value, str)
            if not any("\ud800" <= char <= "\udfff" for char in value):
                assert back.fields[name] == value
                assert json.loads(cdxj.json_of(line))[name] == value


@given(CAPTURES, st.data())
@settings(deadline=None)
def test_a_line_cut_short_is_refused(capture: CdxjLine, data: st.DataObject) -> None:
    line = cdxj.format_line(capture)
    cut = data.draw(st.integers(0, len(line) - 2))
    assert reason_of(line[:cut]) in {"no_json", "bad_json", "no_key", "bad_timestamp"}


@given(st.binary() | st.binary().map(b'a 20240101000000 {"a": '.__add__))
@settings(deadline=None, max_examples=examples(500))
def test_any_bytes_are_a_capture_or_a_refusal(line: bytes) -> None:
    try:
        capture = cdxj.parse(line)
    except BadInput:
        return
    assert cdxj.parse(cdxj.format_line(capture)) == capture


def test_values_that_are_no_strings_are_kept_as_they_were_spelled() -> None:
    number = b"9" * 10_000
    line = (
        b'a 20240101000000 {"s": "1", "n": 200, "big": ' + number + b', "f": 1e400, "z": -0.0, "x": [1, {"y": null}]}\n'
    )
    capture = cdxj.parse(line)
    assert cdxj.format_line(capture) == line
    assert capture.fields["s"] == "1"
    assert capture.fields["n"] == msgspec.Raw(b"200")
    assert [capture.text(name) for name in ("s", "n", "x", "none")] == ["1", "200", '[1, {"y": null}]', ""]


def test_of_a_repeated_field_the_last_counts() -> None:
    assert cdxj.parse(b'a 20240101000000 {"a": "1", "b": "2", "a": "3"}').fields == {"a": "3", "b": "2"}


def test_line_ends_are_forgiven_but_not_within_a_line() -> None:
    assert cdxj.parse(LINE.rstrip()) == cdxj.parse(LINE) == cdxj.parse(LINE.replace(b"\n", b"\r\n"))
    assert reason_of(LINE + LINE) == "line_break"


def test_a_key_of_any_bytes_survives() -> None:
    line = b'caf\xe9\t 20240101000000 {"url": "x"}\n'
    assert cdxj.format_line(cdxj.parse(line)) == line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "no_json"),
        (b"\x00\xff\xfe\n", "no_json"),
        (b"com,b)/ 20240101000000\n", "no_json"),
        (b"com,b)/ 20240101000000 - text/html 200\n", "no_json"),
        (b" CDX N b a m s k r M S V g\n", "no_json"),
        (b" 20240101000000 {}", "no_key"),
        (b" 20240101000000 20240101000000 {}", "no_json"),
        (b"com,a)/ 2024 {}", "bad_timestamp"),
        (b"com,a)/ notadate {}", "bad_timestamp"),
        (b"com,a)/ 20240101000000 {", "bad_json"),
        (b'com,a)/ 20240101000000 {"a": NaN}', "bad_json"),
        (b'com,a)/ 20240101000000 {"a": "\xff"}', "bad_json"),
        (b'com,a)/ 20240101000000 {"a": "\\ud800"}', "bad_json"),
        (b'com,a)/ 20240101000000 {"a": 1, "b": "\xff"}', "bad_json"),
        (b'com,a)/ 20240101000000 {"a": 1,}', "bad_json"),
        (b'com,a)/ 20240101000000 {"a": "1"} {"b": "2"}', "bad_json"),
        (b'com,a)/ 20240101000000 {"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "too_deep"),
        (b'com,a)/ 20240101000000 {"a": ' + b"[" * 200_000, "too_deep"),
        (b"x" * (cdxj.MAX_LINE + 1), "line_too_long"),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else value,
)
def test_bad_lines_are_refused_with_their_reason(line: bytes, reason: str) -> None:
    assert reason_of(line) == reason


@pytest.mark.parametrize(
    ("key", "timestamp"), [(" a", "20240101000000"), ("", "20240101000000"), ("a", "2024"), ("a\n", "2" * 14)]
)
def test_a_capture_that_would_break_the_line_is_not_written(key: str, timestamp: str) -> None:
    with pytest.raises(BadInput):
        cdxj.format_line(CdxjLine(key, timestamp, {}))


def test_the_bad_sample_is_refused_line_by_line(shared_data: Path) -> None:
    lines = (shared_data / "hostile" / "cdxj_bad.cdxj").read_bytes().split(b"\n")[:-1]
    outcomes = []
    for line in lines:
        try:
            outcomes.append(cdxj.parse(line).urlkey)
        except BadInput as refused:
            outcomes.append(refused.reason)
    assert outcomes == ["com,a)/", "bad_timestamp", "bad_timestamp", "no_json", "no_json", "no_json", "com,a)/"]


def test_hostile_addresses_make_one_line_each(shared_data: Path) -> None:
    data = (shared_data / "hostile" / "cdx_injection_uris.warc").read_bytes()
    urls = [
        url.decode("utf-8", "surrogateescape") for url in re.findall(rb"WARC-Target-URI: (.*?)\r\n", data, re.DOTALL)
    ]
    assert len(urls) >= 8
    text = b"".join(cdxj.format_line(CdxjLine(surt(url), "20240101000000", {"url": url})) for url in urls)
    lines = text.split(b"\n")[:-1]
    assert len(lines) == len(urls)
    assert [cdxj.parse(line).urlkey for line in lines] == [surt(url) for url in urls]
    assert not any(line.startswith((b"com,bank)", b"com,evil)")) for line in lines)


def test_lines_in_common_crawls_layout_read_back_byte_for_byte(shared_data: Path) -> None:
    data = b"".join(gzip.decompress(path.read_bytes()) for path in (shared_data / "triple").glob("*.cdx.gz"))
    lines = data.split(b"\n")[:-1]
    assert len(lines) > 1000
    unescaped = [line for line in lines if not re.match(rb"[^ ]+ [0-9]{14} [{]", line)]  # spaces within their keys
    assert len(unescaped) < 20
    assert all(b" " in cdxj.key_of(line) for line in unescaped)
    assert all(cdxj.format_line(cdxj.parse(line)) == line + b"\n" for line in lines)
