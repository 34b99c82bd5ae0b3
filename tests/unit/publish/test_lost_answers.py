"""A store that does what it was asked, and whose answer is lost; and one that does nothing and says so."""

from __future__ import annotations

import json

import pytest

from tests.unit.publish.publications import closure
from webmill.errors import Unavailable
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.base import Condition, Data, Stat
from webmill.infra.storage.memory import MemoryStorage
from webmill.publish import leases
from webmill.publish.publication import Publication, PublishOptions
from webmill.publish.types import PublishedItem
from webmill.publish.verify import verify

OPTIONS = PublishOptions(inline=1, policy=BackoffPolicy(first_wait=0))
TEXTS = {"a": "1", "b": "2"}


class Flaky(MemoryStorage):
    """The write number `at` is not answered. `happens`: but it is done."""

    def __init__(self, *, at: int, happens: bool) -> None:
        super().__init__()
        self.writes, self._at, self._happens = 0, at, happens

    def write(self, key: str, data: Data, *, condition: Condition | None = None) -> Stat:
        self.writes += 1
        if self.writes != self._at:
            return super().write(key, data, condition=condition)
        if self._happens:
            super().write(key, data, condition=condition)
        raise Unavailable("no answer")


def publish(storage: Flaky) -> None:
    """As a patient caller does."""
    publication = until_answered(lambda: Publication.begin(storage, options=OPTIONS))
    for id_, text in TEXTS.items():
        publication.add(PublishedItem(id_, "source", publication.put({"text": text})))
    until_answered(publication.commit)
    publication.close()


def until_answered(call):  # type: ignore[no-untyped-def]
    try:
        return call()
    except Unavailable:
        return call()


@pytest.mark.parametrize("happens", [True, False])
def test_whichever_answer_is_lost_one_version_is_published_once(happens: bool) -> None:
    quiet = Flaky(at=0, happens=happens)
    publish(quiet)
    for at in range(1, quiet.writes + 1):
        storage = Flaky(at=at, happens=happens)
        publish(storage)
        if at == quiet.writes:  # the pointer itself: it is behind until somebody comes
            Publication.begin(storage).close()
        assert closure(storage) == TEXTS
        assert len([*storage.list("snapshots/_history/")]) == 1
        assert verify(storage, read_data=True).findings == ()


def test_a_run_that_has_committed_commits_nothing_more() -> None:
    """A second aggregator, or one that was killed before it could say so."""
    storage = MemoryStorage()
    leases.acquire(storage, "run-1")
    versions = set()
    for _ in range(2):
        with Publication.join(storage, "run-1", options=OPTIONS) as publication:
            for id_, text in TEXTS.items():
                publication.add(PublishedItem(id_, "source", publication.put({"text": text})))
            published = publication.commit()
            versions.add((published.version.version, published.counts.items))
    assert len(versions) == 1
    assert json.loads(storage.read("latest.json"))["sequence"] == 1
