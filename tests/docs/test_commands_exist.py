"""Every `webmill …` that the documentation tells somebody to type is a command, with flags and choices that it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from webmill.cli.main import webmill
from webmill.settings import SECTIONS, file_settings

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "deploy/**/*.md", "examples/*.md")
    for page in ROOT.glob(pattern)
    if page.name != "commands.md"  # made from the commands themselves
)
BLOCK = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
CALL = re.compile(r"(?:^|[\s|;&(])webmill +(.+)")
PLACEHOLDERS = ("COMMAND", "GLOBAL", "…")
OPERATORS = re.compile(r"[()<>|&;]+")
SPOKEN_OF = re.compile(r"No such command 'NAME'|: '[A-Z]+' is not one of")  # placeholders, in capitals
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_what_is_to_be_typed_can_be_typed(page: Path) -> None:
    flaws = [(shlex.join(words), flaw_of(words)) for words in commands_of(page.read_text())]
    wrong = [f"webmill {line}: {flaw}" for line, flaw in flaws if flaw]
    assert not wrong, "\n".join(wrong)


def test_they_are_found_at_all() -> None:
    assert sum(1 for page in PAGES for _ in commands_of(page.read_text())) > 200


@pytest.mark.parametrize("page", [page for page in PAGES if page.name.startswith("from-")], ids=lambda page: page.name)
def test_flags_that_replace_others_are_there(page: Path) -> None:
    """In tables of what was before and what is now, the second column is ours."""
    ours = {flag for command in every_command(webmill) for option in command.params for flag in option.opts}
    tables = re.findall(r"^\|[^|\n]+\| (?:now|new) \|\n\|[-|]+\|\n((?:\|.*\n)+)", page.read_text(), re.MULTILINE)
    rows = [re.split(r"(?<!\\)\|", row) for table in tables for row in table.splitlines()]
    flags = {flag for row in rows for span in SPAN.findall(row[2]) for flag in re.findall(r"^--[\w-]+", span)}
    assert rows
    assert flags <= ours, flags - ours


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_settings_and_variables_are_there(page: Path) -> None:
    text = page.read_text()
    known = {(setting.section, setting.key) for setting in file_settings()}
    named = re.findall(rf"`\[({'|'.join(SECTIONS)})\] (\w+)", text)
    assert set(named) <= known, set(named) - known
    variables = {setting.variable for setting in file_settings()} | {
        "WEBMILL_SECTION_KEY",
        "WEBMILL_TRUST",
        "WEBMILL_PLUGINS",
    }
    named = re.findall(r"\bWEBMILL_(?!TEST_)[A-Z_]+\b", text)
    assert set(named) <= variables, set(named) - variables


@pytest.mark.parametrize(
    ("line", "flaw"),
    [
        ("webmill crawl news/ https://example.com/ --contact me@example.org", ""),
        ("webmill crawl news/ --contakt me@example.org", "--contakt"),
        ("webmill crawl news/ --scope galaxy", "galaxy"),
        ("webmill crowl news/", "crowl"),
        ("webmill -q cdxj index a.warc.gz | webmill cdxj sort --memry 3", "--memry"),
        ("webmill search news/ '\"annual report\" -draft'", ""),
        ("webmill publish gc notices/ elsewhere/", "elsewhere/"),
        ("webmill dataset tasks news --state failed", ""),
    ],
)
def test_a_wrong_command_would_be_found(line: str, flaw: str) -> None:
    found = " ".join(flaw_of(words) for words in commands_of(f"    {line}\n"))
    assert (flaw in found) if flaw else not found, found


def commands_of(text: str) -> Iterator[list[str]]:
    """The words behind each `webmill`: in blocks, fenced or indented, and in spans of code."""
    rest = BLOCK.sub("", text)
    blocks = [*BLOCK.findall(text), *re.findall(r"(?:^    .*\n)+", rest, re.MULTILINE)]
    spans = SPAN.findall(re.sub(r"^    .*\n", "", rest, flags=re.MULTILINE))
    lines = [line for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    for line in [*lines, *(span.replace("\\|", "|").replace("\n", " ") for span in spans)]:
        for piece in re.split(r"(?<=\s)(?=webmill )", line):
            if found := CALL.match(piece.removeprefix("$ ").strip()):
                words = words_of(found[1])
                if words and not words[0].startswith(PLACEHOLDERS):
                    yield words


def every_command(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found
            yield from every_command(found)


def words_of(line: str) -> list[str]:
    """Up to the end of the command; a remark stands behind `#` or behind more than one space."""
    line = re.split(r"\s#\s|\s{2,}", line)[0].replace("[", " ").replace("]", " ")
    line = re.sub(r"\{(\w+)\|[^}]*\}", r"\1", line)
    words = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    words.whitespace_split, words.commenters = True, ""
    try:
        every = list(words)
    except ValueError:  # a quote that is closed on a later line
        every = line.split()
    ends = (at for at, word in enumerate(every) if OPERATORS.fullmatch(word))
    end = next(ends, len(every))
    return every[: end - 1 if every[end - 1 : end + 1] == ["2", ">"] else end]


def flaw_of(words: list[str]) -> str:
    """What click would say of the words, as far as it does not depend on what is on the disk."""
    command: click.Command = webmill
    context = click.Context(webmill, info_name="webmill")
    try:
        while isinstance(command, click.Group):
            _, words, _ = parsed(command, context, words)
            if not words:
                return ""
            name, found, words = command.resolve_command(context, words)
            if found is None:
                return f"no command {name}"
            command, context = found, click.Context(found, info_name=name, parent=context)
        values, left, _ = parsed(command, context, words)
        check_choices(command, context, values)
    except click.BadOptionUsage as error:  # the last word of a span may be a flag that is spoken of, without its value
        return "" if words[-1:] == [error.option_name] else error.format_message()
    except click.UsageError as error:
        return "" if SPOKEN_OF.search(error.format_message()) else error.format_message()
    return f"too many words: {' '.join(left)}" if left and "…" not in " ".join(words) else ""


def parsed(
    command: click.Command, context: click.Context, words: list[str]
) -> tuple[dict[str, object], list[str], object]:
    values, left, order = command.make_parser(context).parse_args(list(words))
    return dict(values), left, order


def check_choices(command: click.Command, context: click.Context, values: dict[str, object]) -> None:
    for parameter in command.params:
        given = values.get(parameter.name or "")
        if isinstance(parameter.type, click.Choice) and isinstance(given, str | list):
            for value in [given] if isinstance(given, str) else given:
                parameter.type.convert(value, parameter, context)
