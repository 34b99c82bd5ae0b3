"""From a hit to the archived page: the place that was published with it, or else its newest capture in the index."""

from __future__ import annotations

from msgspec.structs import replace

from webmill.index.lookup import Index
from webmill.index.newest import newest
from webmill.search.base import Answer


def with_captures(answer: Answer, index: Index) -> Answer:
    """The id of a page is its urlkey. A hit that is no page of the index, as a notice, has no capture."""
    found = newest(index, [hit.id for hit in answer.hits if not hit.capture])
    return replace(answer, hits=[replace(hit, capture=hit.capture or found.get(hit.id)) for hit in answer.hits])
