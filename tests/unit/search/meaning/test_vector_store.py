"""Vectors are there once they were appended, whatever happens to the writer, and every byte of them is checked."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import numpy
import pytest

from webmill.errors import BadInput, Conflict, NotFound
from webmill.search.fields import content_of
from webmill.search.meaning import vector_store
from webmill.search.meaning.passages import Passage
from webmill.search.meaning.scan import PassageScores
from webmill.search.meaning.vector_store import VectorReader, VectorWriter

SIZE = 8


def key(number: int) -> bytes:
    return bytes.fromhex(content_of(f"h{number}"))


def vectors(number: int, count: int) -> numpy.ndarray:
    found = numpy.random.default_rng(number).normal(size=(count, SIZE)).astype("f4")
    return found / numpy.linalg.norm(found, axis=1, keepdims=True)


def add(writer: VectorWriter, *numbers: int) -> None:
    documents = []
    for number in numbers:
        count = 1 + number % 3
        documents.append((key(number), [Passage(10 * each, 10) for each in range(count)], vectors(number, count)))
    writer.append(documents)


def write(folder: Path, *numbers: int) -> None:
    with closing(VectorWriter(folder, dimensions=SIZE)) as writer:
        add(writer, *numbers)


def test_the_nearest_are_those_of_a_comparison_with_all(tmp_path: Path) -> None:
    write(tmp_path, *range(600))
    write(tmp_path, *range(600, 1000))
    scores = PassageScores(VectorReader(tmp_path), vectors(5000, 1)[0])
    exact = {
        number: max((each @ vectors(5000, 1)[0], place) for place, each in enumerate(vectors(number, 1 + number % 3)))
        for number in range(1000)
    }
    best = sorted(exact, key=lambda number: -exact[number][0])[:20]
    found = list(scores.nearest())
    assert len(found) == 1000
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    numbers = {content_of(f"h{number}"): number for number in range(1000)}
    assert len({numbers[each.content] for each in found[:20]} & set(best)) >= 19  # the integers round
    top = found[0]
    assert top.passage == Passage(10 * exact[numbers[top.content]][1], 10)
    assert top.score == pytest.approx(exact[numbers[top.content]][0], abs=0.02)
    some = scores.of([content_of("h3"), content_of("h4"), content_of("never")])
    assert {each.content for each in some} == {content_of("h3"), content_of("h4")}


def test_cut_anywhere_the_whole_documents_are_kept_and_the_others_missing(tmp_path: Path) -> None:
    with closing(VectorWriter(tmp_path / "whole", dimensions=SIZE)) as writer:
        add(writer, *range(9))
        [file] = vector_store.vector_files(tmp_path / "whole")
        writer._close_file()
        data, note = file.read_bytes(), (tmp_path / "whole" / "store.json").read_bytes()
    row = 32 + SIZE
    ends = numpy.cumsum([row * (1 + number % 3) for number in range(9)])
    for cut in range(0, len(data) + 1, 7):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        (folder / "store.json").write_bytes(note)
        (folder / file.name).write_bytes(data[:cut])
        with closing(VectorWriter(folder, dimensions=SIZE)) as writer:
            kept = [number for number in range(9) if writer.has(key(number))]
            assert kept == [number for number in range(9) if ends[number] <= cut]
            add(writer, *(number for number in range(9) if number not in kept))
        reader = VectorReader(folder)
        reader.verify()
        assert reader.keys() == {key(number) for number in range(9)}
        assert sum(len(rows) for rows in reader.files) == len(data) // row  # none twice


def test_every_changed_byte_is_noticed_and_costs_one_document(tmp_path: Path) -> None:
    write(tmp_path, *range(20))
    [file] = vector_store.vector_files(tmp_path)
    data = bytearray(file.read_bytes())
    dice = random.Random(3)
    for at in dice.sample(range(len(data)), 60):
        damaged = bytearray(data)
        damaged[at] ^= 1 << dice.randrange(8)
        file.write_bytes(damaged)
        with pytest.raises(BadInput, match="checksum"):
            VectorReader(tmp_path)
    with closing(VectorWriter(tmp_path, dimensions=SIZE)) as writer:  # and is repaired by the next writer
        missing = [number for number in range(20) if not writer.has(key(number))]
        assert len(missing) == 1
        add(writer, *missing)
    VectorReader(tmp_path).verify()


def test_store_json_is_checked_too(tmp_path: Path) -> None:
    write(tmp_path, 1)
    path = tmp_path / "store.json"
    path.write_bytes(path.read_bytes().replace(b'"dimensions":8', b'"dimensions":9'))
    with pytest.raises(BadInput):
        VectorReader(tmp_path)


def test_what_is_not_wanted_is_dropped_and_small_files_are_joined(tmp_path: Path) -> None:
    for number in range(vector_store.MOST_FILES + 4):
        write(tmp_path, number)
    assert len(vector_store.vector_files(tmp_path)) <= vector_store.MOST_FILES + 1
    with closing(VectorWriter(tmp_path, dimensions=SIZE)) as writer:
        assert writer.retain({key(3), key(4)}.__contains__) == vector_store.MOST_FILES + 2
    reader = VectorReader(tmp_path)
    reader.verify()
    assert reader.keys() == {key(3), key(4)}


def test_one_process_writes_at_a_time_and_a_new_store_has_a_name_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        VectorReader(tmp_path)
    with closing(VectorWriter(tmp_path, dimensions=SIZE)) as writer:
        with pytest.raises(Conflict):
            VectorWriter(tmp_path, dimensions=SIZE)
        first = writer.note.id
    write(tmp_path, 1)
    assert VectorReader(tmp_path).note.id == first
    with closing(VectorWriter(tmp_path, dimensions=SIZE + 1)) as writer:  # of another model: nothing of it can be kept
        assert writer.note.id != first
        assert not writer.has(key(1))
