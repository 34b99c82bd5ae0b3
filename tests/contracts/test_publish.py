"""What publishing promises, on each kind of storage."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from tests.unit.publish.publications import Clock, aux, closure, item, publish
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.infra.storage.base import Storage
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.memory import MemoryStorage
from webmill.infra.storage.s3 import S3Options, S3Storage
from webmill.publish import history, leases
from webmill.publish.blobs import BlobStore
from webmill.publish.diff import diff_indexes
from webmill.publish.gc import collect_garbage
from webmill.publish.guard import VersionShrunk
from webmill.publish.manifest import read_version_index
from webmill.publish.pointer import read_pointer
from webmill.publish.publication import Publication, PublishOptions
from webmill.publish.types import PublishProblem
from webmill.publish.verify import repair, verify

S3 = pytest.param("s3", marks=pytest.mark.server("s3"))
HOUR = timedelta(hours=1)


@pytest.fixture(params=["memory", "local", S3])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "memory":
        yield MemoryStorage()
    elif request.param == "local":
        yield LocalStorage(tmp_path / "root")
    else:
        bucket, question, options = request.getfixturevalue("s3_url").partition("?")
        yield S3Storage(S3Options.from_url(f"{bucket}/{secrets.token_hex(6)}{question}{options}"))


def blobs_in(storage: Storage) -> set[str]:
    return {stat.key for stat in storage.list("blobs/")}


TEXTS = {f"board/{number:02}": f"notice {number}" for number in range(20)}


def test_what_was_published_is_read_again(storage: Storage) -> None:
    published = publish(storage, TEXTS)
    assert closure(storage) == TEXTS
    pointer = read_pointer(storage)
    assert (pointer.version, pointer.sequence, pointer.count) == (published.version.version, 1, 20)
    assert history.live_version(storage) == published.version
    assert not verify(storage, read_data=True).findings


def test_the_second_publication_writes_what_changed_and_says_so(storage: Storage) -> None:
    first = publish(storage, TEXTS)
    before = blobs_in(storage)
    changed = {**TEXTS, "board/03": "another text", "board/77": "a new one"}
    del changed["board/05"]
    second = publish(storage, changed)
    assert closure(storage) == changed
    assert len(blobs_in(storage) - before) == second.blobs.written == 2
    difference = aux(storage, "aux/diff.json")
    assert (difference["from"], difference["to"]) == (first.version.version, second.version.version)
    assert [found["id"] for found in difference["added"]] == ["board/77"]
    assert [found["id"] for found in difference["removed"]] == ["board/05"]
    (change,) = difference["changed"]
    contents = [storage.read(f"blobs/sha256/{change[which]}.json") for which in ("old", "new")]
    assert contents == [b'{"text":"notice 3"}', b'{"text":"another text"}']
    assert difference["relabelled"] == []


def test_a_failed_source_keeps_its_items_marked_stale_with_their_time_c09(storage: Storage) -> None:
    clock = Clock()
    texts = {**TEXTS, "other/1": "of another source", "other/2": "and one more"}
    publish(storage, texts, clock=clock)
    seen_at = clock.now
    for _ in range(2):  # the time is that of the last sight, not of the last failure
        clock.pass_by(hours=1)
        publish(storage, TEXTS, failed=["other", "unknown"], clock=clock)
        assert closure(storage) == texts
        stale = [found for found in aux(storage, "index/all.json")["items"] if "stale_since" in found]
        assert {found["id"] for found in stale} == {"other/1", "other/2"}
        assert {found["stale_since"] for found in stale} == {seen_at.isoformat().replace("+00:00", "Z")}
        assert aux(storage, "aux/diff.json")["changed"] == aux(storage, "aux/diff.json")["removed"] == []
    status = {found["source"]: (found["status"], found["items"]) for found in aux(storage, "meta/sources.json")}
    assert status == {"board": ("fresh", 20), "other": ("stale", 2), "unknown": ("missing", 0)}
    errors = aux(storage, "aux/errors.json")
    assert [(found["source"], found["stage"], found["retryable"]) for found in errors] == [
        ("other", "fetch", True),
        ("unknown", "fetch", True),
    ]
    publish(storage, texts, clock=clock)
    assert not [found for found in aux(storage, "index/all.json")["items"] if "stale_since" in found]


def test_a_single_item_that_failed_is_kept_without_its_whole_source(storage: Storage) -> None:
    publish(storage, TEXTS)
    with Publication.begin(storage) as publication:
        for id_ in [*TEXTS][2:]:
            publication.add(item(publication, id_, TEXTS[id_]))
        publication.report(PublishProblem(stage="detail", source="board", item="board/00", message="HTTP 500"))
        publication.keep_item("board/00")
        publication.commit()
    assert closure(storage) == {id_: text for id_, text in TEXTS.items() if id_ != "board/01"}


@pytest.mark.parametrize("left", [0, 15])
def test_too_little_to_be_believed_is_refused_and_changes_nothing_c08(storage: Storage, left: int) -> None:
    publish(storage, TEXTS)
    fewer = dict([*TEXTS.items()][:left])
    before = storage.read("latest.json")
    with pytest.raises(VersionShrunk, match="force"):
        publish(storage, fewer)
    assert storage.read("latest.json") == before
    publish(storage, fewer, options=PublishOptions(force=True))
    assert closure(storage) == fewer


def test_a_run_in_which_everything_failed_is_refused(storage: Storage) -> None:
    publish(storage, TEXTS)
    with pytest.raises(VersionShrunk):
        publish(storage, {}, failed=["board"])


def let_a_quick_one_pass(slow: Publication, storage: Storage) -> None:
    """Between its look at the live version and its commit, once."""
    real, looked = slow._gather, []

    def meanwhile(previous):  # type: ignore[no-untyped-def]
        if not looked:
            publish(storage, {**TEXTS, "board/99": "of the quick one"})
        looked.append(previous)
        return real(previous)

    slow._gather = meanwhile  # type: ignore[method-assign]


def test_the_loser_of_a_race_gets_a_conflict_and_rebases_c03(storage: Storage) -> None:
    publish(storage, TEXTS)
    with Publication.begin(storage) as slow:
        for id_, text in TEXTS.items():
            slow.add(item(slow, id_, text))
        slow.add(item(slow, "board/98", "of the slow one"))
        head = history.read_head(storage)
        let_a_quick_one_pass(slow, storage)
        with pytest.raises(Conflict):
            slow.commit()
        assert "board/99" in closure(storage)
        published = slow.commit()
    assert published.version.sequence == 3
    assert head is not None
    assert head.commit.sequence == 1
    difference = aux(storage, "aux/diff.json")
    assert ([found["id"] for found in difference["removed"]], len(difference["added"])) == (["board/99"], 1)
    assert not verify(storage).findings


def test_who_has_nothing_new_does_not_call_a_version_live_that_is_not_any_more(storage: Storage) -> None:
    first = publish(storage, TEXTS)
    with Publication.begin(storage, options=PublishOptions(even_if_same=False)) as slow:
        for id_, text in TEXTS.items():
            slow.add(item(slow, id_, text))
        let_a_quick_one_pass(slow, storage)
        with pytest.raises(Conflict):
            slow.commit()
        published = slow.commit()
    assert published.is_new
    assert published.version.version != first.version.version
    assert history.live_version(storage) == published.version
    assert closure(storage) == TEXTS
    assert not verify(storage).findings


def test_a_pointer_that_was_left_behind_is_moved_on_by_whoever_comes(storage: Storage) -> None:
    publish(storage, TEXTS)
    old = storage.read("latest.json")
    second = publish(storage, {**TEXTS, "board/new": "text"})
    for damage in (old, b"{torn", None):
        if damage is None:
            storage.delete("latest.json")
        else:
            storage.write("latest.json", damage)
        if damage == old:
            assert history.live_version(storage) == second.version  # even one that may not write
        last = history.read_head(storage)
        assert last is not None
        assert last.commit.live == second.version
        assert read_pointer(storage).version == second.version.version


def test_rolling_back_is_a_new_step_of_the_history(storage: Storage) -> None:
    clock = Clock()
    first = publish(storage, TEXTS, clock=clock)
    second = publish(storage, {**TEXTS, "board/new": "text"}, clock=clock)
    history.roll_back(storage, first.version.version, at=clock())
    assert closure(storage) == TEXTS
    third = publish(storage, {**TEXTS, "board/newer": "text"}, clock=clock)
    assert [found["id"] for found in aux(storage, "aux/diff.json")["added"]] == ["board/newer"]
    last = history.read_head(storage)
    assert last is not None
    names = [version.version for version in history.versions_at(storage, last)]
    assert names == [found.version.version for found in (first, second, third)]
    kinds = [record.commit.kind for record in history.records(storage, last)]
    assert kinds == ["publish", "rollback", "publish", "publish"]
    with pytest.raises(NotFound):
        history.roll_back(storage, "00000009-00000000", at=clock())
    with pytest.raises(BadInput):
        history.roll_back(storage, "../../etc", at=clock())


def test_gc_keeps_what_it_should_and_removes_the_rest_in_two_steps(storage: Storage) -> None:
    clock = Clock()
    versions = []
    for number in range(4):
        versions.append(
            publish(storage, {**TEXTS, f"board/x{number}": f"only in {number}"}, clock=clock).version.version
        )
        clock.pass_by(hours=10)
    BlobStore(storage).put({"text": "never published"})
    history.roll_back(storage, versions[0], at=clock())
    clock.pass_by(hours=10)

    # Versions 1 and 2 were live until 30 and 20 hours ago; 0 is live, 3 the last one.
    report = collect_garbage(storage, keep=1, grace=25 * HOUR, now=clock())
    assert (report.kept, report.retired) == ([versions[0], *versions[2:]], versions[1:2])
    assert (report.trashed, report.purged) == (2, 0)
    report = collect_garbage(storage, keep=1, grace=15 * HOUR, now=clock())
    assert (report.kept, report.retired) == ([versions[0], versions[3]], versions[2:3])
    assert (report.trashed, report.purged) == (1, 0)
    assert closure(storage) == {**TEXTS, "board/x0": "only in 0"}
    with pytest.raises(NotFound):
        history.roll_back(storage, versions[1], at=clock())
    assert len([*storage.list("snapshots/_trash/")]) == 3

    report = collect_garbage(storage, keep=1, grace=timedelta(0), now=clock())
    assert report.kept == [versions[0], versions[3]]
    assert (report.trashed, report.purged, report.restored) == (0, 3, 0)
    assert not verify(storage, read_data=True).findings
    assert len(blobs_in(storage)) == len(TEXTS) + 2
    assert {stat.key.split("/")[1] for stat in storage.list("snapshots/0")} == {versions[0], versions[3]}


def test_gc_waits_for_publishers_and_publishers_for_gc_c04(storage: Storage) -> None:
    publish(storage, TEXTS)
    with Publication.begin(storage) as publication:
        added = item(publication, "board/new", "a text that only this run has")
        report = collect_garbage(storage, keep=1, grace=timedelta(0), now=Clock()())
        assert (report.waiting_for, report.trashed, report.retired) == ([publication.run], 0, [])
        for id_, text in TEXTS.items():
            publication.add(item(publication, id_, text))
        publication.add(added)
        publication.commit()
    assert "board/new" in closure(storage)
    with leases.hold_gc_lease(storage, holder=None):
        with pytest.raises(Exception, match="gc is at work"):
            Publication.begin(storage, options=PublishOptions(patience=0))
        with pytest.raises(Conflict):
            collect_garbage(storage, keep=1, now=Clock()())
    Publication.begin(storage, options=PublishOptions(patience=0)).close()


def test_gc_refuses_where_there_are_blobs_but_no_history(storage: Storage) -> None:
    BlobStore(storage).put({"text": "x"})
    with pytest.raises(Misconfigured, match="no version"):
        collect_garbage(storage, keep=1, grace=timedelta(0), now=Clock()())
    assert blobs_in(storage)


def test_a_first_publication_that_broke_off_is_begun_again_and_a_lost_history_is_not(storage: Storage) -> None:
    with Publication.begin(storage) as broken_off:
        broken_off.put({"text": "notice 1"})
    assert not verify(storage).findings
    publish(storage, TEXTS)
    for prefix in ("snapshots/", "latest.json"):
        for stat in [*storage.list(prefix)]:
            storage.delete(stat.key)
    assert [finding.reason for finding in verify(storage).findings] == ["broken_history"]
    before = blobs_in(storage)
    with pytest.raises(Misconfigured, match="--force"):
        publish(storage, TEXTS)
    assert (blobs_in(storage), [*storage.list("snapshots/")]) == (before, [])
    assert publish(storage, TEXTS, options=PublishOptions(force=True)).version.sequence == 1
    assert closure(storage) == TEXTS


def test_gc_removes_nothing_when_it_cannot_read_what_is_kept(storage: Storage) -> None:
    version = publish(storage, TEXTS).version.version
    BlobStore(storage).put({"text": "never published"})
    storage.write(f"snapshots/{version}/index/all.json", b"{}")
    before = blobs_in(storage)
    with pytest.raises(BadInput):
        collect_garbage(storage, keep=1, grace=timedelta(0), now=Clock()())
    assert blobs_in(storage) == before


def test_a_damaged_blob_is_put_right_when_its_content_comes_again_c02(storage: Storage) -> None:
    publish(storage, TEXTS)
    hashes = {found["id"]: found["hash"] for found in aux(storage, "index/all.json")["items"]}
    short, rotten = (f"blobs/sha256/{hashes[id_]}.json" for id_ in ("board/01", "board/02"))
    storage.write(short, b"{")
    storage.write(rotten, storage.read(rotten).replace(b"notice", b"rotten"))
    published = publish(storage, TEXTS, options=PublishOptions(sample=1.0))
    assert published.blobs.repaired == 2
    assert closure(storage) == TEXTS


def test_verify_names_what_is_damaged_and_who_refers_to_it_c05(storage: Storage) -> None:
    options = PublishOptions(inline=5)  # so that there are shards
    versions = [publish(storage, texts, options=options).version.version for texts in (TEXTS, {**TEXTS, "new/1": "x"})]
    healthy = verify(storage, read_data=True)
    assert (healthy.versions, healthy.findings) == (2, ())

    blobs = BlobStore(storage)
    rotten, missing = blobs.put({"text": "notice 4"}), blobs.put({"text": "notice 5"})
    mirror = MemoryStorage()
    for hash_ in (rotten, missing):
        mirror.write(f"blobs/sha256/{hash_}.json", blobs.get(hash_))
    storage.write(f"blobs/sha256/{rotten}.json", b'{"text":"n0tice 4"}')
    storage.delete(f"blobs/sha256/{missing}.json")
    storage.write(f"snapshots/{versions[0]}/aux/errors.json", b"[ ]")
    with pytest.raises(BadInput, match="corrupt_blob"):
        blobs.get(rotten)

    found = {finding.key: finding for finding in verify(storage).findings}
    assert {key: finding.reason for key, finding in found.items()} == {
        f"blobs/sha256/{missing}.json": "missing_blob",
        f"snapshots/{versions[0]}/aux/errors.json": "corrupt_file",
    }
    verdict = verify(storage, read_data=True)
    found = {finding.key: finding for finding in verdict.findings}
    assert found[f"blobs/sha256/{rotten}.json"].reason == "corrupt_blob"
    referrers = tuple(f"{version} index/all.json board/04" for version in versions)
    assert found[f"blobs/sha256/{rotten}.json"].referrers == referrers

    repaired = repair(storage, verdict, mirrors=[mirror])
    assert sorted(repaired) == sorted(f"blobs/sha256/{hash_}.json" for hash_ in (rotten, missing))
    assert [finding.reason for finding in verify(storage, read_data=True).findings] == ["corrupt_file"]


def test_a_shard_that_both_versions_have_is_not_read(storage: Storage) -> None:
    options = PublishOptions(inline=5)
    texts = {f"board/{number:04}": f"notice {number}" for number in range(200)}
    first = publish(storage, texts, options=options).version
    second = publish(storage, {**texts, "board/0100": "other", "board/0100a": "new"}, options=options).version
    old, new = (read_version_index(storage, version) for version in (first, second))
    assert old.shards
    assert new.shards
    shared = {shard.hash for shard in old.shards} & {shard.hash for shard in new.shards}
    assert len(shared) > len(old.shards) / 2
    for hash_ in shared:
        storage.delete(f"blobs/sha256/{hash_}.json")  # so it would not go well
    found = [(difference.change, difference.id) for difference in diff_indexes(storage, old, new)]
    assert found == [("changed", "board/0100"), ("added", "board/0100a")]


def test_facets_are_indexes_of_their_own(storage: Storage) -> None:
    values = {"1": "Seoul", "2": "seoul", "3": "신촌", "4": "../x", "5": "", "6": "a" * 500, "7": "Seoul"}
    with Publication.begin(storage, options=PublishOptions(facets=("campus", "nothing"))) as publication:
        for id_, campus in values.items():
            publication.add(item(publication, id_, f"text {id_}", campus=campus))
        publication.add(item(publication, "8", "has none"))
        publication.commit()
    assert len(closure(storage)) == 8
    listed = aux(storage, "meta/facets.json")
    assert listed["nothing"] == []
    for value in listed["campus"]:
        ids = [id_ for id_, campus in values.items() if campus == value["value"]]
        assert [found["id"] for found in aux(storage, value["key"])["items"]] == ids
        assert value["count"] == len(ids)
    keys = {value["value"]: value["key"] for value in listed["campus"]}
    assert keys["신촌"] == "index/campus/신촌.json"
    assert len({key.casefold() for key in keys.values()}) == 6


def test_two_items_of_one_id_are_told(storage: Storage) -> None:
    with Publication.begin(storage) as publication:
        for text in ("one", "one", "another"):
            publication.add(item(publication, "same", text))
        published = publication.commit()
    assert len(closure(storage)) == 1
    assert (published.counts.merged, published.counts.errors) == (1, 1)
    assert aux(storage, "aux/errors.json")[0]["stage"] == "duplicate"


def test_many_threads_and_publishers_may_put_the_same_content(storage: Storage) -> None:
    with Publication.begin(storage) as one, Publication.begin(storage) as two, ThreadPoolExecutor(8) as threads:
        puts = [threads.submit(who.put, {"text": str(number % 10)}) for number in range(80) for who in (one, two)]
        hashes = {put.result() for put in puts}
    assert len(hashes) == len(blobs_in(storage)) == one.blobs.tally.written + two.blobs.tally.written == 10


def test_many_workers_and_an_aggregator_share_a_run(storage: Storage) -> None:
    """The door for an orchestrator: the lease is the run's, and is taken before the first job."""
    publish(storage, TEXTS)
    leases.acquire(storage, "run-7")
    hashes = {id_: BlobStore(storage).put({"text": text}) for id_, text in TEXTS.items()}
    leases.renew(storage, "run-7")
    assert collect_garbage(storage, keep=1, grace=timedelta(0), now=Clock()()).waiting_for == ["run-7"]
    with Publication.join(storage, "run-7") as publication:
        for id_, hash_ in hashes.items():
            publication.add(msgspec.structs.replace(item(publication, id_, TEXTS[id_]), hash=hash_))
        publication.commit()
    assert closure(storage) == TEXTS
    assert leases.find_lease(storage, "run-7") is None
