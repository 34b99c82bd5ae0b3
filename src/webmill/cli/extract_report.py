"""The report that `webmill extract`, `webmill cc` and `webmill dataset` print."""

from __future__ import annotations

from collections.abc import Mapping

from webmill.cli.context import note, warn
from webmill.cli.text import format_count, spell_out
from webmill.extract.extractors import install_advice
from webmill.pipeline.extract.totals import ExtractReport, count_if_mostly_rejected, rejected_outcomes


def suggest_extractor(extractor: str) -> None:
    """Note how to install a better extractor, if the plain one is used."""
    words = install_advice() if extractor == "plain" else None
    if words:
        note(words)


def print_extract_report(report: ExtractReport) -> None:
    if not (report.tasks or report.failed or report.left):
        note("nothing to do: all tasks are done")
        return
    made = f"{format_count(report.documents, 'document')} of {format_count(report.captures, 'capture')}"
    errors = f"; {format_count(report.errors, 'error')}" * bool(report.errors)
    note(f"{format_count(report.tasks, 'task')}: {made}{format_outcomes(report.outcomes, report.left_out)}{errors}")
    if unread := report.left_out.get("pdf"):
        note(f"{format_count(unread, 'PDF file')} not read: pip install 'webmill[pdf]'")
    for failure in report.failures[:10]:
        warn(f"failed: {failure.task}: {failure.reason[:500]}")
    if report.given_back:
        note(f"tasks returned to the queue: {format_count(report.given_back, 'time')}")
    if earlier := report.failed - len(report.failures):
        warn(f"{format_count(earlier, 'task')} failed in earlier runs")
    if report.left:
        why = "stopped" if report.stopped else "unfinished"
        warn(f"{why}: {format_count(report.left, 'task')} left; run the command again to continue")


def format_outcomes(outcomes: Mapping[str, int], left_out: Mapping[str, int]) -> str:
    """Return `, 12 ok, 3 other type; rejected: 2 parse error; left out: 5 too short`."""
    rejected = format_reasons(rejected_outcomes(outcomes))
    read = format_reasons({name: count for name, count in outcomes.items() if name not in rejected_outcomes(outcomes)})
    kept = "".join(f", {some}" for some in read)
    left = format_reasons(left_out)
    return kept + f"; rejected: {', '.join(rejected)}" * bool(rejected) + f"; left out: {', '.join(left)}" * bool(left)


def warn_if_unreadable(outcomes: Mapping[str, int], *, captures: int) -> int:
    """Warn if most captures could not be read, and return how many."""
    unread = count_if_mostly_rejected(outcomes, captures=captures)
    if unread:
        reasons = ", ".join(format_reasons(rejected_outcomes(outcomes)))
        warn(f"most captures could not be read: {reasons}; the `error` column of their rows says why")
    return unread


def format_reasons(counts: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {spell_out(name)}" for name, count in sorted(counts.items())]
