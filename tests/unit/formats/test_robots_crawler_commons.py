"""The cases of crawler-commons (SimpleRobotRulesParserTest), written down afresh as tables (R05).

Left out: names of several robots at once and names that match in part, which RFC 9309 has not; records that are no
rules; answers of servers, which `crawl.robots` judges. Names with digits have others here: a token ends before them.
Where we answer otherwise, as Google does or with more reserve, there is a test at the end.
"""

from __future__ import annotations

import pytest

from tests.unit.formats.test_robots_google import allowed, lines
from webmill.formats.site.robots import parse_robots

FISH = ["/fish", "/fish.html", "/fish/salmon.html", "/fishheads", "/fishheads/yummy.html", "/fish.php?id=anything"]
FICT = ["/org/plans.html", "/", "/index.html", "/orgo.gif", "/%7Ejim/jim.html"]
FREE = ["/server.html", "/services/fast.html", "/services/slow.html", "/org/about.html", "/~mak/mak.html"]

RULES = [
    # what is disallowed, paths that are allowed, paths that are not
    ("/index.cfm?fuseaction=results*", [], ["/index.cfm?fuseaction=results&type=People&qry=california&pg=2"]),
    ("/fish", ["/Fish.asp", "/catfish", "/?id=fish", "/fis"], FISH),
    ("/fish*", ["/Fish.asp", "/catfish", "/?id=fish", "/fis"], FISH),
    ("/fish/", ["/fish", "/fish.html", "/Fish/Salmon.asp"], ["/fish/", "/fish/?id=anything", "/fish/salmon.htm"]),
    ("/*.php", ["/", "/windows.PHP"], ["/filename.php", "/folder/any.php.file.html", "/filename.php/"]),
    ("/*.php$", ["/f.php?parameters", "/f.php/", "/f.php5", "/windows.PHP"], ["/f.php", "/folder/f.php"]),
    ("/fish*.php", ["/Fish.PHP"], ["/fish.php", "/fishheads/catfish.php?parameters"]),
    ("/*fish*.php", ["/fishheads/catfish.htm"], ["/fish.php", "/superfishheads/catfish.php?parameters"]),
    ("/bücher/", ["/"], ["/b%C3%BCcher/book1.html", "/bücher/book2.html"]),
    ("/k%C3%B6nyvek/", ["/"], ["/k%C3%B6nyvek/book1.html", "/könyvek/book2.html"]),
    ("/*%20", ["/", "/foobar/"], ["/foobar%20/"]),
    ("/*%2F*", ["/path/index.html"], ["/topic/9%2F11/index.html"]),
    ("/topic/9%2F11/", [], ["/topic/9%2F11/index.html", "/topic/9%2f11/index.html"]),
    ("/q?*mime=application%2Fpdf", [], ["/q?mime=application%2Fpdf"]),
    ("/$", ["/foobar"], ["/"]),
    ("/%24", ["/"], ["/%24100"]),
    ("/search/%2A/", ["/search/foobar/"], ["/search/%2A/", "/search/%2a/"]),
    ("/search/%2a/", [], ["/search/%2a/"]),
    ("/search/*/", [], ["/search/foobar/"]),
    ("/foo/bar?baz=quz", [], ["/foo/bar?baz=quz"]),
    ("/foo/bar?baz=https://foo.bar", [], ["/foo/bar?baz=https://foo.bar"]),
    ("/foo/bar?baz=https%3A%2F%2Ffoo.bar", [], ["/foo/bar?baz=https%3A%2F%2Ffoo.bar"]),
    ("/foo/bar/ツ", [], ["/foo/bar/%E3%83%84"]),
    ("/foo/bar/%E3%83%84", [], ["/foo/bar/%E3%83%84"]),
    ("/path/file-with-a-%2A.html", ["/path/file-with-a-foo.html"], ["/path/file-with-a-%2A.html"]),
    ("/path/foo-%24", ["/path/foo-"], ["/path/foo-%24"]),
    ("", ["/anypage.html"], []),
    ("/wiki/Talk:Committee/\nDisallow: /wiki/Talk%3Committee/", ["/wiki/"], ["/wiki/Talk:Committee/"]),
    ("/wishlist/\nAllow: /wishlist/universal*", ["/wishlist/universal/page"], ["/wishlist/bogus"]),
    ("*/gcrnsts", ["/gcrnst"], ["/anydirectoryhere/gcrnsts"]),
    ("/fish\nAllow: /fish", ["/fish"], []),
    ("/disallowed/\nAllow: /allowed/\nDisallow:", ["/", "/any.html", "/allowed/i.html"], ["/disallowed/i.html"]),
    ("/disallowed/\nUser-agent: FooBot\nDisallow:", ["/", "/any.html"], ["/disallowed/i.html"]),
]

NAMES = "User-agent: unhipbot\nDisallow: /\n\nUser-agent: webcrawler\nUser-agent: excite\nDisallow: {}\n"
OTHERS = "User-agent: *\nDisallow: /org/plans.html\nAllow: /org/\nAllow: /serv\nAllow: /~mak\nDisallow: /\n"
DRAFT = f"# /robots.txt for http://www.fict.org/\n\n{NAMES.format('')}\n{OTHERS}"
MIXED = (
    "# one\r\n# two\n\r" + NAMES.format("\u0085").replace("/\n\n", "/\r\r\n").replace("excite\n", "excite\r") + OTHERS
)
NUTCH = (
    "User-Agent: AgentA #foo\rDisallow: /a\rDisallow: /b/a\r#Disallow: /c\r\r\rUser-Agent: AgentB AgentC#foo\r"
    "User-Agent: AgentD\rDisallow: /d\rDisallow: /e/d/\r\rUser-Agent: *\rDisallow: /foo/bar/\r"
)
HERITRIX = (
    "User-agent: *\nDisallow: /cgi-bin/\nDisallow: /details/software\n\nUser-agent: denybot\nDisallow: /\n\n"
    "User-agent: allowbot\nDisallow: \n\nUser-agent: foobot\nDisallow: /foo\nAllow: /\n\n"
    "User-agent: delaybot\nDisallow: /\nCrawl-Delay: 20\nAllow: /images/\n"
)
SIMPLE = (
    "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\nUser-Agent: foobot\nDisallow:/\n"
    "Allow:/example/page.html\nAllow:/example/allowed.gif\n\nUser-Agent: barbot\nUser-Agent: bazbot\n"
    "Disallow: /example/page.html\n\nUser-Agent: quxbot"
)
MERGED = (
    "user-agent: ExampleBot\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: ExampleBot\ndisallow: /baz\n\n"
    "user-agent: *\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: BazBot\ndisallow: /baz"
)
PRECEDENCE = (
    "User-Agent: testy\nDisallow: /foo\n\nUser-Agent: wget\nAllow: /\nAllow: /foo\nAllow: /index.html\nDisallow: /*\n\n"
    "User-Agent: testy\nAllow: /foo/bar\nDisallow: /foo/b*\n"
)
SEVERAL = (
    "User-Agent: testy\nDisallow: /\n\nUser-Agent: wget\nAllow: /foo/bar\n\nUser-Agent: *\nUser-Agent: wget\n"
    "Disallow: /foo/bar\nDisallow: /tmp/bar\nAllow: /ckh/bar\n"
)
UNKNOWN = "User-agent: one\nDisallow: /index.html\nAllow: /\nnewfield: 234\nUser-agent: two\nDisallow: /"

SPELLED = "User-agent: *\nAllow: /AnyPage.html\nAllow: /somepage.html\nDisallow: /"

AGENTS = [
    # robots.txt, agent, paths that are allowed, paths that are not
    ("", "anybot", ["/anypage.html"], []),
    ("#user-agent: test\n\n#disallow: /test\n", "anybot", ["/anypage.html"], []),
    ("User-agent: one\nDisallow: /i\n\nUser-agent: two\nDisallow: /", "three", ["/i", "/any"], []),
    ("User-agent: * # ¢ ₵\r\nDisallow:", "anybot", ["/anypage.html"], []),
    (SPELLED, "anybot", ["/AnyPage.html", "/somepage.html"], ["/anypage.html", "/SomePage.html"]),
    ("User-agent: *\nAllow:", "anybot", ["/anypage.html"], []),
    (DRAFT, "unhipbot", [], [*FICT, *FREE]),
    (DRAFT, "webcrawler", [*FICT, *FREE], []),
    (DRAFT, "excite", [*FICT, *FREE], []),
    (DRAFT, "unknown", FREE, FICT),
    (MIXED, "unknown", FREE, FICT),
    (NUTCH, "AgentA", ["/b", "/b/b/foo.html", "/c/a", "/d", "/e/d/foo.html", "/foo/bar/"], ["/a", "/a/", "/b/a/i"]),
    (NUTCH, "AgentB", ["/a", "/e/a/i", "/e/d", "/e/doh.html", "/foo/bar/"], ["/d", "/d/a", "/e/d/foo.html"]),
    (NUTCH, "AgentD", ["/a", "/e/a/i", "/e/d", "/e/doh.html", "/foo/bar/"], ["/d", "/d/a", "/e/d/foo.html"]),
    (NUTCH, "AgentE", ["/a", "/d", "/e/d/foo.html", "/f/"], ["/foo/bar/baz.html"]),
    (HERITRIX, "allowbot", ["/path", "/"], []),
    (HERITRIX, "foobot", ["/path", "/"], ["/foo"]),
    (HERITRIX, "denybot", [], ["/path", "/"]),
    (HERITRIX, "anonbot", ["/path"], ["/cgi-bin/foo.pl"]),
    ("User-agent: bot\nDisallow: /i\nAllow: /\n\nUser-agent: b\nDisallow: /", "bot", ["/any"], ["/i"]),
    ("User-agent: Download Ninja\nDisallow: /i\nAllow: /", "Download", ["/any"], ["/i"]),
    ("User-agent: foo/1.2\nDisallow: /i\nAllow: /", "foo", ["/any"], ["/i"]),
    ("User-agent: foo bar\nDisallow: /i\nAllow: /", "foo", ["/any"], ["/i"]),
    (UNKNOWN, "two", [], ["/anypage.html"]),
    *(
        (f"User-agent: bot\n{line}\n", "bot", ["/"], ["/x"])
        for line in ("dissalow: /x", "disallow : /x", "disallow /x")
    ),
    *(
        (f"{line}\nDisallow: /x\n", "bot", ["/"], ["/x"])
        for line in ("useragent: bot", "useragent bot", "user-agent bot")
    ),
    ("user-agent: bot\nallow : /x\ndisallow: /\n", "bot", ["/x"], ["/"]),
    ("User-agent: One, Two\nDisallow: /\n\nUser-agent: *\nAllow: /", "One", [], ["/fish"]),
    ("User-agent: One, Two\nDisallow: /\n\nUser-agent: *\nAllow: /", "anybot", ["/fish"], []),
    (PRECEDENCE, "wget", ["/", "/foo/bar"], ["/bar/foo"]),
    (PRECEDENCE, "testy", ["/", "/foo/bar"], ["/foo/blue", "/foo/", "/foo/tar"]),
    (SEVERAL, "wget", ["/foo/bar/bar.txt", "/ckh/bar/bar.txt"], ["/tmp/bar/bar.txt"]),
    (SIMPLE, "foobot", ["/example/page.html", "/example/allowed.gif"], ["/", "/path/index.html"]),
    (SIMPLE, "barbot", ["/"], ["/example/page.html"]),
    (SIMPLE, "bazbot", ["/"], ["/example/page.html"]),
    (SIMPLE, "quxbot", ["/", "/example/page.html"], []),
    (SIMPLE, "other", ["/", "/publications/doc1.html"], ["/example/page.html", "/example.gif"]),
    (lines("Allow: /p/", "Disallow: /p/no.gif"), "FooBot", ["/p/", "/p/index.html", "/"], ["/p/no.gif"]),
    (MERGED, "examplebot", ["/"], ["/foo", "/bar", "/baz"]),
    (MERGED, "other", ["/", "/baz"], ["/foo", "/bar"]),
    (MERGED, "bazbot", ["/", "/foo", "/bar"], ["/baz"]),
    ("User-agent: *\nAllow: /\nUser-agent: anybot\nDisallow: /search", "foobot", ["/search", "/home"], []),
    ("User-agent: *\nAllow: /\nUser-agent: anybot\nDisallow: /search", "anybot", ["/home"], ["/search"]),
    ("User-agent: Mozilla/5.0 (compatible; Butterfly/1.0)\nDisallow: /", "butterfly", ["/"], []),
    *(
        (text, agent, ["/foo/bar"] if agent == "crawler" else [], ["/foo/bar"] if agent != "crawler" else [])
        for text in (
            "User-agent: crawlerbot\nDisallow: /foo/bar\n\nUser-agent: crawler\nAllow: /foo/bar\n",
            "User-agent: crawler\nAllow: /foo/bar\n\nUser-agent: crawlerbot\nDisallow: /foo/bar\n",
        )
        for agent in ("crawler", "crawlerbot")
    ),
]

KRUGLE = "User-agent: *\nDisallow: /examples/\nCrawl-delay: 3\n\nUser-agent: googlebot\nCrawl-delay: 1\n\n{}"
DELAYS = [
    ("User-agent: bingbot\nCrawl-delay: 1\n\nUser-agent: *\nDisallow: /login\n", "bingbot", 1.0),
    ("User-agent: bingbot\nCrawl-delay: 1\n\nUser-agent: *\nDisallow: /login\n", "anybot", None),
    ("User-agent: *\nCrawl-delay: 0.5\nDisallow:\n", "bixo", 0.5),
    (KRUGLE.format("User-agent: qihoobot\nDisallow: /"), "googlebot", 1.0),
    (KRUGLE.format("User-agent: qihoobot\nDisallow: /"), "anybot", 3.0),
    (HERITRIX, "delaybot", 20.0),
    (HERITRIX, "denybot", None),
]


@pytest.mark.parametrize(("rule", "open_", "closed"), RULES)
def test_rules_are_weighed_as_by_crawler_commons(rule: str, open_: list[str], closed: list[str]) -> None:
    check(lines(f"Disallow: {rule}", "Allow: /"), "FooBot", open_, closed)


@pytest.mark.parametrize(("robots", "agent", "open_", "closed"), AGENTS)
def test_groups_are_chosen_as_by_crawler_commons(robots: str, agent: str, open_: list[str], closed: list[str]) -> None:
    check(robots, agent, open_, closed)


def check(robots: str, agent: str, open_: list[str], closed: list[str]) -> None:
    assert [path for path in open_ if not allowed(robots, agent, f"http://www.fict.org{path}")] == []
    assert [path for path in closed if allowed(robots, agent, f"http://www.fict.org{path}")] == []


@pytest.mark.parametrize(("robots", "agent", "delay"), DELAYS)
def test_delays_are_those_of_crawler_commons(robots: str, agent: str, delay: float | None) -> None:
    assert parse_robots(robots.encode()).for_agent(agent).crawl_delay == delay


# --- otherwise ---


def test_an_escape_that_only_one_reading_undoes_opens_nothing() -> None:
    """Crawler-commons reads as the RFC does; Google's matcher sees no rule but the last here."""
    assert not allowed(DRAFT, "unknown", "http://www.fict.org/%7Emak/mak.html")
    assert not allowed(lines("Disallow: /foo/bar/%62%61%7A"), "FooBot", "http://www.fict.org/foo/bar/baz")


def test_words_and_markup_that_google_does_not_know_are_no_rules() -> None:
    check("User-agent: bot\nDesallow: /x\n\nuseg-agent: bot\n", "bot", ["/x"], [])
    check("<P>\nUser-agent: *<BR>\nDisallow: /<BR>\n", "bot", ["/"], [])


def test_names_that_differ_by_their_digits_are_one() -> None:
    robots = "User-agent: bot1\nDisallow: /one\n\nUser-agent: bot2\nDisallow: /two\n"
    check(robots, "bot", ["/"], ["/one", "/two"])


def test_who_has_no_delay_of_its_own_keeps_that_of_all() -> None:
    robots = KRUGLE.format("User-agent: qihoobot\nDisallow: /")
    assert parse_robots(robots.encode()).for_agent("qihoobot").crawl_delay == 3.0
