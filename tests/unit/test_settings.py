"""Settings are decoded once, strictly, and every refusal names its repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.errors import Misconfigured
from webmill.settings import Settings, file_settings, load_settings, read_sources


def settings(tmp_path: Path, text: str = "", **variables: str) -> Settings:
    file = tmp_path / "webmill.toml"
    file.write_text(text)
    return load_settings(file, collection=None, environment=variables, is_trusted=lambda _: True, flags={})


def test_every_setting_has_a_default(tmp_path: Path) -> None:
    assert load_settings(None, collection=tmp_path, environment={}, is_trusted=lambda _: True, flags={}) == Settings()


def test_the_file_is_overridden_by_variables_and_those_by_flags(tmp_path: Path) -> None:
    text = '[queue]\nattempts = 3\nlease = 5\n[log]\nformat = "text"\n'
    assert settings(tmp_path, text).queue.attempts == 3
    assert settings(tmp_path, text, WEBMILL_QUEUE_ATTEMPTS="7").queue.attempts == 7
    file = tmp_path / "webmill.toml"
    found = load_settings(
        file,
        collection=None,
        environment={"WEBMILL_LOG_FORMAT": "text"},
        is_trusted=lambda _: True,
        flags={"log.format": "json"},
    )
    assert (found.log.format, found.queue.lease) == ("json", 5.0)


def test_the_collection_s_own_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "webmill.toml").write_text('[http]\ncontact = "me@example.org"\n')
    assert (
        load_settings(None, collection=tmp_path, environment={}, is_trusted=lambda _: True, flags={}).http.contact
        == "me@example.org"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[queue]\n\nulr = "x"\n', "webmill.toml:3: unknown setting `queue.ulr`: did you mean `url`?"),
        ("[qeue]\nurl = 1\n", "webmill.toml:1: unknown setting `qeue`: did you mean `queue`?"),
        ('[log]\n[queue]\nattempts = "many"\n', "webmill.toml:3: `queue.attempts`: Expected `int`, got `str`"),
        ('[log]\nformat = "xml"\n', "webmill.toml:2: `log.format`: Invalid enum value 'xml': write json, text"),
        ("\n[my-queue]\n", "webmill.toml:2: unknown setting `my-queue`: did you mean `queue`?"),
        (
            "[queue]\nmax-attempts = 3\n",
            "webmill.toml:2: unknown setting `queue.max-attempts`: did you mean `attempts`?",
        ),
        ('[queue]\n"a `b` - at c" = 3\n', "unknown setting `queue.a `b` - at c`"),
        ('"" = 3\n', "unknown setting ``: use one of"),
        ("queue = 1\n", "`queue` is a section: write [queue] on its own line"),
        ("[queue\n", "not valid TOML"),
        pytest.param("[queue]\nattempts = " + "1" * 5000, "not valid TOML", id="a number that is too long"),
        pytest.param("a = " + "[" * 5000, "not valid TOML", id="lists in lists"),
    ],
)
def test_a_wrong_setting_is_refused_with_file_line_and_repair(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        settings(tmp_path, text)
    assert expected in str(caught.value)


def test_an_unknown_variable_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="did you mean WEBMILL_QUEUE_URL"):
        settings(tmp_path, WEBMILL_QUEUE_ULR="x")
    with pytest.raises(Misconfigured, match="use one of WEBMILL_HTTP_CONTACT"):
        settings(tmp_path, WEBMILL_0123456789_0123456789_0123456789="x")


def test_a_wrong_variable_is_named_not_the_file_that_it_overrides(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"^WEBMILL_SERVE_PORT: `serve\.port`: Expected `int`"):
        settings(tmp_path, "[serve]\nport = 8080\n", WEBMILL_SERVE_PORT="abc")


def test_variables_for_the_tests_are_not_settings(tmp_path: Path) -> None:
    assert settings(tmp_path, WEBMILL_TEST_REDIS_URL="redis://x") == Settings()


def test_a_settings_file_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no settings file"):
        load_settings(tmp_path / "none.toml", collection=None, environment={}, is_trusted=lambda _: True, flags={})


def test_durations_sizes_and_lists_are_written_as_people_write_them(tmp_path: Path) -> None:
    text = '[crawl]\ndelay = "20m"\nmax_body = "1M"\nmax_pages = ""\nexclude = ["a,b", "c"]\n[serve]\nhosts = "a, b"\n'
    found = settings(tmp_path, text, WEBMILL_CRAWL_RESOLVE="a.example=127.0.0.1:80,b.example=[::1]:81")
    assert (found.crawl.delay, found.crawl.max_body, found.crawl.max_pages) == (1200.0, 1 << 20, None)
    assert (found.crawl.exclude, found.serve.hosts) == (("a,b", "c"), ("a", "b"))
    assert found.crawl.resolve == {"a.example": ("127.0.0.1", 80), "b.example": ("::1", 81)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('delay = "soon"', "webmill.toml:2: `crawl.delay`: 'soon' is not a duration; write 90s, 20m, 8h or 7d"),
        ("max_body = 0", "webmill.toml:2: `crawl.max_body`: 0 is not a size; write 500K, 64M or 20G"),
        ("concurrency = 0", "webmill.toml:2: `crawl.concurrency`: 0 is too small: use 1 or more"),
        ('resolve = ["x"]', "webmill.toml:2: `crawl.resolve`: 'x' is not HOST=ADDRESS:PORT"),
        ('flags = "--galaxy 3"', "webmill.toml:2: `crawl.flags`: --galaxy is not a flag of a crawl"),
        ('flags = "--depth x"', "webmill.toml:2: `crawl.flags`: --depth: Expected `int"),
        ('flags = "\'"', "webmill.toml:2: `crawl.flags`: no closing quotation"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_what_could(tmp_path: Path, line: str, expected: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        settings(tmp_path, f"[crawl]\n{line}\n")
    assert expected in str(caught.value)


def test_flags_of_a_crawl_in_a_text_are_carried_over_with_a_notice(tmp_path: Path) -> None:
    flags = "--depth 3 --no-traps --requisites --delay=2m --resolve a.example=127.0.0.1:80 --contact me@example.org"
    (tmp_path / "webmill.toml").write_text(f'[crawl]\nflags = "{flags} --exclude x --exclude y"\n')
    found = read_sources(None, collection=tmp_path, environment={}, is_trusted=lambda _: True)
    crawl = found.settings().crawl
    assert (crawl.depth, crawl.traps, crawl.page_resources, crawl.delay) == (3, False, True, 120.0)
    assert (crawl.resolve, crawl.exclude) == ({"a.example": ("127.0.0.1", 80)}, ("x", "y"))
    assert found.settings().http.contact == "me@example.org"
    (notice,) = found.notices
    assert "[crawl] flags is out of use" in notice
    assert 'delay = "2m"' in notice


def test_a_name_of_before_is_carried_over_with_a_notice(tmp_path: Path) -> None:
    (tmp_path / "webmill.toml").write_text('[crawl]\nrequisites = true\nmax_pages = 0\n[run]\nfacets = "domain"\n')
    found = read_sources(None, collection=tmp_path, environment={}, is_trusted=lambda _: True)
    assert found.settings().crawl.page_resources
    assert found.settings().crawl.max_pages is None
    assert found.settings().publish.facets == ("domain",)
    assert [notice.partition(": ")[2] for notice in found.notices] == [
        "[crawl] requisites was renamed to page_resources: please change it",
        "[run] facets was renamed to [publish] facets: please change it",
    ]


def test_every_default_is_what_its_own_words_say() -> None:
    for one in file_settings():
        assert one.parse(one.write(one.default)) == one.default, one


def test_rules_are_tables_of_which_there_may_be_many(tmp_path: Path) -> None:
    text = (
        '[[ignore]]\nmatch = "*.example.org"\nselectors = [".ad"]\n[[ignore]]\nmatch = ["a.example"]\nnumbers = true\n'
    )
    first, second = settings(tmp_path, "[changes]\nthreshold = 0.1\n" + text).changes.rules
    assert (first.match, first.selectors, first.numbers) == (("*.example.org",), (".ad",), False)
    assert (second.match, second.numbers, second.threshold) == (("a.example",), True, None)
    json = '[{"match": "example.org", "patterns": "Mood: .*", "threshold": 0.2}]'
    (rule,) = settings(tmp_path, WEBMILL_CHANGES_RULES=json).changes.rules
    assert (rule.match, rule.patterns, rule.threshold) == (("example.org",), ("Mood: .*",), 0.2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[http]\n\n[[ignore]]\nnumbers = true\n",
            "webmill.toml:3: `changes.rules`: a [[ignore]] needs match: match = ",
        ),
        ('[[ignore]]\nmatch = "x"\nselector = ".ad"\n', "unknown key 'selector': did you mean selectors?"),
        ('[[ignore]]\nmatch = "x"\nthreshold = 2\n', "threshold: Expected `float` <= 1"),
        ('[ignore]\nmatch = "x"\n', "write each as [[ignore]] on its own line"),
        ('[[ignored]]\nmatch = "x"\n', "unknown setting `ignored`: did you mean `ignore`?"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_place_and_repair(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        settings(tmp_path, text)
    assert expected in str(caught.value)
