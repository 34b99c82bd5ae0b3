"""The public files of a collection, at the paths of Common Crawl's bucket, so that the same clients read both.

Only files below the two folders, no names that start with a dot, no listing. Symbolic links are not followed.
"""

from __future__ import annotations

from functools import partial

from starlette.types import Receive, Scope, Send

from webmill.errors import BadInput, NotFound, WebmillError
from webmill.infra.storage.base import Stat, check_key
from webmill.serve.files.file_response import ServedFile, file_threads, send_file
from webmill.serve.http.conditional_requests import drop_range_unless_get
from webmill.serve.http.responses import HEADERS_KEY, READ_ONLY_REFUSAL, data_headers, send_error, send_refusal
from webmill.serve.site import Site

FOLDERS = ("crawl-data", "cc-index")
KINDS = {".gz": b"application/gzip", ".parquet": b"application/vnd.apache.parquet"}


class CrawlData:
    """The ASGI application of `/crawl-data` and `/cc-index`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._threads = file_threads()
        self._headers = [*data_headers(site).items(), (b"cache-control", b"public, no-cache")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_headers = drop_range_unless_get(scope.get(HEADERS_KEY) or dict(scope["headers"]), scope["method"])
        if scope["method"] not in ("GET", "HEAD"):
            await send_refusal(send, request_headers, 405, *READ_ONLY_REFUSAL)
            return
        try:
            stat = await self._threads.run(scope, receive, partial(self._find, scope["path"]))
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

    def _find(self, path: str) -> Stat:
        try:
            key = check_key(path[1:])
        except BadInput as error:
            raise NotFound(error.message) from error
        if any(segment.startswith(".") for segment in key.split("/")) or key.split("/")[0] not in FOLDERS:
            raise NotFound("there is no such file")
        try:
            return self._site.files.stat(key)
        except NotFound as error:
            raise NotFound("there is no such file") from error


def type_of(key: str) -> bytes:
    """Return a media type that no browser executes: the content is not ours."""
    return KINDS.get(key[key.rfind(".") :], b"application/octet-stream")
