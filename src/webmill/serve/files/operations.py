"""The routes of files, declared; they are answered beside Starlette (`published_files.py`, `crawl_data.py`)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.routing import BaseRoute

from webmill.publish.types import Pointer
from webmill.serve.api.operation import JSON, DescribedRoute, Operation, Reply

GZIP, BYTES, PARQUET = "application/gzip", "application/octet-stream", "application/vnd.apache.parquet"


class FilePath(msgspec.Struct, frozen=True, kw_only=True):
    """Which file."""

    hash: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 of the content.")]
    version: Annotated[str, Meta(pattern="^[0-9]{8}-[0-9a-f]{8}$", description="Name of a version.")]
    path: Annotated[str, Meta(min_length=1, description="The rest of the path, with its slashes.")]


class FileHeaders(msgspec.Struct, frozen=True, kw_only=True, rename={"range": "Range"}):
    """Which part."""

    range: Annotated[str, Meta(description="One range of bytes: `bytes=0-99`.")] = ""


def file_operation(name: str, summary: str, *media_types: str, kind: Any = None, tag: str = "files") -> Operation:
    return Operation(
        name=name,
        tag=tag,
        summary=summary,
        path=FilePath,
        headers=FileHeaders,
        replies={
            200: Reply(about="The file.", kind=kind, media_types=media_types),
            206: Reply(about="The range.", media_types=media_types),
        },
        errors=(400, 404, 412, 416, 451),
        error_form="message",
        is_conditional=True,
    )


LATEST = file_operation("get_latest", "The pointer to the live version", JSON, kind=Pointer, tag="versions")
SNAPSHOT_FILE = file_operation("get_version_file", "A file of a version", JSON, tag="versions")
BLOB = file_operation("get_blob", "Published content by its hash", JSON, tag="documents")
CRAWL_FILE = file_operation("get_crawl_file", "An archive, or a list of paths", GZIP, BYTES, tag="files")
INDEX_FILE = file_operation("get_index_file", "A file of an index", GZIP, PARQUET, BYTES, tag="files")


async def elsewhere() -> None:
    """Stand for an application beside Starlette."""


def file_routes() -> list[BaseRoute]:
    """Return the routes to describe; nothing is routed by them."""
    return [
        DescribedRoute("/latest.json", elsewhere, LATEST),
        DescribedRoute("/snapshots/{version}/{path}", elsewhere, SNAPSHOT_FILE),
        DescribedRoute("/blobs/sha256/{hash}.json", elsewhere, BLOB),
        DescribedRoute("/crawl-data/{path}", elsewhere, CRAWL_FILE),
        DescribedRoute("/cc-index/{path}", elsewhere, INDEX_FILE),
    ]
