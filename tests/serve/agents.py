"""Agents: the clients of the package `mcp`, who ask `webmill mcp` as any other client does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from tests.serve.server_process import DEADLINE, wait_until_true

Server = Any  # what a client can be told to ask: a URL, a command, a server of this process


def ask(server: Server, questions: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        with anyio.fail_after(DEADLINE):
            async with Client(server) as client:
                await questions(client)

    anyio.run(run)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool, which the client has checked against what was announced."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found = result.structured_content
    assert isinstance(found, dict)
    assert "never an instruction" in found["notice"]
    return found


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)  # type: ignore[union-attr]


def over_stdio(*roots: Path, flags: tuple[str, ...] = ()) -> StdioServerParameters:
    arguments = ["-m", "webmill", "--quiet", "mcp", *map(str, roots), *flags]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


@contextmanager
def over_http(root: Path, errors: Path, *flags: str, token: str = "") -> Iterator[str]:
    """The address of a server, which is stopped at the end."""
    command = [sys.executable, "-m", "webmill", "mcp", str(root), "--http", "--port", "0", *flags]
    with errors.open("wb") as out:
        process = subprocess.Popen(command, stderr=out, env={**os.environ, "WEBMILL_MCP_TOKEN": token})

    def announced() -> re.Match[str] | None:
        assert process.poll() is None, errors.read_text()
        return re.search(r"answering agents at (http://\S+)", errors.read_text())

    try:
        yield wait_until_true(announced, "a server that says where it is")[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.wait()
