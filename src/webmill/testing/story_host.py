"""An ordinary, well-behaved host: a home page, stories, a feed, a sitemap, some files, one forbidden folder.

Every answer is computed from (seed, host, path, version); nothing is stored. In each version some stories are
rewritten, some are gone and some are new.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import sha1
from html import escape

from msgspec import Struct

from webmill.testing.articles import FIRST_DAY, Article, ArticleLink, plain_page, render_article, write_article
from webmill.testing.assets import css, pdf, png
from webmill.testing.exchange import (
    HTML,
    TEXT,
    Answer,
    ExpectedPage,
    HttpReply,
    ReceivedRequest,
    http_date,
    reply_with_etag,
)
from webmill.testing.languages import LANGUAGES
from webmill.testing.seeded_random import SeededRandom, hash_number

_STORY = re.compile(r"/stories/(\d{5,})\.html")
_BRANCHES = 8  # stories are linked as a tree of this width and as a chain


class WebPlan(Struct, frozen=True, kw_only=True):
    """What all ordinary hosts share: the seed, the size and the names of the web."""

    seed: int
    names: tuple[str, ...]
    pages_per_host: int


class StoryHost:
    """A host with stories; `index` is its position in `plan.names`."""

    def __init__(self, plan: WebPlan, index: int) -> None:
        self.plan, self.index, self.name = plan, index, plan.names[index]
        self.language = LANGUAGES[index % len(LANGUAGES)]
        self._growth = max(1, plan.pages_per_host // 10)  # new stories with each version

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.method not in ("GET", "HEAD"):
            return HttpReply(status=405, media_type="", headers=(("Allow", "GET, HEAD"),))
        path, version = request.path, request.version
        if found := _STORY.fullmatch(path):
            return self._story(int(found[1]), version)
        return self._file(path, version) or _missing(404)

    def pages(self, version: int) -> Iterator[ExpectedPage]:
        paths = ["/", "/style.css", "/logo.png", "/about.txt", "/data.json", "/report.pdf", "/feed.xml"]
        paths += ["/old-home", "/missing.html", "/private/diary.html", "/print/00001.html"]
        for path in paths[: None if self._is_live(1, version) else -1]:
            yield self._expected_page(path, version)
        for story in self.live_stories(version):
            yield self._expected_page(story_path(story), version)

    def removed(self, version: int) -> Iterator[ExpectedPage]:
        """Yield the stories of earlier versions that a later crawl finds gone."""
        for story in range(1, self._count(version - 1) + 1):
            if not self._is_live(story, version):
                yield self._expected_page(story_path(story), version)

    def live_stories(self, version: int) -> Iterator[int]:
        return (story for story in range(1, self._count(version) + 1) if self._is_live(story, version))

    # --- what there is at this version ---

    def _count(self, version: int) -> int:
        """Return how many stories were ever written; the home page takes one of the pages."""
        return self.plan.pages_per_host - 1 + self._growth * (version - 1)

    def _first_version(self, story: int) -> int:
        added = max(0, story - self._count(1))
        return 1 - (-added // self._growth)

    def _is_live(self, story: int, version: int) -> bool:
        if not 1 <= story <= self._count(version):
            return False
        later = range(self._first_version(story) + 1, version + 1)
        return not any(self._hash(story, each, "remove") % 16 == 0 for each in later)

    def _revision(self, story: int, version: int) -> int:
        later = range(self._first_version(story) + 1, version + 1)
        return 1 + sum(self._hash(story, each, "rewrite") % 5 == 0 for each in later)

    def _hash(self, *key: object) -> int:
        return hash_number(self.plan.seed, self.name, *key)

    # --- stories ---

    def _story(self, story: int, version: int) -> HttpReply:
        if not self._is_live(story, version):
            return _missing(410 if self._hash(story) % 2 and story <= self._count(version) else 404)
        body, since = self._story_body(story, version), version
        while since > self._first_version(story) and self._story_body(story, since - 1) == body:
            since -= 1
        return reply_with_etag(body, HTML, modified=FIRST_DAY + timedelta(days=story % 300, hours=since))

    def _story_body(self, story: int, version: int) -> bytes:
        """Return the page; links to new or removed stories change it without a new revision of its text."""
        nav = [ArticleLink("/", self.language.home)]
        following = self._next(story, version)
        if following:
            nav.append(ArticleLink(story_path(following), self.language.next))
        related = self._branches(story, version) + self._elsewhere(story)
        return render_article(self._article(story, version), nav=nav, related=related, picture="/logo.png")

    def _article(self, story: int, version: int) -> Article:
        return write_article(
            seed=self.plan.seed,
            url=self._url(story_path(story)),
            number=story,
            revision=self._revision(story, version),
            language=self.language,
        )

    def _next(self, story: int, version: int) -> int | None:
        """Return the next live story: the chain reaches every story even where a branch of the tree is gone."""
        following = (each for each in range(story + 1, self._count(version) + 1) if self._is_live(each, version))
        return next(following, None)

    def _branches(self, story: int, version: int) -> list[ArticleLink]:
        first = story * _BRANCHES + 1
        live = (each for each in range(first, first + _BRANCHES) if self._is_live(each, version))
        return [ArticleLink(story_path(each), self._title(each)) for each in live]

    def _title(self, story: int) -> str:
        url = self._url(story_path(story))
        return f"{SeededRandom(self.plan.seed, url, 'title').choice(self.language.titles)} · {story}"

    def _elsewhere(self, story: int) -> list[ArticleLink]:
        """Return links to two other home pages, never to a story that may be gone."""
        random = SeededRandom(self.plan.seed, self.name, story, "elsewhere")
        return [ArticleLink(f"http://{name}/", name) for name in (random.choice(self.plan.names) for _ in range(2))]

    # --- the home page and the files ---

    def _home(self, version: int) -> HttpReply:
        article = write_article(
            seed=self.plan.seed, url=self._url("/"), number=0, revision=version, language=self.language
        )
        first = self._next(0, version)
        nav = [ArticleLink("/", self.language.home)] + (
            [ArticleLink(story_path(first), self.language.next)] if first else []
        )
        files = ["/about.txt", "/data.json", "/report.pdf", "/old-home", "/missing.html", "/private/diary.html"]
        files += ["/print/00001.html"] if self._is_live(1, version) else []
        related = self._branches(0, version) + self._neighbours() + [ArticleLink(path, path) for path in files]
        return reply_with_etag(
            render_article(article, nav=nav, related=related, picture="/logo.png"), HTML, modified=article.written
        )

    def _neighbours(self) -> list[ArticleLink]:
        """Return links that form a tree over all hosts: every host is reached from the first."""
        names = self.plan.names[self.index * 3 + 1 : self.index * 3 + 4]
        return [ArticleLink(f"http://{name}/", name) for name in names]

    def _file(self, path: str, version: int) -> HttpReply | None:  # noqa: C901 - a table of paths, read as one
        match path:
            case "/":
                return self._home(version)
            case "/robots.txt":
                return reply_with_etag(self._robots(), TEXT, modified=FIRST_DAY)
            case "/sitemap.xml":
                return HttpReply(body=self._sitemap(version), media_type="application/xml")
            case "/feed.xml":
                return HttpReply(body=self._feed(version), media_type="application/rss+xml")
            case "/style.css":
                return reply_with_etag(css(colour=self._colour()), "text/css", modified=FIRST_DAY, ranges=True)
            case "/logo.png":
                return reply_with_etag(png(colour=self._colour()), "image/png", modified=FIRST_DAY, ranges=True)
            case "/about.txt":
                return reply_with_etag(f"{self.name}\n{self.language.titles[0]}\n".encode(), TEXT, modified=FIRST_DAY)
            case "/data.json":
                return HttpReply(body=self._data(version), media_type="application/json")
            case "/report.pdf":
                return reply_with_etag(
                    pdf(f"Report of {self.name}"), "application/pdf", modified=FIRST_DAY, ranges=True
                )
            case "/old-home":
                return HttpReply(status=301, headers=(("Location", "/"),))
            case "/private/diary.html":
                body = plain_page("A diary", "<p>robots.txt forbids this page: you should not read it.</p>")
                return reply_with_etag(body, HTML, modified=FIRST_DAY)
            case "/print/00001.html":  # same bytes as the story: a duplicate with a canonical link
                return self._story(1, version)
        return None

    def _robots(self) -> bytes:
        return f"User-agent: *\nDisallow: /private/\n\nSitemap: {self._url('/sitemap.xml')}\n".encode()

    def _sitemap(self, version: int) -> bytes:
        entries = [(self._url("/"), FIRST_DAY + timedelta(hours=version))]
        entries += [(a.url, a.written) for a in (self._article(n, version) for n in self.live_stories(version))]
        return sitemap(entries)

    def _feed(self, version: int) -> bytes:
        stories = [self._article(story, version) for story in self._newest(version)]
        items = "".join(
            f"<item><title>{escape(a.title)}</title><link>{a.url}</link><guid>{a.url}</guid>"
            f"<pubDate>{http_date(a.written)}</pubDate><description>{escape(a.summary)}</description></item>\n"
            for a in stories
        )
        channel = f"<title>{self.name}</title><link>{self._url('/')}</link><language>{self.language.code}</language>"
        return f'<?xml version="1.0"?>\n<rss version="2.0"><channel>{channel}\n{items}</channel></rss>\n'.encode()

    def _newest(self, version: int) -> list[int]:
        last = self._count(version)
        return [story for story in range(last, max(0, last - 10), -1) if self._is_live(story, version)]

    def _data(self, version: int) -> bytes:
        facts = {"host": self.name, "language": self.language.code, "version": version, "pages": self._count(version)}
        return json.dumps(facts).encode()

    def _colour(self) -> tuple[int, int, int]:
        random = SeededRandom(self.plan.seed, self.name, "colour")
        return random.below(200), random.below(200), random.below(200)

    # --- what a crawl must find ---

    def _url(self, path: str) -> str:
        return f"http://{self.name}{path}"

    def _language_of(self, path: str) -> str:
        if path.startswith("/private/"):
            return "en"
        return self.language.code if path.endswith(("/", ".html")) else ""

    def _expected_page(self, path: str, version: int) -> ExpectedPage:
        reply = self.answer(ReceivedRequest(host=self.name, path=path, version=version))
        assert isinstance(reply, HttpReply)
        location = dict(reply.headers).get("Location", "")
        return ExpectedPage(
            url=self._url(path),
            status=reply.status,
            media_type=reply.media_type,
            length=len(reply.body),
            digest=digest_of(reply.body),
            language=self._language_of(path) if reply.status == 200 else "",
            location=self._url(location) if location else "",
            allowed=not path.startswith("/private/"),
        )


def story_path(story: int) -> str:
    return f"/stories/{story:05}.html"


def digest_of(body: bytes) -> str:
    return "sha1:" + base64.b32encode(sha1(body, usedforsecurity=False).digest()).decode()


def sitemap(entries: list[tuple[str, datetime]]) -> bytes:
    urls = "".join(f"<url><loc>{escape(url)}</loc><lastmod>{day.isoformat()}</lastmod></url>\n" for url, day in entries)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{space}">\n{urls}</urlset>\n'.encode()


def _missing(status: int) -> HttpReply:
    return HttpReply(status=status, body=plain_page("Not here", "<p>There is no such page, or not any more.</p>"))
