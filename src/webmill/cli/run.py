"""`webmill run`: every stage of a collection that is due, by the commands that a person would type."""

from __future__ import annotations

import math
import shlex
import time
from functools import partial
from pathlib import Path
from typing import NoReturn

import click
from msgspec.structs import replace

from webmill.cli.context import REJECTED, Context, as_a_stage, note, pass_context, warn
from webmill.cli.crawl_view import age
from webmill.cli.durations import DURATION
from webmill.cli.main import FAILED, INTERRUPTED, heading, webmill
from webmill.cli.stages import STAGES, stages_of
from webmill.cli.status import wishes_of
from webmill.cli.words import shown
from webmill.errors import WebmillError
from webmill.index.archives import archived
from webmill.infra.lock import exclusive
from webmill.pipeline.crawl.kept import read_kept
from webmill.pipeline.publish.due import reason_not_to_publish
from webmill.pipeline.status import crawl_states, look, unfinished
from webmill.search.backends import open_search, search_of
from webmill.settings import CrawlSettings, PublishSettings, Settings, chosen_settings

ONE_REFRESH = "1h"
ALWAYS = ("scope", "delay", "page_resources")


@click.command(
    epilog="""\b
Examples:
  webmill init news/ https://example.org/ --contact me@example.org
  webmill run news/
  webmill run news/ --every 1d
  webmill run news/ --dry-run
  webmill run news/ --stage publish --stage search

\b
The settings are in DIR/webmill.toml: [crawl] and [run].
Killed at any moment, the next one goes on; nothing is done twice.
Exit code 3: done, but some input was rejected."""
)
@click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--every", type=DURATION, metavar="TIME", help="Again and again: 6h, 1d  [default: once]")
@click.option("--stage", "stages", multiple=True, type=click.Choice(STAGES), help="Only this one; repeatable.")
@click.option("--dry-run", is_flag=True, help="Say which stages are due, and why; change nothing.")
@pass_context
def run(context: Context, /, *, root: Path, every: float | None, stages: tuple[str, ...], dry_run: bool) -> None:
    """Crawl, index, extract, publish and search-index the collection in DIR, as far as each is due."""
    root = root.resolve()
    chosen = tuple(stage for stage in STAGES if stage in stages) or stages_of(context.settings(root).run)
    if dry_run:
        foretell(context, root, chosen)
        return
    with exclusive(root, "run", doing="running all stages"):
        if every:
            repeat(context, root, chosen, every=every)
        code = once(context, root, chosen)
    raise click.exceptions.Exit(code)


def repeat(context: Context, root: Path, stages: tuple[str, ...], *, every: float) -> NoReturn:
    """Until it is interrupted. A tick that was missed, because a run took longer, is made up for once."""
    while True:
        started = time.monotonic()
        try:
            once(context, root, stages)
        except WebmillError as error:
            warn(f"{heading(error)}: {shown(str(error))}; tried again in its time")
        wait = max(0.0, every - (time.monotonic() - started))
        note(f"next run in {age(wait)}; Ctrl-C ends it")
        time.sleep(wait)


def once(context: Context, root: Path, stages: tuple[str, ...]) -> int:
    """The highest exit code of the stages. `WebmillError` ends it: what follows would be about less than it seems.

    Ctrl-C ends the stage as it ends the command: every one of them may be broken off, and goes on the next time.
    """
    worst = 0
    for stage in stages:
        commands = commands_of(stage, root, context.settings(root))
        if isinstance(commands, str):
            note(f"{stage}: {commands}")
            continue
        for command in commands:
            note(f"{stage}: webmill {shlex.join(command)}")
            if stage == "crawl":
                tell_changed(root, context.settings(root).crawl)
            started = time.monotonic()
            with as_a_stage():
                code = webmill.main([*globals_of(context), *command], standalone_mode=False) or 0
            if code == INTERRUPTED:
                raise click.Abort
            if code == FAILED:
                note(f"{stage}: failed; the stages behind it were not begun")
                return FAILED
            note(f"{stage}: done in {age(time.monotonic() - started)}" + ", with rejects" * (code == REJECTED))
            worst = max(worst, code)
    return worst


def foretell(context: Context, root: Path, stages: tuple[str, ...]) -> None:
    """What a run would do, by looking alone. Which stages bring something new is seen when they are done."""
    settings = context.settings(root)
    engine = partial(open_search, search_of(settings.search.url, root), create=False)
    seen = look(root, replace(wishes_of(settings, root), stages=stages), open_engine=engine)
    for problem in seen.problems:
        warn(shown(f"{problem.part}: {problem.message}"))
    if seen.is_running:
        note("another run is at work here: until it ends, a second one is refused")
    reasons, upstream = {due.stage: due.why for due in seen.due}, ""
    for stage in stages:
        commands = commands_of(stage, root, settings)
        if stage in reasons:
            note(f"{stage}: due: {reasons[stage]}")
        elif upstream:
            note(f"{stage}: due if {upstream} brings something new")
        elif isinstance(commands, str):
            note(f"{stage}: left out: {commands}")
        else:
            note(f"{stage}: would look, and find nothing to do")
        for command in commands if isinstance(commands, list) else ():
            note(f"  webmill {shlex.join(command)}")
        upstream = stage if stage in reasons else upstream


def commands_of(stage: str, root: Path, settings: Settings) -> list[list[str]] | str:
    """What to type; or why there is nothing to do."""
    match stage:
        case "crawl":
            return crawl_command(root, settings.crawl)
        case "index":
            return [["index", str(root), "--name", crawl.name] for crawl in archived(root)] or "nothing is archived yet"
        case "extract":
            return [["extract", str(root)]] if archived(root) else "nothing is archived yet"
        case "publish":
            return publish_command(root, settings.publish)
        case _:
            return [["search", "update", str(root)]] if (root / "latest.json").exists() else "nothing is published yet"


def publish_command(root: Path, settings: PublishSettings) -> list[list[str]] | str:
    reason_against = reason_not_to_publish(root)
    if reason_against:
        return reason_against
    facets = settings.facets
    return [["publish", "documents", str(root), *(word for facet in facets for word in ("--facet", facet))]]


def crawl_command(root: Path, settings: CrawlSettings) -> list[list[str]] | str:
    seeds = root / settings.seeds
    if not seeds.is_file():
        return reason_not_to_crawl(root, settings)
    flags = ["--seeds", str(seeds)]
    if settings.refresh and settings.max_time is None:
        flags += ["--max-time", ONE_REFRESH]
    for one in chosen_settings(("crawl",)):
        value = getattr(settings, one.key)
        name = (one.declared.old or (one.name,))[0].replace("_", "-")
        if one.key not in ALWAYS and value == one.default:
            continue
        if one.is_switch:
            flags.append(f"--{name}" if value else f"--no-{name}")
        else:
            written = one.write(value)
            flags += [w for each in (written if one.is_list else [written]) for w in (f"--{name}", str(each))]
    return [["crawl", str(root), *flags]]


def reason_not_to_crawl(root: Path, settings: CrawlSettings) -> str:
    """A crawl that was begun by hand is not gone on with: its limits were of that run alone, and without them it might
    ask for far more than anybody wanted.
    """
    crawls = crawl_states(root)
    if any(crawl.is_running for crawl in crawls):
        return "somebody else is crawling here"
    if not crawls:
        return f"no {settings.seeds} (`webmill init` makes one): archives are taken as they are"
    left = unfinished(crawls, now=math.inf)  # also what may be asked tomorrow
    if not left:
        return f"no {settings.seeds}, and the crawl that was begun by hand has ended"
    by_hand = f"webmill crawl {shlex.quote(str(root))}"
    return f"no {settings.seeds}, so the crawl that was begun by hand is left alone ({left}); to go on: {by_hand}"


def tell_changed(root: Path, settings: CrawlSettings) -> None:
    """The settings win over what the crawl was told before, by hand or by settings that were others then."""
    told = read_kept(root / "frontier")
    wanted = {"scope": settings.scope, "delay": settings.delay, "requisites": settings.page_resources}
    for name, value in wanted.items():
        if told.get(name, value) != value:
            said = {"scope": told[name], "delay": f"{told[name]} s", "requisites": str(told[name]).lower()}[name]
            note(f"crawl: until now its {name} was {said}; from now on it is what [crawl] in the settings says")


def globals_of(context: Context) -> list[str]:
    flags = ["-q"] * context.quiet + ["-v"] * context.verbosity
    flags += ["--config", str(context.config)] if context.config else []
    return flags + [word for name, value in context.flags.items() for word in (f"--{name.replace('.', '-')}", value)]
