"""What is read from files, queues, archives and networks is data, never code (T10).

Pickle is between processes of ours: from a parent to its child, from Ray's driver to its workers.
"""

from __future__ import annotations

import ast
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from webmill.errors import WebmillError
from webmill.index.state import IndexState
from webmill.infra.host_schedule.limiter import Limiter
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.pipeline.dataset.folder import open_dataset

SOURCE = Path(__file__).parents[2] / "src" / "webmill"
LOADERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "jsonpickle"}
BETWEEN_PROCESSES = {"boards/worker_process.py", "infra/child.py", "infra/child_loop.py"}
BETWEEN_PROCESSES |= {"infra/executor/pool.py", "infra/executor/ray.py"}
OF_THE_OPERATOR = {
    "infra/custom_function.py",
    "infra/plugins/loaded.py",
    "index/cdxj/add_fields.py",
}  # functions named in a dataset or command


def modules_with(words: set[str]) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if any(word in text for word in words):  # to parse all of them would take seconds
            yield path.relative_to(SOURCE).as_posix(), ast.parse(text)


def imported(tree: ast.Module) -> set[str]:
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


def called(tree: ast.Module) -> set[str]:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def test_only_processes_of_ours_speak_pickle_to_each_other() -> None:
    loaders = {name: imported(tree) & LOADERS for name, tree in modules_with(LOADERS)}
    assert {name for name, found in loaders.items() if found} == BETWEEN_PROCESSES
    assert set().union(*loaders.values()) == {"pickle"}


def test_no_text_is_run_as_code_but_the_operators() -> None:
    runners = {"eval", "exec"}
    assert {name for name, tree in modules_with(runners) if called(tree) & runners} == OF_THE_OPERATOR


class Bomb:
    """Whoever loads it makes a folder."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


PLACES: dict[str, Callable[[Path], object]] = {
    "queue": SqliteQueue,
    "state": IndexState,
    "limiter": lambda path: Limiter(path, rate=0.01).acquire(patience=0),
    "dataset.json": lambda path: open_dataset(path.parent),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_pickle_in_place_of_a_file_of_ours_is_no_more_than_bytes(tmp_path: Path, name: str) -> None:
    mark = tmp_path / "exploded"
    bomb = pickle.dumps(Bomb(mark))
    (tmp_path / name).write_bytes(bomb)
    with pytest.raises(WebmillError):
        PLACES[name](tmp_path / name)
    assert not mark.exists()
    pickle.loads(bomb)
    assert mark.exists(), "it is no bomb"
