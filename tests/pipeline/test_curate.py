"""Documents to a corpus: what is decided, and that it depends on nothing but documents and recipe."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as arrow
import pytest
from pyarrow import parquet

from tests.pipeline.corpora import (
    STEPS,
    add_part,
    corpus_bytes,
    curate,
    decisions,
    document,
    made_documents,
    write_documents,
)
from tests.unit.cli.command import webmill
from webmill.curate.arrow import document_types
from webmill.curate.recipe import load_recipe, recipe_of_steps, shipped_recipes
from webmill.errors import Misconfigured, NotFound
from webmill.infra.executor.pool import PoolExecutor
from webmill.pipeline.curate.explain import explain_document
from webmill.pipeline.curate.kept import corpus
from webmill.pipeline.curate.sources import KnownDigests
from webmill.pipeline.documents import open_documents

LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen. "


def test_every_shipped_recipe_can_be_read() -> None:
    assert shipped_recipes() == ["c4", "fineweb", "fineweb2", "gopher", "web-archive"]
    for name in shipped_recipes():
        assert load_recipe(name).steps


def test_any_number_of_workers_and_a_second_run_give_the_same_bytes(tmp_path: Path) -> None:
    documents = made_documents(120)
    for name in ("one", "many"):
        write_documents(tmp_path / name, documents, files=4)
    assert curate(tmp_path / "one").measured == 4
    with closing(PoolExecutor(workers=2)) as pool:
        curate(tmp_path / "many", executor=pool)
    first = corpus_bytes(tmp_path / "one")
    assert first == corpus_bytes(tmp_path / "many")
    again = curate(tmp_path / "one")
    assert again.measured == 0
    assert corpus_bytes(tmp_path / "one") == first
    assert len(set(decisions(tmp_path / "one").values())) > 3  # several steps removed something


def test_what_a_killed_run_had_begun_to_write_is_removed(tmp_path: Path) -> None:
    write_documents(tmp_path, made_documents(10), files=1)
    curate(tmp_path)
    before = corpus_bytes(tmp_path)
    folder = next((tmp_path / "corpus" / "attributes").glob("documents-*"))
    (folder / ".webmill-tmp-18855-de313d611ec8ffa7").write_bytes(b"PAR1")
    curate(tmp_path)
    assert corpus_bytes(tmp_path) == before


def test_new_documents_give_what_a_run_from_scratch_gives(tmp_path: Path) -> None:
    documents = made_documents(100)
    write_documents(tmp_path / "whole", documents, files=4)
    write_documents(tmp_path / "grown", documents[:75], files=3)
    curate(tmp_path / "grown")
    add_part(tmp_path / "grown" / "documents" / "part-00003.parquet", documents[75:])
    assert curate(tmp_path / "grown").measured == 1
    curate(tmp_path / "whole")
    assert corpus_bytes(tmp_path / "grown") == corpus_bytes(tmp_path / "whole")


def test_a_changed_threshold_measures_nothing_and_a_changed_measure_only_what_sees_it(tmp_path: Path) -> None:
    write_documents(tmp_path, made_documents(60))
    curate(tmp_path)
    kept = sum(one[0] for one in decisions(tmp_path).values())
    stricter = [{**STEPS[0], "min_chars": 900}, *STEPS[1:]]
    assert curate(tmp_path, stricter).measured == 0
    assert 0 < sum(one[0] for one in decisions(tmp_path).values()) < kept
    before = {path.parent.name for path in (tmp_path / "corpus" / "attributes").glob("*/*")}
    curate(tmp_path, [stricter[0], {**STEPS[1], "min_words": 4}, *STEPS[2:]])
    after = {path.parent.name for path in (tmp_path / "corpus" / "attributes").glob("*/*")}
    assert {name.split("-")[0] for name in before & after} == {"documents", "length"}


def test_a_file_that_has_not_changed_is_not_read_to_know_its_hash(tmp_path: Path) -> None:
    write_documents(tmp_path, made_documents(20), files=2)
    files = open_documents(str(tmp_path))
    known = KnownDigests(tmp_path / "state" / "digests.json")
    parts = known.list_parts(files)
    known.save(began_ns=max(stat.ctime_ns for stat in files.stats().values() if stat) + 3_000_000_000)
    assert KnownDigests(known.path).list_parts(files) == parts
    forged = known.path.read_bytes().replace(parts[0].digest.encode(), b"f" * 64)
    known.path.write_bytes(forged)
    assert KnownDigests(known.path).list_parts(files)[0].digest == "f" * 64  # what was known, not what is read
    write_documents(tmp_path, made_documents(20), files=2)
    assert KnownDigests(known.path).list_parts(files) == parts  # another inode: it is read
    known.save(began_ns=0)
    assert KnownDigests(known.path).list_parts(files) == parts
    assert parts[0].digest not in known.path.read_text()  # too new to be remembered
    known.path.write_bytes(b"[nothing")
    assert KnownDigests(known.path).list_parts(files) == parts


def test_of_duplicates_one_is_kept_by_the_rule(tmp_path: Path) -> None:
    text = LONG * 20
    near = text.replace("nine", "9", 1)
    documents = [
        document(0, text),
        document(1, near + "And more."),
        document(2, near, url="https://best.example.org/2"),
        document(3, "Another text about something else that nobody has copied from anywhere. " * 3),
        document(4, None),
    ]
    write_documents(tmp_path, documents, files=2)
    kept_by = {"longest": 1, "earliest": 0, "first": 0}
    for keep, number in kept_by.items():
        curate(tmp_path, [{"use": "minhash", "keep": keep}])
        found = decisions(tmp_path)
        assert [found[one.id][0] for one in documents] == [number == 0, number == 1, False, True, False]
        assert found[documents[2].id] == (False, "minhash", "duplicate")
        assert found[documents[4].id] == (False, "input", "no_text")
    curate(tmp_path, [{"use": "minhash", "prefer_hosts": ["best.example.org"]}])
    assert [decisions(tmp_path)[one.id][0] for one in documents[:3]] == [False, False, True]
    (explained,) = explain_document(tmp_path, documents[0].url)
    assert explained.same_as == f"{documents[2].url} ({documents[2].id})"


def test_pairs_can_be_verified_by_their_signatures(tmp_path: Path) -> None:
    text = LONG * 20
    write_documents(tmp_path, [document(0, text), document(1, text + "A little more.")], files=1)
    curate(tmp_path, [{"use": "minhash", "verify": 0.7}])
    assert sum(one[0] for one in decisions(tmp_path).values()) == 1
    curate(tmp_path, [{"use": "minhash", "verify": 1.0}])
    assert sum(one[0] for one in decisions(tmp_path).values()) == 2


def test_documents_of_an_earlier_corpus_win(tmp_path: Path) -> None:
    old, new = made_documents(40), [*made_documents(40)[:10], *made_documents(20, seed=9)]
    steps = [{"use": "exact"}, {"use": "minhash"}]
    write_documents(tmp_path / "old", old)
    write_documents(tmp_path / "new", [document(1000 + number, one.text) for number, one in enumerate(new)])
    curate(tmp_path / "old", steps)
    against = [{**step, "against": [str(tmp_path / "old")]} for step in steps]
    curate(tmp_path / "new", against)
    found = decisions(tmp_path / "new")
    assert not any(found[f"<urn:uuid:{1000 + number:08}>"][0] for number in range(10))
    assert sum(one[0] for one in found.values()) > 5
    with pytest.raises(NotFound, match="same parameters"):
        curate(tmp_path / "new", [{"use": "minhash", "rows": 4, "against": [str(tmp_path / "old")]}])


def test_a_line_in_many_documents_stays_in_the_first(tmp_path: Path) -> None:
    notice = "This is the footer of every page of this site, again."
    texts = [f"Document {number} says something of its own, {number * 7}.\n{notice}" for number in range(5)]
    write_documents(tmp_path, [document(number, text) for number, text in enumerate([*texts, notice])], files=2)
    curate(tmp_path, [{"use": "repeated-lines", "max_documents": 2}])
    found = list(decisions(tmp_path).values())
    assert [one[0] for one in found] == [True] * 5 + [False]
    assert found[5] == (False, "repeated-lines", "mostly_repeated")


def test_explain_gives_the_numbers_and_their_limits(tmp_path: Path) -> None:
    write_documents(tmp_path, [document(0, "Too short."), document(1, LONG * 9)], files=1)
    curate(tmp_path, [{"use": "length", "min_chars": 100}])
    (found,) = explain_document(tmp_path, "<urn:uuid:00000000>")
    assert (found.kept, found.step, found.reason) == (False, "length", "too_few_chars")
    (number,) = [one for one in found.steps[0].numbers if one.broken]
    assert (number.name, number.value, number.least) == ("chars", 10, 100)
    with pytest.raises(NotFound):
        list(explain_document(tmp_path, "https://nowhere.example.org/"))


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([{"use": "magic"}], "there are c4-quality"),
        ([{"use": "length", "min_char": 3}], "min_char"),
        ([{"use": "length"}, {"use": "length"}], "two steps are called 'length'"),
        ([{"use": "minhash", "rows": 9}], "1 to 8 rows"),
        ([{"use": "language", "keep": ["en"]}], "write 'eng'"),
        ([{"use": "length", "languages": ["English"]}], "'English' is no code"),
        ([{"use": "gopher-quality", "by_language": {"de": {}}}], "write 'deu'"),
        ([{"use": "word-list", "files": {"*": "x", "zz": "x"}}], "'zz' is no code"),
        ([{"use": "script", "scripts": ["LATN"]}], "LATN"),
    ],
)
def test_a_wrong_recipe_is_refused_with_what_is_wrong(steps: list[dict[str, object]], words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        recipe_of_steps(steps)


def test_recipes_that_are_made_from_one_another_are_refused(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a"), ("c", "c")):
        (tmp_path / f"{name}.toml").write_text(f'from = "{other}.toml"\n')
    for name in "ac":
        with pytest.raises(Misconfigured, match="made from itself"):
            load_recipe(f"{name}.toml", folder=tmp_path)


def test_rows_that_only_say_they_are_ours_are_told_and_left_out(tmp_path: Path) -> None:
    rows = {"outcome": ["ok"] * 3, "url": ["https://a.example/", None, "https://b.example/"], "text": ["one"] * 3}
    (tmp_path / "documents").mkdir()
    for name, ids in (("typed", ["1", "2", "3"]), ("other", [1, 2, 3])):
        table = arrow.table({"id": ids, **rows})
        types = document_types()
        if name == "typed":
            table = table.cast(arrow.schema([(one, types[one]) for one in table.column_names]))
        parquet.write_table(table, tmp_path / "documents" / f"{name}.parquet")
    result = curate(tmp_path, [{"use": "length"}])
    assert result.unreadable == 1 + 3
    assert curate(tmp_path, [{"use": "length"}]).unreadable == 1 + 3  # still so, though nothing was read
    assert {id_: one[0] for id_, one in decisions(tmp_path).items()} == {"1": True, "3": True}


def test_a_file_without_documents_changes_nothing(tmp_path: Path) -> None:
    write_documents(tmp_path, made_documents(20), files=2)
    add_part(tmp_path / "documents" / "part-00009.parquet", [])
    curate(tmp_path)
    found = decisions(tmp_path)
    assert len(found) == 20
    kept = [id_ for id_, one in found.items() if one[0]]
    assert [one.id for one in corpus(tmp_path)] == kept
    assert not list(found.keys() - {one.id for id_ in found for one in explain_document(tmp_path, id_)})


def test_a_step_for_some_languages_leaves_the_others_alone(tmp_path: Path) -> None:
    write_documents(tmp_path, [document(number, "short") for number in range(4)], files=1)
    curate(tmp_path, [{"use": "length", "min_chars": 100, "languages": ["eng", "deu"]}])
    assert [one[0] for one in decisions(tmp_path).values()] == [False, False, True, True]


def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    write_documents(tmp_path, made_documents(40))
    assert b"3 files to measure" in webmill("curate", "plan", tmp_path).out
    ran = webmill("curate", "run", tmp_path, "--executor", "inline")
    assert ran.code == 0, ran.err
    assert "of 40 kept" in ran.err
    shown = webmill("curate", "stats", tmp_path)
    assert b"languages (before, after)" in shown.out
    explained = webmill("curate", "explain", tmp_path, "https://host-0.example.org/0")
    assert b"chars" in explained.out
    assert webmill("curate", "explain", tmp_path, "nothing").code == 1
    assert webmill("curate", "run", tmp_path, "--recipe", "none").code == 1
