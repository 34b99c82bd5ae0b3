"""`webmill alerts`: tests the rules of alerts, lists what waits to be sent, and sends it again."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from webmill.cli.context import REJECTED, Context, note, pass_context, warn
from webmill.cli.main import FAILED
from webmill.cli.text import escape_text, format_count, format_duration, json_line
from webmill.pipeline.alerts.inspect import TargetStatus, read_target_statuses, send_test
from webmill.pipeline.alerts.run import AlertReport, retry_alerts
from webmill.pipeline.plugins import alert_rules
from webmill.settings import Settings

NO_RULES = 'no rules: write [[alert]] and below it to = "mailto:me@example.org" into {file}'

folder = click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")


@click.group(
    epilog="""\b
Examples:
  webmill alerts test news/
  webmill alerts list news/
  webmill alerts retry news/

\b
Rules are [[alert]] in DIR/webmill.toml:
  [[alert]]
  match = 'site:example.org "price"'
  to = "mailto:me@example.org" """
)
def alerts() -> None:
    """Test, list and retry alerts: messages about changed pages, by mail, webhook or chat.

    `webmill run` sends them.
    """


@alerts.command(short_help="Send a test message to every target.", epilog="Example: webmill alerts test news/")
@folder
@click.argument("targets", metavar="[TARGET]...", nargs=-1)
@json_option
@pass_context
def test(context: Context, /, *, root: Path, targets: tuple[str, ...], as_json: bool) -> None:
    """Send a test message to every target, or to those named as `webmill alerts list` shows them.

    Nothing is queued or counted. Exit code 1: at least one did not take it.
    """
    root = root.resolve()
    results = send_test(root, required(context, root), targets)
    if as_json:
        click.echo(json_line({"targets": [{"target": name, "error": error} for name, error in results]}))
    for name, error in results:
        (warn if error else note)(escape_text(f"{name}: {f'failed: {error}' if error else 'sent'}"))
    if any(error for _, error in results):
        raise click.exceptions.Exit(FAILED)


@alerts.command(
    "list", short_help="List targets, rules and messages that wait.", epilog="Example: webmill alerts list news/ --json"
)
@folder
@json_option
@pass_context
def list_(context: Context, /, *, root: Path, as_json: bool) -> None:
    """List the targets with their rules, and the messages that wait or were given up.

    Addresses are shown without their secrets.
    """
    root = root.resolve()
    found = read_target_statuses(root, context.settings(root))
    if as_json:
        click.echo(json_line({"targets": msgspec.to_builtins(found)}))
        return
    for target in found:
        for line in describe_target(target):
            click.echo(escape_text(line))
    if not found:
        note(NO_RULES.format(file=root / "webmill.toml"))


@alerts.command(short_help="Send what failed again, now.", epilog="Example: webmill alerts retry news/")
@folder
@click.argument("targets", metavar="[TARGET]...", nargs=-1)
@json_option
@pass_context
def retry(context: Context, /, *, root: Path, targets: tuple[str, ...], as_json: bool) -> None:
    """Send now what failed or was given up, in order. Exit code 3: something failed again."""
    root = root.resolve()
    report = retry_alerts(root, required(context, root), targets)
    if as_json:
        click.echo(json_line(msgspec.to_builtins(report)))
    print_alert_report(report)
    if report.rejected:
        raise click.exceptions.Exit(REJECTED)


def required(context: Context, root: Path) -> Settings:
    """Return the settings, which must have rules."""
    settings = context.settings(root)
    if not alert_rules(settings):
        raise click.UsageError(NO_RULES.format(file=root / "webmill.toml"))
    return settings


def print_alert_report(report: AlertReport) -> None:
    """Print what became of the messages, one line for each target that had any."""
    for one in report.targets:
        changes = format_count(one.chosen, "change")
        left = f", {one.waiting:,} waiting" * bool(one.waiting) + f", {one.dead:,} given up" * bool(one.dead)
        if one.chosen or one.sent or one.failed or left:
            note(escape_text(f"{one.target}: {changes}, {format_count(one.sent, 'message')} sent{left}"))
        if one.reason:
            warn(escape_text(f"not delivered: {one.reason}"))
        if one.missed:
            warn(escape_text(f"{one.target}: versions were removed (`webmill publish gc`) before they were told"))


def where_alerts(root: Path) -> str:
    return f"`webmill alerts list {root}` tells why; the next run sends them again, or `webmill alerts retry {root}`"


def describe_target(target: TargetStatus) -> list[str]:
    """Return the lines about a target."""
    state = f"{target.waiting:,} waiting, {target.dead:,} given up"
    if target.pending:
        state += f", {format_count(target.pending, 'change')} for the next digest"
    lines = [f"{target.target}  {state}"]
    lines += [
        f"    rule: {rule.match or 'every change'} ({', '.join(rule.kinds)}; per {rule.digest})"
        for rule in target.rules
    ]
    if not target.rules:
        lines.append("    no rule sends anything there any more")
    if target.next_due is not None:
        wait = target.next_due - time.time()
        lines.append(f"    next: {f'in {format_duration(wait)}' if wait > 0 else 'by the next run'}")
    for letter in target.letters:
        when = datetime.fromtimestamp(letter.when, UTC)
        lines.append(f"    given up: {letter.id} at {when:%Y-%m-%d %H:%M}, {letter.attempts} attempts: {letter.reason}")
    if target.reason:
        lines.append(f"    last failure: {target.reason}")
    return lines
