"""`webmill mcp`: answers agents about collections, by the Model Context Protocol."""

from __future__ import annotations

import secrets
import tempfile
from importlib.util import find_spec
from pathlib import Path

import click
from msgspec.structs import replace

from webmill.cli.context import Context, note, pass_context, warn
from webmill.cli.options import sources_options
from webmill.cli.param_types import require_folder
from webmill.cli.serve import check_origins, only_root, public_address
from webmill.cli.serve_processes import ServerPlan, serve_agents
from webmill.errors import Misconfigured
from webmill.serve.collection_list import distinct_names
from webmill.serve.guard import rate_limit
from webmill.serve.guard.client_address import is_loopback
from webmill.serve.processes import shared_counters
from webmill.serve.processes.supervisor import ServerProcess, Supervisor, listen
from webmill.settings import McpSettings, ServeSettings, Settings, Sources


@click.command(
    epilog="""\b
Examples:
  webmill mcp news/                        # started by a client, over stdio
  webmill mcp news/ sports/ --http         # http://127.0.0.1:8090/mcp
  webmill mcp news/ --allow save           # agents may have pages saved

How to tell a client of it: docs/how-to/ask-from-an-agent.md"""
)
@click.argument("roots", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--http", "is_http", is_flag=True, help="Serve over streamable HTTP, not at stdin and stdout.")
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    type=click.Choice(["save"]),
    help="Let agents have pages fetched and saved; without it they can only read.",
)
@sources_options("mcp", place=only_root)
@pass_context
def mcp(
    context: Context, *, roots: tuple[Path, ...], is_http: bool, allowed: tuple[str, ...], sources: Sources
) -> None:
    """Answer agents about the collections in DIR...: search, read, history, changes, each answer with its sources.

    The flags from --host to --token can also be set in section [mcp] of webmill.toml. Set the token there or as
    WEBMILL_MCP_TOKEN: other users of this machine can see the flags of a running command.
    """
    if find_spec("mcp") is None:
        raise Misconfigured("agents need an extra: pip install 'webmill[mcp]'")
    folders = [require_folder(root).resolve() for root in roots]
    chosen = sources.settings().mcp
    settings = {
        name: context.sources(root, sources.flags).settings()
        for name, root in zip(distinct_names(folders), folders, strict=True)
    }
    if is_http:
        serve_http(context, folders, settings, chosen, allowed=allowed)
    else:
        answer_client(folders, settings, allowed=allowed)


def answer_client(folders: list[Path], settings: dict[str, Settings], *, allowed: tuple[str, ...]) -> None:
    """Answer the client that has started this process, until it closes stdin."""
    import anyio

    from webmill.serve.mcp.server import AgentServer
    from webmill.serve.open_site import open_site

    sites = {
        name: open_site(root, one, address="", replay_address="", secret=secrets.token_bytes(32))
        for (name, one), root in zip(settings.items(), folders, strict=True)
    }
    anyio.run(AgentServer(sites, allowed=allowed).run_stdio)  # type: ignore[arg-type]  # click has checked them


def serve_http(
    context: Context,
    folders: list[Path],
    settings: dict[str, Settings],
    chosen: McpSettings,
    *,
    allowed: tuple[str, ...],
) -> None:
    """Serve agents over HTTP, in a process that is started again if it dies."""
    serve = ServeSettings(host=chosen.host, hosts=chosen.hosts, rate=chosen.rate, token=chosen.token, processes=1)
    check_origins(serve)
    if not is_loopback(chosen.host) and not chosen.token:
        if allowed:
            raise Misconfigured("--allow save beyond this machine needs a token: set WEBMILL_MCP_TOKEN")
        warn(f"everybody who reaches {chosen.host} can read these collections: a token (WEBMILL_MCP_TOKEN) limits that")
    with (
        tempfile.TemporaryDirectory(prefix="webmill-mcp-") as folder,
        listen(chosen.host, chosen.port, flag="--port") as own,
    ):
        numbers, buckets = Path(folder) / "numbers", Path(folder) / "buckets"
        shared_counters.create_counters(numbers, rows=1)
        rate_limit.create_table(buckets)
        plans = {
            name: ServerPlan(
                root=root,
                settings=replace(one, serve=serve),
                storage=None,
                address=public_address(serve, own),
                replay_address="",
                secret=secrets.token_bytes(32),
                numbers=numbers,
                buckets=buckets,
                verbosity=-1 if context.quiet else context.verbosity,
            )
            for (name, one), root in zip(settings.items(), folders, strict=True)
        }
        address = f"{public_address(serve, own)}/mcp"
        member = ServerProcess("mcp", serve_agents, plans, list(allowed), own)
        Supervisor(
            [member], ready=lambda: note(f"answering agents at {address} (Ctrl-C stops)"), stopping=own.close
        ).run()
    note("stopped")
