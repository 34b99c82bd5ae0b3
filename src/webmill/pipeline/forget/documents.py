"""Take rows out of the files of documents. The other rows stay as they are, in their order.

A receipt names the part and its size, so it is written anew after the part; killed in between, extraction makes the
part again from its archive, which has lost the records before.
"""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

import msgspec
import zstandard

from webmill.collection import PublishFolders
from webmill.errors import BadInput, WebmillError
from webmill.forgotten import Forgotten
from webmill.infra import atomic
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.documents import DocumentFiles, import_pyarrow, open_decompressed
from webmill.pipeline.extract.lost_parts import receipt_keys
from webmill.pipeline.extract.receipts import decode_receipt, encode_receipt
from webmill.pipeline.forget.archives import keep_original, list_originals

REMOVED = "removed-"  # rows of pages that are gone: an address, and a hash of the rows in the name


class _RowUrl(msgspec.Struct, frozen=True):
    url: str = ""


def rewrite_documents(root: Path, forgotten: Forgotten) -> tuple[int, list[str]]:
    """Take rows out of all files of documents in a collection; return how many, and what could not be read."""
    folder = PublishFolders(root).documents
    if not folder.is_dir():
        return 0, []
    files = DocumentFiles(LocalStorage(folder), folder=folder)
    rows, problems = 0, []
    for key in files.files():
        if key.startswith(REMOVED):
            continue
        try:
            rows += rewrite_part(root, files, key, forgotten)
        except WebmillError as error:
            problems.append(f"documents/{key}: {error}")
    mend_receipts(root)
    return rows, problems


def rewrite_part(root: Path, files: DocumentFiles, key: str, forgotten: Forgotten) -> int:
    """Write a part without the rows that are covered; return how many those are. A part without any is left alone."""
    path = PublishFolders(root).documents / key
    data, count = _parquet(path, forgotten) if key.endswith(".parquet") else _lines(files, key, forgotten)
    if count:
        keep_original(root, path.relative_to(root).as_posix())
        atomic.write_bytes(path, data)
    return count


def _parquet(path: Path, forgotten: Forgotten) -> tuple[bytes, int]:
    arrow, parquet = import_pyarrow()
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            if "url" not in file.schema_arrow.names:
                return b"", 0
            urls = file.read(columns=["url"]).column("url").to_pylist()
            kept = [number for number, url in enumerate(urls) if not forgotten.covers(url or "")]
            if len(kept) == len(urls):
                return b"", 0
            table, metadata = file.read().take(kept), file.metadata
            groups = metadata.num_row_groups
            codec = metadata.row_group(0).column(0).compression if groups else "snappy"
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadInput(f"damaged Parquet: {error}", reason="bad_documents", source=path.name) from error
    out = io.BytesIO()
    parquet.write_table(table, out, compression=codec.lower(), write_page_checksum=True)
    return out.getvalue(), len(urls) - len(kept)


def _lines(files: DocumentFiles, key: str, forgotten: Forgotten) -> tuple[bytes, int]:
    kept: list[bytes] = []
    count = 0
    for line in _read_lines(files, key):
        if forgotten.covers(_url_of(line)):
            count += 1
        else:
            kept.append(line)
    data = b"".join(kept)
    if key.endswith(".zst"):
        data = zstandard.ZstdCompressor(level=3).compress(data)
    return gzip.compress(data, mtime=0) if key.endswith(".gz") else data, count


def _read_lines(files: DocumentFiles, key: str) -> Iterator[bytes]:
    with files.storage.open(key) as raw, open_decompressed(raw, key) as lines:
        try:
            yield from iter(lines.readline, b"")
        except (EOFError, zstandard.ZstdError, OSError) as error:
            raise BadInput(f"not whole: {error}", reason="bad_documents", source=key) from error


def _url_of(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=_RowUrl).url
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


def mend_receipts(root: Path) -> None:
    """Write receipts anew whose parts have lost rows, or have them again."""
    place = PublishFolders(root)
    state = LocalStorage(place.extract_state)
    rewritten = {root / key for key in list_originals(root)}
    for key, _, _ in receipt_keys(root):
        try:
            receipt = decode_receipt(state.read(key), source=key)
        except BadInput:
            continue
        part = place.documents / receipt.output.name if receipt.output else None
        if part is None or not receipt.output or not part.is_file():
            continue
        size = part.stat().st_size
        if size == receipt.output.size and part not in rewritten:
            continue
        digest = _sha256(part) if receipt.output.digest else ""
        if (size, digest) != (receipt.output.size, receipt.output.digest):
            output = msgspec.structs.replace(receipt.output, size=size, digest=digest)
            state.write(key, encode_receipt(msgspec.structs.replace(receipt, output=output)))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
