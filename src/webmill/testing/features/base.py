"""One feature: a known path on a known host with a known answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape

from msgspec import Struct

from webmill.testing.exchange import TEXT, Answer, Page, Reply, Request
from webmill.testing.pages import plain_page


class Feature(Struct, frozen=True, kw_only=True):
    """`path` may end in `*` and then stands for all that begin so; `start` is one of those to begin with.

    `says` is the line of the table in docs/reference/test-web.md.
    """

    host: str
    path: str
    says: str
    answer: Callable[[Request], Answer]
    start: str = ""

    @property
    def url(self) -> str:
        """Where to ask for it. Below a `*.` any name will do."""
        return f"http://{self.host.replace('*', 'first')}{self.start or self.path}"


class Shelf:
    """Collects the features of one host, in the order of the table."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.features: list[Feature] = []

    def add(self, path: str, says: str, answer: Callable[[Request], Answer], *, start: str = "") -> None:
        self.features.append(Feature(host=self.host, path=path, says=says, answer=answer, start=start))

    def put(self, path: str, says: str, answer: Answer) -> None:
        """An answer that is always the same. Scripts must hold their steps in a list or tuple, to be played again."""
        self.add(path, says, lambda _: answer)


class FeatureSite:
    """A host made of features. Where none is, it has a robots.txt that allows all and a home page that lists them."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self._features = list(features)
        self._exact = {f.path: f for f in self._features if not f.path.endswith("*")}
        self._prefixes = sorted((f for f in self._features if f.path.endswith("*")), key=lambda f: -len(f.path))

    def answer(self, request: Request) -> Answer:
        if feature := self._exact.get(request.path):
            return feature.answer(request)
        for feature in self._prefixes:
            if request.path.startswith(feature.path[:-1]):
                return feature.answer(request)
        if request.path == "/robots.txt":
            return Reply(body=b"User-agent: *\nAllow: /\n", media_type=TEXT)
        if request.path == "/":
            return Reply(body=self._index(request.host))
        return Reply(status=404, body=plain_page("Not here", "<p>No feature lives at this path.</p>"))

    def pages(self, version: int) -> Iterator[Page]:  # noqa: ARG002 - features are not part of the truth
        return iter(())

    def _index(self, host: str) -> bytes:
        rows = ((f.start or f.path, f.says) for f in self._features)
        items = "".join(f'<li><a href="{escape(path)}">{escape(path)}</a> {escape(says)}</li>\n' for path, says in rows)
        return plain_page(f"Features of {host}", f"<ul>\n{items}</ul>")


def page(title: str, text: str = "A page of the test web.", *, links: Iterable[str] = (), head: str = "") -> Reply:
    """A short page with links, given as hrefs."""
    anchors = "".join(f'<li><a href="{escape(href)}">{escape(href)}</a></li>\n' for href in links)
    body = f"<p>{text}</p>\n" + (f"<ul>\n{anchors}</ul>" if anchors else "")
    return Reply(body=plain_page(title, body, head=head))


def whole_number(text: str, *, default: int, most: int) -> int:
    """A number out of a path: clients may ask for anything."""
    return min(int(text), most) if text.isdecimal() and len(text) < 10 else default
