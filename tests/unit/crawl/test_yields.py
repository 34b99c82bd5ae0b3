"""What patterns of URLs give, and which of them are parked."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webmill.crawl.frontier.base import PRIORITIES
from webmill.crawl.yields.domain_yield import ENOUGH, MOST_COARSE, TRIAL, YieldBudget
from webmill.crawl.yields.folding import fold_url, without_key
from webmill.crawl.yields.judge import SLOW_PRIORITY, YieldJudge
from webmill.crawl.yields.page_sample import MOST_PIECES, PageSample, sample_page
from webmill.crawl.yields.seen_text import SeenText, decode_seen
from webmill.crawl.yields.url_pattern import patterns_of
from webmill.crawl.yields.yield_store import PARKED, YieldStore, parked_patterns, read_judged
from webmill.model import Link

HOST = "http://site.example"
BUDGET = YieldBudget(pattern=20, domain=100)


def page(*texts: str, url: str = f"{HOST}/", head: str = "") -> PageSample:
    body = "".join(f"<p>{text}</p>" for text in texts)
    return sample_page(f"<html><head>{head}</head><body>{body}</body></html>".encode(), url=url)


def story(number: object) -> str:
    return f"A story that nobody has told before, about {'x' * (hash(str(number)) % 50)}{number!s} and its neighbours"


def letters(number: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in str(number))


def fetch(yields: YieldStore, path: str, *texts: str, via: str = "") -> None:
    yields.observe(page(*texts), url=HOST + path, status=200, via=via)


def trapped(yields: YieldStore, count: int = 200) -> None:
    for month in range(count):
        fetch(yields, f"/calendar/2024/{month}", "There are no events in this month, nor in any other one")


# --- patterns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/", "/"),
        ("/calendar/2024/07", "/calendar/{n}/{n}"),
        ("/blog/2024/05/red-shoes/?replytocom=77", "/blog/{n}+/{slug}/?replytocom="),
        ("/shop?size=1&colour=red", "/shop?colour=&size="),
        ("/shop?colour=blue&size=xl", "/shop?colour=&size="),
        ("/about", "/{w}"),
        ("/wiki/Berlin", "/wiki/{w}"),
        ("/w/index.php?title=Berlin&action=edit", "/w/index.php?action=edit&title="),
        ("/item?f[0]=a&f[1]=b", "/item?f[]="),
        ("/a/b/c/d/e/f.html", "/a/b/{w}+/{w}.html"),
        ("/a/b/c/d/e/g/h/f.html", "/a/b/{w}+/{w}.html"),
        ("/p/8f3a9c", "/p/{id}"),
    ],
)
def test_urls_of_one_part_of_a_site_have_one_pattern(path: str, pattern: str) -> None:
    assert patterns_of(HOST + path)[0] == "site.example" + pattern


@given(st.text(alphabet="/ab1-_.?&=[]%;é ", max_size=120))
def test_any_url_has_patterns(tail: str) -> None:
    assert patterns_of(f"{HOST}/{tail}") == patterns_of(f"{HOST}/{tail}")
    assert all(pattern for pattern in patterns_of(f"{HOST}/{tail}"))


# --- what pages show --------------------------------------------------------------------------------------------------


def test_numbers_within_text_scripts_and_what_was_asked_for_are_nothing_new() -> None:
    one = page("Page 7 of 312: the mill", "<script>var nonce = 'qwertyuiop'</script>", "Results for grain")
    url = f"{HOST}/search?q=grain"
    other = sample_page(b"<html><p>Page 8 of 400: the mill</p><script>var nonce = 'asdfghjkl'</script></html>", url=url)
    assert not other.pieces.keys() - one.pieces.keys()
    echo = sample_page(b"<p>Results for grain, as you have asked for it</p>", url=url)
    assert not echo.pieces


def test_tables_of_numbers_and_pictures_are_something_new() -> None:
    tables = [page(*(f"{start + cell * 37}" for cell in range(20))) for start in (1000, 2000)]
    assert sum(tables[1].pieces[each] for each in tables[1].pieces.keys() - tables[0].pieces.keys()) > 60
    pictures = [sample_page(b'<p>Picture</p><img src="/pictures/%d.jpg">' % number, url=HOST) for number in (1, 2)]
    assert pictures[0].pieces.keys() != pictures[1].pieces.keys()


@given(st.binary(max_size=2000))
def test_any_bytes_have_a_sample(payload: bytes) -> None:
    assert sample_page(payload, url=HOST) == sample_page(payload, url=HOST)


def test_of_a_page_made_of_pieces_a_number_is_read() -> None:
    huge = b"<p>" + b"<p>".join(b"piece %s of it" % letters(number).encode() for number in range(100_000))
    assert len(sample_page(huge, url=HOST).pieces) <= MOST_PIECES


def test_text_that_was_shown_is_known_and_what_is_shown_again_is_never_forgotten() -> None:
    seen = SeenText(most=100)
    frame, first = dict.fromkeys(range(20), 10), dict.fromkeys(range(1000, 1010), 10)
    assert seen.add(frame | first) == 300
    assert seen.add(frame | first) == 0
    for start in range(2000, 4000, 10):
        assert seen.add(frame | dict.fromkeys(range(start, start + 10), 1)) == 10
    assert seen.add(frame) == 0
    assert seen.add(first) == 100
    again = decode_seen(seen.encode())
    assert again.add(frame | first) == 0


# --- parking ----------------------------------------------------------------------------------------------------------


def test_a_pattern_that_gives_nothing_new_is_slowed_then_parked() -> None:
    yields = YieldStore(None, BUDGET)
    standings = []
    for month in range(30):
        standings.append(yields.standing(f"{HOST}/calendar/2030/1").standing)
        fetch(yields, f"/calendar/2024/{month}", "There are no events in this month, nor in any other one")
    assert list(dict.fromkeys(standings)) == ["open", "slow", "parked"]
    assert standings.index("parked") <= BUDGET.pattern + 5
    assert yields.standing(f"{HOST}/about").standing == "open"


def test_a_pattern_that_goes_on_giving_is_never_parked() -> None:
    yields = YieldStore(None, BUDGET)
    for number in range(3000):
        fetch(yields, f"/article/{number}", story(letters(number // 3)))  # each three times
    assert yields.standing(f"{HOST}/article/1").standing == "open"
    assert yields.share(f"{HOST}/article/1") == pytest.approx(1 / 3, abs=0.01)
    assert ENOUGH < 1 / 3


def test_lists_without_text_of_their_own_live_by_what_they_lead_to() -> None:
    yields = YieldStore(None, BUDGET)
    for number in range(500):
        fetch(yields, f"/list?page={number}", "A list")
        fetch(yields, f"/article/{number}", story(letters(number)), via=f"{HOST}/list?page={number}")
    assert yields.standing(f"{HOST}/list?page=1").standing != "parked"


def test_when_the_budget_of_a_domain_is_spent_new_patterns_have_few_requests() -> None:
    yields, spent = YieldStore(None, BUDGET), 0
    for number in range(2000):
        url = f"{HOST}/{letters(number)}/x?{letters(number)}=1"
        if yields.standing(url).standing != "parked":
            spent += 1
            yields.observe(page("Nothing"), url=url, status=200)
    assert spent <= BUDGET.domain + (MOST_COARSE + 2) * TRIAL


def test_errors_of_the_server_and_refusals_say_nothing_of_a_pattern() -> None:
    yields = YieldStore(None, BUDGET)
    for number in range(500):
        yields.observe(None, url=f"{HOST}/a/{number}", status=(403, 429, 500, 503)[number % 4])
        yields.observe(None, url=f"{HOST}/b/{number}", status=404)
    assert yields.standing(f"{HOST}/a/1").standing == "open"
    assert yields.standing(f"{HOST}/b/1").standing == "parked"


def test_a_budget_of_0_parks_nothing() -> None:
    yields = YieldStore(None, YieldBudget(pattern=0, domain=0))
    trapped(yields, 500)
    assert yields.standing(f"{HOST}/calendar/2030/1").standing != "parked"


def test_a_restart_does_not_begin_the_trap_afresh(tmp_path: Path) -> None:
    yields = YieldStore(tmp_path / "yields.sqlite", BUDGET)
    trapped(yields)
    yields.save()  # no close: as after a kill
    again = YieldStore(tmp_path / "yields.sqlite", BUDGET)
    assert again.standing(f"{HOST}/calendar/2030/1").standing == "parked"
    fetch(again, "/other/1", "There are no events in this month, nor in any other one")
    assert again.share(f"{HOST}/other/1") == pytest.approx(1 / 3)  # its text is known
    [(pattern, found)] = parked_patterns(tmp_path / "yields.sqlite")
    assert (pattern, found.state) == ("site.example/calendar/{n}/{n}", "parked")
    again.close()
    yields.close()


def test_memory_has_a_bound_and_nothing_is_forgotten(tmp_path: Path) -> None:
    yields = YieldStore(tmp_path / "yields.sqlite", BUDGET, memory=20_000)
    for domain in range(100):
        for number in range(30):
            yields.observe(page("Nothing at all"), url=f"http://d{domain}.example/x/{number}", status=200)
    assert len(yields._domains) < 20
    assert all(yields.standing(f"http://d{domain}.example/x/1").standing == "parked" for domain in range(100))
    yields.close()
    assert len(list(read_judged(tmp_path / "yields.sqlite"))) == 100


def test_a_pattern_that_was_released_is_not_parked_again() -> None:
    yields = YieldStore(None, BUDGET)
    trapped(yields)
    assert yields.release("site.example/calendar/{n}/{n}")
    assert not yields.release("site.example/calendar/{n}/{n}")
    trapped(yields)
    assert yields.standing(f"{HOST}/calendar/2030/1").standing == "open"


# --- links ------------------------------------------------------------------------------------------------------------


def test_links_of_a_slow_pattern_come_last_and_those_of_a_parked_one_are_kept_with_the_reason() -> None:
    yields = YieldStore(None, BUDGET)
    judge, link = YieldJudge(yields, folds=True), Link(f"{HOST}/calendar/2031/1", depth=3)
    trapped(yields, 15)
    [slow], parked = judge.sort_links([link], now=7.0)
    assert (slow.priority, parked) == (SLOW_PRIORITY, [])
    assert SLOW_PRIORITY == PRIORITIES - 1
    trapped(yields)
    seed = Link(link.url)
    followed, [done] = judge.sort_links([link, seed, Link(f"{HOST}/about", depth=1)], now=7.0)
    assert [each.url for each in followed] == [seed.url, f"{HOST}/about"]
    assert (done.url, done.visit.error, done.visit.depth) == (
        link.url,
        f"{PARKED}: site.example/calendar/{{n}}/{{n}}",
        3,
    )
    assert (done.is_page, done.revisit_due) == (False, None)


@pytest.mark.parametrize(
    ("url", "folded"),
    [
        ("/a?utm_source=x&utm_medium=y", "/a"),
        ("/a?id=1&fbclid=IwAR0&b=2", "/a?id=1&b=2"),
        ("/a?gclid=x", "/a"),
        ("/a?PHPSESSID=0123456789abcdef0123", "/a"),
        ("/a;jsessionid=0123456789ABCDEF0123?b=1", "/a?b=1"),
        ("/a?sid=29", "/a?sid=29"),
        ("/a?utmost=1", "/a?utmost=1"),
        ("/a?", "/a?"),
        ("/a?b=1&c=2", "/a?b=1&c=2"),
    ],
)
def test_parameters_of_advertising_and_sessions_are_folded_by_rule(url: str, folded: str) -> None:
    assert fold_url(HOST + url) == HOST + folded
    assert fold_url(fold_url(HOST + url)) == HOST + folded


def test_a_parameter_is_folded_when_it_has_never_changed_a_page() -> None:
    yields = YieldStore(None, BUDGET)
    for number in range(10):
        text, url = story(letters(number)), f"/post.php?id={number}"
        fetch(yields, url, text)
        assert yields.fold(f"{HOST}/post.php?id=77&ref=top") == f"{HOST}/post.php?id=77" or number < 9
        fetch(yields, f"{url}&ref=home", text)
    assert yields.fold(f"{HOST}/post.php?ref=top&id=77") == f"{HOST}/post.php?id=77"
    assert yields.fold(f"{HOST}/other.php?ref=top") == f"{HOST}/other.php?ref=top"
    [link], _ = YieldJudge(yields, folds=True).sort_links([Link(f"{HOST}/post.php?id=5&ref=z", depth=1)], now=0.0)
    assert link.url == f"{HOST}/post.php?id=5"
    redirected = Link(f"{HOST}/post.php?id=5&ref=z", depth=1, redirects=1)
    assert YieldJudge(yields, folds=True).sort_links([redirected], now=0.0)[0] == [redirected]


def test_a_parameter_that_changed_a_page_once_is_never_folded() -> None:
    yields = YieldStore(None, BUDGET)
    for number in range(30):
        text = story(letters(number))
        fetch(yields, f"/post.php?id={number}", text)
        fetch(yields, f"/post.php?id={number}&page=2", text if number else story("z"))
    assert yields.fold(f"{HOST}/post.php?id=77&page=2") == f"{HOST}/post.php?id=77&page=2"


def test_a_canonical_link_counts_only_where_the_page_has_nothing_new() -> None:
    honest, careless = YieldStore(None, BUDGET), YieldStore(None, BUDGET)
    for number in range(12):
        url, canonical = f"{HOST}/post.php?id={number}&ref=home", f"{HOST}/post.php?id={number}"
        body = b"<p>The same text on all of these pages, whatever is asked for</p>"
        honest.observe(sample_page(body, url=url, canonical=canonical), url=url, status=200)
        url, canonical = f"{HOST}/list.php?id={number}&page=2", f"{HOST}/list.php?id={number}"
        body = f"<p>{story(letters(number))}</p>".encode()
        careless.observe(sample_page(body, url=url, canonical=canonical), url=url, status=200)
    assert honest.fold(f"{HOST}/post.php?id=77&ref=x") == f"{HOST}/post.php?id=77"
    assert careless.fold(f"{HOST}/list.php?id=77&page=2") == f"{HOST}/list.php?id=77&page=2"


def test_a_parameter_is_taken_out_wherever_it_stands() -> None:
    assert without_key(f"{HOST}/?a=1&b=2&a=3", "a") == f"{HOST}/?b=2"
    assert without_key(f"{HOST}/?a=1", "a") == f"{HOST}/"
