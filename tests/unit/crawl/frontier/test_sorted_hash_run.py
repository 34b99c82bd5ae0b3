"""Sorted runs: exact whatever the filter says, merged without loss, refused when they are damaged."""

from __future__ import annotations

import random
import struct
from hashlib import blake2b
from pathlib import Path

import pytest

from webmill.crawl.frontier.hashes import find_maybe, join_hashes, make_query
from webmill.crawl.frontier.sorted_hash_run import HEADER, HashRun, MemoryRun, write_run
from webmill.errors import BadInput, NotFound


def hash_of(number: int) -> bytes:
    return blake2b(str(number).encode(), digest_size=16).digest()


def write(path: Path, hashes: set[bytes], **options: int) -> HashRun:
    for _ in write_run(path, [MemoryRun(hashes)], **options):
        pass
    return HashRun(path)


def holds(run: HashRun, hash_: bytes) -> tuple[bool, bool]:
    """What the filter says, and what is true."""
    one = make_query(join_hashes([hash_]))
    return find_maybe(run.words, one).tolist() == [0], run.holds(one).tolist() == [True]


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 5000, 40_000])
def test_a_run_holds_what_was_written_and_nothing_else(tmp_path: Path, count: int) -> None:
    run = write(tmp_path / "1.run", {hash_of(number) for number in range(count)})
    assert all(holds(run, hash_of(number)) == (True, True) for number in range(count))
    others = [holds(run, hash_of(number)) for number in range(count, count + 5000)]
    assert not any(truth for _, truth in others)
    assert sum(maybe for maybe, _ in others) < 100  # 2 %: the quick no is quick nearly always
    run.close()


def test_a_filter_that_always_says_maybe_loses_nothing(tmp_path: Path) -> None:
    run = write(tmp_path / "1.run", {hash_of(number) for number in range(20_000)}, hashes_per_word=10_000)
    assert run.word_count == 32
    others = [holds(run, hash_of(number)) for number in range(20_000, 22_000)]
    assert all(maybe for maybe, _ in others)
    assert not any(truth for _, truth in others)
    assert all(holds(run, hash_of(number))[1] for number in range(20_000))
    run.close()


def test_runs_are_merged_into_one_that_holds_all(tmp_path: Path) -> None:
    parts = [write(tmp_path / f"{at}.run", {hash_of(number) for number in range(at, 60_000, 3)}) for at in range(3)]
    slices = list(write_run(tmp_path / "all.run", parts))
    assert sum(slices) == 60_000
    assert max(slices) < 30_000  # never all of it in memory
    merged = HashRun(tmp_path / "all.run")
    assert merged.between(0, 1 << 32).tobytes() == b"".join(sorted(hash_of(number) for number in range(60_000)))
    assert (tmp_path / "all.run").read_bytes() == whole(tmp_path, 60_000)
    for run in (*parts, merged):
        run.close()


def whole(folder: Path, count: int) -> bytes:
    write(folder / "whole.run", {hash_of(number) for number in range(count)}).close()
    return (folder / "whole.run").read_bytes()


def test_a_merge_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    steps = write_run(tmp_path / "1.run", [MemoryRun({hash_of(number) for number in range(50_000)})])
    next(steps)
    steps.close()
    assert list(tmp_path.iterdir()) == []


def test_hashes_with_equal_heads_and_hashes_across_two_others_are_told_apart(tmp_path: Path) -> None:
    hashes = {b"\0" * 4 + number.to_bytes(12) for number in range(300)} | {b"\xff" * 16, b"\0" * 15 + b"\xff"}
    run = write(tmp_path / "1.run", hashes)
    assert all(holds(run, hash_) == (True, True) for hash_ in hashes)
    across = b"".join(sorted(hashes)[100:102])[4:20]
    assert across not in hashes
    assert not holds(run, across)[1]
    run.close()


def test_a_run_with_any_number_of_words_is_read_as_earlier_ones_were(tmp_path: Path) -> None:
    """Written by docs/reference/frontier.md."""
    hashes, words = sorted(hash_of(number) for number in range(1000)), 3 * 32
    filter_, chosen = [0] * words, []
    for hash_ in hashes:
        chosen.append(int.from_bytes(hash_[:4]) * words >> 32)
        bits = int.from_bytes(hash_[4:8])
        for shift in (0, 6, 12, 18):
            filter_[chosen[-1]] |= 1 << (bits >> shift) % 64
    starts = [sum(word < 32 * bucket for word in chosen) for bucket in range(4)]
    parts = [b"wmrun\0\0\1", struct.pack("=QQ8x", 1000, words), *hashes, struct.pack("=4I", *starts)]
    (tmp_path / "1.run").write_bytes(b"".join(parts) + struct.pack(f"={words}Q", *filter_))
    run = HashRun(tmp_path / "1.run")
    assert all(holds(run, hash_) == (True, True) for hash_ in hashes)
    assert not any(holds(run, hash_of(number))[1] for number in range(1000, 3000))
    for _ in write_run(tmp_path / "2.run", [run]):
        pass
    merged = HashRun(tmp_path / "2.run")
    assert list(merged) == hashes
    assert all(holds(merged, hash_) == (True, True) for hash_ in hashes)
    run.close()
    merged.close()


@pytest.mark.parametrize("harm", ["cut", "longer", "magic", "empty"])
def test_a_damaged_run_is_refused(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "1.run"
    write(path, {hash_of(number) for number in range(100)}).close()
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-1], "longer": data + b"x", "magic": b"x" + data[1:], "empty": b""}[harm])
    with pytest.raises(BadInput, match="corrupt"):
        HashRun(path)


def test_any_flipped_bit_of_a_run_is_found_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "1.run"
    run = write(path, {hash_of(number) for number in range(500)})
    run.verify()
    run.close()
    data, dice = path.read_bytes(), random.Random(3)
    padding = range(28, 32)  # of the header
    for _ in range(300):
        at = dice.choice([byte for byte in range(len(data)) if byte not in padding])
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :])
        with pytest.raises(BadInput, match=r"1\.run"):
            HashRun(path).verify()


@pytest.mark.parametrize(("harm", "length"), [("a hash", 4), ("starts", 4 * 300)])
def test_damage_inside_a_run_is_told_by_a_merge_and_leads_no_question_out_of_the_file(
    tmp_path: Path, harm: str, length: int
) -> None:
    path = tmp_path / "1.run"
    write(path, {hash_of(number) for number in range(40_000)}).close()
    data = bytearray(path.read_bytes())
    at = HEADER.size + 16 * (100 if harm == "a hash" else 40_000)
    data[at : at + length] = b"\xff" * length
    path.write_bytes(data)
    run = HashRun(path)
    answers = run.holds(make_query(join_hashes(hash_of(number) for number in range(80_000))))
    assert not answers[40_000:].any()
    if harm == "a hash":
        assert 39_800 < answers.sum() < 40_000  # but its neighbours
    with pytest.raises(BadInput, match="corrupt"):
        list(write_run(tmp_path / "2.run", [run]))
    assert not (tmp_path / "2.run").exists()
    run.close()


def test_many_are_asked_at_once_as_each_alone(tmp_path: Path) -> None:
    run = write(tmp_path / "1.run", {hash_of(number) for number in range(0, 30_000, 3)})
    answers = run.holds(make_query(join_hashes(hash_of(number) for number in range(30_000))))
    assert answers.tolist() == [number % 3 == 0 for number in range(30_000)]
    run.close()


def test_a_run_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        HashRun(tmp_path / "1.run")
