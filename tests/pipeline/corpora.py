"""Collections with documents that were made for tests of curate."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.unit.curate.texts import made_texts
from webmill.curate.recipe import CurateRecipe, recipe_of_steps
from webmill.curate.steps import CurateStep
from webmill.infra.executor.base import Executor
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.sinks import parquet
from webmill.infra.sinks.base import SinkRow
from webmill.model import Document
from webmill.pipeline.curate.run import CurateResult, curate_documents, open_corpus
from webmill.pipeline.progress import progress_to

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
STEPS: list[Mapping[str, Any]] = [
    {"use": "length", "min_chars": 30},
    {"use": "lines", "min_words": 2, "terminal_punctuation": False},
    {"use": "gopher-repetition"},
    {"use": "exact"},
    {"use": "minhash"},
    {"use": "repeated-lines", "max_documents": 2},
]


def made_documents(count: int, *, seed: int = 5) -> list[Document]:
    """Return documents, every fifth a near copy or a copy of an earlier one."""
    drawn = random.Random(seed)
    texts = made_texts(count, seed=seed)
    for number in range(4, count, 5):
        texts[number] = nearly(texts[drawn.randrange(number)], drawn)
    return [document(number, text) for number, text in enumerate(texts)]


def nearly(text: str, drawn: random.Random) -> str:
    """Return a text, half the time with one word changed."""
    words = text.split(" ")
    if drawn.random() < 0.5 and len(words) > 50:
        words[drawn.randrange(len(words))] = "changed"
    return " ".join(words)


def document(number: int, text: str | None, **fields: Any) -> Document:
    given = {
        "id": f"<urn:uuid:{number:08}>",
        "url": f"https://host-{number % 7}.example.org/{number}",
        "urlkey": f"org,example,host-{number % 7})/{number}",
        "date": BEGIN + timedelta(minutes=number),
        "language": ("eng", "deu", "rus", "zho")[number % 4],
        "language_score": 0.9,
        "text": text,
        "text_chars": len(text or ""),
        "outcome": "ok" if text else "empty",
    }
    return Document(**(given | fields))


def write_documents(root: Path, documents: Sequence[Document], *, files: int = 3) -> None:
    """Write documents as files of Parquet, as `webmill extract` does."""
    folder = root / "documents"
    folder.mkdir(parents=True, exist_ok=True)
    each = -(-len(documents) // files)
    for number in range(files):
        add_part(folder / f"part-{number:05}.parquet", documents[number * each : (number + 1) * each])


def add_part(path: Path, documents: Sequence[Document]) -> None:
    rows = [SinkRow(value=one, line=b"") for one in documents]
    path.write_bytes(parquet.encode(rows, kind=Document, compression="zstd"))


def curate(
    root: Path,
    steps: Sequence[CurateStep | Mapping[str, Any]] | CurateRecipe = tuple(STEPS),
    executor: Executor | None = None,
) -> CurateResult:
    recipe = steps if isinstance(steps, CurateRecipe) else recipe_of_steps(steps, name="test")
    return curate_documents(
        root, recipe, executor=executor or InlineExecutor(), progress=progress_to(None), documents=str(root)
    )


def decisions(root: Path) -> dict[str, tuple[bool, str | None, str | None]]:
    """Return for each id whether it is kept, by which step it was removed, and why."""
    corpus = open_corpus(root)
    rows = [row for part in corpus.parts for row in corpus.table(part).to_pylist()]
    return {row["id"]: (row["kept"], row["step"], row["reason"]) for row in rows}


def corpus_bytes(root: Path) -> dict[str, bytes]:
    """Return every file of a corpus but locks; `documents`, the place, differs between folders."""
    folder = root / "corpus"
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name: data.replace(str(root).encode(), b"ROOT")
        for name, data in found.items()
        if "-lock" not in name and ".webmill-old" not in name
    }


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "-lock" not in path.name
    }


LOAD = """
import json, sys
import datasets
loaded = datasets.load_dataset(sys.argv[1], split="train", cache_dir=sys.argv[2])
print(json.dumps({"rows": len(loaded), "first": loaded[0]["id"]}))
"""


def run_python(code: str, *arguments: str) -> str:
    """Run a program as users would, away from the hub."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HOME": arguments[-1], "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]
