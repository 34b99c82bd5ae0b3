"""Every command line of deploy/ is one that webmill takes, and every variable is a setting."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from tests.docs.test_commands_exist import commands_of, flaw_of
from tests.unit.deploy_files import COLLECTION, DEPLOY, ROOT, UNITS, Line, lines
from webmill.cli.main import webmill
from webmill.settings import file_settings, load_settings

LINES = list(lines())
TEXTS = sorted(
    path
    for path in DEPLOY.rglob("*")
    if path.is_file() and path.parent.name not in ("aws", "dashboards") and path.suffix != ".md"
)


def complaint(words: list[str]) -> str:
    """What click says of them; files that are not on this machine apart."""
    command: click.Command = webmill
    context = click.Context(webmill, info_name="webmill")
    try:
        while isinstance(command, click.Group):
            if words == ["--help"]:
                return ""
            name, found, words = command.resolve_command(context, words)
            assert found
            command, context = found, click.Context(found, info_name=name, parent=context)
        values, left, order = command.make_parser(context).parse_args(list(words))
        for parameter in click.core.iter_params_for_processing(order, command.get_params(context)):
            try:
                _, left = parameter.handle_parse_result(context, values, left)
            except click.MissingParameter:
                raise
            except click.BadParameter:
                if not isinstance(parameter.type, click.Path):
                    raise
    except click.UsageError as error:
        return error.format_message()
    return f"too many words: {left}" if left else ""


@pytest.mark.parametrize("line", LINES, ids=[line.place for line in LINES])
def test_a_command_line_is_accepted(line: Line) -> None:
    assert complaint(line.words) == ""
    load_settings(None, collection=None, environment=line.environment, is_trusted=lambda _: True, flags={})


def test_all_of_them_are_looked_at() -> None:
    kinds = {" ".join(line.words[: 2 if line.words[0] in ("cc", "publish", "dataset") else 1]) for line in LINES}
    wanted = {"run", "crawl", "serve", "cc batch", "cc work", "publish run", "dataset create", "dataset run", "--help"}
    assert kinds == wanted


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["serve", "/data", "--prot", "80"], "--prot"),
        (["serve"], "DIR"),
        (["run", "/data", "--every", "often"], "often"),
        (["run", "/data", "/more"], "too many"),
        (["cc", "wrok"], "wrok"),
        (["publish", "run", "/data"], "--board-list"),
    ],
)
def test_a_wrong_one_would_be_found(words: list[str], printed: str) -> None:
    assert printed in complaint(words)


@pytest.mark.parametrize("path", TEXTS, ids=[str(path.relative_to(ROOT)) for path in TEXTS])
def test_commands_and_variables_that_are_spoken_of_are_there(path: Path) -> None:
    text = re.sub(r"^ *# ?", "", path.read_text(), flags=re.MULTILINE)
    spans = "\n\n".join(f"`{span}`" for span in re.findall(r"`(webmill [^`]+)`", text))
    assert not [flaw for words in commands_of(spans) if (flaw := flaw_of(words))]
    inside = re.findall(r"docker compose run --rm \w+ (.+?)(?:\s{2,}.*)?$", text, re.MULTILINE)
    assert not [flaw for line in inside if (flaw := complaint(line.split()))]
    variables = {setting.variable for setting in file_settings()} | {"WEBMILL_TRUST"}
    assert set(re.findall(r"\bWEBMILL_[A-Z_]+\b", text)) <= variables


def test_the_documentation_names_units_and_collections_as_they_are() -> None:
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
    assert f"/srv/webmill/{COLLECTION}" in page
    assert set(re.findall(r"`(webmill-\w+@)NAME", page)) == {unit.stem for unit in UNITS}


def test_the_documentation_names_every_file_and_alert() -> None:
    table = (DEPLOY / "README.md").read_text()
    assert all(
        f"`{path.name}`" in table or f"`{path.name}/" in table for path in DEPLOY.iterdir() if path.name != "README.md"
    )
    page = (ROOT / "docs" / "how-to" / "monitor.md").read_text()
    alerts = re.findall(r"alert: (\w+)", (DEPLOY / "prometheus" / "alerts.yml").read_text())
    assert [alert for alert in alerts if alert not in page] == []
    manifests = {path.name for path in (DEPLOY / "kubernetes").iterdir()}
    assert manifests == set(re.findall(r"`(\w+\.yaml)`", (ROOT / "docs" / "how-to" / "deploy.md").read_text()))
