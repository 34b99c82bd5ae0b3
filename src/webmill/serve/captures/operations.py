"""The routes of archived content, declared."""

from __future__ import annotations

from webmill.serve.api.operation import Operation, Reply
from webmill.serve.cdx.operations import CrawlPath
from webmill.serve.files.operations import FileHeaders

OTHER = {302: Reply(about="The capture nearest in time.", media_types=(), headers={"Location": "Its address."})}

RAW = Operation(
    name="get_capture",
    tag="captures",
    summary="Read a capture",
    about="The body as archived, with the headers of its server as `X-Archive-Orig-…`. With `warc_` behind the time, "
    "the WARC record byte for byte.",
    path=CrawlPath,
    headers=FileHeaders,
    replies={
        200: Reply(about="The body, of its own media type.", media_types=("*/*",)),
        206: Reply(about="The range.", media_types=("*/*",)),
        416: Reply(about="The range is not within it.", media_types=(), headers={"Content-Range": "Its length."}),
        **OTHER,
    },
    errors=(400, 404),
    error_form="message",
)
WACZ = Operation(
    name="get_capture_wacz",
    tag="captures",
    summary="Download a page as WACZ",
    about="An archived page with the resources that it names.",
    path=CrawlPath,
    replies={200: Reply(about="The file.", media_types=("application/wacz",)), **OTHER},
    errors=(400, 404, 451),
    error_form="message",
)
PICTURE = Operation(
    name="get_capture_picture",
    tag="captures",
    summary="What a page looked like",
    about="The picture of a page that was captured in a browser: `view_` behind the time, or `thumb_` for a small one.",
    path=CrawlPath,
    replies={200: Reply(about="The picture.", media_types=("image/png", "image/jpeg"))},
    errors=(400, 404, 451),
    error_form="message",
)
