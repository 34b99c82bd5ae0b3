"""The cases of Google's own matcher (robots_test.cc of google/robotstxt), written down afresh as tables.

Left out: what its parser reports of line numbers, and its splitting of URLs, which `formats.urls` does here. URLs go
through `normalise` first, as the crawler's do, so that a raw `ツ` and its escape are one and the same URL.
"""

from __future__ import annotations

import pytest

from webmill.formats.site.robots import MAX_LINE, parse_robots
from webmill.formats.url.normalise import normalise


def allowed(robots: str, agent: str, url: str) -> bool:
    path = normalise(url).split("/", 3)[3]
    return parse_robots(robots.encode()).for_agent(agent).allows("/" + path)


def lines(*rules: str, agent: str = "FooBot") -> str:
    return "".join(f"{line}\n" for line in (f"User-agent: {agent}", *rules))


GROUPS = """allow: /foo/bar/

user-agent: FooBot
disallow: /
allow: /x/
user-agent: BarBot
disallow: /
allow: /y/


allow: /w/
user-agent: BazBot

user-agent: FooBot
allow: /z/
disallow: /
"""
SPECIFIC = "user-agent: FooBot\nallow: /\nuser-agent: BarBot\ndisallow: /\nuser-agent: BazBot\ndisallow: /\n"
GLOBAL = "user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n"
SPACES = "User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n"

AGENTS = [
    # robots.txt, agent, path, allowed
    ("", "FooBot", "/", True),
    ("user-agent: FooBot\ndisallow: /\n", "", "/", True),
    ("user-agent: FooBot\ndisallow: /\n", "FooBot", "/", False),
    ("", "", "/", True),
    ("user-agent: FooBot\ndisallow: /\n", "FooBot", "/x/y", False),
    ("foo: FooBot\nbar: /\n", "FooBot", "/x/y", True),
    ("user-agent FooBot\ndisallow /\n", "FooBot", "/x/y", False),
    (GROUPS, "FooBot", "/x/b", True),
    (GROUPS, "FooBot", "/z/d", True),
    (GROUPS, "FooBot", "/y/c", False),
    (GROUPS, "BarBot", "/y/c", True),
    (GROUPS, "BarBot", "/w/a", True),
    (GROUPS, "BarBot", "/z/d", False),
    (GROUPS, "BazBot", "/z/d", True),
    (GROUPS, "FooBot", "/foo/bar/", False),
    (GROUPS, "BarBot", "/foo/bar/", False),
    (GROUPS, "BazBot", "/foo/bar/", False),
    *(
        (f"User-agent: {own}\n{other}\nUser-agent: *\nDisallow: /\n", agent, "/", False)
        for own, other in (("BarBot", "Sitemap: https://foo.bar/sitemap"), ("FooBot", "Invalid-Unknown-Line: unknown"))
        for agent in ("FooBot", "BarBot")
    ),
    *(
        (f"{names[0]}: FooBot\n{names[1]}: /x/\n{names[2]}: /\n", "FooBot", path, path == "/x/y")
        for names in (
            ("USER-AGENT", "ALLOW", "DISALLOW"),
            ("user-agent", "allow", "disallow"),
            ("uSeR-aGeNt", "AlLoW", "dIsAlLoW"),
        )
        for path in ("/x/y", "/a/b")
    ),
    *(
        (f"User-Agent: {value}\nAllow: /x/\nDisallow: /\n", agent, path, path == "/x/y")
        for value in ("FOO BAR", "foo bar", "FoO bAr")
        for agent in ("Foo", "foo")
        for path in ("/x/y", "/a/b")
    ),
    (SPACES, "Foo", "/x/y", True),
    (SPACES, "Foo Bar", "/x/y", False),
    (GLOBAL, "FooBot", "/x/y", False),
    (GLOBAL, "BarBot", "/x/y", True),
    (SPECIFIC, "QuxBot", "/x/y", True),
    ("User-agent: *\nDisallow: /x/\nUser-agent: FooBot\nDisallow: /y/\n", "FooBot", "/x/page", True),
    ("User-agent: *\nDisallow: /x/\nUser-agent: FooBot\nDisallow: /y/\n", "FooBot", "/y/page", False),
]

RULES = [
    # rules, paths that are allowed, paths that are not
    (["disallow: /x/"], [], ["/x/y"]),
    (["disallow: /X/"], ["/x/y"], []),
    (["disallow: /x/page.html", "allow: /x/"], [], ["/x/page.html"]),
    (["allow: /x/page.html", "disallow: /x/"], ["/x/page.html"], ["/x/"]),
    (["disallow: ", "allow: "], ["/x/page.html"], []),
    (["disallow: /", "allow: /"], ["/x/page.html"], []),
    (["disallow: /x", "allow: /x/"], ["/x/"], ["/x"]),
    (["disallow: /x/page.html", "allow: /x/page.html"], ["/x/page.html"], []),
    (["allow: /page", "disallow: /*.html"], ["/page"], ["/page.html"]),
    (["allow: /x/page.", "disallow: /*.html"], ["/x/page.html"], ["/x/y.html"]),
    (
        ["Disallow: /", "Allow: /foo/bar?qux=taz&baz=http://foo.bar?tar&par"],
        ["/foo/bar?qux=taz&baz=http://foo.bar?tar&par"],
        [],
    ),
    (["Disallow: /", "Allow: /foo/bar/ツ"], ["/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84"], ["/foo/bar/%E3%83"]),
    (["Disallow: /", "Allow: /foo/bar/%E3%83%84"], ["/foo/bar/%E3%83%84"], []),
    (["Disallow: /", "Allow: /foo/bar/%62%61%7A"], ["/foo/bar/%62%61%7A"], ["/foo/bar/baz"]),
    (["Disallow: /foo/bar/quz", "Allow: /foo/*/qux"], ["/foo/quz", "/foo//quz", "/foo/bax/quz"], ["/foo/bar/quz"]),
    (["Disallow: /foo/bar$", "Allow: /foo/bar/qux"], ["/foo/bar/qux", "/foo/bar/", "/foo/bar/baz"], ["/foo/bar"]),
    (["# Disallow: /", "Disallow: /foo/quz#qux", "Allow: /"], ["/foo/bar"], ["/foo/quz"]),
    (
        ["Allow: /allowed-slash/index.html", "Disallow: /"],
        ["/allowed-slash/", "/allowed-slash/index.html"],
        ["/allowed-slash/index.htm", "/anyother-url"],
    ),
    *(
        (
            ["disallow: /", f"allow: {fish}"],
            ["/fish", "/fish.html", "/fish/salmon.html", "/fishheads", "/fishheads/yummy.html", "/fish.html?id=any"],
            ["/bar", "/Fish.asp", "/catfish", "/?id=fish"],
        )
        for fish in ("/fish", "/fish*")
    ),
    (
        ["disallow: /", "allow: /fish/"],
        ["/fish/", "/fish/salmon", "/fish/?salmon", "/fish/salmon.html", "/fish/?id=anything"],
        ["/bar", "/fish", "/fish.html", "/Fish/Salmon.html"],
    ),
    (
        ["disallow: /", "allow: /*.php"],
        [
            "/filename.php",
            "/folder/filename.php",
            "/folder/filename.php?parameters",
            "//folder/any.php.file.html",
            "/filename.php/",
            "/index?f=filename.php/",
        ],
        ["/bar", "/php/", "/index?php", "/windows.PHP"],
    ),
    (
        ["disallow: /", "allow: /*.php$"],
        ["/filename.php", "/folder/filename.php"],
        [
            "/bar",
            "/filename.php?parameters",
            "/filename.php/",
            "/filename.php5",
            "/php/",
            "/filename?php",
            "/aaaphpaaa",
            "//windows.PHP",
        ],
    ),
    (
        ["disallow: /", "allow: /fish*.php"],
        ["/fish.php", "/fishheads/catfish.php?parameters"],
        ["/bar", "/Fish.PHP"],
    ),
    (["allow: /p", "disallow: /"], ["/page"], []),
    (["allow: /folder", "disallow: /folder"], ["/folder/page"], []),
    (["allow: /page", "disallow: /*.htm"], [], ["/page.htm"]),
    (["allow: /$", "disallow: /"], ["/"], ["/page.html"]),
]


@pytest.mark.parametrize(("robots", "agent", "path", "expected"), AGENTS)
def test_groups_are_chosen_as_by_google(robots: str, agent: str, path: str, expected: bool) -> None:
    assert allowed(robots, agent, f"http://foo.bar{path}") is expected


@pytest.mark.parametrize(("rules", "open_", "closed"), RULES)
def test_rules_are_weighed_as_by_google(rules: list[str], open_: list[str], closed: list[str]) -> None:
    robots = lines(*rules)
    assert [path for path in open_ if not allowed(robots, "FooBot", f"http://foo.bar{path}")] == []
    assert [path for path in closed if allowed(robots, "FooBot", f"http://foo.bar{path}")] == []


def test_a_line_is_cut_where_google_cuts_it() -> None:
    """Longer than any URL we ask for, so the path is given as it is."""
    for name in ("disallow: ", "allow: "):
        path = "/x/" + "a" * (MAX_LINE - len(name) - 4)
        rules = parse_robots(lines("disallow: /", f"{name}{path}/qux").encode()).for_agent("FooBot")
        assert rules.allows(path + "/fux") is (name == "allow: ")
        assert not rules.allows("/fux")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", ["", "end"])
def test_any_line_end_will_do(end: str, last: str) -> None:
    robots = "User-Agent: foo|Allow: /some/path|User-Agent: bar|||Disallow: /".replace("|", end)
    robots = robots + end if last else robots
    assert not allowed(robots, "bar", "http://a/b")
    assert allowed(robots, "foo", "http://a/b")


@pytest.mark.parametrize(
    ("begin", "understood"), [(b"\xef\xbb\xbf", 2), (b"\xef\xbb", 2), (b"\xef", 2), (b"\xef\x11\xbf", 1)]
)
def test_a_byte_order_mark_even_half_of_one_is_skipped(begin: bytes, understood: int) -> None:
    robots = parse_robots(begin + b"User-Agent: foo\nDisallow: /AnyValue\n")
    assert robots.unknown_lines == 2 - understood
    assert robots.for_agent("foo").allows("/AnyValue") is (understood == 1)


def test_a_byte_order_mark_inside_the_file_spoils_its_line() -> None:
    robots = parse_robots(b"User-Agent: foo\n\xef\xbb\xbfDisallow: /AnyValue\n")
    assert robots.unknown_lines == 1
    assert robots.for_agent("foo").allows("/AnyValue")


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_sitemap_may_stand_anywhere(order: str) -> None:
    sitemap, rest = "Sitemap: http://foo.bar/sitemap.xml\n", "User-Agent: foo\nAllow: /some/path\nUser-Agent: bar\n\n\n"
    robots = sitemap + rest if order == "before" else rest + sitemap
    assert parse_robots(robots.encode()).sitemaps == ("http://foo.bar/sitemap.xml",)
