"""The JSON of WAT records: every year's layout, anything unknown, anything broken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput
from webmill.formats.warc.wat import read_wat, read_wat_title

RESPONSE_2024 = {
    "Container": {
        "Filename": "CC-MAIN-x.warc.gz",
        "Compressed": True,
        "Offset": "944",
        "Gzip-Metadata": {
            "Deflate-Length": "5361",
            "Header-Length": "10",
            "Footer-Length": "8",
            "Inflated-CRC": "-694531318",
            "Inflated-Length": "13936",
        },
    },
    "Envelope": {
        "Format": "WARC/1.0",
        "WARC-Header-Length": "670",
        "WARC-Header-Metadata": {
            "WARC-Type": "response",
            "WARC-Record-ID": "<urn:uuid:9b08923d>",
            "WARC-Protocol": ["h2", "tls/1.3"],
        },
        "Payload-Metadata": {
            "Actual-Content-Type": "application/http; msgtype=response",
            "Actual-Content-Length": "13262",
            "Trailing-Slop-Length": "4",
            "Block-Digest": "sha1:7KQY",
            "HTTP-Response-Metadata": {
                "Response-Message": {"Status": "200", "Version": "HTTP/1.1", "Reason": "OK"},
                "Headers": {"content-type": "text/html", "Set-Cookie": ["a=1", "b=2"]},
                "Headers-Length": "202",
                "HTML-Metadata": {
                    "Head": {
                        "Title": "ranking(No.1 -> No.10)",
                        "Base": "http://01.rknt.jp/",
                        "Metas": [
                            {"name": "HTML@/lang", "content": "ja"},
                            {"property": "og:title", "content": "ranking"},
                            {"http-equiv": "Content-Type", "content": "text/html"},
                        ],
                        "Link": [{"path": "LINK@/href", "url": "/i.ico", "rel": "shortcut icon", "sizes": "16x16"}],
                        "Scripts": [{"path": "SCRIPT@/src", "url": "a.js", "type": "text/javascript"}],
                    },
                    "Links": [{"path": "A@/href", "url": "/1", "text": "one"}, {"path": "IMG@/src", "url": "i.png"}],
                },
                "Entity-Length": "13060",
                "Entity-Digest": "sha1:27AB",
                "Entity-Trailing-Slop-Length": "0",
            },
        },
    },
}


def encode(value: object) -> bytes:
    return json.dumps(value).encode()


def test_a_response_is_read_to_its_last_field() -> None:
    description = read_wat(encode(RESPONSE_2024))
    assert (description.container.offset, description.container.compressed) == (944, True)
    assert description.container.gzip
    assert description.container.gzip.inflated_crc == -694531318
    assert description.type == "response"
    assert description.envelope.headers.get_all("warc-protocol") == ["h2", "tls/1.3"]
    assert (description.envelope.actual_content_length, description.envelope.block_digest) == (13262, "sha1:7KQY")
    response = description.envelope.payload.response
    assert response
    assert (response.message.status, response.message.reason, response.entity_length) == (200, "OK", 13060)
    assert response.headers.get("Content-Type") == "text/html"
    assert response.headers.get_all("set-cookie") == ["a=1", "b=2"]
    html = description.html
    assert html
    assert html.head.title == "ranking(No.1 -> No.10)"
    assert [(meta.name, meta.property, meta.http_equiv) for meta in html.head.metas] == [
        ("HTML@/lang", None, None),
        (None, "og:title", None),
        (None, None, "Content-Type"),
    ]
    assert html.head.links[0].rest == {"sizes": "16x16"}
    assert html.head.scripts[0].url == "a.js"
    assert [link.text for link in html.links] == ["one", None]


def test_the_layout_of_2013_has_length_and_digest_beside_the_payload() -> None:
    envelope = {"Format": "WARC", "Actual-Content-Length": 5, "Block-Digest": "sha1:X", "Payload-Metadata": {}}
    description = read_wat(encode({"Envelope": envelope}))
    assert (description.envelope.actual_content_length, description.envelope.block_digest) == (5, "sha1:X")


def test_a_metadata_record_has_the_crawlers_findings() -> None:
    cld2 = '{"reliable":"true","text-bytes":"18","languages":[{"code":"an","code-iso-639-3":"arg","score":"9.5"}]}'
    listed = [{"Name": "fetchTimeMs", "Value": "56"}, {"Name": "languages-cld2", "Value": cld2}, {"Name": "odd"}]
    payload = {"WARC-Metadata-Metadata": {"Metadata-Records": listed}}
    findings = read_wat(encode({"Envelope": {"Payload-Metadata": payload}})).findings
    assert findings
    assert findings.fetch_time_ms == 56
    assert findings.languages
    assert (findings.languages.reliable, findings.languages.text_bytes) == (True, 18)
    assert findings.languages.languages[0].iso == "arg"
    assert findings.fields.get("odd") == ""


def test_a_warcinfo_record_has_its_fields() -> None:
    payload = {"WARC-Info-Metadata": {"isPartOf": "CC-MAIN-2024-30"}, "Headers-Corrupt": True}
    description = read_wat(encode({"Envelope": {"Payload-Metadata": payload}}))
    assert description.info
    assert description.info.is_part_of == "CC-MAIN-2024-30"
    assert description.envelope.payload.headers_corrupt


def test_unknown_fields_and_wrong_types_are_kept_where_they_stood() -> None:
    odd = {
        "Future": {"a": [1]},
        "Container": {"Offset": "many", "Compressed": "true"},
        "Envelope": {"Payload-Metadata": [], "Format": 1},
    }
    description = read_wat(encode(odd))
    assert description.rest == {"Future": {"a": [1]}}
    assert description.container.rest == {"Offset": "many"}
    assert description.container.compressed is True
    assert description.envelope.rest == {"Payload-Metadata": []}
    assert description.envelope.format == "1"


@pytest.mark.parametrize("broken", [b"", b"[]", b"{", b'"x"', b"\xff", b'{"a":' * 100_000])
def test_what_is_no_json_object_is_bad_input(broken: bytes) -> None:
    with pytest.raises(BadInput) as caught:
        read_wat(broken)
    assert caught.value.reason == "bad_json"
    with pytest.raises(BadInput):
        read_wat_title(broken)


def test_lone_surrogates_and_bytes_that_are_no_utf8_do_not_cost_the_rest() -> None:
    def page(title: bytes) -> bytes:
        parts = (b"Envelope", b"Payload-Metadata", b"HTTP-Response-Metadata", b"HTML-Metadata", b"Head", b"Title")
        return b"".join(b'{"%s":' % part for part in parts) + b'"' + title + b'"' + b"}" * len(parts)

    assert read_wat_title(page(b"a \\ud83d b")) == "a \ud83d b"
    assert read_wat_title(page(b"caf\xe9")) == "caf\ufffd"


def test_the_title_alone_is_the_title_of_the_whole() -> None:
    assert read_wat_title(encode(RESPONSE_2024)) == "ranking(No.1 -> No.10)"
    assert read_wat_title(b"{}") is None
    assert read_wat_title(encode({"Envelope": {"Payload-Metadata": {"HTTP-Response-Metadata": {}}}})) is None
    assert read_wat_title(encode({"Envelope": 3})) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=200)
@given(replacement=JSON, where=st.integers(0, 60))
def test_any_value_in_any_place_is_read(replacement: object, where: int) -> None:
    value = json.loads(json.dumps(RESPONSE_2024))
    count = 0

    def replace(node: object) -> object:
        nonlocal count
        count += 1
        if count == where:
            return replacement
        if isinstance(node, dict):
            return {key: replace(part) for key, part in node.items()}
        if isinstance(node, list):
            return [replace(part) for part in node]
        return node

    changed = replace(value)
    if not isinstance(changed, dict):
        return
    html = read_wat(encode(changed)).html
    assert read_wat_title(encode(changed)) == (html.head.title if html else None)


@settings(deadline=None, max_examples=100)
@given(cut=st.integers(0, len(encode(RESPONSE_2024)) - 1))
def test_cut_anywhere_it_is_bad_input(cut: int) -> None:
    with pytest.raises(BadInput):
        read_wat(encode(RESPONSE_2024)[:cut])
