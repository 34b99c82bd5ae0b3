"""The page of the tools that agents are offered, from the table of tools itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from webmill.serve.api.cursors import MOST_BYTES
from webmill.serve.api.untrusted import TEXT_PART
from webmill.serve.mcp.arguments import MOST_RESULTS
from webmill.serve.mcp.replies import Citation
from webmill.serve.mcp.resources import DOCUMENT_TEMPLATE, VERSION_TEMPLATE
from webmill.serve.mcp.tools import TOOLS, AgentTool, object_schema

HEAD = f"""# Tools for agents

What `webmill mcp` offers ([how to start it](../how-to/ask-from-an-agent.md)). All answers are JSON objects, as text and
as structured content, with a schema that clients can check. Names are stable: a later webmill may add fields, but
removes none.

- Every answer has citations. `digest` is that of the capture's payload, `content_hash` that of the text that `version`
  published. `capture` says where the WARC record is: the bytes `offset` to `offset + length` of `filename`, which
  [`webmill serve`](serve.md) gives by ranges and the [CDX API](cdx-api.md) lists; `raw` and `replay` are paths there.
- What the authors of pages wrote is under `untrusted`; `notice` says what that means.
- An answer has at most {MOST_RESULTS} results and about {MOST_BYTES >> 10} KB, or {TEXT_PART:,} characters of a text.
  `next_cursor` says that there is more: repeat the same arguments with it as `cursor`.
- `collection` is needed only if several are served.
- An error is an answer with `isError` and a sentence that says what to do.

Over HTTP (POST to `/mcp`; no sessions) a request has at most 64 KB, and foreign `Origin` and `Host` headers are
refused.
"""


def mcp_page() -> str:
    parts = [HEAD, *(part for tool in TOOLS for part in tool_parts(tool)), citation_part(), resources_part()]
    return "\n".join(parts)


def tool_parts(tool: AgentTool) -> Iterator[str]:
    yield f"## {tool.name}\n\n{tool.about}{' Only with `--allow save`.' if tool.permission else ''}\n"
    schema = object_schema(tool.arguments)
    if rows := [argument_row(name, one, schema) for name, one in schema.get("properties", {}).items()]:
        yield "| argument | |\n|---|---|\n" + "\n".join(rows) + "\n"
    shown = [name for name in tool.reply.__struct_fields__ if name not in ("notice", "next_cursor")]
    yield f"Answer: {', '.join(f'`{name}`' for name in shown)}.\n"


def argument_row(name: str, one: dict[str, Any], schema: dict[str, Any]) -> str:
    if name in ("cursor", "collection"):
        return f"| `{name}` | see above |"
    about = one.get("description", "")
    choices = [value for value in one.get("enum", ()) if value is not None]
    needed = " Required." if name in schema.get("required", ()) else ""
    given = f" One of {', '.join(f'`{value}`' for value in choices)}." if choices else ""
    default = f" Default: `{one['default']}`." if one.get("default") not in (None, "", [], False) else ""
    return f"| `{name}` | {about}{given}{needed}{default} |".replace("|  ", "| ")


def citation_part() -> str:
    fields = ", ".join(f"`{field.name}`" for field in msgspec.structs.fields(Citation))
    return f"## Citations\n\n{fields}; `null` where it is not known here.\n"


def resources_part() -> str:
    return (
        "## Resources\n\n| address | |\n|---|---|\n"
        f"| `{VERSION_TEMPLATE}` | a version: when it was published, its documents, how many changed |\n"
        f"| `{DOCUMENT_TEMPLATE}` | a document of a version, as `read_document` answers |\n\n"
        "The list has the versions, newest first, and the documents of the live one; `id` is percent-encoded.\n"
    )
