"""What sites say of the use of their pages is read as the specifications have it, and decided as the table has it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.usage_cases import UsageCase, cases
from webmill.formats.preferences.capture import SitePreferences, capture_statements, license_of, path_of
from webmill.formats.preferences.content_usage import REVISIONS, read_content_usage
from webmill.formats.preferences.decision import PURPOSES, TABLE, decide, disallowed_by_robots
from webmill.formats.preferences.llms_txt import read_llms_txt
from webmill.formats.preferences.page import head_of, read_page
from webmill.formats.preferences.payment import read_price
from webmill.formats.preferences.robots_usage import read_robots_usage
from webmill.formats.preferences.rsl import read_rsl
from webmill.formats.preferences.statements import MAX_STATEMENTS, MAX_TEXT, Statement, stated
from webmill.formats.preferences.structured_fields import parse_dictionary
from webmill.formats.preferences.tdm import read_tdm_file
from webmill.formats.site.robots import parse_robots
from webmill.model import Headers

CASES = cases()
LETTERS = {"allow": ".", "limit": "l", "deny": "d"}


def statements_of(case: UsageCase, *, head_only: bool = False) -> list[Statement]:
    url, robots = f"https://a.example{case.path}", case.robots.encode()
    site = SitePreferences(
        robots=read_robots_usage(robots, agent="webmill"),
        tdm=read_tdm_file(case.tdmrep.encode()),
        rsl=read_rsl(case.rsl.encode()),
    )
    text = head_of(case.page.encode()) if head_only else case.page
    page = read_page(text if case.media_type == "text/html" else "", agent="webmill")
    found = capture_statements(url, case.status, Headers(case.headers), page=page, site=site)
    if not parse_robots(robots).for_agent("webmill").allows(path_of(url)):
        found.append(disallowed_by_robots())
    return found


def decisions(case: UsageCase, *, head_only: bool = False) -> str:
    statements, is_image = statements_of(case, head_only=head_only), case.media_type.startswith("image/")
    return "".join(LETTERS[decide(purpose, statements, is_image=is_image).outcome] for purpose in PURPOSES)


def test_there_are_enough_cases_and_each_has_a_name_of_its_own() -> None:
    assert len(CASES) >= 200
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_decided_as_expected(case: UsageCase) -> None:
    assert decisions(case) == case.expected, statements_of(case)


def test_the_head_of_a_page_is_enough_for_what_stands_in_it() -> None:
    assert [case.name for case in CASES if decisions(case, head_only=True) != case.expected] == []


def test_a_decision_says_what_decided() -> None:
    found = decide("training", read_content_usage("train-ai=n", source="header:content-usage"))
    assert found.describe() == "deny: train-ai=n (header:content-usage 'train-ai=n')"
    assert decide("archive", []).describe() == "allow: no preference speaks against it"


def test_every_purpose_has_its_row() -> None:
    assert tuple(TABLE) == PURPOSES


def test_unknown_labels_are_kept_and_decide_nothing() -> None:
    [one] = read_content_usage("dreams=n", source="header:content-usage")
    assert (one.usage, one.allowed, one.text) == ("aipref:dreams", False, "dreams=n")
    assert not one.is_known


def test_an_older_revision_knows_other_labels() -> None:
    old = read_content_usage("bots=n, search=y", source="header:content-usage", revision="2025-07")
    assert (stated(old, "search"), stated(old, "train-ai"), stated(old, "tdm")) == (True, False, False)
    assert stated(read_content_usage("bots=n", source="header:content-usage"), "search") is None
    assert set(REVISIONS) == {"2026-08", "2025-07", "2025-04"}


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a rel="license" href="https://creativecommons.org/licenses/by/4.0/">CC</a>', "by/4.0"),
        ('<a href="https://creativecommons.org/licenses/by-sa/4.0/">CC</a>', "by-sa/4.0"),
        ('<link rel="license" href="/terms">', "/terms"),
        ('<a rel=license href=/a><link rel="license" href="/terms">', "/terms"),
        ('<script type="application/ld+json">{"@type":"Article","license":"https://a.example/l"}</script>', "/l"),
        ('<script type="application/ld+json">{"license":{"@id":"https:\\/\\/a.example\\/l"}}</script>', ""),
        ('<script type="application/ld+json">{"license":{"@id":"https://a.example/l"}}</script>', "/l"),
        ('<meta name="DC.rights" content="(c) https://creativecommons.org/publicdomain/zero/1.0/ x">', "zero/1.0"),
        ('<a href="https://a.example/licenses">no</a>', ""),
        ('<!-- <a rel="license" href="/x"> -->', ""),
        ('<link rel="license" type="application/rsl+xml" href="/rsl.xml">', ""),
    ],
)
def test_the_licence_of_a_page_is_found(page: str, expected: str) -> None:
    found = license_of(Headers(), read_page(page, agent="webmill"))
    assert expected in found
    assert bool(found) is bool(expected)


def test_the_licence_of_a_header_counts_before_that_of_the_page() -> None:
    headers = Headers([("Link", '</rsl.xml>; rel="license"; type="application/rsl+xml", </mine>; rel=license')])
    assert license_of(headers, read_page('<link rel="license" href="/terms">', agent="webmill")) == "/mine"


def test_a_price_is_read() -> None:
    assert str(read_price("usd 0.010").amount) == "0.010"
    assert read_price("usd 1").currency == "USD"
    assert read_price("a bargain").amount is None


def test_an_llms_txt_is_read() -> None:
    found = read_llms_txt(b"# Site\n\n> What it is\n\n## Docs\n- [Start](/start): here\n- [Two](https://b.example/2)\n")
    assert (found.name, found.summary, len(found.links)) == ("Site", "What it is", 2)
    assert (found.links[0].section, found.links[0].url, found.links[0].note) == ("Docs", "/start", "here")
    assert not read_llms_txt(b"<html># No").is_one


def test_licences_of_a_robots_txt_are_kept_as_written() -> None:
    usage = read_robots_usage(b"License: https://a.example/l.xml\nUser-agent: *\nLicense: /b.xml\n", agent="webmill")
    assert usage.licenses == ("https://a.example/l.xml", "/b.xml")


def test_a_dictionary_keeps_how_it_was_written() -> None:
    found = parse_dictionary('sig1=("@authority" "signature-agent";key="sig1");created=1;keyid="a\\"b"')
    assert found
    item = found["sig1"]
    assert isinstance(item.value, tuple)
    assert [one.value for one in item.value] == ["@authority", "signature-agent"]
    assert item.value[1].parameters == {"key": "sig1"}
    assert item.parameters == {"created": 1, "keyid": 'a"b'}
    assert item.text.startswith('("@authority"')


@given(st.binary(max_size=3000))
def test_any_bytes_are_an_answer(data: bytes) -> None:
    text = data.decode("latin-1")
    page = read_page(text, agent="webmill")
    site = SitePreferences(robots=read_robots_usage(data, agent="webmill"), tdm=read_tdm_file(data), rsl=read_rsl(data))
    headers = Headers((name, text[:500]) for name in ("Content-Usage", "X-Robots-Tag", "Link", "tdm-reservation"))
    found = capture_statements("https://a.example/x", 200, headers, page=page, site=site)
    assert len(found) <= MAX_STATEMENTS
    assert all(len(one.text) <= MAX_TEXT and one.text.isprintable() for one in found)
    for purpose in PURPOSES:
        assert decide(purpose, found).outcome in LETTERS


@settings(deadline=None)
@given(st.lists(st.sampled_from(CASES), min_size=1, max_size=4))
def test_more_words_never_allow_more(chosen: list[UsageCase]) -> None:
    """What one of the statements denies stays denied, whoever allows it."""
    together = [one for case in chosen for one in statements_of(case)]
    for case in chosen:
        for purpose in PURPOSES:
            if decide(purpose, statements_of(case)).outcome == "deny":
                assert decide(purpose, together).outcome == "deny"
