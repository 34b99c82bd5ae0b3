"""From spooled batches to parts: in order, once, over holes only when they are known to be holes, after any kill."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from tests.pipeline.cc_pages import RUN, parts, rows, snapshot
from webmill.commoncrawl.batch import batch_id
from webmill.errors import Conflict
from webmill.extract.recipe import Recipe
from webmill.infra import lock
from webmill.infra.sinks.base import Delivered, SinkRow
from webmill.infra.sinks.json_lines import encode
from webmill.infra.storage.local import LocalStorage
from webmill.model import Document
from webmill.pipeline.extract.output import ExtractOutput, OutputShape
from webmill.pipeline.extract.receipts import Receipt, Receipts
from webmill.pipeline.extract.sealing import PartSealer, SealedPart

NEVER = lambda _: False  # noqa: E731
ALWAYS = lambda _: True  # noqa: E731


def row(batch: int, number: int) -> Document:
    url = f"http://example.org/{batch}/{number}"
    return Document(id=f"{batch}#{number}", url=url, text=f"{batch} {number} " * 20, text_chars=20, extractor="none")


def output_at(folder: Path, *, size: int = 2600, form: str = "jsonl") -> ExtractOutput:
    shape = OutputShape(recipe=Recipe(extractor="none"), format=form, file_size=size)  # type: ignore[arg-type]
    return ExtractOutput(str(folder), f"{folder}/.webmill", shape=shape)


def work(output: ExtractOutput, numbers: Iterable[int], *, run: str = RUN) -> None:
    """Batch N has N % 4 rows. As a worker does it: first the rows, then the part."""
    for number in numbers:
        done(output, number, [row(number, one) for one in range(number % 4)], run=run)


def done(
    output: ExtractOutput, number: int, made: list[Document], *, run: str = RUN, left_out: dict[str, int] | None = None
) -> None:
    state = output.notes
    rows = [SinkRow(one, msgspec.json.encode(one)) for one in made]
    name, data = f"{batch_id(run, number)}-00000.jsonl.zst", encode(rows, compression="zstd")
    if rows:
        state.write(f"spool/{name}", data)
    receipt = Receipt(
        number=0,
        output=Delivered(name, len(rows), len(data)) if rows else None,
        errors=None,
        captures=len(rows) + sum((left_out or {}).values()),
        bytes=sum(len(one.line) for one in rows),
        outcomes={"ok": len(rows)} if rows else {},
        left_out=left_out or {},
        last=True,
        seconds=0.0,
    )
    Receipts(state, f"{run}/{number:08d}-", files=None, error_files=None).add(receipt)


def names(out: Path) -> list[str]:
    return [path.name.removeprefix("part-").partition(".")[0] for path in parts(out)]


def batches_in(out: Path) -> list[int]:
    return [int(found["id"].partition("#")[0]) for found in rows(out)]


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
    (part,) = output.finish(NEVER)
    assert (part.first, part.last, part.rows) == (1, 19, len(expected(range(1, 20))))


def test_buried_batches_are_sealed_over_and_told(tmp_path: Path) -> None:
    output = output_at(tmp_path / "out", size=10**9)
    work(output, [2, 3, 6])
    lost = {batch_id(RUN, number) for number in (1, 4, 5)}
    (part,) = output.finish(lost.__contains__)
    assert (part.first, part.last, part.missing) == (1, 6, (1, 4, 5))
    assert batches_in(tmp_path / "out") == expected([2, 3, 6])
    reported = msgspec.json.decode(
        (tmp_path / "out/.webmill/sealed" / RUN / "part-00000001-00000006.json").read_bytes(), type=SealedPart
    )
    assert reported == part


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
    work(output, [1], run=other)
    output.finish(NEVER)
    assert [path.parent.name for path in parts(tmp_path / "out")] == [RUN, other]


def test_rows_that_were_all_filtered_leave_an_empty_part(tmp_path: Path) -> None:
    output = output_at(tmp_path / "out", form="parquet")
    done(output, 1, [], left_out={"too_short": 1})
    (part,) = output.finish(NEVER)
    assert (part.rows, part.left_out) == (0, {"too_short": 1})
    assert rows(tmp_path / "out") == []


def test_two_sealers_exclude_each_other(tmp_path: Path) -> None:
    output = output_at(tmp_path / "out")
    work(output, range(1, 10))
    folder = output.folder()
    assert folder
    with lock.exclusive(folder, "seal", doing="sealing"):
        assert output.seal() == []
        with pytest.raises(Conflict, match="sealing"):
            output.finish(NEVER, patience=0)
    assert output.seal()


class Killed(BaseException):
    """As kill -9: nothing that follows is done."""


class Dying(LocalStorage):
    """Dies before its Nth change, which it counts together with its siblings."""

    left: list[int]

    def _step(self) -> None:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise Killed

    def write(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
        self._step()
        return super().write(*arguments, **options)  # type: ignore[arg-type]

    def delete(self, key: str) -> None:
        self._step()
        super().delete(key)


def dying_sealer(folder: Path, shape: OutputShape, *, after: int) -> PartSealer:
    data, state = Dying(folder), Dying(folder / ".webmill")
    data.left = state.left = [after]
    return PartSealer(data, state, form=shape.format, row=Document, file_size=shape.file_size, scratch=None)


def test_a_sealer_that_is_killed_anywhere_is_taken_over(tmp_path: Path, calm: tuple[dict[str, bytes], str]) -> None:
    """Before every single change, with a late duplicate each time."""
    folder = tmp_path / "out"
    deaths = 0
    output = output_at(folder, form=calm[1])
    work(output, range(1, 41))
    while True:
        try:
            dying_sealer(folder, output.shape, after=deaths % 7).finish(NEVER)
            break
        except Killed:
            deaths += 1
            work(output, [1 + deaths % 40])
    output_at(folder, form=calm[1]).finish(NEVER)
    assert deaths > 20
    assert snapshot(folder) == calm[0]
    assert output_at(folder, form=calm[1]).unsealed() == 0
    assert not list((folder / ".webmill" / "spool").glob("*.zst"))
