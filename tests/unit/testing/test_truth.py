"""The content is the same on every run, and is what the truth says."""

from __future__ import annotations

import re
import tracemalloc
from collections import Counter, deque
from itertools import islice
from urllib.parse import urljoin, urlsplit

import pytest
import urllib3

from tests.unit.testing.clients import get
from webmill.errors import NotFound
from webmill.testing import ExpectedPage, TestWeb
from webmill.testing.story_host import digest_of

_REFERENCE = re.compile(rb'(?:href|src)="([^"]+)"')
_NOT_LINKS = re.compile(rb'<link rel="(?:canonical)"[^>]*>')


def walk(web: TestWeb) -> dict[str, tuple[int, str]]:
    """A naive breadth-first walk along every reference, over the sockets."""
    found: dict[str, tuple[int, str]] = {}
    waiting = deque([web.home])
    with urllib3.PoolManager(num_pools=50) as pool:
        while waiting:
            url = waiting.popleft()
            if url in found:
                continue
            parts = urlsplit(url)
            address, port = web.resolve[parts.hostname or ""]
            answer = pool.request(
                "GET",
                f"http://{address}:{port}{parts.path}",
                headers={"Host": parts.hostname or ""},
                redirect=False,
                retries=False,
            )
            found[url] = answer.status, digest_of(answer.data)
            waiting.extend(urljoin(url, each) for each in references(answer))
    return found


def references(answer: urllib3.BaseHTTPResponse) -> list[str]:
    if "location" in answer.headers:
        return [answer.headers["location"]]
    if "html" not in answer.headers.get("content-type", ""):
        return []
    return [each.decode() for each in _REFERENCE.findall(_NOT_LINKS.sub(b"", answer.data))]


def truth(web: TestWeb) -> dict[str, tuple[int, str]]:
    return {page.url: (page.status, page.digest) for page in web.pages()}


def test_a_walk_along_the_links_finds_exactly_the_truth() -> None:
    with TestWeb(seed=7, hosts=24, pages_per_host=12) as web:
        assert walk(web) == truth(web)
        assert len(truth(web)) == 24 * (12 + 10)


def test_after_some_versions_a_walk_still_finds_exactly_the_truth() -> None:
    with TestWeb(seed=3, hosts=9, pages_per_host=30) as web:
        for _ in range(4):
            web.advance()
        assert any(web.removed())
        assert walk(web) == truth(web)


def test_a_version_changes_some_pages_removes_some_and_adds_some() -> None:
    with TestWeb() as web:
        before = truth(web)
        assert web.advance() == 2
        after = truth(web)
        changed = {url for url in before.keys() & after.keys() if before[url] != after[url]}
        assert changed
        assert before.keys() & after.keys() - changed
        assert after.keys() - before.keys()
        gone = before.keys() - after.keys()
        stories = {url for url in gone if "/stories/" in url}
        assert stories
        assert stories == {page.url for page in web.removed()}
        assert {page.status for page in web.removed()} <= {404, 410}
        web.version = 1
        assert truth(web) == before


def test_the_served_bytes_follow_the_version() -> None:
    with TestWeb(pages_per_host=40) as web:
        before = truth(web)
        web.advance()
        page = next(p for p in web.pages() if before.get(p.url, (0, p.digest))[1] != p.digest)
        assert digest_of(get(web, page.url).body) == page.digest
        vanished = next(web.removed())
        assert get(web, vanished.url).status == vanished.status


def test_a_second_visit_by_etag_or_date_gets_304_exactly_where_nothing_changed() -> None:
    with TestWeb(hosts=4, pages_per_host=30) as web:
        first = {page.url: page for page in web.pages() if page.status == 200}
        fields = {url: get(web, url).headers for url in first}
        web.advance()
        now = {page.url: page for page in web.pages() if page.url in first}
        for url, page in now.items():
            expected = 304 if page.digest == first[url].digest else 200
            if "ETag" in fields[url]:
                assert get(web, url, If_None_Match=fields[url]["ETag"]).status == expected
                assert get(web, url, If_Modified_Since=fields[url]["Last-Modified"]).status == expected
        assert any(page.digest == first[url].digest for url, page in now.items())


def test_two_webs_with_the_same_seed_are_the_same() -> None:
    with TestWeb(seed=5, hosts=6) as one, TestWeb(seed=5, hosts=6) as two:
        assert list(one.pages()) == list(two.pages())
        for feature in one.features:
            if feature.host in ("codes.mill.example", "slow.harvest.test"):
                continue  # these count, or do not end
            request = feature.url
            try:
                assert one.body(request) == two.body(request)
            except NotFound:
                pass


def test_another_seed_makes_other_pages() -> None:
    with TestWeb(seed=5, hosts=6) as one, TestWeb(seed=6, hosts=6) as two:
        ours, theirs = truth(one), truth(two)
        stories = [url for url in ours if "/stories/" in url]
        assert all(ours[url] != theirs[url] for url in stories)


def test_the_bytes_of_a_known_page_never_change() -> None:
    """Fixed here so that a new Python or library cannot change them unseen."""
    with TestWeb(seed=1) as web:
        known = {urlsplit(page.url).path: page.digest for page in islice(web.pages(), 14)}
    assert known["/logo.png"] == "sha1:VWKL6XMFLWZJKJAXDRXKNED5FVMPEBQB"
    assert known["/report.pdf"] == "sha1:DZEGLGI5BS6XYJR3WFY2ESKDULZQ55ZR"
    assert known["/stories/00001.html"] == "sha1:NQNO5PBLOBWF6VKRJMEITWTWW2OOQWSA"


def test_the_duplicate_has_the_same_digest_as_the_story() -> None:
    with TestWeb(hosts=2) as web:
        by_url = {page.url: page for page in web.pages()}
    assert (
        by_url["http://www.mill.example/print/00001.html"].digest
        == by_url["http://www.mill.example/stories/00001.html"].digest
    )


def test_the_truth_knows_what_robots_forbids_and_where_redirects_lead() -> None:
    with TestWeb(hosts=2) as web:
        by_url = {page.url: page for page in web.pages()}
        robots = web.body("http://www.mill.example/robots.txt")
    assert b"Disallow: /private/" in robots
    assert {url for url, page in by_url.items() if not page.allowed} == {
        "http://www.mill.example/private/diary.html",
        "http://news.mill.example/private/diary.html",
    }
    assert by_url["http://news.mill.example/old-home"].location == "http://news.mill.example/"


def test_pages_come_in_ten_languages_with_their_scripts() -> None:
    marks = {
        "de": "üäö",
        "pt": "ãçéí",
        "ko": "다",
        "ja": "の",
        "zh": "的了",
        "ar": "ة",
        "fr": "éèœ",
        "es": "óñé",
        "ru": "и",
    }
    with TestWeb() as web:
        pages = [page for page in web.pages() if page.language and page.allowed]
        assert Counter(page.language for page in pages).keys() == {"en", *marks}
        for page in pages:
            text = web.body(page.url).decode()
            assert f'<html lang="{page.language}"' in text
            assert page.language == "en" or any(mark in text for mark in marks[page.language])


def test_the_sitemap_and_the_feed_name_live_stories() -> None:
    with TestWeb(hosts=3, pages_per_host=20) as web:
        web.version = 3
        live = {page.url for page in web.pages() if page.status == 200}
        locations = re.findall(r"<loc>([^<]+)</loc>", web.body("http://news.mill.example/sitemap.xml").decode())
        items = re.findall(r"<guid>([^<]+)</guid>", web.body("http://news.mill.example/feed.xml").decode())
    assert set(locations) == {u for u in live if u.startswith("http://news.") and (u.endswith("/") or "/stories/" in u)}
    assert items
    assert set(items) <= live


def test_a_thousand_hosts_are_not_built_before_they_are_asked() -> None:
    tracemalloc.start()
    try:
        with TestWeb(hosts=1000, pages_per_host=5) as web:
            last = f"http://{web.names[-1]}/stories/00004.html"
            assert get(web, last).status == 200
            seen = sum(1 for _ in islice(web.pages(), 3000))
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen == 3000
    assert peak < 30 << 20


def test_a_page_of_many_thousands_is_answered_alone() -> None:
    with TestWeb(hosts=1, pages_per_host=50_000) as web:
        page: ExpectedPage = next(p for p in web.pages() if p.url.endswith("/stories/00010.html"))
        assert digest_of(get(web, page.url).body) == page.digest
        assert get(web, "http://www.mill.example/stories/49999.html").status == 200
        assert get(web, "http://www.mill.example/stories/50000.html").status == 404


def test_body_of_an_unknown_host_or_a_script_is_not_found(web: TestWeb) -> None:
    with pytest.raises(NotFound):
        web.body("http://nobody.names.test/")
    with pytest.raises(NotFound):
        web.body("http://broken.harvest.test/lf-only")
