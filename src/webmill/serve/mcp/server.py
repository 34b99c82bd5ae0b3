"""The protocol: hands requests to the tools and resources, in threads, and their answers back.

Sessions hold nothing here: any request may be answered by any process, or by one that was started since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeVar

import msgspec
from anyio import sleep_forever
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from webmill import __version__
from webmill.errors import WebmillError
from webmill.serve.guard.request_guard import RequestGuard
from webmill.serve.http.responses import DefaultHeaders, exception_handlers, message_of, security_headers
from webmill.serve.mcp.opened import OpenedCollections
from webmill.serve.mcp.replies import NOTICE
from webmill.serve.mcp.resources import DOCUMENT_TEMPLATE, VERSION_TEMPLATE, list_resources, read_resource
from webmill.serve.mcp.tools import INSTRUCTIONS, AgentTool, Permission, allowed_tools, object_schema
from webmill.serve.processes.fair_slots import ClientDisconnected
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

log = logging.getLogger(__name__)

T = TypeVar("T")

PATH = "/mcp"
JSON = "application/json"
LOCAL_SCOPE = {"type": "local", "client": ("stdio", 0)}


class AgentServer:
    """Answers the requests of the protocol from collections."""

    def __init__(self, sites: Mapping[str, Site], *, allowed: Collection[Permission] = ()) -> None:
        self._threads = BoundedThreads()
        self._collections = OpenedCollections(sites, self._threads)
        self._tools = allowed_tools(allowed)
        self.protocol: Server[Any] = Server(
            "webmill",
            version=__version__,
            title="webmill: web archives",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def run_stdio(self) -> None:
        """Serve the client at stdin and stdout until it closes them."""
        async with stdio_server() as (reading, writing):
            await self.protocol.run(reading, writing, self.protocol.create_initialization_options())

    def application(self, site: Site) -> tuple[ASGIApp, AbstractAsyncContextManager[None]]:
        """Return the application for HTTP, and the context in which it runs. `site` says who may ask and how much."""
        manager = StreamableHTTPSessionManager(
            self.protocol, json_response=True, stateless=True, max_request_body_size=site.limits.body_bytes
        )
        route = Route(PATH, StreamableHTTPASGIApp(manager), methods=["POST"])
        routed = Starlette(routes=[route], exception_handlers=exception_handlers(site))
        return RequestGuard(DefaultHeaders(routed, security_headers(site)), site), manager.run()

    async def _list_tools(self, context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        del context, params
        return ListToolsResult(tools=[describe_tool(tool) for tool in self._tools.values()])

    async def _call_tool(self, context: Any, params: CallToolRequestParams) -> CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"there is no tool {params.name[:100]}; there are {', '.join(self._tools)}")
        try:
            reply = await self._run(context, partial(tool.call, self._collections, params.arguments or {}))
        except WebmillError as error:
            return CallToolResult(content=[TextContent(text=self._message(error))], is_error=True)
        encoded = msgspec.json.encode(reply)
        return CallToolResult(
            content=[TextContent(text=encoded.decode())], structured_content=msgspec.json.decode(encoded)
        )

    async def _list_resources(self, context: Any, params: PaginatedRequestParams | None) -> ListResourcesResult:
        cursor = (params.cursor if params else None) or ""
        page = await self._run_or_raise(context, partial(list_resources, self._collections, cursor))
        found = [Resource(uri=one.uri, name=one.name, description=one.about, mime_type=JSON) for one in page.resources]
        return ListResourcesResult(resources=found, next_cursor=page.next_cursor)

    async def _list_templates(self, context: Any, params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        del context, params
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    uri_template=VERSION_TEMPLATE, name="version", description="A published version.", mime_type=JSON
                ),
                ResourceTemplate(
                    uri_template=DOCUMENT_TEMPLATE,
                    name="document",
                    description=f"A document of a version. {NOTICE}",
                    mime_type=JSON,
                ),
            ]
        )

    async def _read_resource(self, context: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
        data = await self._run_or_raise(context, partial(read_resource, self._collections, params.uri))
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type=JSON, text=data.decode())])

    async def _run_or_raise(self, context: Any, work: Callable[[], T]) -> T:
        """Run it; an error is one of the protocol."""
        try:
            return await self._run(context, work)
        except WebmillError as error:
            raise MCPError(INVALID_PARAMS, self._message(error)) from error

    async def _run(self, context: Any, work: Callable[[], T]) -> T:
        """Run it in a thread, beside those of other clients."""
        request = getattr(context, "request", None)
        scope = request.scope if request is not None else LOCAL_SCOPE
        try:
            return await self._threads.run(scope, never, work)
        except (WebmillError, ClientDisconnected):
            raise
        except Exception as error:
            log.exception("a tool failed")
            raise MCPError(INTERNAL_ERROR, "internal error; see the log of the server") from error

    def _message(self, error: WebmillError) -> str:
        """Return the message of an error for clients, without folders of this machine."""
        messages = [message_of(error, asked.site.root) for asked in self._collections.all()]
        return min(messages, key=len)[:2_000]


def describe_tool(tool: AgentTool) -> Tool:
    is_reading = tool.permission is None or tool.name == "save_status"
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.about,
        input_schema=object_schema(tool.arguments),
        output_schema=object_schema(tool.reply),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=is_reading,
            destructive_hint=False,
            idempotent_hint=is_reading,
            open_world_hint=not is_reading,
        ),
    )


async def never() -> Message:
    """Wait for ever: the request was read, and the transport itself watches the connection."""
    await sleep_forever()
    raise AssertionError
