"""examples/notebook.ipynb: its cells run from the first to the last, and find what is in the collection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def test_every_cell_of_the_notebook_runs(
    sample_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("COLLECTION", str(sample_root))
    monkeypatch.setenv("WORDS", "ferry")
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert all(not cell.get("outputs") for cell in notebook["cells"]), "it is kept without what it printed"
    names: dict[str, Any] = {}
    for number, cell in enumerate(cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}, cell {number}", "exec"), names)
    assert len(names["captures"]) > 80
    assert names["months"].sum() == len(names["captures"])
    assert len(names["axes"].patches) == len(names["months"])
    assert set(names["documents"]["language"]) == {"eng", "kor", "jpn", "zho", "deu"}
    printed = capsys.readouterr().out
    assert names["url"] == "https://town.example/clock", "the page with the most captures"
    assert "\n-1.1.0\n+12.15.2\n" in printed
    assert names["found"].total == 1
    assert "1 documents" in printed
