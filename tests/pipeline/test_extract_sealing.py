"""From spooled batches to parts: in order, once, over holes only when they are known to be holes, after any kill."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from tests.pipeline.cc_pages import RUN, parts, rows, snapshot
from webmill.commoncrawl.batch import batch_id
from webmill.errors import Conflict
from webmill.infra import lock
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.extract.output import Output, Shape
from webmill.pipeline.extract.rows import Keep, Row
from webmill.pipeline.extract.sealing import Receipt
from webmill.pipeline.extract.spool import key_of, spool

NEVER = lambda _: False  # noqa: E731
ALWAYS = lambda _: True  # noqa: E731


def row(batch: int, number: int) -> Row:
    nothing = dict.fromkeys(Row.__struct_fields__)
    known = {"url": f"http://example.org/{batch}/{number}", "text": f"{batch} {number} " * 20, "extraction": "ok"}
    return Row(**nothing | known | {"extractor": "none", "batch": batch_id(RUN, batch)})  # type: ignore[arg-type]


def output_at(folder: Path, *, size: int = 2000, form: str = "jsonl") -> Output:
    folder.mkdir(exist_ok=True)
    shape = Shape(extractor="none", format=form, file_size=size)  # type: ignore[arg-type]
    return Output(LocalStorage(folder), folder=folder, shape=shape)


def work(output: Output, numbers: Iterable[int]) -> None:
    """Batch N has N % 4 rows."""
    for number in numbers:
        made = spool(batch_id(RUN, number), [row(number, one) for one in range(number % 4)], keep=Keep())
        output.storage.write(key_of(made.facts.id), made.data)


def names(out: Path) -> list[str]:
    return [path.name.removeprefix("part-").partition(".")[0] for path in parts(out)]


def batches_in(out: Path) -> list[int]:
    return [int(found["batch"].rpartition("-")[2]) for found in rows(out)]


def expected(numbers: Iterable[int]) -> list[int]:
    return [number for number in numbers for _ in range(number % 4)]


@pytest.fixture(params=["jsonl", "parquet"])
def calm(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[dict[str, bytes], str]:
    """What comes of forty batches that are worked in order and sealed once, at the end."""
    output = output_at(tmp_path / "calm", form=request.param)
    work(output, range(1, 41))
    output.finish(NEVER)
    assert batches_in(tmp_path / "calm") == expected(range(1, 41))
    return snapshot(tmp_path / "calm"), request.param


def test_parts_do_not_depend_on_the_order_of_the_work(tmp_path: Path, calm: tuple[dict[str, bytes], str]) -> None:
    output = output_at(tmp_path / "out", form=calm[1])
    for number in [2, 1, 3, 9, 8, 7, 4, 5, 6, *range(40, 9, -1)]:
        work(output, [number])
        output.seal()
    output.finish(NEVER)
    assert snapshot(tmp_path / "out") == calm[0]
    assert len(calm[0]) > 10
    assert output.unsealed() == 0


def test_only_what_has_no_hole_before_it_is_sealed(tmp_path: Path) -> None:
    output = output_at(tmp_path / "out")
    work(output, [1, 2, 3, 5, 6, 7, 8, 9, 10, 11])
    output.seal()
    assert names(tmp_path / "out") == ["00000001-00000003"]
    output.finish(NEVER)
    assert batches_in(tmp_path / "out") == expected([1, 2, 3])
    work(output, [4])
    output.finish(NEVER)
    assert batches_in(tmp_path / "out") == expected(range(1, 12))


def test_a_part_is_not_closed_before_it_is_large_enough(tmp_path: Path) -> None:
    output = output_at(tmp_path / "out", size=10**9)
    work(output, range(1, 20))
    assert output.seal() == []
    (receipt,) = output.finish(NEVER)
    assert (receipt.first, receipt.last, receipt.rows) == (1, 19, len(expected(range(1, 20))))


def test_buried_batches_are_sealed_over_and_told(tmp_path: Path) -> None:
    output = output_at(tmp_path / "out", size=10**9)
    work(output, [2, 3, 6])
    lost = {batch_id(RUN, number) for number in (1, 4, 5)}
    (receipt,) = output.finish(lost.__contains__)
    assert (receipt.first, receipt.last, receipt.missing) == (1, 6, (1, 4, 5))
    assert batches_in(tmp_path / "out") == expected([2, 3, 6])
    told = msgspec.json.decode(
        (tmp_path / "out" / RUN / "receipts" / "part-00000001-00000006.json").read_bytes(), type=Receipt
    )
    assert told == receipt


def test_a_batch_that_was_sealed_over_becomes_a_part_when_it_is_worked_after_all(tmp_path: Path) -> None:
    output = output_at(tmp_path / "out", size=10**9)
    work(output, [1, 3])
    output.finish(ALWAYS)
    work(output, [2, 5])
    output.seal()
    assert names(tmp_path / "out") == ["00000001-00000003", "00000002-00000002"]
    work(output, [1, 2, 4])  # and late duplicates change nothing
    output.finish(NEVER)
    assert names(tmp_path / "out") == ["00000001-00000003", "00000002-00000002", "00000004-00000005"]
    assert sorted(batches_in(tmp_path / "out")) == expected([1, 2, 3, 4, 5])
    assert output.unsealed() == 0


def test_runs_are_kept_apart(tmp_path: Path) -> None:
    output = output_at(tmp_path / "out")
    other = "f" * 12
    work(output, [1])
    made = spool(batch_id(other, 1), [row(1, 5)], keep=Keep())
    output.storage.write(key_of(made.facts.id), made.data)
    output.finish(NEVER)
    assert [path.parent.name for path in parts(tmp_path / "out")] == [RUN, other]


def test_rows_that_were_all_filtered_leave_an_empty_part(tmp_path: Path) -> None:
    output = output_at(tmp_path / "out", form="parquet")
    made = spool(batch_id(RUN, 1), [row(1, 1)], keep=Keep(min_text=5000))
    output.storage.write(key_of(made.facts.id), made.data)
    (receipt,) = output.finish(NEVER)
    assert (receipt.rows, receipt.filtered) == (0, {"too_short": 1})
    assert rows(tmp_path / "out") == []


def test_two_sealers_exclude_each_other(tmp_path: Path) -> None:
    output = output_at(tmp_path / "out")
    work(output, range(1, 10))
    private = output.private()
    assert private
    with lock.exclusive(private, "seal", doing="sealing"):
        assert output.seal() == []
        with pytest.raises(Conflict, match="sealing"):
            output.finish(NEVER, patience=0)
    assert output.seal()


class Killed(BaseException):
    """As kill -9: nothing that follows is done."""


class Dying(LocalStorage):
    """Dies before its Nth change."""

    left = 0

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def write(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
        self._step()
        return super().write(*arguments, **options)  # type: ignore[arg-type]

    def delete(self, key: str) -> None:
        self._step()
        super().delete(key)


def test_a_sealer_that_is_killed_anywhere_is_taken_over(tmp_path: Path, calm: tuple[dict[str, bytes], str]) -> None:
    """Before every single change, with a late duplicate each time."""
    folder = tmp_path / "out"
    deaths = 0
    work(output_at(folder, form=calm[1]), range(1, 41))
    while True:
        output = output_at(folder, form=calm[1])
        storage = Dying(folder)
        storage.left = deaths % 7
        dying = Output(storage, folder=folder, shape=output.shape)
        try:
            dying.finish(NEVER)
            break
        except Killed:
            deaths += 1
            work(output, [1 + deaths % 40])
    output_at(folder, form=calm[1]).finish(NEVER)
    assert deaths > 20
    assert snapshot(folder) == calm[0]
    assert output_at(folder, form=calm[1]).unsealed() == 0
