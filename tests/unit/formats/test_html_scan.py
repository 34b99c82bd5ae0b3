"""The look before a parser: bombs are refused, real pages pass."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from webmill.errors import BadInput
from webmill.formats.html_scan import MAX_BYTES, MAX_DEPTH, check_shape
from webmill.formats.http import split_message
from webmill.formats.warc import read_records
from webmill.model import Record


@pytest.mark.parametrize(
    "bomb",
    [
        b"<div>" * 600,
        b"<DIV class=x>" * 600,
        b"<div></b>" * 600,
        b"<span><div></span>" * 600,
        b"<b><i>" * 300,
        b"<div><table><tr><td></div>" * 600,
        b"<ul><li>" * 600,
        b"<x" + b" a" * 1001 + b">",
        b"<x" + b" a='b c'" * 1001 + b">",
        b"x" * (MAX_BYTES + 1),
    ],
)
def test_a_page_that_a_parser_could_choke_on_is_refused(bomb: bytes) -> None:
    with pytest.raises(BadInput) as refused:
        check_shape(bomb)
    assert refused.value.reason == "parse_limit"


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"<div>" * MAX_DEPTH,
        b"<div></div>" * 5000,
        b"<p>text" * 5000,
        b"<br><img><input>" * 5000,
        b"<ul>" + b"<li>x" * 5000,
        b"<div><span></div>" * 5000,
        b"<x a='" + b"word " * 5000 + b"'>",
        b"<script>if (a<b.c) { " + b"d = e; " * 5000 + b"}</script>",
    ],
)
def test_a_page_that_is_only_long_passes(page: bytes) -> None:
    check_shape(page)


@pytest.mark.parametrize("name", ["html_80k_attrs", "html_nested_div_40k"])
def test_known_bombs_are_refused(shared_data: Path, name: str) -> None:
    with pytest.raises(BadInput):
        check_shape(gzip.decompress((shared_data / "hostile" / f"{name}.html.gz").read_bytes()))


def test_all_real_pages_pass(shared_data: Path) -> None:
    (warc,) = (shared_data / "triple").glob("*.warc.gz")
    with warc.open("rb") as source:
        for item in read_records(source):
            if isinstance(item, Record) and item.type == "response":
                check_shape(split_message(item.content).body)
