"""robots.txt in every state: each on a host of its own, `NAME.rules.test`, with three pages to be allowed or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from webmill.testing.exchange import HTML, TEXT, Answer, Cut, HttpReply, ReceivedRequest, ScriptedReply, Step, Wait
from webmill.testing.features.base import Feature, page

AnswerFunction = Callable[[ReceivedRequest], Answer]


def features() -> list[Feature]:
    made: list[Feature] = []
    for name, description, answer in _variants():
        host = f"{name}.rules.test"
        made.append(Feature(host=host, path="/robots.txt", description=description, answer=answer))
        made += _pages(host)
    made.append(
        Feature(
            host="moved.rules.test",
            path="/elsewhere/robots.txt",
            description="where /robots.txt leads: `/closed` is forbidden",
            answer=_text("User-agent: *\nDisallow: /closed\n"),
        )
    )
    made.append(Feature(host="far.rules.test", path="/hop/*", description="next hop", answer=_hop, start="/hop/1"))
    return made


def _pages(host: str) -> list[Feature]:
    links = ["/open.html", "/closed.html"]
    return [
        Feature(host=host, path="/", description="links to both pages", answer=lambda _: page("Rules", links=links)),
        Feature(host=host, path="/open.html", description="a page", answer=lambda _: page("Open")),
        Feature(
            host=host, path="/closed.html", description="a page some rules forbid", answer=lambda _: page("Closed")
        ),
    ]


def _variants() -> Iterator[tuple[str, str, AnswerFunction]]:
    closed = "User-agent: *\nDisallow: /closed\n"
    yield "allow", "everything allowed", _text("User-agent: *\nAllow: /\n")
    yield "empty", "200 with no bytes: all allowed", _text("")
    yield "forbid", "everything forbidden", _text("User-agent: *\nDisallow: /\n")
    yield "some", "`/closed` forbidden", _text(closed)
    yield "wild", "`/*.html$` forbidden, `/open` allowed (longer wins)", _text(_WILD)
    yield "agents", "`webmill` may read all, others nothing", _text(_AGENTS)
    yield "delay", "Crawl-delay: 2", _text("User-agent: *\nCrawl-delay: 2\n")
    yield "delay-huge", "Crawl-delay: 1e308", _text("User-agent: *\nCrawl-delay: 1e308\n")
    yield "delay-negative", "Crawl-delay: -5", _text("User-agent: *\nCrawl-delay: -5\n")
    yield "delay-nan", "Crawl-delay: NaN", _text("User-agent: *\nCrawl-delay: NaN\n")
    for status in (401, 403, 404, 410, 429, 500, 503):
        yield f"status-{status}", f"{status}", _status(status)
    yield "moved", "301 to /elsewhere/robots.txt", _redirect("/elsewhere/robots.txt")
    yield "moved-host", "302 to http://some.rules.test/robots.txt", _redirect("http://some.rules.test/robots.txt")
    yield "moved-private", "302 to http://10.0.0.8/robots.txt", _redirect("http://10.0.0.8/robots.txt")
    yield "moved-loop", "302 to itself", _redirect("/robots.txt")
    yield "far", "seven redirects, then `/closed` forbidden", _redirect("/hop/1")
    yield "huge", "600 kB; `/open` forbidden at the start, `/closed` after 500 KiB", _huge
    yield "many", "30,000 rules with wildcards", _many
    yield "stars", "one rule `/*a*a*a…$` with 200 stars", _text(f"User-agent: *\nDisallow: /{'*a' * 200}$\n")
    yield "html", "an HTML page instead", lambda _: HttpReply(body=page("Hello").body, media_type=HTML)
    yield "binary", "NUL and other binary bytes", _bytes(bytes(range(256)) * 8)
    yield "utf16", "UTF-16 with BOM", _bytes(closed.encode("utf-16"))
    yield "bom", "UTF-8 BOM before the first line", _bytes(b"\xef\xbb\xbf" + closed.encode())
    yield "cr", "lines end in CR only", _bytes(closed.replace("\n", "\r").encode())
    yield "slow", "one byte per beat, `/closed` forbidden", lambda _: ScriptedReply(steps=_drip(closed.encode()))
    yield "silent", "no answer for 1,000 beats", lambda _: ScriptedReply(steps=(Wait(1000),))
    yield "reset", "RST instead of an answer", lambda _: ScriptedReply(status=0, steps=(Cut.RST,))


_WILD = "User-agent: *\nDisallow: /*.html$\nAllow: /open.html\n"
_AGENTS = "User-agent: webmill\nDisallow:\n\nUser-agent: *\nDisallow: /\n"


def _text(rules: str) -> AnswerFunction:
    return _bytes(rules.encode())


def _bytes(body: bytes) -> AnswerFunction:
    return lambda _: HttpReply(body=body, media_type=TEXT)


def _status(status: int) -> AnswerFunction:
    headers = (("Retry-After", "3"),) if status in (429, 503) else ()
    # A body that would forbid everything: whoever reads it despite the status is caught.
    return lambda _: HttpReply(status=status, body=b"User-agent: *\nDisallow: /\n", media_type=TEXT, headers=headers)


def _redirect(to: str) -> AnswerFunction:
    return lambda _: HttpReply(status=302 if "://" in to else 301, headers=(("Location", to),))


def _hop(request: ReceivedRequest) -> Answer:
    hop = int(request.path[-1]) if request.path[-1].isdecimal() else 7
    if hop < 7:
        return HttpReply(status=302, headers=(("Location", f"/hop/{hop + 1}"),))
    return HttpReply(body=b"User-agent: *\nDisallow: /closed\n", media_type=TEXT)


def _huge(_: ReceivedRequest) -> Answer:
    comment = b"# " + b"z" * 96 + b"\n"
    body = b"User-agent: *\nDisallow: /open\n" + comment * 6000 + b"Disallow: /closed\n"
    return HttpReply(body=body, media_type=TEXT)


def _many(_: ReceivedRequest) -> Answer:
    rules = "".join(f"Disallow: /*{n}*x{n}$\n" for n in range(30_000))
    return HttpReply(body=f"User-agent: *\n{rules}".encode(), media_type=TEXT)


def _drip(body: bytes) -> Iterator[Step]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body)
    for byte in body:
        yield Wait()
        yield bytes([byte])
