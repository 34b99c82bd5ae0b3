"""The page of every field that is written for others to read: from the structs that write them, and their comments."""

from __future__ import annotations

import importlib
import inspect
import re
import types
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from webmill.extract.outcomes import OUTCOMES
from webmill.index.build.captures import FIELDS
from webmill.model import Document, columns


class Format(NamedTuple):
    title: str
    where: str
    struct: str
    more: str


FORMATS = (
    Format("Documents", "`documents/*.jsonl.gz`, `.parquet`", "model:Document", "documents.md"),
    Format(
        "IndexRecord",
        'A dataset with `document.kind = "index-record"`',
        "compat.index_record:IndexRecord",
        "dataset.md#indexrecord",
    ),
    Format("Errors of documents", "`errors/` of a dataset", "extract.error_record:ErrorRecord", "dataset.md#errors"),
    Format("latest.json", "The live version", "publish.types:Pointer", "publish.md#files"),
    Format("Manifest", "`snapshots/VERSION/_manifest.json`", "publish.types:VersionManifest", "publish.md#files"),
    Format("Index", "`snapshots/VERSION/index/`", "publish.types:ItemIndex", "publish.md#items-and-indexes"),
    Format("Commit record", "`snapshots/_history/`", "publish.types:Commit", "publish.md#files"),
    Format("Sources", "`meta/sources.json`, a list", "publish.version_items:SourceStatus", "publish.md#files"),
    Format("Problems", "`aux/errors.json`, a list", "publish.types:PublishProblem", "publish.md#files"),
    Format("Statistics", "`aux/stats.json`", "publish.version:VersionStats", "publish.md#files"),
    Format(
        "Answers of search",
        "`webmill search DIR WORDS --json`",
        "search.hits:AnswerReply",
        "search.md#what-can-be-typed",
    ),
    Format(
        "Visits",
        "`webmill frontier export DIR --visited`",
        "crawl.frontier.base:LastVisit",
        "frontier-commands.md#export",
    ),
    Format("Rejects of the index", "`rejected/index.jsonl`", "model:ArchiveReject", "index.md#what-it-promises"),
    Format(
        "Rejects of the batcher", "`rejected.jsonl`", "pipeline.dispatch.blocks:IndexReject", "cc.md#webmill-cc-batch"
    ),
    Format("Findings", "`webmill doctor --json`", "pipeline.doctor.findings:DoctorFinding", "doctor.md"),
)
WORDS = {str: "text", int: "number", float: "number", bool: "true or false", datetime: "time", bytes: "text"}


def fields_page() -> str:
    lines = [
        "# Every field\n",
        "Of what is written for others to read, as JSON, JSON lines or Parquet, in the order of writing.",
        "Times are ISO 8601 in UTC. `null`: it may be. What lies where: [what is on the disk](../design/formats.md).\n",
        "## CDXJ\n\nAll are text, and left out without a value ([who writes what](cdxj.md#fields)):",
        f"{', '.join(f'`{name}`' for name in FIELDS)}.\n",
    ]
    inner: dict[str, type[msgspec.Struct]] = {}
    for one in FORMATS:
        module, _, name = one.struct.partition(":")
        struct = getattr(importlib.import_module(f"webmill.{module}"), name)
        lines += [f"## {one.title}\n\n{one.where} ([more]({one.more})).\n", *table(struct, inner)]
    lines.append("## Parts of these\n")
    while rest := {name: struct for name, struct in inner.items() if f"### {name}\n" not in lines}:
        name, struct = min(rest.items())
        lines += [f"### {name}\n", *table(struct, inner)]
    return "\n".join(lines)


def columns_table() -> str:
    """Return the columns of a document, and what each is used for."""
    uses = {"searchable": "searched", "facet": "filtered by", "shown": "shown"}
    lines = ["| column | | | |", "|---|---|---|---|"]
    hints = get_type_hints(Document)
    for one in columns():
        used = ", ".join(word for flag, word in uses.items() if getattr(one, flag))
        kind = re.sub(r"\[DocumentLink\]\(.*?\)", "`{url, text, rel, path}`", in_words(hints[one.name], {}))
        lines.append(f"| `{one.name}` | {kind} | {one.meaning} | {used} |".replace("|  |", "| |"))
    return "\n".join(lines)


def outcomes_table() -> str:
    """Return the values of `outcome`."""
    lines = ["| `outcome` | | |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {one.meaning} | {'rejected' if one.rejected else ''} |" for one in OUTCOMES]
    return "\n".join(lines).replace("|  |", "| |")


def table(struct: type[msgspec.Struct], inner: dict[str, type[msgspec.Struct]]) -> Iterator[str]:
    yield "| field | | |\n|---|---|---|"
    hints = get_type_hints(struct)
    remarks = {column.name: column.meaning for column in columns(struct) if column.meaning} or dict(remarks_of(struct))
    for field in msgspec.structs.fields(struct):
        kind, remark = in_words(hints[field.name], inner), remarks.get(field.name, "")
        yield f"| `{field.encode_name}` | {kind} | {remark} |".replace("|  |", "| |")
    yield "\nThose without a value are left out.\n" if struct.__struct_config__.omit_defaults else ""


def remarks_of(struct: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    for line in inspect.getsource(struct).splitlines():
        if found := re.match(r"    (\w+): .*?  # (?!type:)(.*)", line):
            yield found[1], found[2].replace("|", "\\|")


def in_words(kind: Any, inner: dict[str, type[msgspec.Struct]]) -> str:
    origin, within = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        words = [in_words(one, inner) for one in within if one is not type(None)]
        return " or ".join(dict.fromkeys(words)) + (", null" if type(None) in within else "")
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in within)
    if origin is tuple and within[-1] is not ...:
        return " and ".join(in_words(one, inner) for one in within)
    if origin in (tuple, list, Sequence):
        return f"list of {in_words(within[0], inner)}"
    if origin is dict:
        return f"object of {in_words(within[1], inner)}"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        assert inner.setdefault(kind.__name__, kind) is kind, f"two structs are called {kind.__name__}"
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    return WORDS.get(kind, "any")
