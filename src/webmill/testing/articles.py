"""Readable articles in one language as complete HTML pages; the same arguments give the same bytes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import escape
from urllib.parse import urljoin

from msgspec import Struct

from webmill.testing.languages import LanguageSample
from webmill.testing.seeded_random import SeededRandom

FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)


class ArticleLink(Struct, frozen=True):
    href: str
    text: str


class Article(Struct, frozen=True, kw_only=True):
    """The content of a story, before it is rendered as HTML."""

    url: str
    language: LanguageSample
    title: str
    paragraphs: tuple[str, ...]
    written: datetime

    @property
    def summary(self) -> str:
        return self.paragraphs[0]


def write_article(*, seed: int, url: str, number: int, revision: int, language: LanguageSample) -> Article:
    """Return an article; a new revision keeps the title and rewrites the text."""
    title = SeededRandom(seed, url, "title").choice(language.titles)
    random = SeededRandom(seed, url, "text", revision)
    drawn = random.sample(language.sentences, 6 + random.below(8))
    sentences = [sentence.replace("{n}", str(2 + random.below(997))) for sentence in drawn]
    paragraphs = tuple(language.joint.join(sentences[at : at + 4]) for at in range(0, len(sentences), 4))
    written = FIRST_DAY + timedelta(days=number % 300, hours=revision)
    return Article(url=url, language=language, title=f"{title} · {number}", paragraphs=paragraphs, written=written)


def render_article(article: Article, *, nav: list[ArticleLink], related: list[ArticleLink], picture: str) -> bytes:
    """Return the article as an HTML page; `related` are links to other stories, hosts and files."""
    language, title = article.language, escape(article.title)
    text = "\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in article.paragraphs)
    return f"""<!doctype html>
<html lang="{language.code}" dir="{language.direction}">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="description" content="{escape(article.summary)}">
<link rel="canonical" href="{article.url}">
<meta property="og:type" content="article">
<meta property="og:title" content="{title}">
<meta property="og:url" content="{article.url}">
<meta property="og:image" content="{urljoin(article.url, picture)}">
<meta property="article:published_time" content="{article.written.isoformat()}">
<link rel="stylesheet" href="/style.css">
<link rel="alternate" type="application/rss+xml" title="{title}" href="/feed.xml">
</head>
<body>
<nav>{_anchors(nav, " ")}</nav>
<main><article>
<h1>{title}</h1>
<p><time datetime="{article.written.date()}">{article.written.date()}</time></p>
<figure><img src="{picture}" alt="{title}" width="8" height="8"></figure>
{text}
</article></main>
<footer><h2>{escape(language.neighbours)}</h2>
<ul>
<li>{_anchors(related, "</li>" + chr(10) + "<li>")}</li>
</ul></footer>
</body>
</html>
""".encode()


def _anchors(links: list[ArticleLink], joint: str) -> str:
    return joint.join(f'<a href="{escape(link.href)}">{escape(link.text)}</a>' for link in links)


def plain_page(title: str, body: str, *, head: str = "") -> bytes:
    """Return a short English page; `head` and `body` are inserted as HTML."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n{head}'
        f"</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    ).encode()
