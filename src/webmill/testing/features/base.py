"""One feature: a known path on a known host with a known answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape

from msgspec import Struct

from webmill.testing.articles import plain_page
from webmill.testing.exchange import TEXT, Answer, ExpectedPage, HttpReply, ReceivedRequest


class Feature(Struct, frozen=True, kw_only=True):
    """One path of a host and its answer.

    A `path` that ends in `*` stands for every path with that prefix; `start` is an example of one. `description` is the
    line of the table in docs/reference/test-web.md.
    """

    host: str
    path: str
    description: str
    answer: Callable[[ReceivedRequest], Answer]
    start: str = ""

    @property
    def url(self) -> str:
        """Return an example URL. Below a `*.` any name will do."""
        return f"http://{self.host.replace('*', 'first')}{self.start or self.path}"


class HostFeatures:
    """The features of one host, in the order of the table."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.features: list[Feature] = []

    def add(self, path: str, description: str, answer: Callable[[ReceivedRequest], Answer], *, start: str = "") -> None:
        self.features.append(Feature(host=self.host, path=path, description=description, answer=answer, start=start))

    def put(self, path: str, description: str, answer: Answer) -> None:
        """Add an answer that is always the same. Scripts must hold their steps in a list or tuple, to be sent again."""
        self.add(path, description, lambda _: answer)


class FeatureHost:
    """A host made of features. By default its robots.txt allows all and its home page lists the features."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self._features = list(features)
        self._exact = {f.path: f for f in self._features if not f.path.endswith("*")}
        self._prefixes = sorted((f for f in self._features if f.path.endswith("*")), key=lambda f: -len(f.path))

    def answer(self, request: ReceivedRequest) -> Answer:
        if feature := self._exact.get(request.path):
            return feature.answer(request)
        for feature in self._prefixes:
            if request.path.startswith(feature.path[:-1]):
                return feature.answer(request)
        if request.path == "/robots.txt":
            return HttpReply(body=b"User-agent: *\nAllow: /\n", media_type=TEXT)
        if request.path == "/":
            return HttpReply(body=self._index(request.host))
        return HttpReply(status=404, body=plain_page("Not here", "<p>There is no feature at this path.</p>"))

    def pages(self, version: int) -> Iterator[ExpectedPage]:  # noqa: ARG002 - features are not expected pages
        return iter(())

    def _index(self, host: str) -> bytes:
        rows = ((f.start or f.path, f.description) for f in self._features)
        items = "".join(
            f'<li><a href="{escape(path)}">{escape(path)}</a> {escape(description)}</li>\n'
            for path, description in rows
        )
        return plain_page(f"Features of {host}", f"<ul>\n{items}</ul>")


def page(title: str, text: str = "A page of the test web.", *, links: Iterable[str] = (), head: str = "") -> HttpReply:
    """Return a short page with links, given as hrefs."""
    anchors = "".join(f'<li><a href="{escape(href)}">{escape(href)}</a></li>\n' for href in links)
    body = f"<p>{text}</p>\n" + (f"<ul>\n{anchors}</ul>" if anchors else "")
    return HttpReply(body=plain_page(title, body, head=head))


def whole_number(text: str, *, default: int, most: int) -> int:
    """Return the number in `text`, at most `most`; `default` for anything else that a client may send."""
    return min(int(text), most) if text.isdecimal() and len(text) < 10 else default
