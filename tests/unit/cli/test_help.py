"""The help of every command: a summary, an example that can be typed, options that say what they are and mean."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from itertools import groupby

import click
import pytest

from webmill.cli.dropin import OLD_NAMES
from webmill.cli.main import webmill
from webmill.cli.options import SettingOption

SHELL = re.compile(r"^(?:\d?[<>].*|[|;&]+|\$\(.*)$")  # where a command ends and the shell goes on
REPR = re.compile(r"Sentinel|PosixPath|WindowsPath|\bNone\b|\bTrue\b|\bFalse\b|<[a-z_.]+ object")


def tree(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found, (*path, name)
        yield from tree(found, (*path, name))


TREE = dict(tree(webmill, ()))
COMMANDS = {path: command for path, command in TREE.items() if not isinstance(command, click.Group)}
every_command = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


def options_of(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option) and not option.hidden]


def help_of(path: tuple[str, ...]) -> str:
    context = None
    for name in ("webmill", *path):  # the parents' settings count
        command = webmill if context is None else context.command.get_command(context, name)  # type: ignore[attr-defined]
        context = click.Context(command, parent=context, info_name=name, terminal_width=80)
    assert context
    return context.get_help()


def examples_of(command: click.Command) -> Iterator[list[str]]:
    """The words of every webmill in them, without its name; pipes have several. Old names are those of `dropin`."""
    for line in (command.epilog or "").replace("\\\n", " ").splitlines():
        text = re.sub(r"^(Examples?|Then): ", "", line.strip())
        if not re.match(r"[a-z.-]+ [^ ]", text) or text.count("'") % 2:
            continue  # prose
        for is_end, part in groupby(shlex.split(text, comments=True), key=lambda word: bool(SHELL.match(word))):
            program, *rest = part
            if not is_end and program == "webmill":
                yield rest
            elif not is_end and program in OLD_NAMES:
                yield ["dropin", program, *rest]


@every_command
def test_it_begins_with_a_sentence_that_says_what_it_does(path: tuple[str, ...]) -> None:
    summary = (COMMANDS[path].help or "").strip().split("\n\n")[0].replace("\n", " ")
    assert summary[0].isupper()
    assert summary.endswith((".", "!"))
    assert len(summary) <= 200


@pytest.mark.parametrize("path", TREE, ids=lambda path: " ".join(path) or "webmill")
def test_it_fits_80_columns(path: tuple[str, ...]) -> None:
    lines = help_of(path).splitlines()
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert not any("INTEGER" in line for line in lines)
    assert not any(line.endswith("...") for line in lines[lines.index("Options:") :]), "a line is cut short"


@every_command
def test_its_examples_can_be_typed(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [*examples_of(COMMANDS[path])]
    assert any(is_of(example, path) for example in examples), f"no example of its own among {examples}"
    for example in examples:
        parse(example, monkeypatch)


def is_of(example: list[str], path: tuple[str, ...]) -> bool:
    """Also by the short form: `webmill search DIR` is `webmill search find DIR`. Global flags come before."""
    words = tuple(word for word in example if word not in ("-q", "-v"))
    short = path[:-1] if path[-1] in ("find", "list") else path
    return any(words[: len(form)] == form for form in (path, short))


def parse(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it but running: files that an example names need not be here."""
    command: click.Command = webmill
    context = command.make_context("webmill", words[:])
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found
        for parameter in found.params:
            if isinstance(parameter.type, click.Path):
                monkeypatch.setattr(parameter.type, "exists", False)
        command, context = found, found.make_context(name, words, parent=context)


@every_command
def test_its_options_say_what_they_are_for_and_what_they_are_by_themselves(path: tuple[str, ...]) -> None:
    context = click.Context(COMMANDS[path], info_name=path[-1])
    for option in options_of(COMMANDS[path]):
        record = option.get_help_record(context)
        assert record
        _, reported = record
        assert re.search("[a-z]{2}", re.sub(r"\[.*?\]", "", reported)), f"{option.opts}: no help"
        assert not REPR.search(reported), reported
        default = option.to_info_dict()["default"]
        if not option.is_flag and default not in (None, (), ""):
            assert "default" in reported, f"{option.opts}: the default is not told: {reported}"


@every_command
def test_it_tells_its_special_exit_codes(path: tuple[str, ...]) -> None:
    callback = COMMANDS[path].callback
    assert callback
    if "    finish(" in inspect.getsource(callback):
        assert "Exit code 3" in " ".join((COMMANDS[path].epilog or "").split())


def test_a_flag_that_had_another_name_still_has_it() -> None:
    every = [option for command in COMMANDS.values() for option in command.params]
    renamed = {old for option in every if isinstance(option, SettingOption) for old in option.old}
    assert renamed >= {"--jobs", "--out", "--restart", "--again", "--batch", "--from"}
    context = COMMANDS["dataset", "run"].make_context("run", ["news", "--jobs", "3"])
    assert context.params["jobs"] == 3
