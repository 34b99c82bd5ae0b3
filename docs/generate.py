"""Pages that are made from the code, so that they cannot say something else: commands, settings, metrics, fields,
dependencies; and what import-linter is told of the layers.

python docs/generate.py            writes them
python docs/generate.py --check    exit code 1 when one of them is not what the code says
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # of the repository: the tests are not installed

import click
from api_page import api_page
from dependencies import dependencies_page
from fields import columns_table, fields_page, outcomes_table
from mcp_page import mcp_page
from scale_page import scale_page
from tests.faults.matrix import read_totals
from tests.references.claim import table as claims_table
from tests.references.documents import DOCUMENTS
from usage import cases_table, decision_table

from webmill.cli.completion_table import make_table as completion_table
from webmill.cli.main import webmill
from webmill.infra.metrics import Counter, Gauge, Histogram
from webmill.settings import SECTIONS, file_settings

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
MADE = "<!-- made by docs/generate.py -->\n\n"
METRICS = {
    "crawl": "webmill.crawl.metrics",
    "cc batch": "webmill.pipeline.dispatch.metrics",
    "cc work": "webmill.pipeline.extract.metrics",
    "publish": "webmill.boards.metrics",
    "serve": "webmill.serve.processes.metrics",
}


def commands_page() -> str:
    lines = [f"{MADE}# Every command\n", "Global flags, exit codes, where output goes: [the command](command.md).\n"]
    for path, command in every_command(webmill, ("webmill",)):
        if isinstance(command, click.Group):
            continue
        with click.Context(command, info_name=" ".join(path), max_content_width=100, terminal_width=100) as context:
            lines.append(f"## {' '.join(path)}\n\n```\n{command.get_help(context).strip()}\n```\n")
    return "\n".join(lines)


def every_command(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found and not found.hidden:
                yield from every_command(found, (*path, name))


TRUST = {
    "path": " *trust, if it leads out*",
    "address": " *trust, if it leads out*",
    "lower": " *trust, if lower*",
    "tables": " *trust, if it asks more often than every 30 s, has credentials, or names files elsewhere*",
    "other": " *trust*",
}


def settings_page() -> str:
    lines = [
        f"{MADE}# Settings\n",
        "`webmill.toml` of the collection (or this folder, or `--config FILE`), then variables, then flags; the last",
        "one counts. An unknown name or a wrong value is refused with its line. `webmill init` writes all to a file.\n",
        "A setting `key` of `[section]` is the variable `WEBMILL_SECTION_KEY`, and a keyword [from Python](python.md).",
        "Times are written `90s`, `20m`, `8h`, `7d`, sizes `500K`, `64M`, `20G`, lists as lists or text with commas;",
        'an empty text (`""`) is no limit. The option is of the commands that the section is about.\n',
        "*trust*: in the file of a collection that you did not make here, this counts only if you trust the collection",
        "([trust](../design/trust.md)); flags and variables always count.\n",
    ]
    section = ""
    for setting in file_settings():
        if setting.section != section:
            section = setting.section
            about = " ".join((SECTIONS[section].__doc__ or "").split())
            lines += [f"\n## [{section}]\n", about, "", "| setting | option | default | |", "|---|---|---|---|"]
        needs_trust = "" if setting.declared.reach == "inside" else TRUST[setting.declared.reach]
        default = f"`{text}`" if (text := setting.text(setting.default)) else setting.declared.none
        about = setting.description.replace("|", "\\|")
        option = f"`{setting.flag}`" if setting.declared.only != "file" else ""
        lines.append(f"| `{setting.key}` | {option} | {default} | {about}{needs_trust} |")
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    lines = [
        f"{MADE}# Metrics\n",
        "For Prometheus, at `/metrics` of the running command (`--metrics-port`, or the server's own port). Values of",
        "labels outside their sets are counted as `other`. How to watch them: [monitor](../how-to/monitor.md).\n",
    ]
    for command, module in METRICS.items():
        lines += [f"\n## webmill {command}\n", "| metric | kind | labels | |", "|---|---|---|---|"]
        found = vars(importlib.import_module(module)).values()
        for metric in {id(one): one for one in found if isinstance(one, Counter | Gauge | Histogram)}.values():
            name = f"{metric.name.removesuffix('_total')}_total" if isinstance(metric, Counter) else metric.name
            labels = "; ".join(f"{label}: {', '.join(values)}" for label, values in metric.labels.items())
            lines.append(f"| `{name}` | {type(metric).__name__.lower()} | {labels} | {metric.help} |")
    return "\n".join(lines) + "\n"


def house_page() -> str:
    """The page as it is, with the layers as import-linter is told them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    order = "\n".join(f"    {'> ' if number else '  '}{re.sub('[()]', '', one)}" for number, one in enumerate(layers))
    return with_part((ROOT / "docs" / "design" / "house.md").read_text(), "layers", order)


def documents_page() -> str:
    """The page as it is, with the columns and outcomes of today."""
    page = with_part((REFERENCE / "documents.md").read_text(), "columns", columns_table())
    return with_part(page, "outcomes", outcomes_table())


def usage_page() -> str:
    page = with_part((REFERENCE / "usage-preferences.md").read_text(), "decisions", decision_table())
    return with_part(page, "cases", cases_table())


def readme() -> str:
    """The page as it is, with what the crash matrix counted."""
    totals = read_totals((REFERENCE / "crash-matrix.md").read_text())
    return with_phrase((ROOT / "README.md").read_text(), "crash-matrix", totals)


def with_phrase(page: str, name: str, made: str) -> str:
    """Return the page with what stands between two marks in a sentence made anew."""
    begin, end = f"<!-- {name}: made by docs/generate.py -->", f"<!-- /{name} -->"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        sys.exit(f"no place for {name} in the page: {begin} … {end}")
    return f"{before}{begin}{made}{end}{after}"


def with_part(page: str, name: str, made: str) -> str:
    """Return the page with what stands between two marks made anew."""
    before, begin, rest = page.partition(f"<!-- {name}: made by docs/generate.py -->")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    return f"{before}{begin}\n\n{made}\n\n{end}{after}"


def how_to_page(module: str, page: str) -> str:
    """The page as it is, with what the tests of its document claim."""
    made = claims_table(importlib.import_module(f"tests.references.{module}"))
    return with_part((ROOT / "docs" / "how-to" / page).read_text(), "claims", made)


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "settings.md": settings_page,
    "metrics.md": metrics_page,
    "../../src/webmill/cli/completion.json": completion_table,  # what shells complete
    "fields.md": lambda: MADE + fields_page(),
    "documents.md": documents_page,
    "mcp.md": lambda: MADE + mcp_page(),
    "http-api.md": lambda: MADE + api_page(),
    "dependencies.md": lambda: MADE + dependencies_page(),
    "../design/house.md": house_page,
    "../how-to/a-billion-pages.md": lambda: scale_page(MADE),
    "../../README.md": readme,
    "usage-preferences.md": usage_page,
    **{f"../how-to/{page}": partial(how_to_page, module, page) for module, page in DOCUMENTS.items()},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        file, text = REFERENCE / name, make()
        if check and (not file.exists() or file.read_text() != text):
            stale.append(name)
        elif not check:
            file.write_text(text)
    if stale:
        sys.exit(f"not what the code says: {', '.join(stale)}; run `make docs`")


if __name__ == "__main__":
    main()
