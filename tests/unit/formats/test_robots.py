"""robots.txt: what Google's cases do not ask, a simple model as judge, and hostile files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from webmill.formats.site.robots import MAX_BODY, MAX_SITEMAPS, RobotsRules, parse_robots


def rules_of(*lines: str, agent: str = "webmill") -> RobotsRules:
    return parse_robots("\n".join(("User-agent: *", *lines)).encode()).for_agent(agent)


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["webmill", "WebMill", "webmill/1.0", "webmill/1.0 (+https://example.com)"])
def test_an_agent_is_known_by_its_product_token(agent: str) -> None:
    robots = parse_robots(b"User-agent: *\nAllow: /\nUser-agent: webmill/2.0\nDisallow: /x\n")
    assert not robots.for_agent(agent).allows("/x")


@pytest.mark.parametrize("line", ["webmillion", "my-webmill", "web", "008", "", "*webmill"])
def test_another_agent_is_not_ours(line: str) -> None:
    assert parse_robots(f"User-agent: {line}\nDisallow: /\n".encode()).for_agent("webmill").allows("/x")


def test_groups_of_one_agent_are_one_group() -> None:
    robots = parse_robots(b"User-agent: a\nUser-agent: b\nDisallow: /1\n\nUser-agent: b\nDisallow: /2\n")
    assert [robots.for_agent("a").allows(path) for path in ("/1", "/2")] == [False, True]
    assert [robots.for_agent("b").allows(path) for path in ("/1", "/2")] == [False, False]


def test_an_own_group_without_rules_allows_everything() -> None:
    assert parse_robots(b"User-agent: *\nDisallow: /\nUser-agent: webmill\n").for_agent("webmill").allows("/x")


@pytest.mark.parametrize("line", ["Disallow-all: /x", "DISSALLOW : /x", "disalow:/x", "\t Disallow \t:  /x \t# no"])
def test_what_was_plainly_meant_is_done(line: str) -> None:
    assert not rules_of(line).allows("/x")


@pytest.mark.parametrize("line", ["Disallow /x /y", "Disallow", "Disallow:", "Disallow: x", "Disallow: $", "Allow: /x"])
def test_what_means_nothing_forbids_nothing(line: str) -> None:
    assert rules_of(line).allows("/x")


def test_a_rule_that_begins_with_two_slashes_needs_no_space() -> None:
    assert not rules_of("Disallow://x").allows("//x")


def test_lines_that_were_not_understood_are_counted() -> None:
    assert parse_robots(b"User-agent: *\n<html>\n# a comment\n\nHost: example.com\n").unknown_lines == 2


# --- matching ---------------------------------------------------------------------------------------------------------


def test_robots_txt_itself_may_always_be_asked_for() -> None:
    rules = rules_of("Disallow: /")
    assert [rules.allows(path) for path in ("/robots.txt", "/robots.txt?1", "/robots.txt.html", "/a/robots.txt")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("/baz", "/%62az"),  # RFC 9309, 2.2.2: escapes of unreserved characters are undone
        ("/%62az", "/baz"),
        ("/%7euser", "/~user"),
        ("/a%2fb", "/a%2Fb"),
        ("/a b", "/a%20b"),
        ("/a?q='x'", "/a?q=%27x%27"),
        ("/file-with-a-%2A.html", "/file-with-a-*.html"),  # RFC 9309, 2.2.3
        ("/foo-%24", "/foo-$"),
        ("/a$b", "/a$b"),
        ("/caf\u00e9", "/caf%c3%a9"),
        ("/caf\u00e9", "/caf\u00e9"),
        ("/%zz%", "/%zz%"),
        ("", "/"),
    ],
)
def test_two_spellings_of_one_path_are_one_path(rule: str, path: str) -> None:
    assert not rules_of(f"Disallow: {rule or '/'}").allows(path)


@pytest.mark.parametrize(("rule", "path"), [("/a%2Fb", "/a/b"), ("/x%2A", "/xy"), ("/x%24", "/x"), ("/é", "/%E9")])
def test_an_escape_that_means_something_else_is_something_else(rule: str, path: str) -> None:
    assert rules_of(f"Disallow: {rule}").allows(path)


def test_bytes_that_are_no_utf8_are_compared_as_they_are() -> None:
    rules = parse_robots(b"User-agent: *\nDisallow: /caf\xe9\n").for_agent("webmill")
    assert [rules.allows(path) for path in ("/caf%E9", "/caf%e9", "/caf%C3%A9")] == [False, False, True]


def test_where_the_rfc_and_google_differ_both_must_allow() -> None:
    rules = rules_of("Disallow: /", "Allow: /%7Euser")
    assert [rules.allows(path) for path in ("/~user", "/%7Euser")] == [False, True]


def test_a_path_may_lack_its_slash_and_hold_anything() -> None:
    rules = rules_of("Disallow: /?a", "Disallow: /\ud800x".encode("utf-8", "replace").decode())
    assert [rules.allows(path) for path in ("", "?a", "?b", "\ud800", "/\udcff%", "\x00")] == [
        True,
        False,
        True,
        True,
        True,
        True,
    ]


def matches(pattern: str, path: str) -> bool:
    """The model: every cell of the table of pattern and path, with nothing clever."""
    ends, pattern = pattern.endswith("$"), pattern.removesuffix("$")
    row = [True] + [False] * len(path)
    for char in pattern:
        if char == "*":
            row = [any(row[: at + 1]) for at in range(len(path) + 1)]
        else:
            row = [False] + [row[at] and path[at] == char for at in range(len(path))]
    return row[-1] if ends else any(row)


def model(rules: list[tuple[bool, str]], path: str) -> bool:
    found = [(len(pattern), allow) for allow, pattern in rules if matches(pattern, path)]
    return max(found, default=(0, True))[1]


PATTERN = st.builds("{}{}{}".format, st.sampled_from("/*"), st.text("ab/*$", max_size=8), st.sampled_from(("", "$")))


@settings(deadline=None, max_examples=examples(1500))
@given(st.lists(st.tuples(st.booleans(), PATTERN), max_size=8), st.lists(st.text("ab/$*", max_size=12), min_size=1))
@example([(True, "/a"), (False, "/ab"), (True, "/a*****")], ["ab"])
@example([(False, "/*a*ab$"), (True, "/a*b*$")], ["aab", "ab"])
@example([(False, "/a$"), (True, "/a"), (False, "/b/"), (False, "/")], ["a", "b/", "b", "a$"])
def test_rules_answer_as_a_simple_model_does(rules: list[tuple[bool, str]], paths: list[str]) -> None:
    ours = RobotsRules(rules)
    for path in paths:
        assert ours.allows(f"/{path}") is model(rules, f"/{path}"), path


@settings(deadline=None)
@given(st.lists(st.text("ab", max_size=6), max_size=40), st.text("ab", max_size=8))
def test_prefixes_of_prefixes_are_found(prefixes: list[str], path: str) -> None:
    rules = [(len(prefix) % 2 == 0, f"/{prefix}") for prefix in prefixes]
    assert RobotsRules(rules).allows(f"/{path}") is model(rules, f"/{path}")


# --- delays and sitemaps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("2", 2.0), ("0", 0.0), (".5", 0.5), ("1.5 # slow", 1.5), ("1e3", 1000.0), ("1e308", 1e308)]
    + [(bad, None) for bad in ("-5", "NaN", "inf", "", "ten", "1,5", "1_0", "0x10", "10s", "\u0663")],
)
def test_a_delay_is_a_number_of_seconds_or_nothing(value: str, seconds: float | None) -> None:
    assert rules_of(f"Crawl-delay: {value}").crawl_delay == seconds


@pytest.mark.parametrize("value", ["1e9999", "9" * 5000])
def test_a_delay_beyond_all_numbers_is_still_a_number(value: str) -> None:
    delay = rules_of(f"Crawl-delay: {value}").crawl_delay
    assert delay is not None
    assert 1e308 < delay < float("inf")


def test_our_own_delay_is_used_and_else_that_of_everyone() -> None:
    robots = parse_robots(
        b"User-agent: *\nCrawl-delay: 7\nUser-agent: own\nCrawl-delay: 3\nUser-agent: none\nAllow: /\n"
    )
    assert [robots.for_agent(agent).crawl_delay for agent in ("own", "none", "other")] == [3.0, 7.0, 7.0]


def test_the_longer_delay_of_another_is_not_ours() -> None:
    robots = parse_robots(b"User-agent: a\nCrawl-delay: 3\nUser-agent: b\nUser-agent: c\nCrawl-delay: 9\n")
    assert [robots.for_agent(agent).crawl_delay for agent in ("a", "b", "c")] == [3.0, 9.0, 9.0]
    twice = parse_robots(
        b"User-agent: a\nCrawl-delay: 3\nUser-agent: b\nCrawl-delay: 9\nUser-agent: a\nCrawl-delay: 4\n"
    )
    assert [twice.for_agent(agent).crawl_delay for agent in ("a", "b")] == [4.0, 9.0]


def test_a_delay_does_not_end_the_list_of_agents_and_is_for_those_before_it() -> None:
    robots = parse_robots(b"User-agent: a\nCrawl-delay: 9\nUser-agent: b\nDisallow: /x\n")
    assert [robots.for_agent(agent).crawl_delay for agent in ("a", "b")] == [9.0, None]
    assert [robots.for_agent(agent).allows("/x") for agent in ("a", "b")] == [False, False]


def test_sitemaps_are_kept_once_and_in_order_and_with_a_forgotten_colon() -> None:
    robots = parse_robots("Sitemap: /b.xml\nsitemap https://x/ü\nSite-map:/b.xml\nSitemap:\n".encode())
    assert (robots.sitemaps, robots.dropped_sitemaps) == (("/b.xml", "https://x/ü"), 0)


def test_sitemaps_are_bounded_in_number_and_length() -> None:
    body = "".join(f"Sitemap: /{number}\n" for number in range(MAX_SITEMAPS + 5)) + "Sitemap: /" + "x" * 9000
    robots = parse_robots(body.encode())
    assert (len(robots.sitemaps), robots.dropped_sitemaps) == (MAX_SITEMAPS, 6)


# --- hostile files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_what_comes_after_500_kib_is_not_read(end: bytes) -> None:
    head = b"User-agent: *" + end + b"Disallow: /before" + end
    body = head + b"#" * (MAX_BODY - len(head) - 12) + end + b"Disallow: /after" + end
    robots = parse_robots(body)
    assert robots.cut
    assert [robots.for_agent("webmill").allows(path) for path in ("/before", "/after", "/")] == [False, True, True]


def test_a_file_of_exactly_500_kib_is_read_whole() -> None:
    body = b"User-agent: *\n#".ljust(MAX_BODY - 13, b"x") + b"\nDisallow: /a"
    assert (len(body), parse_robots(body).cut) == (MAX_BODY, False)
    assert not parse_robots(body).for_agent("webmill").allows("/a")


def test_one_endless_line_says_nothing() -> None:
    assert parse_robots(b"User-agent: *\rDisallow: /" + b"a" * MAX_BODY).for_agent("webmill").allows("/a")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_other_encodings_are_read(encoding: str) -> None:
    body = "User-agent: *\r\nDisallow: /x\r\n".encode(encoding)
    assert not parse_robots(body).for_agent("webmill").allows("/x")


def test_nul_bytes_hide_nothing() -> None:
    assert not parse_robots(b"User-agent: *\nDis\0allow: /x\0\0").for_agent("webmill").allows("/x")


@settings(deadline=None)
@given(st.binary(max_size=400), st.text(max_size=40))
def test_any_bytes_are_an_answer(body: bytes, path: str) -> None:
    robots = parse_robots(b"User-agent: *\nDisallow: /" + body)
    assert robots.for_agent("webmill").allows(path) in (True, False)
    assert parse_robots(body).for_agent("webmill").allows("/robots.txt")


@settings(deadline=None)
@given(st.integers(0, 120))
def test_a_file_cut_anywhere_is_a_shorter_file(end: int) -> None:
    body = b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /a*b$\nCrawl-delay: 5\nSitemap: https://example.com/s.xml\n"[:end]
    robots = parse_robots(body)
    assert len(robots.groups) <= 1
    assert not robots.cut


def test_stars_do_not_make_it_slow() -> None:
    """Not a timing: with backtracking none of these would end before the suite's limit."""
    stars = rules_of(f"Disallow: /{'*a' * 8000}$", f"Disallow: /{'*a' * 200}$")
    assert stars.allows("/" + "a" * 8000 + "b")
    assert not stars.allows("/" + "a" * 8000)
    many = rules_of(*(f"Disallow: /*{number}*x{number}$" for number in range(20_000)))
    assert many.allows("/page.html")
    assert not many.allows("/19999/x19999")


def test_a_path_that_costs_too_much_to_judge_is_not_allowed() -> None:
    many = rules_of(*(f"Disallow: /*a*a{number}" for number in range(20_000)))
    assert [many.allows("/" + "a" * length) for length in (1000, 8000)] == [True, False]


def test_a_crowd_of_agents_and_delays_is_read_in_one_go() -> None:
    body = "".join(f"User-agent: a{'b' * (number % 9)}\nCrawl-delay: {number}\n" for number in range(13_000))
    assert parse_robots(body.encode()).for_agent("a").crawl_delay == 12_996.0


HOSTILE = {
    "robots_600KB_rule_after_limit.txt": (True, None),
    "robots_binary.txt": (True, None),
    "robots_crawl_delay_huge.txt": (True, 1e308),
    "robots_crawl_delay_neg.txt": (True, None),
    "robots_html.txt": (True, None),
    "robots_utf16.txt": (False, None),
    "robots_wildcards_redos.txt": (True, None),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_hostile_samples_are_answered(shared_data: Path, name: str) -> None:
    robots = parse_robots((shared_data / "hostile" / name).read_bytes())
    rules = robots.for_agent("webmill")
    assert (rules.allows("/x"), rules.crawl_delay) == HOSTILE[name]
    assert robots.cut is ("600KB" in name)
    assert rules.allows("/" + "a" * 4000 + "b")
