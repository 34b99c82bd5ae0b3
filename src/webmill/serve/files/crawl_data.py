"""The public files of a collection, at the paths of Common Crawl's bucket, so that the same clients read both.

Files below the two folders, and archives wherever `webmill index` finds them: an index names those too. No names that
start with a dot, no listing. Links are followed to archives alone.
"""

from __future__ import annotations

from functools import partial

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from webmill.collection import OWN_FOLDERS, is_archive_name
from webmill.errors import BadInput, NotFound, WebmillError
from webmill.infra.storage.base import Stat, check_key
from webmill.serve.files.file_response import ServedFile, file_threads, send_file
from webmill.serve.http.conditional_requests import drop_range_unless_get
from webmill.serve.http.responses import HEADERS_KEY, READ_ONLY_REFUSAL, data_headers, send_error, send_refusal
from webmill.serve.site import Site

FOLDERS = ("crawl-data", "cc-index")
NAME = "(?i:.*\\.w?arc(?:\\.gz|\\.zst)?)"  # of an archive
KINDS = {".gz": b"application/gzip", ".parquet": b"application/vnd.apache.parquet"}


class ArchivePath(PathConvertor):
    """The path of an archive anywhere in the collection."""

    regex = NAME


register_url_convertor("archive", ArchivePath())


class CrawlData:
    """The ASGI application of `/crawl-data`, `/cc-index` and archives elsewhere."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._threads = file_threads()
        self._headers = [*data_headers(site).items(), (b"cache-control", b"public, no-cache")]

    def routes(self) -> list[BaseRoute]:
        """Return the route of archives outside of the two folders: the last one, other paths may end so, too."""
        return [Route("/{path:archive}", self, methods=["GET", "HEAD"])]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_headers = drop_range_unless_get(scope.get(HEADERS_KEY) or dict(scope["headers"]), scope["method"])
        if scope["method"] not in ("GET", "HEAD"):
            await send_refusal(send, request_headers, 405, *READ_ONLY_REFUSAL)
            return
        try:
            find = partial(self._find, scope["path"], request_headers.get(b"range"))
            stat = await self._threads.run(scope, receive, find)
            file = ServedFile(
                storage=self._site.files,
                stat=stat,
                etag=b'"' + stat.etag.strip('"').encode() + b'"',
                headers=[*self._headers, (b"content-type", type_of(stat.key))],
                threads=self._threads,
            )
            await send_file(scope, receive, send, request_headers, file)
        except WebmillError as error:
            await send_error(send, request_headers, error, self._site.root)

    def _find(self, path: str, byte_range: bytes | None) -> Stat:
        try:
            key = check_key(path[1:])
        except BadInput as error:
            raise NotFound(error.message) from error
        first, *rest = key.split("/")
        is_public = first in FOLDERS or (is_archive_name(key) and first not in OWN_FOLDERS)
        if not is_public or any(segment.startswith(".") for segment in (first, *rest)):
            raise NotFound("there is no such file")
        try:
            stat = self._site.files.stat(key)
        except NotFound as error:
            raise NotFound("there is no such file") from error
        self._site.closed.refuse_file(key, stat.size, byte_range)
        return stat


def type_of(key: str) -> bytes:
    """Return a media type that no browser executes: the content is not ours."""
    return KINDS.get(key[key.rfind(".") :], b"application/octet-stream")
