"""The `webmill` command: global flags, the list of groups, and how an error becomes a sentence and an exit code.

Exit codes: 0 done · 1 failed · 2 wrong usage · 3 done, but some input was rejected (the message says where to look) ·
130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from webmill import __version__
from webmill.cli.lazy import LazyGroup
from webmill.errors import Conflict, Misconfigured, NotFound, Unavailable, WebmillError, WrongUse
from webmill.masking import hide_secrets

FAILED, USAGE, INTERRUPTED = 1, 2, 130

COMMANDS: dict[str, tuple[str, str]] = {
    "add": ("webmill.cli.add:add", "Add existing WARC, ARC and WACZ files to a collection."),
    "alerts": ("webmill.cli.alerts:alerts", "Test, list and retry messages about changed pages."),
    "bot": ("webmill.cli.bot:bot", "Let servers know who crawls: keys that sign requests, and a page."),
    "boards": ("webmill.cli.boards:boards", "Find the notice boards of web sites, for `webmill publish run`."),
    "cc": ("webmill.cli.cc:cc", "Select, fetch and extract pages of Common Crawl or another webmill."),
    "cdxj": ("webmill.cli.cdxj:cdxj", "Make, filter, merge, compress and query CDXJ indexes."),
    "changes": ("webmill.cli.changes:changes", "List what changed on the pages of a collection."),
    "completion": ("webmill.cli.completion:completion", "Print a completion script for bash, zsh or fish."),
    "control": ("webmill.cli.control:control", "Steer a running crawl: pause, resume, stop, reload, add, exclude."),
    "crawl": ("webmill.cli.crawl:crawl", "Crawl web sites politely into WARC files."),
    "curate": ("webmill.cli.curate:curate", "Filter documents, remove duplicates, make a data set."),
    "dataset": ("webmill.cli.dataset:dataset", "Extract documents from WARC, WAT and WET files, as tracked tasks."),
    "dead": ("webmill.cli.dead:dead", "List, show, retry or discard failed tasks (dead letters)."),
    "demo": ("webmill.cli.demo:demo", "Try webmill on a small built-in web."),
    "derive": ("webmill.cli.derive:derive", "Make WAT and WET files from WARC files."),
    "doctor": ("webmill.cli.doctor:doctor", "Check this machine and a collection; suggest repairs."),
    "dropin": ("webmill.cli.dropin:dropin", "Commands of other systems under their old names, for existing scripts."),
    "export": ("webmill.cli.export:export", "Export a collection, or part of it, as a WACZ file."),
    "extract": ("webmill.cli.extract:extract", "Extract documents from a collection's new archives."),
    "forget": ("webmill.cli.forget:forget", "Take pages or sites down: out of crawls, search, versions, replay."),
    "frontier": ("webmill.cli.frontier:frontier", "Inspect, change, back up or import a crawl's frontier."),
    "index": ("webmill.cli.index:index", "Index the WARC files of a collection that are new or changed."),
    "init": ("webmill.cli.init:init", "Create a collection with a settings file and seeds."),
    "log": ("webmill.cli.log:log", "Show what came of each URL of a crawl."),
    "mcp": ("webmill.cli.mcp:mcp", "Answer agents about collections (Model Context Protocol)."),
    "plugins": ("webmill.cli.plugins:plugins", "List plugins, their hooks, and what these cost."),
    "problems": ("webmill.cli.problems:problems", "List everything that went wrong in a collection, and what to do."),
    "publish": ("webmill.cli.publish:publish", "Publish versions of a data set from documents or boards."),
    "qa": ("webmill.cli.qa:qa", "Check in a browser how archived pages are replayed."),
    "report": ("webmill.cli.report:report", "Report a crawl by hosts, types, status codes or seeds."),
    "run": ("webmill.cli.run:run", "Run every stage of a collection that is due, once or on a schedule."),
    "save": ("webmill.cli.save:save", "Save one page now, and index it."),
    "search": ("webmill.cli.search:search", "Search the published documents."),
    "serve": ("webmill.cli.serve:serve", "Serve a collection over HTTP: web pages, APIs and replay."),
    "status": ("webmill.cli.status:status", "Show what a collection holds and what is due."),
    "surt": ("webmill.cli.surt:surt", "Print the index key (SURT) of URLs."),
    "trust": ("webmill.cli.trust:trust", "Trust the settings in a folder, or stop trusting them."),
    "verify-export": ("webmill.cli.verify_export:verify_export", "Compare a data set with its manifest."),
    "warc": ("webmill.cli.warc:warc", "Check and list WARC and ARC files."),
}


def may_have_plugins() -> bool:
    """Tell whether there may be plugins, without loading what finds them: most people have none."""
    from importlib.metadata import entry_points

    configuration = os.environ.get("XDG_CONFIG_HOME") or Path(os.environ.get("HOME", "")) / ".config"
    has_own = Path(configuration, "webmill", "plugins").is_dir()
    return has_own or "WEBMILL_PLUGINS" in os.environ or bool(entry_points(group="webmill.plugins"))


def plugin_commands() -> Mapping[str, click.Command]:
    """Return the commands that plugins of the user add."""
    if not may_have_plugins():
        return {}
    from webmill.pipeline.plugins import user_plugins

    found = dict[str, click.Command]()
    for call in user_plugins().calls("register_commands"):
        for command in call() or ():
            if not isinstance(command, click.Command) or not command.name:
                raise call.refuse(command, "commands of click")
            found.setdefault(command.name, command)
    return found


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    more=plugin_commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Try `webmill demo` first. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but some input was rejected.",
)
@click.version_option(__version__, prog_name="webmill")
@click.option("-v", "--verbose", count=True, help="Log more (-vv: everything).")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors, no progress.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default=None, help="Format of log lines on stderr.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Settings file  [default: webmill.toml of the collection, else of this folder]",
)
@click.pass_context
def webmill(ctx: click.Context, *, verbose: int, quiet: bool, log_format: str | None, config: Path | None) -> None:
    """Your own Common Crawl: crawl, archive, index, extract, publish, search and serve the web.

    Data goes to stdout, everything else to stderr.
    """
    from webmill.cli.context import Context

    ctx.color = False if os.environ.get("NO_COLOR") else None  # https://no-color.org; None: as the terminal can
    ctx.obj = Context.from_flags(verbose=verbose, quiet=quiet, log_format=log_format, config=config)


def main() -> NoReturn:
    """Run the command; bad input ends as a sentence on stderr, never as a traceback."""
    open_closed_streams()
    ignore_stderr_errors()
    try:
        code = webmill.main(standalone_mode=False)  # click returns the code of an Exit
    except click.ClickException as error:
        error.message = hide_secrets(error.message)  # type: ignore[misc]  # it may repeat the value of a flag
        error.show()
        exit_with(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print_error("interrupted: finished work is kept; run the same command again to continue")
        exit_with(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our stdout went away (`| head`): stop, and keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        exit_with(FAILED)
    except WebmillError as error:
        print_error(f"{error_heading(error)}: {error}")
        exit_with(USAGE if isinstance(error, WrongUse) else FAILED)
    except OSError as error:
        print_error(f"error: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        exit_with(FAILED)
    exit_with(code)


def open_closed_streams() -> None:
    """Open the null device for streams that were closed at the start (`>&-`), for which Python has None."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
            setattr(sys, name, os.fdopen(fd, "r" if fd == 0 else "w", closefd=False))


class LossyStderr(io.FileIO):
    """Ignores failed writes, as on a full disk: a note may be lost, the work may not."""

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            return len(data)


def ignore_stderr_errors() -> None:
    """Let no note, progress or error fail from now on. A stderr that somebody has replaced is left alone."""
    if sys.stderr is sys.__stderr__ and sys.stderr is not None:
        raw = LossyStderr(sys.stderr.fileno(), "w", closefd=False)
        encoding, errors = sys.stderr.encoding, sys.stderr.errors
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=True)


def error_heading(error: WebmillError) -> str:
    """Return a word or two that tell the operator what kind of error it is."""
    if isinstance(error, NotFound):
        return "not found"
    if isinstance(error, Misconfigured):
        return "cannot start"
    if isinstance(error, Unavailable):
        return "not available now"
    return "conflict" if isinstance(error, Conflict) else "bad input"


def print_error(message: str) -> None:
    """Print a message on stderr. Text from the web in it cannot move the cursor; passwords in addresses are hidden."""
    from webmill.cli.text import escape_text  # not needed by --help

    click.echo("webmill: " + "\n".join(map(escape_text, hide_secrets(message).splitlines())), err=True)


def exit_with(code: int | None) -> NoReturn:
    """Exit after flushing stdout; a reader that has gone away makes it a failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or FAILED
    sys.exit(code or 0)
