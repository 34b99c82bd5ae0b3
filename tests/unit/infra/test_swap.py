"""Folders that are replaced as a whole."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from webmill.errors import Misconfigured, WebmillError
from webmill.infra import swap


@pytest.fixture(params=["at once", "in two steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As on Linux, and as where the system cannot exchange two names."""
    if request.param == "in two steps":
        monkeypatch.setattr(swap, "_exchange_at_once", lambda fresh, place: False)
    return str(request.param)


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text(name)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_folder_takes_the_place_of_another(tmp_path: Path, way: str) -> None:
    place = tmp_path / "a" / "b"
    for generation in ("1", "2", "3"):
        with swap.replacing(place, beside=tmp_path, is_ours=lambda _: True) as fresh:
            fill(fresh, generation, "same")
        assert names(place) == {generation, "same"}


def test_the_files_replaced_stay_until_the_next_time(tmp_path: Path, way: str) -> None:
    place = tmp_path / "x" / "place"
    for generation in ("1", "2", "3"):
        with swap.replacing(place, beside=tmp_path, is_ours=lambda _: True) as fresh:
            fill(fresh, generation)
    assert names(tmp_path) == {"x", ".webmill-old-place"}
    assert names(tmp_path / ".webmill-old-place") == {"2"}


def test_when_the_block_raises_the_old_files_stay_and_the_new_ones_go(tmp_path: Path, way: str) -> None:
    place = tmp_path / "place"
    with swap.replacing(place, beside=tmp_path, is_ours=lambda _: True) as fresh:
        fill(fresh, "old")
    with (  # noqa: PT012 - it is the block that is tested
        pytest.raises(ZeroDivisionError),
        swap.replacing(place, beside=tmp_path, is_ours=lambda _: True) as fresh,
    ):
        fill(fresh, "new")
        raise ZeroDivisionError
    assert (names(place), names(tmp_path)) == ({"old"}, {"place"})


def test_what_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".webmill-new-place").mkdir()
    fill(tmp_path / ".webmill-new-place", "half")
    with swap.replacing(tmp_path / "place", beside=tmp_path, is_ours=lambda _: True) as fresh:
        fill(fresh, "whole")
    assert names(tmp_path / "place") == {"whole"}
    (tmp_path / ".webmill-new-place").mkdir()
    swap.remove_unfinished(tmp_path / "place", beside=tmp_path)
    assert names(tmp_path) == {"place"}


def test_a_removed_folder_is_gone_at_once(tmp_path: Path) -> None:
    place = tmp_path / "x" / "place"
    swap.remove(place, beside=tmp_path, is_ours=lambda _: True)  # which is no error
    with swap.replacing(place, beside=tmp_path, is_ours=lambda _: True) as fresh:
        fill(fresh, "a")
    swap.remove(place, beside=tmp_path, is_ours=lambda _: True)
    assert not place.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges at once")
def test_a_reader_never_sees_a_mixture_nor_nothing(tmp_path: Path) -> None:
    place = tmp_path / "x" / "place"
    with swap.replacing(place, beside=tmp_path, is_ours=lambda _: True) as fresh:
        fill(fresh, *(f"0-{number}" for number in range(50)))
    context = multiprocessing.get_context("spawn")
    stop, looks, answer = context.Event(), context.Value("q"), context.Queue()
    reader = context.Process(target=read_until, args=(place, stop, looks, answer))
    reader.start()
    for generation in range(1, 101):
        with swap.replacing(place, beside=tmp_path, is_ours=lambda _: True) as fresh:
            fill(fresh, *(f"{generation}-{number}" for number in range(50)))
        begun = looks.value
        while looks.value < begun + 2:  # files go with the next replacement but one: no look may take that long
            assert reader.is_alive()
    stop.set()
    seen, bad = answer.get(timeout=60)
    reader.join()
    assert (seen, bad) == (100, [])


def read_until(place: Path, stop: Any, looks: Any, answer: Any) -> None:
    seen, bad = set(), []
    while not stop.is_set():
        try:
            found = os.listdir(place)  # noqa: PTH208 - one open, one list: what any reader does
        except FileNotFoundError:
            found = []
        generations = {name.partition("-")[0] for name in found}
        if len(found) != 50 or len(generations) != 1:
            bad.append(f"{len(found)} of {generations}")
        seen |= generations
        looks.value += 1
    answer.put((len(seen - {"0"}), bad[:5]))


def raising(number: int) -> Callable[..., bool]:
    def fail(fresh: Path, place: Path) -> bool:
        raise OSError(number, os.strerror(number), str(place))

    return fail


def test_errors_of_the_system_are_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with swap.replacing(tmp_path / "place", beside=tmp_path, is_ours=lambda _: True) as fresh:
        fill(fresh, "old")
    monkeypatch.setattr(swap, "_exchange_at_once", raising(errno.EROFS))
    with pytest.raises(Misconfigured), swap.replacing(tmp_path / "place", beside=tmp_path, is_ours=lambda _: True):
        pass
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(WebmillError),
        swap.replacing(tmp_path / "file" / "place", beside=tmp_path, is_ours=lambda _: True),
    ):
        pass
    assert names(tmp_path / "place") == {"old"}
