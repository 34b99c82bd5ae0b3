"""`webmill add` is killed before each of its durable calls, and run again.

At every death what has a name is whole. After the second run everything is there once, and nothing is left behind.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import Stage, needs_killer
from tests.faults.matrix import record
from tests.pipeline.foreign import put, wacz, warc

INSIDE = {"rec-0.warc.gz": warc(1, 2), "same.warc.gz": warc(3)}
OUTSIDE = {"one.warc.gz": warc(*range(10, 40)), "same.warc.gz": warc(5), "twice.warc.gz": warc(5)}
WHOLE = {*INSIDE.values(), *OUTSIDE.values()}
FAULT = "kill -9 before a durable call"
pytestmark = [needs_killer, pytest.mark.crash]


class Scene:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "news"
        self.files = [put(folder / "crawl.wacz", wacz(INSIDE))]
        self.files += [put(folder / "in" / name, data) for name, data in OUTSIDE.items()]
        self.acknowledged = self.lost = self.twice = 0

    def archives(self) -> list[bytes]:
        return [path.read_bytes() for path in self.root.rglob("*.warc.gz") if not path.name.startswith(".")]

    def count(self, *, at_least: set[bytes]) -> None:
        found = self.archives()
        self.acknowledged += len(at_least)
        self.lost += len(at_least - set(found)) + len(set(found) - WHOLE)
        self.twice += len(found) - len(set(found))

    def forget(self) -> None:
        for path in sorted(self.root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()

    def record(self, *, kills: int, control: bool = False) -> None:
        numbers = {"acknowledged": self.acknowledged, "lost": self.lost, "duplicated": self.twice}
        record("add", FAULT, injected=kills, **numbers, control=control)


@pytest.fixture
def scene(memory_folder: Path) -> Scene:
    return Scene(memory_folder)


def swept(scene: Scene, stage: Stage, *flags: str) -> int:
    """Killed once before every call; how often that was."""
    for at in range(1, 1000):
        scene.forget()
        ended = stage.run("add", scene.root, *scene.files, *flags, at=at)
        if not ended.killed:
            assert ended.code == 0, ended.output
            return at - 1
        scene.count(at_least=set())
        again = stage.run("add", scene.root, *scene.files, *flags)
        assert again.code == 0, again.output
        scene.count(at_least=WHOLE)
        assert not list(scene.root.rglob(".webmill-tmp*")), at
    raise AssertionError("it does not end")


@pytest.mark.parametrize("flags", [(), ("--link",)], ids=["copies", "links"])
def test_killed_before_any_durable_call_and_run_again_everything_is_there_once(
    scene: Scene, flags: tuple[str, ...]
) -> None:
    with Stage("webmill.cli.main", under=scene.root) as stage:
        assert stage.warm_up("add", scene.root, *scene.files, *flags).code == 0
        kills = swept(scene, stage, *flags)
    scene.record(kills=kills)
    assert (scene.lost, scene.twice) == (0, 0)
    assert kills > 20


def test_who_copies_to_the_final_name_is_seen_to_lose(scene: Scene) -> None:
    """The negative control."""
    with Stage("tests.pipeline.faulty_add", under=scene.root) as stage:
        assert stage.warm_up("add", scene.root, *scene.files).code == 0
        scene.forget()
        at = 1
        while stage.run("add", scene.root, *scene.files, at=at).killed:
            assert stage.run("add", scene.root, *scene.files).code == 0
            scene.count(at_least=set(OUTSIDE.values()))
            scene.forget()
            at += 1
    scene.record(kills=at - 1, control=True)
    assert scene.lost > 0
