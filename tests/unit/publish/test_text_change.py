"""What counts as a change of a text, and what does not."""

from __future__ import annotations

import random

import pytest

from webmill.errors import BadInput
from webmill.publish.change_rules import ChangeRules, compile_site_rule
from webmill.publish.text_change import EXCERPT, TextRules, compare_text

FRAME = "Welcome to the page\nIt has some words.\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Server time: 12:01:02", "Server time: 13:01:55"),
        ("It is 12:01", "It is 14:22"),
        ("Wednesday, 18 November 2026", "Thursday, 19 November 2026"),
        ("Sun Nov 18 2026 14:00:11 GMT+0100", "Mon Nov 19 2026 14:00:12 GMT+0100"),
        ("Last updated: 2026-11-18 12:03", "Last updated: 2026-11-19 08:10"),
        ("Made at 2026-11-18T12:00:00Z by cron", "Made at 2026-11-19T12:00:01Z by cron"),
        ("posted by Bob 3 minutes ago", "posted by Bob 2 hours ago"),
        ("vor 3 Minuten", "vor 5 Stunden"),
        ("Page generated in 0.031 seconds", "Page generated in 0.131 seconds"),
        ("Visitors: 17", "Visitors: 18"),
        ("You are visitor number 1,234", "You are visitor number 1,240"),
        ("3 people are viewing this", "7 people are viewing this"),
        ("1,204 views", "1,309 views"),
        ("Comments (12)", "Comments (15)"),
        ("조회수 12", "조회수 15"),
        ("42", "43"),
        ("© 2025 Example Inc.", "© 2026 Example Inc."),
        ("csrf 9f8a7b6c5d4e3f2a1b0c", "csrf 0f8a7b6c5d4e3f2a1bcc"),
        ("Session 3fa9c1d2-1111-4222-8333-123456789abc", "Session 3fa9c1d2-1111-4222-8333-123456789abd"),
        ("one\ntwo\nthree", "three\none\ntwo"),
        ("one two\nthree", "one\ntwo  three"),
    ],
)
def test_noise_is_no_change(old: str, new: str) -> None:
    assert not compare_text(FRAME + old, FRAME + new).is_change
    assert not compare_text(FRAME + new, FRAME + old).is_change


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Price: $17", "Price: $18"),
        ("Price: 17", "Price: 18"),
        ("19.99", "21.99"),
        ("$42", "$43"),
        ("42 %", "43 %"),
        ("Views rose 12%", "Views rose 14%"),
        ("In stock: 5", "In stock: 0"),
        ("Version 2.3", "Version 2.4"),
        ("3:1", "3:2"),
        ("Deadline: 12 December 2026", "Deadline: 19 December 2026"),
        ("Meeting on 12 December 2026 at 10:00", "Meeting on 13 December 2026 at 10:00"),
        ("Opens at 12:30", "Opens at 13:30"),
        ("A beats B", "B beats A"),
        ("hello world", "hello there world"),
        ("supercalifragilisticexpialidocious", "supercalifragilisticexpialidocioux"),
        ("https://example.org/download/firefox-2", "https://example.org/download/firefox-3"),
        ("report-2024-annual-edition-1", "report-2024-annual-edition-2"),
        ("line", "line\nline"),
        ("1" * 5000, "2" * 5000),
        ("a1b2" * 5000, "a1b3" * 5000),
        ("\n".join(f"{number} views a" for number in range(9000)), "\n".join(f"{n} views b" for n in range(9000))),
        ("", "new"),
    ],
)
def test_what_a_page_says_is_a_change(old: str, new: str) -> None:
    for was, now in ((old, new), (new, old)):
        found = compare_text(FRAME + was, FRAME + now)
        assert found.is_important
        assert 0 < found.share < 1


def test_noise_counts_where_it_is_asked_for() -> None:
    assert compare_text("Visitors: 17", "Visitors: 18", TextRules(noise=False)).is_change


def test_numbers_and_dates_are_ignored_where_rules_say_so() -> None:
    assert not compare_text("Price: $17.50", "Price: $18.25", TextRules(numbers=True)).is_change
    assert not compare_text("Deadline: 12 December 2026", "Deadline: 19 Dec 2026", TextRules(dates=True)).is_change
    assert compare_text("Price: $17.50", "Cost: $17.50", TextRules(numbers=True)).is_change


def test_the_rules_of_a_site_are_for_its_pages_only() -> None:
    rules = ChangeRules(
        sites=(
            compile_site_rule(["*.example.org"], patterns=["Mood: [a-z]+"], threshold=0.5),
            compile_site_rule(["shop.example.org/cart/*"], numbers=True),
        )
    )
    old, new = "Mood: happy\nTotal 5 of many other words here", "Mood: sad\nTotal 6 of many other words here"
    found = {id_: compare_text(old, new, rules.text_rules(id_)) for id_ in IDS}
    assert [found[id_].is_change for id_ in IDS] == [True, True, False, True]
    assert [found[id_].is_important for id_ in IDS] == [False, False, False, True]


IDS = ["org,example)/", "org,example,shop)/", "org,example,shop)/cart/7", "org,examples)/"]


def test_a_bad_pattern_is_refused_with_its_reason() -> None:
    with pytest.raises(BadInput, match="missing"):
        compile_site_rule(["example.org"], patterns=["(a"])


def test_excerpts_are_short_and_show_what_changed_in_a_long_line() -> None:
    line = "word " * 500
    found = compare_text(line + "old end " + line, line + "new end " + line)
    assert "old end" in found.removed
    assert "new end" in found.added
    assert max(len(found.added), len(found.removed)) <= EXCERPT
    assert 0 < found.share < 0.01


def test_texts_of_any_kind_are_compared() -> None:
    rng = random.Random(7)
    for _ in range(300):
        old, new = (
            "".join(rng.choice("0123456789abc:.-/ \n\0\u2028年月日 views ago") for _ in range(rng.randrange(200)))
            for _ in range(2)
        )
        assert not compare_text(old, old).is_change
        assert 0 <= compare_text(old, new).share <= 1
