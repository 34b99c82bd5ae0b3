"""Computes the changes of a version from its index and that of its parent, and writes them (`changes.py`).

    shards that only one of the two has ─▶ pairs of items ─▶ their texts, where the content differs ─▶ parts, summary

The pairs are read once to see which pages were removed, and once more to write what changed; in between, if any were
removed, what was added is looked through for where they moved (`moves.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from webmill.infra.batches import batches
from webmill.infra.storage.base import Readable
from webmill.publish.change_rules import ChangeRules
from webmill.publish.changes import PART, SUMMARY, ChangeKind, ChangeSummary, PageChange, part_key
from webmill.publish.diff import pair_up
from webmill.publish.manifest import VersionFiles
from webmill.publish.moves import FindRedirects, Move, find_moves, follow_redirects, no_redirects, url_of
from webmill.publish.page_text import read_page_text
from webmill.publish.shards import find_item
from webmill.publish.text_change import TextChange, compare_text, make_excerpts, split_lines
from webmill.publish.types import ItemIndex, PublishedItem, captured_at, encode

LONGEST_URL = 8_192  # characters
UNREADABLE = TextChange(is_change=True, is_important=True, share=1.0)


def write_changes(
    files: VersionFiles, finder: ChangeFinder | None, *, parent: str | None, at: datetime
) -> ChangeSummary:
    """Write the changes that `finder` finds, and the summary; without a finder that of a first version."""
    parts = 0
    if finder:
        for part in batches(finder.find(), lambda _: 0, count=PART, size=0):
            files.write(part_key(parts), b"[\n" + b",\n".join(map(encode, part)) + b"\n]\n")
            parts += 1
    counts = finder.counts if finder else {}
    summary = ChangeSummary(version=files.version, parent=parent, at=at, parts=parts, **counts)
    files.write(SUMMARY, encode(summary))
    return summary


class ChangeFinder:
    """The changes from one index to another. `counts` are complete when all changes were read.

    `new` is the index now; `compare` returns the items of both that may differ, in the order of ids, and is called
    several times.
    `between` is called from time to time: reading texts takes long when much has changed.
    """

    def __init__(
        self,
        storage: Readable,
        new: ItemIndex,
        *,
        compare: Callable[[], tuple[Iterator[PublishedItem], Iterator[PublishedItem]]],
        version: str,
        at: datetime,
        rules: ChangeRules,
        find_redirects: FindRedirects = no_redirects,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._storage, self._new, self._compare_items = storage, new, compare
        self._version, self._at, self._rules, self._between = version, at, rules, between
        self._find_redirects = find_redirects

    def find(self) -> Iterator[PageChange]:
        """Yield the changes in the order of ids."""
        removed = [was for was, now in self._pairs() if was and not now]
        moves = self._moves(removed) if removed else {}
        arrived = {move.item.id for move in moves.values() if move.item}
        for was, now in self._pairs():
            if was and not now:
                move = moves.get(was.id)
                yield self._moved(was, move) if move else self._removed(was)
            elif now and not was:
                if now.id not in arrived:
                    yield self._added(now)
            elif was and now and was.hash != now.hash:
                yield from self._changed(was, now)

    def _moves(self, removed: list[PublishedItem]) -> dict[str, Move]:
        redirects = self._find_redirects({item.id for item in removed})
        moves = follow_redirects(redirects, lambda id_: find_item(self._storage, self._new, id_))
        taken = {move.item.id for move in moves.values() if move.item}
        left = [item for item in removed if item.id not in moves]
        added = (now for was, now in self._pairs() if now and not was and now.id not in taken)
        return moves | find_moves(left, added, read_text=self._text) if left else moves

    def _pairs(self) -> Iterator[tuple[PublishedItem | None, PublishedItem | None]]:
        return pair_up(*self._compare_items())

    def _added(self, now: PublishedItem) -> PageChange:
        return self._change("added", now, added=self._beginning(now.hash), new=now.hash)

    def _removed(self, was: PublishedItem) -> PageChange:
        return self._change("removed", was, removed=self._beginning(was.hash), old=was.hash)

    def _moved(self, was: PublishedItem, move: Move) -> PageChange:
        there = move.item
        found = self._compare(was, there) if there else TextChange()
        return self._change(
            "moved",
            was,
            text=found,
            at=captured_at(there) if there else None,
            old=was.hash,
            new=there.hash if there else None,
            moved_to=move.url[:LONGEST_URL],
            moved_to_id=there.id if there else None,
        )

    def _changed(self, was: PublishedItem, now: PublishedItem) -> Iterator[PageChange]:
        found = self._compare(was, now)
        if found.is_important:
            yield self._change("changed", now, text=found, old=was.hash, new=now.hash)
        else:
            self.counts["unimportant"] += 1

    def _compare(self, was: PublishedItem, now: PublishedItem) -> TextChange:
        old, new = self._text(was.hash), self._text(now.hash)
        if old is None or new is None:
            self.counts["unreadable"] += 1
            return UNREADABLE
        return compare_text(old, new, self._rules.text_rules(now.id))

    def _change(
        self,
        kind: ChangeKind,
        item: PublishedItem,
        *,
        text: TextChange = UNREADABLE,
        at: datetime | None = None,
        added: str = "",
        removed: str = "",
        **fields: Any,
    ) -> PageChange:
        self.counts[kind] += 1
        if kind in ("added", "changed"):
            at = captured_at(item)
        return PageChange(
            kind=kind,
            version=self._version,
            id=item.id,
            url=url_of(item)[:LONGEST_URL],
            at=at or self._at,
            title=str(item.metadata.get("title") or ""),
            share=text.share,
            added=added or text.added,
            removed=removed or text.removed,
            **fields,
        )

    def _beginning(self, hash_: str) -> str:
        text = self._text(hash_)
        self.counts["unreadable"] += text is None
        return make_excerpts(split_lines(text or ""), ())[0]

    def _text(self, hash_: str) -> str | None:
        self._between()
        return read_page_text(self._storage, hash_)
