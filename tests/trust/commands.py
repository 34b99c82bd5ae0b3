"""Every command, classified: how it is used on a collection, and what it may delete or replace.

A new command has to be entered here, or `test_every_command_is_classified` fails.
"""

from __future__ import annotations

from dataclasses import dataclass

import click

from tests.unit.cli.command import commands_of
from webmill.cli.main import COMMANDS as TOP
from webmill.cli.main import webmill as top

DIR, OUT = "{dir}", "{out}"  # the collection; a folder of the user's beside it


@dataclass(frozen=True)
class Use:
    """`arguments` use the command on the collection {dir}; None: it takes no collection.

    `destroys` says what it may delete or replace, "" that it only adds or reads.
    """

    arguments: tuple[str, ...] | None = None
    destroys: str = ""


def on(*arguments: str, destroys: str = "") -> Use:
    return Use(arguments, destroys)


FILTERS = Use(destroys="the file named with -o, as any filter")
NOT_HERE = Use()

COMMANDS: dict[str, Use] = {
    "boards": NOT_HERE,
    "bot": NOT_HERE,  # a folder of keys, outside of collections
    "bot check": NOT_HERE,
    "bot init": NOT_HERE,
    "bot pages": Use(destroys="the pages that it made"),
    "bot rotate": Use(destroys="keys that are no longer published"),
    "bot serve": NOT_HERE,
    "boards discover": NOT_HERE,
    "add": on(DIR, "{dir}/extra.warc"),
    "alerts": NOT_HERE,
    "alerts list": on(DIR),
    "alerts retry": on(DIR),
    "alerts test": on(DIR),
    "changes": on(DIR),
    "control": on(DIR, "pause"),
    "cc crawls": NOT_HERE,
    "cc paths": NOT_HERE,
    "cc batch": NOT_HERE,
    "cc work": NOT_HERE,
    "cc seal": on(DIR, destroys="sealed parts of the spool"),
    "cc run": NOT_HERE,
    "cdxj index": FILTERS,
    "cdxj sort": FILTERS,
    "cdxj merge": FILTERS,
    "cdxj add-field": FILTERS,
    "cdxj block": FILTERS,
    "cdxj excessive": NOT_HERE,
    "cdxj excessive auto": FILTERS,
    "cdxj excessive find": FILTERS,
    "cdxj excessive remove": FILTERS,
    "cdxj field": FILTERS,
    "cdxj zipnum": Use(destroys="an index in the folder of -o"),
    "cdxj flatten": FILTERS,
    "cdxj query": FILTERS,
    "cdxj verify": on("{dir}/cc-index/collections"),
    "cdxj parquet": Use(destroys="a table in the folder of -o"),
    "cdxj paths": NOT_HERE,
    "cdxj paths make": FILTERS,
    "cdxj paths redis": Use(destroys="keys in Redis"),
    "completion": NOT_HERE,
    "crawl": on(DIR, "--max-pages", "1", "--max-time", "1s"),
    "dataset": NOT_HERE,
    "dataset create": NOT_HERE,
    "dataset manifest": NOT_HERE,
    "dataset run": on("{dir}/extract/theirs"),
    "dataset stop": on("{dir}/extract/theirs"),
    "dataset view": on("{dir}/extract/theirs"),
    "dataset list": on("--in", "{dir}/extract"),
    "dataset tasks": NOT_HERE,
    "dataset tasks list": on("{dir}/extract/theirs"),
    "dataset tasks log": on("{dir}/extract/theirs", "000000"),
    "dataset tasks redrive": on("{dir}/extract/theirs"),
    "dataset errors": on("{dir}/extract/theirs"),
    "dataset delete": on("{dir}/extract/theirs", "--yes", destroys="the folder of a dataset"),
    "dead": NOT_HERE,
    "dead drop": on(DIR, "--all", destroys="dead letters"),
    "dead list": on(DIR),
    "dead requeue": on(DIR, "--all"),
    "dead show": on(DIR, "x"),
    "demo": NOT_HERE,
    "derive": NOT_HERE,
    "doctor": on(DIR, "--sweep", destroys="temporary files of dead processes"),
    "dropin": NOT_HERE,
    "dropin install": NOT_HERE,
    "dropin cc-batcher": NOT_HERE,
    "dropin cc-worker": NOT_HERE,
    "dropin letsdata": NOT_HERE,
    "dropin letsdata datasets": NOT_HERE,
    "dropin letsdata datasets create": NOT_HERE,
    "dropin letsdata datasets delete": Use(destroys="as dataset delete"),
    "dropin letsdata datasets list": NOT_HERE,
    "dropin letsdata datasets view": NOT_HERE,
    "dropin letsdata errors": NOT_HERE,
    "dropin letsdata errors list": NOT_HERE,
    "dropin letsdata tasks": NOT_HERE,
    "dropin letsdata tasks list": NOT_HERE,
    "dropin letsdata tasks redrive": NOT_HERE,
    "dropin letsdata tasks stop": NOT_HERE,
    "dropin merge-flat-cdxj": FILTERS,
    "dropin filter-blocklist": FILTERS,
    "dropin filter-excessive-urls": FILTERS,
    "dropin filter-excessive-urls auto": FILTERS,
    "dropin filter-excessive-urls find": FILTERS,
    "dropin filter-excessive-urls remove": FILTERS,
    "dropin addfield-to-flat-cdxj": FILTERS,
    "dropin flat-cdxj-to-zipnum": FILTERS,
    "dropin zipnum-to-flat-cdxj": FILTERS,
    "dropin cdxj-search": FILTERS,
    "dropin cdxj-extract-field": FILTERS,
    "dropin arclist-to-path-index": FILTERS,
    "dropin path-index-to-redis": NOT_HERE,
    "dropin arclist-index-to-redis": NOT_HERE,
    "dropin cdxj-index-collection": FILTERS,
    "curate": NOT_HERE,
    "curate plan": on(DIR),
    "curate run": on(DIR, "--executor", "inline", destroys="what it measured and decided before"),
    "curate stats": on(DIR),
    "curate explain": on(DIR, "https://a.example/"),
    "curate export": on(DIR, "--hf", "{out}/data-set", destroys="shards of the version before"),
    "verify-export": on(DIR),
    "export": NOT_HERE,
    "export wacz": on(DIR, "{out}/out.wacz"),
    "forget": on(
        DIR,
        "https://a.example/",
        "--only-here",
        destroys="with --gc originals that it kept; with --rewrite records and rows that were named, kept as originals",
    ),
    "extract": on(DIR, "--from-scratch", destroys="documents that receipts name"),
    "frontier": NOT_HERE,
    "frontier stats": on(DIR),
    "log": on(DIR),
    "report": on(DIR, "hosts"),
    "frontier pause": on(DIR),
    "frontier resume": on(DIR),
    "frontier retry": on(DIR),
    "frontier parked": on(DIR),
    "frontier release": on(DIR, "a.example/page"),
    "frontier why": on(DIR, "https://a.example/"),
    "frontier add": on(DIR, "https://added.example/"),
    "frontier exclude": on(DIR, "excluded.example"),
    "frontier include": on(DIR, "excluded.example"),
    "frontier compact": on(DIR, destroys="files of a frontier that newer ones replace"),
    "frontier reshard": on(DIR, "2", destroys="the shards of a frontier, once new ones are complete"),
    "frontier backup": on(DIR, "{out}/backup"),
    "frontier restore": on("{out}/backup", DIR, destroys="the frontier of the crawl"),
    "frontier export": on(DIR),
    "frontier import-redis": on(DIR, "--redis", "redis://127.0.0.1:1/0"),
    "frontier import-postgres": on(DIR, "--url", "postgresql://127.0.0.1:1/none"),
    "index": on(DIR, "--from-scratch", destroys="the index of the collection"),
    "init": on(DIR),
    "mcp": NOT_HERE,  # speaks on stdin until that ends: tests/serve/test_mcp.py
    "plugins": NOT_HERE,
    "problems": on(DIR),
    "publish": NOT_HERE,
    "publish run": NOT_HERE,
    "publish work": on(DIR, "--until-empty"),
    "publish documents": on(DIR, "--force"),
    "publish list": on(DIR),
    "publish show": on(DIR),
    "publish diff": on(DIR, "1", "2"),
    "publish rollback": on(DIR, "1"),
    "publish gc": on(DIR, "--keep", "1", "--grace", "1s", destroys="blobs and snapshots that no version needs"),
    "publish verify": on(DIR, "--repair"),
    "qa": on(DIR, "--browser-path", "/nowhere/chromium"),  # its browser has tests of its own
    "run": on(DIR),
    "save": on(DIR, "http://127.0.0.1:9/", "--max-wait", "1s"),
    "search": NOT_HERE,
    "search find": on(DIR, "ferry"),
    "search update": on(DIR),
    "search rebuild": on(DIR, destroys="the search index"),
    "search check": on(DIR),
    "serve": on(DIR, "--port", "0"),
    "status": on(DIR),
    "surt": NOT_HERE,
    "trust": NOT_HERE,
    "warc": NOT_HERE,
    "warc check": NOT_HERE,
    "warc list": NOT_HERE,
    "cc": NOT_HERE,
    "cdxj": NOT_HERE,
}


def all_commands() -> set[str]:
    """Return the names of all commands and groups."""
    assert isinstance(top, click.Group)
    return {" ".join(path) for name in TOP for path in commands_of(name)}
