"""`webmill curate`: documents to a corpus."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "plan": ("webmill.cli.curate.run:plan", "Show the steps of a recipe, and what a run would measure."),
    "run": ("webmill.cli.curate.run:run", "Measure new documents and decide which are kept."),
    "stats": ("webmill.cli.curate.stats:stats", "Show what each step removed, and why."),
    "export": ("webmill.cli.curate.export:export", "Write the corpus as a data set that others load in one line."),
    "explain": ("webmill.cli.curate.explain:explain", "Say why a document is in or out, with the numbers."),
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Example: from archives to a data set
  webmill extract news/
  webmill curate run news/ --recipe fineweb
  webmill curate export news/ --hf news-corpus/""",
)
def curate() -> None:
    """Make a corpus of documents: quality filters, duplicates, statistics, data sets.

    Steps measure documents, which are never changed; thresholds are applied to what they measured. A run over new
    documents, or with other thresholds, gives the same as a run from scratch.
    """
