"""The changes of a version: computed once with it, by text, and read again by whoever tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from webmill.infra.storage.memory import MemoryStorage
from webmill.publish import changes as changes_file
from webmill.publish.change_rules import ChangeRules, compile_site_rule
from webmill.publish.changes import PageChange, list_changes, read_changes, read_summary, versions_since
from webmill.publish.gc import collect_garbage
from webmill.publish.publication import Publication, PublishOptions
from webmill.publish.types import PublishedItem, Scalar, Version
from webmill.publish.verify import verify

LONG = "A long line of text that tells this page from others.\nAnother one of the same kind, and of the same length."
Pages = Mapping[str, str]  # text by id; the title is its first line


def publish(storage: MemoryStorage, pages: Pages, *, rules: ChangeRules | None = None, inline: int = 10) -> Version:
    options = PublishOptions(force=True, inline=inline, rules=rules or ChangeRules())
    with Publication.begin(storage, options=options) as publication:
        for id_, text in pages.items():
            title, _, rest = text.partition("\n")
            hash_ = publication.put({"title": title, "text": rest})
            url = "https://" + ".".join(id_.partition(")")[0].split(",")[::-1]) + id_.partition(")")[2]
            metadata: dict[str, Scalar] = {"title": title, "url": url, "date": "2026-11-18T12:00:00Z"}
            publication.add(PublishedItem(id_, "documents", hash_, metadata=metadata))
        return publication.commit().version


def changed(storage: MemoryStorage, old: Pages, new: Pages) -> list[PageChange]:
    publish(storage, old)
    return [*read_changes(storage, publish(storage, new))]


BASE = {f"org,example)/{number:03}": f"Page {number}\n{LONG}\nNumber {number} of the pages" for number in range(40)}


def test_changes_are_told_by_kind_with_excerpts() -> None:
    storage = MemoryStorage()
    new = {**BASE, "org,example)/007": BASE["org,example)/007"] + "\nOne more line", "org,example)/new": "New\nHello"}
    del new["org,example)/009"]
    publish(storage, BASE)
    version = publish(storage, new)
    by_id = {change.id: change for change in read_changes(storage, version)}
    assert {id_: change.kind for id_, change in by_id.items()} == {
        "org,example)/007": "changed",
        "org,example)/009": "removed",
        "org,example)/new": "added",
    }
    change = by_id["org,example)/007"]
    assert (change.added, change.removed, change.title) == ("One more line", "", "Page 7")
    assert change.url == "https://example.org/007"
    assert change.key == f"{version.version}/org,example)/007"
    assert change.at == datetime(2026, 11, 18, 12, tzinfo=UTC)
    assert 0 < change.share < 0.2
    assert by_id["org,example)/new"].added == "New\nHello"
    assert by_id["org,example)/009"].removed.startswith("Page 9\nA long line")
    assert by_id["org,example)/009"].at == version.published_at


def test_a_first_version_has_no_changes_but_says_so() -> None:
    storage = MemoryStorage()
    version = publish(storage, BASE)
    summary = read_summary(storage, version)
    assert [*read_changes(storage, version)] == []
    assert summary
    assert (summary.parent, summary.total, summary.unimportant) == (None, 0, 0)


def test_noise_and_small_changes_are_counted_and_not_listed() -> None:
    storage = MemoryStorage()
    rules = ChangeRules(threshold=0.5, sites=(compile_site_rule(["example.org/001"], threshold=0.0),))
    new = BASE | {id_: BASE[id_] + "\nVisitors: 17" for id_ in ["org,example)/000"]}
    new |= {id_: BASE[id_] + "\nsmall" for id_ in ["org,example)/001", "org,example)/002"]}
    old = BASE | {"org,example)/000": BASE["org,example)/000"] + "\nVisitors: 16"}
    publish(storage, old)
    version = publish(storage, new, rules=rules)
    assert [change.id for change in read_changes(storage, version)] == ["org,example)/001"]
    summary = read_summary(storage, version)
    assert summary
    assert (summary.changed, summary.unimportant) == (1, 2)


def test_a_page_at_another_address_has_moved_and_is_told_once() -> None:
    new = dict(BASE)
    new["org,example,www2)/there"] = new.pop("org,example)/003")  # the same content
    new["org,example)/near"] = new.pop("org,example)/005") + "!"  # nearly the same text
    new["com,other)/elsewhere"] = new.pop("org,example)/006")  # another site: not known to be the same page
    new["org,example)/xyz"] = "Another\n" + LONG.replace("page", "thing") + "\nwith nothing in common but its frame"
    del new["org,example)/008"]
    found = {change.id: change for change in changed(MemoryStorage(), BASE, new)}
    assert {id_: change.kind for id_, change in found.items()} == {
        "org,example)/003": "moved",
        "org,example)/005": "moved",
        "org,example)/006": "removed",
        "org,example)/008": "removed",
        "com,other)/elsewhere": "added",
        "org,example)/xyz": "added",
    }
    assert found["org,example)/003"].moved_to == "https://www2.example.org/there"
    assert found["org,example)/003"].moved_to_id == "org,example,www2)/there"
    assert (found["org,example)/003"].share, found["org,example)/003"].added) == (0, "")
    assert found["org,example)/005"].added.endswith("5 of the pages!")


def test_changes_since_a_version_are_listed_oldest_first_also_when_it_is_gone() -> None:
    storage = MemoryStorage()
    versions = [publish(storage, BASE | {"org,example)/000": f"Page\n{text}"}) for text in ("one", "two", "three")]
    assert [change.version for change in list_changes(storage)] == [versions[1].version, versions[2].version]
    assert [change.added for change in list_changes(storage, since=versions[1].version)] == ["three"]
    assert [*list_changes(storage, since=versions[2].version)] == []
    collect_garbage(storage, keep=1, now=datetime(2099, 1, 1, tzinfo=UTC))
    assert [version.version for version in versions_since(storage, versions[0].version)] == [versions[2].version]
    assert [change.added for change in list_changes(storage, since=versions[0].version)] == ["three"]
    assert not verify(storage, read_data=True).findings


def test_many_changes_are_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webmill.publish.change_writer.PART", 7)
    storage = MemoryStorage()
    found = changed(storage, BASE, {id_: text + "\nmore" for id_, text in BASE.items()})
    assert [change.id for change in found] == sorted(BASE)
    summary = read_summary(storage, versions_since(storage)[-1])
    assert summary
    assert (summary.parts, summary.changed) == (6, 40)
    assert storage.stat(f"snapshots/{summary.version}/{changes_file.part_key(5)}").size


def test_a_text_that_cannot_be_read_does_not_stop_a_publication() -> None:
    storage = MemoryStorage()
    publish(storage, BASE)
    for stat in [*storage.list("blobs/")]:
        if b"Page 7" in storage.read(stat.key) and b'"id"' not in storage.read(stat.key):
            storage.delete(stat.key)
    version = publish(storage, {**BASE, "org,example)/007": "Page 7\nother"}, inline=100)
    assert [(change.kind, change.added) for change in read_changes(storage, version)] == [("changed", "")]
    summary = read_summary(storage, version)
    assert summary
    assert summary.unreadable == 1


def test_only_what_differs_is_read() -> None:
    """The texts read for a version go by its changes, not by its size."""
    reads = []

    class Counting(MemoryStorage):
        def read(self, key: str, **how: object) -> bytes:
            reads.append(key)
            return super().read(key, **how)  # type: ignore[arg-type]

    storage = Counting()
    many = {f"org,example)/{number:05}": f"Page {number}\nText {number}" for number in range(2000)}
    publish(storage, many)
    texts = {stat.key for stat in storage.list("blobs/") if b'"text"' in storage.read(stat.key)}
    version = publish(storage, many | {"org,example)/00007": "Page 7\nText seven"})
    reads.clear()
    again = publish(storage, many | {"org,example)/00007": "Page 7\nText 7, once more"})
    assert len(texts.intersection(reads)) <= 2 + 40  # a sample of known blobs is checked
    assert [change.kind for change in read_changes(storage, again)] == ["changed"]
    assert version.version != again.version


def test_changes_are_against_the_version_that_was_live_when_it_was_committed() -> None:
    storage = MemoryStorage()
    publish(storage, BASE)
    with Publication.begin(storage, options=PublishOptions(force=True)) as slow:
        hash_ = slow.put({"title": "Page 0", "text": "of the slow one"})
        slow.add(PublishedItem("org,example)/000", "documents", hash_, metadata={"url": "https://example.org/000"}))
        between = publish(storage, {"org,example)/000": "Page 0\nof the fast one"})
        version = slow.commit().version
    summary = read_summary(storage, version)
    assert summary
    assert summary.parent == between.version
    assert [(one.kind, one.removed, one.added) for one in read_changes(storage, version)] == [
        ("changed", "of the fast one", "of the slow one")
    ]
