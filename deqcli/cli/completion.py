"""``deqcli completion``: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from deqcli.cli import VARIABLE, options

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=options.Command, epilog="""\b
Examples:
  echo 'eval "$(deqcli completion bash)"' >> ~/.bashrc
  echo 'eval "$(deqcli completion zsh)"' >> ~/.zshrc
  deqcli completion fish > ~/.config/fish/completions/deqcli.fish
""")  # fmt: skip
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that makes a shell complete commands, options, activations and data sets."""
    found = get_completion_class(shell)
    assert found is not None
    # Bash's own check of its version runs bash, which need not be here to print for it.
    maker = found(ctx.find_root().command, {}, "deqcli", VARIABLE)
    click.echo(maker.source_template % maker.source_vars(), nl=False)
