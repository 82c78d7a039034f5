"""From settings to click: every option of a study, made from the field that defines it.

Precedence: command line, then environment (``DEQCLI_<COMMAND>_<OPTION>``), then ``--config``, then
the default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from deqcli.errors import DeqcliError, InputError
from deqcli.settings import Option, Settings, check_keys, options, split_commas
from deqcli.settings_files import read_document

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


class Command(click.Command):
    """A command whose errors name its options.

    The library puts names of parameters between backquotes; a reader of the command line knows
    them as options.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except DeqcliError as error:
            raise type(error)(with_flags(str(error), self)) from error

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the words; a wrong value is an error that names its option."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except DeqcliError as error:
            raise type(error)(with_flags(str(error), self)) from error


class Group(click.Group):
    """A group of such commands."""

    command_class = Command


def with_flags(text: str, command: click.Command) -> str:
    """Return a message with each name between backquotes as the option of a command.

    Examples
    --------
    >>> command = Command("toy", params=[click.Option(["--sigma-a2"])])
    >>> with_flags("`sigma_a2` is 7; lower it or `n`.", command)
    '--sigma-a2 is 7; lower it or n.'
    >>> with_flags("it is not there; run `deqcli data fetch mnist`.", command)
    "it is not there; run 'deqcli data fetch mnist'."
    """
    flags = {
        parameter.name: word
        for parameter in command.params
        for word in parameter.opts
        if word.startswith("--")
    }
    text = re.sub(r"`(\w+)`", lambda name: flags.get(name[1], name[1]), text)
    return text.replace("`", "'")


def tell(text: str) -> None:
    """Write a line to standard error, with the options of the present command."""
    ctx = click.get_current_context(silent=True)
    click.echo(with_flags(text, ctx.command if ctx else click.Command(None)), err=True)


class SettingType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The type of an option that a settings class defines; the class itself converts values."""

    def __init__(self, option: Option) -> None:
        self.option = option
        self.name = option.kind.__name__

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value as the settings class has it."""
        return self.option.convert(value)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return what stands for a value in the help."""
        option = self.option
        if option.rule.metavar:
            return option.rule.metavar
        if option.choices:
            return f"[{'|'.join(option.choices)}]" + (",…" if option.many else "")
        text = {int: "INTEGER", float: "NUMBER"}.get(option.kind, "TEXT")
        return f"{text},…" if option.many else text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Complete names from a list."""
        known = self.option.choices or self.option.rule.suggestions
        return [
            click.shell_completion.CompletionItem(name)
            for name in known
            if name.startswith(incomplete)
        ]


def setting_options(cls: type[Settings]) -> list[click.Option]:
    """Return an option for each field of a settings class."""
    # The seed last: it is the same for every study and says nothing of this one.
    ordered = sorted(options(cls), key=lambda option: option.name == "seed")
    return [_click_option(option) for option in ordered]


def _click_option(option: Option) -> click.Option:
    rule = option.rule
    text = rule.help
    if limits := rule.range_text():
        text = f"{text}  [{limits}]"
    if option.default is None and rule.default_text:
        text = f"{text}  [default: {rule.default_text}]"
    if option.kind is bool:
        return click.Option([option.flag], is_flag=True, default=option.default, help=text)
    default = None if option.default is None else option.text(option.default)
    return click.Option(
        [option.flag],
        type=SettingType(option),
        default=default,
        envvar=rule.environment,
        show_envvar=rule.environment is not None,
        help=text,
    )


def shared(*shared_options: click.Option) -> Callable[[AnyFunction], AnyFunction]:
    """Return a decorator that adds options defined elsewhere to a command that is no study."""

    def decorate(function: AnyFunction) -> AnyFunction:
        parameters = function.__dict__.setdefault("__click_params__", [])
        parameters.extend(reversed(shared_options))
        return function

    return decorate


def _read_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Put the values of a settings file in the place of defaults."""
    if path is None or ctx.resilient_parsing:
        return
    document = read_document(path)
    if document.study not in (None, ctx.info_name):
        raise InputError(f"{path} is for deqcli {document.study}, not deqcli {ctx.info_name}.")
    settings: type[Settings] = ctx.command.settings  # type: ignore[attr-defined]
    values = check_keys(settings, document.values, str(path))
    ctx.default_map = {**(ctx.default_map or {}), **values}


config = click.Option(
    ["--config"], type=click.Path(exists=True, dir_okay=False, path_type=Path), is_eager=True,
    expose_value=False, callback=_read_config,
    help="Settings from a TOML file (keys are option names) or a result's .json; options given "
    "here win.",
)  # fmt: skip


def _formats(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    formats = tuple(dict.fromkeys(split_commas(value)))
    if not formats:
        raise InputError("`formats` is empty; give some of png, pdf, svg.")
    return formats


jobs = click.Option(
    ["-j", "--jobs"], type=click.IntRange(1), default=None,
    help="Processes; results do not depend on it.  [default: as many as cores and memory allow]",
)  # fmt: skip
force = click.Option(
    ["--force"], is_flag=True, help="Start over, even over other settings' results."
)
out = click.Option(
    ["--out"], type=click.Path(file_okay=False, path_type=Path), default="results",
    help="Folder to write to.",
)  # fmt: skip
running = (
    out,
    click.Option(
        ["--name"], default=None, metavar="STEM",
        help="Stem of the files.  [default: the study and a hash of its settings]",
    ),
    click.Option(
        ["--format", "formats"], default="png", metavar="png,pdf,svg", callback=_formats,
        help="Figure formats.",
    ),
    config,
    jobs,
    click.Option(
        ["--scheduler"], default=None, metavar="tcp://HOST:PORT",
        help="Send the work to a Dask scheduler (needs deqcli[dask]).",
    ),
    force,
    click.Option(
        ["--dry-run"], is_flag=True,
        help="Say what would be done, what it needs and, from a small run, how long it takes.",
    ),
)  # fmt: skip
