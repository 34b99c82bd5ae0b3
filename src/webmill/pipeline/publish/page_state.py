"""What must be known of a page's captures to say which one is published: the newest one, and the newest with text.

A capture that comes later, however old it is, changes this and nothing else. So a collection whose pages are known
this way needs only its new documents (`publish_state.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

TEXT, REPEAT, REMOVAL = 0, 1, 2  # has text; repeats a capture with its digest; says that the page is gone


class PageCapture(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row of the documents. `place` is where: a number. `head`: what is published of a row that repeats another,
    besides the content.
    """

    order: int
    place: int
    digest: bytes
    kind: int
    head: bytes = b""


class PageState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The captures of one URL. `text`: the newest one with text, if it is not the last. `texts`, `repeats`: counts."""

    last: PageCapture
    text: PageCapture | None
    texts: int
    repeats: int

    @property
    def newest_text(self) -> PageCapture | None:
        return self.last if self.last.kind == TEXT else self.text

    @property
    def wants_digest(self) -> bool:
        """Return whether a capture of any URL with the digest of the last one has its text."""
        text = self.newest_text
        return self.last.kind == REPEAT and (text is None or text.digest != self.last.digest)


class PageChoice(msgspec.Struct, frozen=True, gc=False):
    """Which row is published of a page, None: nothing; under which other head, if any; and what became of the rest."""

    place: int | None
    head: bytes
    counts: dict[str, int]


def state_of(captures: Iterable[PageCapture]) -> PageState:
    """Return the state of a page whose captures come in their order. There is at least one."""
    last = text = None
    texts = repeats = 0
    for last in captures:
        if last.kind == TEXT:
            text, texts = last, texts + 1
        elif last.kind == REPEAT:
            repeats += 1
    assert last
    return PageState(last, None if text is last else text, texts, repeats)


def join_states(older: PageState, newer: PageState, *, is_newer: bool, is_newer_text: bool) -> PageState:
    """Return the state of both together. Which of the two is newer may differ for the last capture and for the text."""
    last = (newer if is_newer else older).last
    texts = [state.newest_text for state in (older, newer)]
    text = (texts[1] if is_newer_text else texts[0]) or texts[0] or texts[1]
    return PageState(last, None if text is last else text, older.texts + newer.texts, older.repeats + newer.repeats)


def choose_capture(page: PageState, original: int | None) -> PageChoice:
    """Choose what is published of a page. `original`: the first row with the digest that is wanted, if there is one."""
    text = page.newest_text
    if page.last.kind == REMOVAL:
        return PageChoice(None, b"", {"removed": page.texts + page.repeats})
    if page.wants_digest and original is not None:
        return PageChoice(original, page.last.head, {"older": page.texts, "repeated": page.repeats - 1})
    if text:
        return PageChoice(text.place, b"", {"older": page.texts - 1, "repeated": page.repeats})
    return PageChoice(None, b"", {"no_text": 1, "repeated": page.repeats - 1})
