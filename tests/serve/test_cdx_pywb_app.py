"""The questions of pywb's own tests of its CDX server (`test_cdx_server_app.py`), asked of pywb and of us over an index
of the same kind: CDX with 11 columns in ZipNum, revisits, style sheets. Every answer is pywb's, or the difference is
named here.

* pywb adds `source` and `source-coll`: where in its configuration a capture was found. We have no such configuration.
* pywb answers `-` for a column without a value. In CDXJ such a field is left out, and so it is here, save the status.
* Of a query whose first parameter is one against caches, pywb takes away the question mark, too, and finds nothing.
* Error messages of ours say more.
* If a filter leaves nothing, pywb looks for similar URLs without the filter. We keep to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.serve.cdx_samples import NAME, put_index
from tests.serve.conftest import ADDRESS, site_of
from tests.serve.pywb import ask, warcserver
from webmill.collection import Collection
from webmill.serve.app import application
from webmill.settings import ServeSettings, Settings

SITE = "http://www.town.example"
SHEET, PRINT = f"{SITE}/_css/2013.1/screen.css", f"{SITE}/_css/2013.1/print.css"
DIGESTS = {"": "A" * 32, "_css/2013.1/screen.css": "B" * 32, "_css/2013.1/print.css": "C" * 32}


def line(path: str, when: str, number: int, *, file: str = "town.warc.gz") -> bytes:
    kind = "text/html" if not path else "text/css"
    what = f"{kind} 200" if number == 0 else "warc/revisit -"
    place = f"{500 + number} {1000 * number + len(path)} {file}"
    return f"example,town)/{path} {when} {SITE}/{path} {what} {DIGESTS[path]} - - {place}\n".encode()


def make_lines() -> list[bytes]:
    times = ["20140126200625", "20140126200653", "20140126200706", "20140126201054"]
    lines = [line(path, when, number) for path in DIGESTS for number, when in enumerate(times)]
    lines += [line(path, "20140127171239", 9, file="dupes.warc.gz") for path in DIGESTS]
    lines += [
        f"example,town)/a.js?v=1 20140126200625 {SITE}/a.js?v=1 text/javascript 200 {'D' * 32} - - 1 2 a.gz\n".encode()
    ]
    lines += [
        f"example,town)/a.php?a=1 20140126200625 {SITE}/a.php?a=1 text/html 200 {'E' * 32} - - 1 2 a.gz\n".encode()
    ]
    return sorted(lines)


QUESTIONS: dict[str, dict[str, Any]] = {
    "exact_url": {"url": f"{SITE}/"},
    "exact_url_json": {"url": f"{SITE}/", "output": "json"},
    "exact_url_plain_text": {"url": f"{SITE}/", "output": "text", "fields": "urlkey,timestamp,url,mime,digest"},
    "prefix_match": {"url": f"{SITE}/", "matchType": "prefix"},
    "filters_1": {"url": SHEET, "filter": ["mime:warc/revisit", "filename:dupes.warc.gz"]},
    "filters_2_no_fuzzy_no_match": {
        "url": SHEET,
        "filter": ["!mime:warc/revisit", "filename:dupes.warc.gz"],
        "allowFuzzy": "false",
    },
    "filters_3": {"url": SHEET, "filter": ["!mime:warc/revisit", "!filename:dupes.warc.gz"]},
    "limit": {"url": SHEET, "limit": "1"},
    "limit_reverse": {"url": SHEET, "limit": "1", "reverse": "1"},
    "fields": {"url": PRINT, "fields": "urlkey,timestamp,status"},
    "fields_json": {"url": PRINT, "fields": "urlkey,timestamp,status", "output": "json"},
    "fields_undefined": {"url": PRINT, "fields": "urlkey,nosuchfield"},
    "fields_undefined_json": {"url": PRINT, "fields": "urlkey,nosuchfield", "output": "json"},
    "resolveRevisits": {"url": PRINT, "resolveRevisits": "true"},
    "resolveRevisits_orig_fields": {
        "url": PRINT,
        "resolveRevisits": "1",
        "fields": "urlkey,orig.length,orig.offset,orig.filename",
    },
    "collapseTime_resolveRevisits_reverse": {
        "url": PRINT,
        "collapseTime": "11",
        "resolveRevisits": "true",
        "reverse": "true",
    },
    "error_unknown_output_format": {"url": PRINT, "fields": "urlkey,timestamp,status", "output": "foo"},
    "error_unknown_match_type": {"url": PRINT, "fields": "urlkey,timestamp,status", "matchType": "foo"},
    "fuzzy_file": {"url": f"{SITE}/a.js?v=7&x=y"},
    "fuzzy_file_without_query": {"url": f"{SITE}/a.js"},
    "fuzzy_cache_buster": {"url": f"{SITE}/a.php?a=1&cb=1700000000000"},
    "fuzzy_tracking": {"url": f"{SITE}/a.php?a=1&utm_source=x&utm_campaign=y"},
    "fuzzy_other_page": {"url": f"{SITE}/a.php?a=2"},
    "fuzzy_off": {"url": f"{SITE}/a.js?v=7", "allowFuzzy": "0"},
    "nothing": {"url": "http://nowhere.example/"},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("columns")
    put_index(root, make_lines())
    return root


@pytest.fixture(scope="module")
def pywb(judges: Path, tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[int]:
    with warcserver(judges, tmp_path_factory.mktemp("pywb"), {NAME: Collection(root, NAME).zipnum}) as port:
        yield port


@pytest.fixture(scope="module")
def client(root: Path) -> Iterator[TestClient]:
    with TestClient(application(site_of(root, Settings(serve=ServeSettings(rate=0)))), base_url=ADDRESS) as client:
        yield client


def captures(text: str, question: dict[str, Any]) -> list[dict[str, str]]:
    """What an answer says, whatever its form, without what pywb alone says."""
    return [compared(one, question) for one in text.splitlines()]


def compared(one: str, question: dict[str, Any]) -> dict[str, str]:
    form = question.get("output", "cdxj")
    if form == "text":
        found = dict(zip(question["fields"].split(","), one.split(" "), strict=True))
    elif form == "json":
        found = json.loads(one)
    else:
        key, when, data = one.split(" ", 2)
        found = {"urlkey": key, "timestamp": when, **json.loads(data)}
    return {
        name: value
        for name, value in found.items()
        if name not in ("source", "source-coll", "redirect", "robotflags") or value not in ("-", NAME, f"{NAME}/")
    }


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_is_that_of_pywb(client: TestClient, pywb: int, name: str) -> None:
    question = QUESTIONS[name]
    pairs = [(key, each) for key, value in question.items() for each in ([value] if isinstance(value, str) else value)]
    status, text = ask(pywb, f"/{NAME}/index", pairs)
    answer = client.get(f"/{NAME}/cdx", params=pairs)
    assert answer.status_code == status
    if status == 400:
        assert set(answer.json()) == set(json.loads(text)) == {"message"}
        return
    theirs, ours = captures(text, question), captures(answer.text, question)
    assert ours == theirs
    assert (
        len(ours) == 0 if name in ("nothing", "fuzzy_other_page", "fuzzy_off", "filters_2_no_fuzzy_no_match") else ours
    )


def test_links_are_those_of_pywb_but_lead_to_our_mementos(client: TestClient, pywb: int) -> None:
    """pywb's index server names the original; its front end, as we do, the memento."""
    status, text = ask(pywb, f"/{NAME}/index", [("url", SHEET), ("output", "link")])
    theirs = [one.removesuffix(",").rpartition("; collection=")[0] for one in text.splitlines()]
    answer = client.get(f"/{NAME}/cdx", params={"url": SHEET, "output": "link"})
    assert (status, answer.status_code) == (200, 200)
    assert answer.headers["content-type"].startswith("application/link-format")
    ours = [one.removesuffix(",") for one in answer.text.splitlines()]
    assert len(ours) == 5
    assert [one.partition(">")[2] for one in ours] == [one.partition(">")[2] for one in theirs]
    assert ours[0].startswith(f"<{ADDRESS}/web/20140126200625/{SHEET}>")


def test_the_place_of_a_parameter_against_caches_does_not_matter(client: TestClient) -> None:
    for query in ("a=1&_=1700000000000", "_=1700000000000&a=1", "a=1&fbclid=x", "a=1&bust=1700000000000"):
        assert '"is_fuzzy": "1"' in client.get(f"/{NAME}/cdx", params={"url": f"{SITE}/a.php?{query}"}).text


def test_a_filter_holds_also_where_similar_urls_are_searched(client: TestClient) -> None:
    asked = {"url": f"{SITE}/a.js?v=7", "filter": "=status:404"}
    assert client.get(f"/{NAME}/cdx", params=asked).text == ""
    assert client.get(f"/{NAME}-index", params={"url": f"{SITE}/a.js?v=7"}).status_code == 404
    assert client.get(f"/{NAME}-index", params={"url": f"{SITE}/a.js?v=7", "allowFuzzy": "1"}).status_code == 200
