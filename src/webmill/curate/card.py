"""The dataset card (README.md): what others need to know, from counts, recipe and licence; and how they load it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from webmill.curate.filters.usage import USAGE_REASONS
from webmill.curate.manifest import DataFile
from webmill.curate.recipe import CurateRecipe
from webmill.curate.report import CurateReport

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_MORE = ((10_000_000, "1M<n<10M"), (100_000_000, "10M<n<100M"), (1_000_000_000, "100M<n<1B"))
_CODE = re.compile("[a-z]{2,3}")
_MARKUP = re.compile(r"[^\w.,:/() -]")
SHOWN = 15
LICENCE = re.compile(r"[A-Za-z0-9.+-]{1,60}")


def dataset_card(
    *,
    name: str,
    licence: str,
    recipe: CurateRecipe,
    report: CurateReport,
    data: Sequence[DataFile],
    documents: int,
    rights: Sequence[str] = (),
) -> str:
    """Return the card of a data set. `rights` are lines about the preferences of rights holders."""
    shown = plain_text(name)
    return "\n".join(
        [
            *_header(shown, licence, report, data, documents),
            f"# {shown}\n",
            f"{documents:,} documents of the web, curated with the recipe `{plain_text(recipe.name)}` of webmill.",
            f"Of {report.documents:,} documents {report.kept:,} were kept.\n",
            "## Load it\n",
            *_examples(data),
            "## How it was made\n",
            *_steps(report),
            "\nThe recipe:\n",
            f"```json\n{_shown_recipe(recipe, report)}\n```\n",
            "## What is in it\n",
            *_table("Language", report.after.languages),
            *_table("Host", report.after.hosts),
            *_table("Month of the capture", report.after.months),
            "## Rights\n",
            f"Licence of this collection: {licence}.",
            "The texts belong to their authors; the column `url` says where each is from.",
            *_left_out_for_rights(report),
            *rights,
            "",
            "`manifest.json` has the SHA-256 of every file; `webmill verify-export DIR` compares.\n",
        ]
    )


def _header(name: str, licence: str, report: CurateReport, data: Sequence[DataFile], documents: int) -> list[str]:
    languages = [code for code in report.after.languages if _CODE.fullmatch(code)]
    paths = [f"      - {file.path}" for file in data]
    return [
        "---",
        f'pretty_name: "{name}"',
        f"license: {licence}",
        *(["language:", *(f"- {code}" for code in languages)] if languages else []),
        "size_categories:",
        f"- {_size_category(documents)}",
        "task_categories:",
        "- text-generation",
        "tags:",
        "- webmill",
        "configs:",
        "- config_name: default",
        "  data_files:",
        "  - split: train",
        "    path:",
        *paths,
        "---\n",
    ]


def _size_category(documents: int) -> str:
    return next((name for limit, name in (*_SIZES, *_MORE) if documents < limit), "n>1B")


def _examples(data: Sequence[DataFile]) -> list[str]:
    return [
        "```python",
        "from datasets import load_dataset",
        'documents = load_dataset("DIR", split="train")         # DIR: this folder, or its name on a hub',
        "```\n",
        "```sql",
        "SELECT language, count(*) FROM 'DIR/data/*.parquet' GROUP BY ALL    -- DuckDB",
        "```\n",
        f"{len(data):,} files, {sum(file.bytes for file in data):,} bytes.\n",
    ]


def _steps(report: CurateReport) -> list[str]:
    rows = ["| step | in | removed | why |", "|---|---:|---:|---|"]
    for step in report.steps:
        why = ", ".join(f"{plain_text(reason)} {one.count:,}" for reason, one in step.reasons.items())
        rows.append(f"| {plain_text(step.step)} | {step.documents:,} | {step.removed:,} | {why} |")
    return rows


def _shown_recipe(recipe: CurateRecipe, report: CurateReport) -> str:
    """Return a recipe as JSON; of limits by language, those of the languages that were there."""
    shown = msgspec.to_builtins(recipe)
    for step in shown["step"]:
        if own := step.get("by_language"):
            step["by_language"] = {name: own[name] for name in sorted(own.keys() & report.before.languages.keys())}
    return msgspec.json.format(msgspec.json.encode(shown)).decode().replace("`", "")


def _left_out_for_rights(report: CurateReport) -> list[str]:
    """Return what sites forbid, and so is not in it: by reason, of all steps that ask what they say."""
    counts: Counter[str] = Counter()
    for step in report.steps:
        counts.update({reason: one.count for reason, one in step.reasons.items() if reason in USAGE_REASONS})
    if not counts:
        return []
    listed = ", ".join(f"{plain_text(reason)} {count:,}" for reason, count in sorted(counts.items()))
    return [f"Left out for what their sites say of the use of their pages: {counts.total():,} documents ({listed})."]


def _table(title: str, counts: dict[str, int]) -> list[str]:
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
    return [
        f"| {title} | documents |",
        "|---|---:|",
        *(f"| {plain_text(name)} | {count:,} |" for name, count in rows),
        "",
    ]


def plain_text(text: str) -> str:
    """Return a name without what Markdown, HTML or YAML would take for markup."""
    return _MARKUP.sub(" ", text)[:100]
