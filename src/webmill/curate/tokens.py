"""Token ids of texts, by the tokenizer.json of a model: counted as a step, and written as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from webmill.curate.arrow import import_arrow
from webmill.curate.filters.files import READ_ONCE, FileVersion
from webmill.curate.shards import LEVEL, ShardFormat
from webmill.errors import Misconfigured

ROWS_AT_ONCE = 256  # whose tokens are in memory together, with what the library knows of each


def load_tokenizer(path: Path) -> Any:
    """Return the tokenizer of a file. `Misconfigured`: it is none, or the extra is not installed."""
    return _loaded(FileVersion.of(str(path)))


@lru_cache(READ_ONCE)
def _loaded(version: FileVersion) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as missing:
        raise Misconfigured("tokens need an extra: pip install 'webmill[tokens]'") from missing
    try:
        return Tokenizer.from_file(version.path)
    except Exception as error:  # the library raises no narrower one
        raise Misconfigured(f"{version.path} is no tokenizer.json: {error}") from error


def token_ids(path: Path, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of texts, without special tokens."""
    return [encoded.ids for encoded in load_tokenizer(path).encode_batch_fast(list(texts), add_special_tokens=False)]


class TokenShard:
    """Parquet with `id`, `url` and `input_ids`."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        arrow, parquet = import_arrow()
        ids = arrow.field("input_ids", arrow.list_(arrow.uint32()))
        self._schema = arrow.schema([arrow.field("id", arrow.string()), arrow.field("url", arrow.string()), ids])
        self._path = path
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd", compression_level=LEVEL)

    def write(self, table: Any) -> None:
        arrow, _ = import_arrow()
        pieces = [self._piece(batch) for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE)]
        self._writer.write_table(arrow.Table.from_batches(pieces, schema=self._schema))

    def _piece(self, batch: Any) -> Any:
        arrow, _ = import_arrow()
        ids = token_ids(self._path, [text or "" for text in batch.column("text").to_pylist()])
        columns = [batch.column("id"), batch.column("url"), arrow.array(ids, self._schema.field("input_ids").type)]
        return arrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def close(self) -> None:
        self._writer.close()


def token_format(path: Path) -> ShardFormat:
    """Return the format of token ids by this tokenizer. `Misconfigured`: it cannot be loaded."""
    load_tokenizer(path)
    return ShardFormat(".parquet", lambda file, _first: TokenShard(file, path))
