"""An ordinary, well-behaved host: a home page, stories, a feed, a site map, some files, one forbidden corner.

Everything is computed from (seed, host, path, version) when it is asked for; nothing is kept.
With each version some stories are rewritten, some vanish and some are new.
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

from webmill.testing.assets import css, pdf, png
from webmill.testing.dice import Dice, number
from webmill.testing.exchange import HTML, TEXT, Answer, Page, Reply, Request, http_date, known
from webmill.testing.languages import LANGUAGES
from webmill.testing.pages import FIRST_DAY, Article, Link, dress, plain_page, write_article

_STORY = re.compile(r"/stories/(\d{5,})\.html")
_BRANCHES = 8  # stories are linked as a tree of this width, and as a chain


class Plan(Struct, frozen=True, kw_only=True):
    """What all ordinary hosts know about the web: its seed, its size, and each other's names."""

    seed: int
    names: tuple[str, ...]
    pages_per_host: int


class Village:
    """A host; `index` is its place in the plan."""

    def __init__(self, plan: Plan, index: int) -> None:
        self.plan, self.index, self.name = plan, index, plan.names[index]
        self.language = LANGUAGES[index % len(LANGUAGES)]
        self._growth = max(1, plan.pages_per_host // 10)  # new stories with each version

    def answer(self, request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            return Reply(status=405, media_type="", headers=(("Allow", "GET, HEAD"),))
        path, version = request.path, request.version
        if found := _STORY.fullmatch(path):
            return self._story(int(found[1]), version)
        return self._file(path, version) or _missing(404)

    def pages(self, version: int) -> Iterator[Page]:
        paths = ["/", "/style.css", "/logo.png", "/about.txt", "/data.json", "/report.pdf", "/feed.xml"]
        paths += ["/old-home", "/missing.html", "/private/diary.html", "/print/00001.html"]
        for path in paths[: None if self._is_live(1, version) else -1]:
            yield self._truth(path, version)
        for story in self.live_stories(version):
            yield self._truth(story_path(story), version)

    def removed(self, version: int) -> Iterator[Page]:
        """Stories that an earlier version had: what a second crawl finds gone."""
        for story in range(1, self._count(version - 1) + 1):
            if not self._is_live(story, version):
                yield self._truth(story_path(story), version)

    def live_stories(self, version: int) -> Iterator[int]:
        return (story for story in range(1, self._count(version) + 1) if self._is_live(story, version))

    # --- what there is at this version ---

    def _count(self, version: int) -> int:
        """Stories ever written; the home page counts as a page, so there is one story less at first."""
        return self.plan.pages_per_host - 1 + self._growth * (version - 1)

    def _born(self, story: int) -> int:
        added = max(0, story - self._count(1))
        return 1 - (-added // self._growth)

    def _is_live(self, story: int, version: int) -> bool:
        if not 1 <= story <= self._count(version):
            return False
        later = range(self._born(story) + 1, version + 1)
        return not any(self._chance(story, each, "remove") % 16 == 0 for each in later)

    def _revision(self, story: int, version: int) -> int:
        later = range(self._born(story) + 1, version + 1)
        return 1 + sum(self._chance(story, each, "rewrite") % 5 == 0 for each in later)

    def _chance(self, *key: object) -> int:
        return number(self.plan.seed, self.name, *key)

    # --- stories ---

    def _story(self, story: int, version: int) -> Reply:
        if not self._is_live(story, version):
            return _missing(410 if self._chance(story) % 2 and story <= self._count(version) else 404)
        body, since = self._story_body(story, version), version
        while since > self._born(story) and self._story_body(story, since - 1) == body:
            since -= 1
        return known(body, HTML, modified=FIRST_DAY + timedelta(days=story % 300, hours=since))

    def _story_body(self, story: int, version: int) -> bytes:
        """Links to stories that vanish or are new change a page too, without a new revision of its text."""
        nav = [Link("/", self.language.home)]
        following = self._next(story, version)
        if following:
            nav.append(Link(story_path(following), self.language.next))
        related = self._branches(story, version) + self._elsewhere(story)
        return dress(self._article(story, version), nav=nav, related=related, picture="/logo.png")

    def _article(self, story: int, version: int) -> Article:
        return write_article(
            seed=self.plan.seed,
            url=self._url(story_path(story)),
            number=story,
            revision=self._revision(story, version),
            language=self.language,
        )

    def _next(self, story: int, version: int) -> int | None:
        """The chain reaches every live story even where a branch of the tree is gone."""
        following = (each for each in range(story + 1, self._count(version) + 1) if self._is_live(each, version))
        return next(following, None)

    def _branches(self, story: int, version: int) -> list[Link]:
        first = story * _BRANCHES + 1
        live = (each for each in range(first, first + _BRANCHES) if self._is_live(each, version))
        return [Link(story_path(each), self._title(each)) for each in live]

    def _title(self, story: int) -> str:
        url = self._url(story_path(story))
        return f"{Dice(self.plan.seed, url, 'title').choice(self.language.titles)} · {story}"

    def _elsewhere(self, story: int) -> list[Link]:
        """Two other home pages: links between hosts, and never to a story that may be gone."""
        dice = Dice(self.plan.seed, self.name, story, "elsewhere")
        return [Link(f"http://{name}/", name) for name in (dice.choice(self.plan.names) for _ in range(2))]

    # --- the home page and the files ---

    def _home(self, version: int) -> Reply:
        article = write_article(
            seed=self.plan.seed, url=self._url("/"), number=0, revision=version, language=self.language
        )
        first = self._next(0, version)
        nav = [Link("/", self.language.home)] + ([Link(story_path(first), self.language.next)] if first else [])
        files = ["/about.txt", "/data.json", "/report.pdf", "/old-home", "/missing.html", "/private/diary.html"]
        files += ["/print/00001.html"] if self._is_live(1, version) else []
        related = self._branches(0, version) + self._neighbours() + [Link(path, path) for path in files]
        return known(dress(article, nav=nav, related=related, picture="/logo.png"), HTML, modified=article.written)

    def _neighbours(self) -> list[Link]:
        """A tree over all hosts: every host is reached from the first."""
        names = self.plan.names[self.index * 3 + 1 : self.index * 3 + 4]
        return [Link(f"http://{name}/", name) for name in names]

    def _file(self, path: str, version: int) -> Reply | None:  # noqa: C901 - a table of paths, read as one
        match path:
            case "/":
                return self._home(version)
            case "/robots.txt":
                return known(self._robots(), TEXT, modified=FIRST_DAY)
            case "/sitemap.xml":
                return Reply(body=self._sitemap(version), media_type="application/xml")
            case "/feed.xml":
                return Reply(body=self._feed(version), media_type="application/rss+xml")
            case "/style.css":
                return known(css(colour=self._colour()), "text/css", modified=FIRST_DAY, ranges=True)
            case "/logo.png":
                return known(png(colour=self._colour()), "image/png", modified=FIRST_DAY, ranges=True)
            case "/about.txt":
                return known(f"{self.name}\n{self.language.titles[0]}\n".encode(), TEXT, modified=FIRST_DAY)
            case "/data.json":
                return Reply(body=self._data(version), media_type="application/json")
            case "/report.pdf":
                return known(pdf(f"Report of {self.name}"), "application/pdf", modified=FIRST_DAY, ranges=True)
            case "/old-home":
                return Reply(status=301, headers=(("Location", "/"),))
            case "/private/diary.html":
                body = plain_page("A diary", "<p>robots.txt forbids this page: you should not read it.</p>")
                return known(body, HTML, modified=FIRST_DAY)
            case "/print/00001.html":  # the same bytes as the story: a duplicate with a canonical link
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
        dice = Dice(self.plan.seed, self.name, "colour")
        return dice.below(200), dice.below(200), dice.below(200)

    # --- truth ---

    def _url(self, path: str) -> str:
        return f"http://{self.name}{path}"

    def _language_of(self, path: str) -> str:
        if path.startswith("/private/"):
            return "en"
        return self.language.code if path.endswith(("/", ".html")) else ""

    def _truth(self, path: str, version: int) -> Page:
        reply = self.answer(Request(host=self.name, path=path, version=version))
        assert isinstance(reply, Reply)
        location = dict(reply.headers).get("Location", "")
        return Page(
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


def _missing(status: int) -> Reply:
    return Reply(status=status, body=plain_page("Not here", "<p>There is no such page, or not any more.</p>"))
