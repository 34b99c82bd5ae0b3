"""The documents of a corpus: what was kept, with the texts that the recipe's steps have left of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from webmill.curate.arrow import column_array, import_arrow
from webmill.curate.attributes import DocumentPart
from webmill.curate.decisions import CorpusDecisions
from webmill.curate.dedup.steps import RepeatedParts
from webmill.curate.measuring import applied, small_batches, usable_texts
from webmill.curate.recipe import CurateRecipe
from webmill.curate.steps import CurateBatch
from webmill.errors import Conflict, Misconfigured
from webmill.infra.sinks import parquet
from webmill.model import Document
from webmill.pipeline.curate.run import open_corpus
from webmill.pipeline.curate.sources import digest_of_file, read_columns
from webmill.pipeline.documents import DocumentFiles, open_documents
from webmill.pipeline.trust import is_trusted

COLUMNS = tuple(name for name in Document.__struct_fields__ if name not in ("outcome", "error"))


def corpus(place: str | Path) -> Iterator[Document]:
    """Yield the documents that were kept of the collection at `place`, with the texts that its recipe left."""
    root = Path(place).resolve()
    for table in kept_tables(root, open_corpus(root)):
        for row in table.to_pylist():
            yield msgspec.convert(row, Document)


def kept_tables(root: Path, decisions: CorpusDecisions) -> Iterator[Any]:
    """Yield tables of the documents that were kept, in order. `Conflict`: documents have changed since the run."""
    files = open_documents(documents_place(root, decisions))
    for part in decisions.parts:
        if part.key not in files.files() or digest_of_file(files, part.key) != part.digest:
            raise Conflict(f"{part.key} is not what the corpus was made from: run `webmill curate run` again")
        if decisions.kept(part).any():
            yield from _kept_of_part(decisions, files, part)


def documents_place(root: Path, decisions: CorpusDecisions) -> str:
    """Return where the documents of a corpus are. `Misconfigured`: elsewhere, as a collection without trust says."""
    elsewhere = decisions.decided.documents
    if elsewhere and not is_trusted(root):
        raise Misconfigured(
            f"the corpus of {root} was made from {elsewhere}, and you have not said that you trust {root}. If it is "
            f"yours, run `webmill trust {root}`"
        )
    return elsewhere or str(root)


def _kept_of_part(decisions: CorpusDecisions, files: DocumentFiles, part: DocumentPart) -> Iterator[Any]:
    recipe = decisions.recipe
    table = decisions.table(part)
    kept = np.asarray(table.column("kept").to_numpy(), bool)
    removed = {
        int(name[6:]): table.column(name).to_pylist() for name in table.column_names if name.startswith("parts_")
    }
    needed = tuple(dict.fromkeys([*COLUMNS, *(name for step in recipe.steps for name in step.columns())]))
    first = 0
    for columns in small_batches(columns for columns, _ in read_columns(files, part.key, needed)):
        size = len(columns["id"])
        rows = np.flatnonzero(kept[first : first + size]).tolist()
        if rows:
            chosen = {name: [values[row] for row in rows] for name, values in columns.items()}
            gone = {number: [lists[first + row] for row in rows] for number, lists in removed.items()}
            yield document_table(chosen, rewritten_texts(recipe, chosen, gone))
        first += size
        if first >= len(kept):  # what follows could not be read when it was measured either
            return


def rewritten_texts(
    recipe: CurateRecipe, columns: Mapping[str, Sequence[Any]], gone: Mapping[int, Sequence[Sequence[int]]]
) -> list[str]:
    """Return the texts as the steps of a recipe have left them. `gone`: by step, the lines of each text that go.

    Those are counted in the text that was measured, from which no step has taken repeated lines: what they say is then
    looked for in the text as it is left.
    """
    measured = left = CurateBatch(usable_texts(columns)[0], columns)
    for number, step in enumerate(recipe.steps):
        if isinstance(step, RepeatedParts):
            triples = zip(left.text.texts, measured.text.texts, gone[number], strict=True)
            left = left.with_texts(
                [step.without_parts(text, step.parts_at(seen, at)) if at else text for text, seen, at in triples]
            )
        elif step.rewrites:
            same = measured is left
            left = left.with_texts(applied(step.languages, left, step.rewrite(left)))
            measured = left if same else measured.with_texts(applied(step.languages, measured, step.rewrite(measured)))
    return list(left.text.texts)


def document_table(columns: Mapping[str, Sequence[Any]], texts: Sequence[str]) -> Any:
    """Return documents with these texts as a table: the columns of every data set."""
    arrow, _ = import_arrow()
    schema = parquet.schema_of(Document)
    fields = [schema.field(name) for name in COLUMNS]
    values = {**columns, "text": texts, "text_chars": [len(text) for text in texts]}
    arrays = [column_array(field.name, values[field.name]) for field in fields]
    return arrow.Table.from_arrays(arrays, schema=arrow.schema(fields))
