"""Articles: readable, in one language, with everything a page on the web carries; the same bytes for the same key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import escape
from urllib.parse import urljoin

from msgspec import Struct

from webmill.testing.dice import Dice
from webmill.testing.languages import Language

FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)


class Link(Struct, frozen=True):
    href: str
    text: str


class Article(Struct, frozen=True, kw_only=True):
    """What a story says, before it is dressed as HTML."""

    url: str
    language: Language
    title: str
    paragraphs: tuple[str, ...]
    written: datetime

    @property
    def summary(self) -> str:
        return self.paragraphs[0]


def write_article(*, seed: int, url: str, number: int, revision: int, language: Language) -> Article:
    """A revision keeps the title and rewrites the text."""
    title = Dice(seed, url, "title").choice(language.titles)
    dice = Dice(seed, url, "text", revision)
    drawn = dice.sample(language.sentences, 6 + dice.below(8))
    told = [sentence.replace("{n}", str(2 + dice.below(997))) for sentence in drawn]
    paragraphs = tuple(language.joint.join(told[start : start + 4]) for start in range(0, len(told), 4))
    written = FIRST_DAY + timedelta(days=number % 300, hours=revision)
    return Article(url=url, language=language, title=f"{title} · {number}", paragraphs=paragraphs, written=written)


def dress(article: Article, *, nav: list[Link], related: list[Link], picture: str) -> bytes:
    """The article as an HTML page; `related` are links to other stories, other hosts and files."""
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


def _anchors(links: list[Link], joint: str) -> str:
    return joint.join(f'<a href="{escape(link.href)}">{escape(link.text)}</a>' for link in links)


def plain_page(title: str, body: str, *, head: str = "") -> bytes:
    """A short English page for the features; `head` and `body` are HTML as they stand."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n{head}'
        f"</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    ).encode()
