"""What a step of a recipe is: it measures documents, and has limits for what it measured.

A step is a struct whose fields are the parameters in the recipe. Fields named in `measured` change what is measured;
all others are limits, which the mix applies to what was measured before. A step that `rewrites` changes the text that
later steps see; the documents on disk stay as they are, and the export does it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import msgspec
import numpy as np

from webmill.curate.characters import Array
from webmill.curate.text_batch import TextBatch

Columns = Mapping[str, Array]
DIGEST_CHARS = 12


class Limit(msgspec.Struct, frozen=True):
    """A document is removed for `reason` when the number in `column` is less than `least` or more than `most`."""

    reason: str
    column: str
    least: float | None = None
    most: float | None = None

    def is_broken(self, values: Array) -> Array:
        """Return which values are beyond the limit. A number that could not be measured (NaN) breaks none."""
        broken = np.zeros(len(values), bool)
        if self.least is not None:
            broken |= values < self.least
        if self.most is not None:
            broken |= values > self.most
        return broken

    @property
    def is_active(self) -> bool:
        return self.least is not None or self.most is not None


class CurateBatch:
    """Some documents: their texts, and their other columns as lists."""

    def __init__(self, texts: Sequence[str], columns: Mapping[str, Sequence[Any]]) -> None:
        self.text = TextBatch(texts)
        self.columns = columns

    @property
    def size(self) -> int:
        return self.text.size

    def with_texts(self, texts: Sequence[str]) -> CurateBatch:
        return CurateBatch(texts, self.columns)


class CurateStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="use"):
    """A step. Reports call it by its `name`. It judges only documents in these `languages`, if any are named."""

    name: str = ""
    languages: tuple[str, ...] = ()

    measured: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[int] = 1  # of the measuring: a change means that everything is measured anew
    rewrites: ClassVar[bool] = False
    is_global: ClassVar[bool] = False  # whether a document is in or out depends on others
    paths: ClassVar[tuple[str, ...]] = ()  # fields that name files
    runs_code: ClassVar[bool] = False  # Python, or a model, that the recipe names

    @property
    def use(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def title(self) -> str:
        return self.name or self.use

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        """Return a column for each number that is measured: an array, or a list for what has no fixed length."""
        raise NotImplementedError

    def rewrite(self, batch: CurateBatch) -> list[str]:
        """Return the texts as later steps and the export see them."""
        raise NotImplementedError

    def limits(self) -> list[Limit]:
        return []

    def named_languages(self) -> Collection[str]:
        """Return every code of a language that the step names."""
        return (*self.languages, *self.own_languages())

    def own_languages(self) -> Collection[str]:
        """Return the languages that have limits of their own."""
        return ()

    def limits_for(self, language: str | None) -> list[Limit]:  # noqa: ARG002 - those that differ look at it
        """Return the limits for documents of a language: as many as all others have, in the same order."""
        return self.limits()

    def with_files(self, folder: Path) -> Self:
        """Return the step with the paths of its files as found from `folder`."""
        found = {name: _located(getattr(self, name), folder) for name in self.paths}
        return msgspec.structs.replace(self, **found)

    def columns(self) -> tuple[str, ...]:
        """Return the columns of the documents that the measuring needs beside the text."""
        return ()

    def parameters(self) -> dict[str, Any]:
        """Return what the measuring depends on."""
        return {"use": self.use, "version": self.version} | {name: getattr(self, name) for name in self.measured}


def judge(limits: Sequence[Limit], columns: Columns, *, size: int) -> tuple[Array, Array]:
    """Return for each document the number of the first limit that it breaks (-1: none), and the value that did."""
    broken = np.full(size, -1, np.int16)
    values = np.full(size, np.nan)
    for number, limit in enumerate(limits):
        if limit.is_active and limit.column in columns:
            column = np.asarray(columns[limit.column], np.float64)
            new = (broken < 0) & limit.is_broken(column)
            broken[new] = number
            values[new] = column[new]
    return broken, values


def _located(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {key: _located(one, folder) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(_located(one, folder) for one in value)
    return str(folder / value) if value else value


def host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def digest_of(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:DIGEST_CHARS]
