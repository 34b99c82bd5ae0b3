"""What Meilisearch keeps of a document, and what of it comes with a hit."""

from __future__ import annotations

import msgspec

from webmill.infra.json_http import LARGEST
from webmill.search.base import MAX_HITS, TEXT_INDEXED, TEXT_KEPT, IndexedDocument
from webmill.search.meilisearch.engine import CHECKED_AT_ONCE
from webmill.search.meilisearch.schema import HIT_FIELDS, WHOLE_FIELDS, from_entry, to_entry

WIDEST = "\U0001f6a2"  # four bytes


def kept(text: str, names: list[str]) -> dict[str, object]:
    """As the server gives it back."""
    made = to_entry(IndexedDocument(id="a", hash="h", version="v", title="t", text=text, url="https://a.example/"))
    return {name: value for name, value in made.items() if name in names}


def test_the_largest_answer_of_hits_is_not_refused() -> None:
    for names, count in ((HIT_FIELDS, MAX_HITS), (WHOLE_FIELDS, CHECKED_AT_ONCE)):
        size = len(msgspec.json.encode(kept(WIDEST * (TEXT_INDEXED + 5), names)))
        assert count * size < LARGEST


def test_a_hit_has_the_beginning_of_a_long_text_and_one_that_is_checked_all_of_it() -> None:
    text = "".join(f"{number} " for number in range(TEXT_KEPT // 4))
    assert from_entry(kept(text, HIT_FIELDS)).text == text[:TEXT_KEPT]
    assert from_entry(kept(text, WHOLE_FIELDS)).text == text
    assert from_entry(kept("short", HIT_FIELDS)).text == "short"
