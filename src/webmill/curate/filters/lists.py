"""Filters by lists that the user gives as files: domains and URLs, words by language, n-grams of test sets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec
import numpy as np

from webmill.curate import characters
from webmill.curate.arrow import import_arrow
from webmill.curate.characters import Array
from webmill.curate.dedup.minhash import word_ngrams
from webmill.curate.filters.files import READ_ONCE, FileVersion, digest_of_file, lines_of
from webmill.curate.filters.repetition import ratio
from webmill.curate.steps import CurateBatch, CurateStep, Limit
from webmill.curate.text_batch import TextBatch
from webmill.errors import BadInput
from webmill.infra.files import os_errors


class ListedUrls(CurateStep, frozen=True, kw_only=True, tag="url-list"):
    """Documents whose domain, or URL, is on a list. `domains` and `urls` are files with one on each line, or folders of
    category files as UT1 has them (`adult/domains`, `adult/urls`); a domain stands for those below it. `words` are
    parts of a URL that are not wanted."""

    domains: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    max_listed: int | None = 0
    max_words: int | None = 0

    measured: ClassVar = ("words",)
    version: ClassVar = 2
    paths: ClassVar = ("domains", "urls")

    def columns(self) -> tuple[str, ...]:
        return ("url",)

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        pairs = ((self.domains, "domains"), (self.urls, "urls"))
        domains, urls = (_listed(tuple(map(FileVersion.of, paths)), name) for paths, name in pairs)
        listed = [_is_listed(url or "", domains, urls) for url in batch.columns["url"]]
        words = [sum(word in (url or "").lower() for word in self.words) for url in batch.columns["url"]]
        return {"listed": np.array(listed, np.int8), "words": np.array(words, np.int64)}

    def limits(self) -> list[Limit]:
        return [
            Limit("listed_url", "listed", most=self.max_listed),
            Limit("unwanted_word", "words", most=self.max_words),
        ]

    def parameters(self) -> dict[str, Any]:
        lists = {"domains": self.domains, "urls": self.urls}
        digests = {name: [digest_of_file(path) for path in paths] for name, paths in lists.items()}
        return super().parameters() | digests


@lru_cache(READ_ONCE)
def _listed(versions: tuple[FileVersion, ...], name: str) -> frozenset[str]:
    """Return the lines of files, and of the files `name` below folders."""
    files = [
        Path(stat[0])
        for version in versions
        for stat in version.stats
        if stat[0] == version.path or Path(stat[0]).name == name
    ]
    lines = (line for file in files for line in lines_of(file))
    return frozenset(line.lower() if name == "domains" else line.rstrip("/") for line in lines)


def _is_listed(url: str, domains: frozenset[str], urls: frozenset[str]) -> bool:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").removesuffix(".")
    except ValueError:
        return False
    labels = host.split(".")
    if any(".".join(labels[first:]) in domains for first in range(len(labels))):
        return True
    query = f"?{parts.query}" if parts.query else ""
    path = (parts.path + query).rstrip("/")
    names = (url.partition("#")[0].rstrip("/"), host + path, host.removeprefix("www.") + path)
    return any(name in urls for name in names)


class ListedWords(CurateStep, frozen=True, kw_only=True, tag="word-list"):
    """Documents with words or phrases of a list: `files` has one for each language (`eng = "adult-en.txt"`), and `"*"`
    for all. Case does not count; in scripts without spaces a word is found inside of others."""

    files: dict[str, str]
    max_count: int | None = None
    max_share: float | None = None

    measured: ClassVar = ("files",)
    paths: ClassVar = ("files",)

    def named_languages(self) -> Collection[str]:
        return (*super().named_languages(), *(language for language in self.files if language != "*"))

    def columns(self) -> tuple[str, ...]:
        return ("language",)

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        counts = np.zeros(batch.size, np.int64)
        languages = np.array([language or "" for language in batch.columns["language"]], object)
        for language, path in sorted(self.files.items()):
            counts += np.where((languages == language) | (language == "*"), _count_listed(batch.text, path), 0)
        return {"count": counts, "share": ratio(counts, batch.text.word_counts)}

    def limits(self) -> list[Limit]:
        return [
            Limit("listed_words", "count", most=self.max_count),
            Limit("listed_words", "share", most=self.max_share),
        ]

    def parameters(self) -> dict[str, Any]:
        digests = {language: digest_of_file(path) for language, path in self.files.items()}
        return super().parameters() | {"files": digests}


def _count_listed(text: TextBatch, path: str) -> Array:
    """Return how many words and phrases of a list each text has, by the hashes of as many words in a row."""
    counts = np.zeros(text.size, np.int64)
    words = text.words
    hashes = text.lower_hashes(words)
    for size, wanted in _phrases(FileVersion.of(path)).items():
        joined = _phrase_hashes(hashes, size)
        hits = np.flatnonzero(np.isin(joined, wanted))
        hits = hits[words.documents[hits] == words.documents[np.minimum(hits + size - 1, len(hashes) - 1)]]
        counts += text.per_document(words.documents[hits])
    return counts


@lru_cache(READ_ONCE)
def _phrases(version: FileVersion) -> dict[int, Array]:
    """Return the hashes of the phrases of a list, by their number of words."""
    lines = sorted({line.lower() for line in lines_of(Path(version.path))})
    batch = TextBatch(lines)
    hashes = batch.lower_hashes(batch.words)
    found: dict[int, list[int]] = {}
    for number in range(len(lines)):
        first, last = int(batch.first_words[number]), int(batch.first_words[number + 1])
        if last > first:
            found.setdefault(last - first, []).append(int(_phrase_hashes(hashes[first:last], last - first)[0]))
    return {size: np.array(sorted(values), np.uint64) for size, values in found.items()}


_STEP = np.uint64(0xC2B2AE3D27D4EB4F)


def _phrase_hashes(hashes: Array, size: int) -> Array:
    """Return the hash of each row of `size` words."""
    count = max(0, len(hashes) - size + 1)
    joined = hashes[:count].copy()
    for step in range(1, size):
        joined = joined * _STEP + hashes[step : step + count]
    return joined


class Decontamination(CurateStep, frozen=True, kw_only=True, tag="decontaminate"):
    """Documents that share n-grams of words with test sets: text files (a sample on each line), JSON lines or Parquet,
    whose texts are in the `fields`."""

    test_sets: tuple[str, ...]
    fields: tuple[str, ...] = ("text", "question", "answer", "prompt")
    ngram: int = 13
    max_shared: int | None = 0
    max_share: float | None = None

    measured: ClassVar = ("fields", "ngram")
    paths: ClassVar = ("test_sets",)

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        wanted = _test_ngrams(tuple(map(FileVersion.of, self.test_sets)), self.fields, self.ngram)
        grams, documents = word_ngrams(batch.text, self.ngram)
        place = np.minimum(np.searchsorted(wanted, grams), max(len(wanted) - 1, 0))
        hits = wanted[place] == grams if len(wanted) else np.zeros(len(grams), bool)
        shared = batch.text.per_document(documents[hits])
        return {"shared": shared, "share": ratio(shared, batch.text.per_document(documents))}

    def limits(self) -> list[Limit]:
        return [
            Limit("in_a_test_set", "shared", most=self.max_shared),
            Limit("in_a_test_set", "share", most=self.max_share),
        ]

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"test_sets": [digest_of_file(path) for path in self.test_sets]}


@lru_cache(READ_ONCE)
def _test_ngrams(versions: Sequence[FileVersion], fields: Sequence[str], size: int) -> Array:
    """Return the hashes of all n-grams of the test sets, in order. Samples with fewer words are not looked for."""
    files = [Path(stat[0]) for version in versions for stat in version.stats]
    texts = [text for file in files for text in _samples(file, fields)]
    batch = TextBatch(texts)
    grams, documents = word_ngrams(batch, size)
    words = (batch.flags[batch.words.starts] & characters.IS_SYMBOL) == 0
    long_enough = batch.per_document(batch.words.documents[words]) >= size
    return np.unique(grams[long_enough[documents]])


def _samples(path: Path, fields: Sequence[str]) -> Iterator[str]:
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        yield from _parquet_samples(path, fields)
        return
    for line in lines_of(path):
        if name.endswith((".jsonl", ".json")):
            row = _decode(line, path)
            yield from (str(row[field]) for field in fields if isinstance(row, dict) and row.get(field))
        else:
            yield line


def _parquet_samples(path: Path, fields: Sequence[str]) -> Iterator[str]:
    arrow, parquet = import_arrow()
    try:
        with os_errors(str(path)), path.open("rb") as file:
            table = parquet.ParquetFile(file)
            for batch in table.iter_batches(columns=[name for name in fields if name in table.schema_arrow.names]):
                yield from (str(value) for column in batch.columns for value in column.to_pylist() if value)
    except arrow.ArrowException as error:
        raise BadInput(f"damaged Parquet: {error}", reason="bad_test_set", source=str(path)) from error


def _decode(line: str, path: Path) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(str(error), reason="bad_test_set", source=str(path)) from None
