"""`webmill completion`: prints the completion script of a shell."""

from __future__ import annotations

import click

from webmill.cli.shell_completion import VARIABLE, completion_tree


@click.command(
    epilog="""\b
Examples:
  webmill completion bash > ~/.local/share/bash-completion/completions/webmill
  webmill completion zsh > ~/.zfunc/_webmill       # with fpath+=~/.zfunc
  webmill completion fish > ~/.config/fish/completions/webmill.fish

\b
Or for this shell only: eval "$(webmill completion bash)"
It completes commands, flags, their values, files and folders, and the
versions, crawls and datasets of the folder given before."""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print a script with which the shell completes webmill commands."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind
    click.echo(kind(completion_tree(), {}, "webmill", VARIABLE).source())
