"""The command line, a thin shell: options to settings, a run, the paths it wrote.

Nothing heavy is imported here: a subcommand's module loads when the subcommand is called.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from deqcli import study
from deqcli._version import __version__
from deqcli.cli.options import tell
from deqcli.errors import DeqcliError, OutsidePapersRangeWarning
from deqcli.papers import citation

#: What a shell sets when it asks for words to complete; click makes it of the program's name.
VARIABLE = "_DEQCLI_COMPLETE"

#: Commands that are no study -> (module and name of the command, one line of help).
OTHERS = {
    "reproduce": (
        "deqcli.cli.reproduce:command",
        "Every figure of the papers, with their numbers.",
    ),
    "report": ("deqcli.cli.report:command", "One page of all results."),
    "results": ("deqcli.cli.results:command", "What is in a folder, and which command made it."),
    "scalars": ("deqcli.cli.lookups:scalars", "The few scalars through which a kernel sees a DEQ."),
    "data": ("deqcli.cli.data:command", "List, fetch, verify and locate data sets."),
    "bench": ("deqcli.cli.bench:command", "Speed, as ratios within one run."),
    "info": ("deqcli.cli.lookups:info", "Versions, BLAS and machine, as results record them."),
    "list": ("deqcli.cli.lookups:listing", "Activations, data sets, kernels, presets."),
    "completion": ("deqcli.cli.completion:command", "Completion of words for bash, zsh and fish."),
}
#: Studies in the order of the help; others follow.
_FIRST = ("spectrum", "visible", "error-vs-n", "match", "predict", "accuracy", "flow", "errata")

EPILOG = """\b
Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 finished with failed or infeasible
points, 130 interrupted.

\b
Environment: DEQCLI_DATA_DIR is the folder of data; DEQCLI_<COMMAND>_<OPTION>, such as
DEQCLI_SPECTRUM_N=400, stands for an option that is not given.

\b
Example:
  deqcli spectrum --act tanh --sigma-a2 0.1
"""


def command_names() -> tuple[str, ...]:
    """Return the names of all commands: the studies, then the others."""
    known = study.names()
    first = [name for name in _FIRST if name in known]
    return (*first, *(name for name in known if name not in first), *OTHERS)


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return list(command_names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one subcommand."""
        if cmd_name in OTHERS:
            module, _, name = OTHERS[cmd_name][0].partition(":")
            command: click.Command = getattr(importlib.import_module(module), name)
            return command
        if cmd_name not in study.names():
            return None
        from deqcli.cli.studies import StudyCommand

        return StudyCommand(study.get(cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        texts = {name: text for name, (_, text) in OTHERS.items()}
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, texts.get(name) or study.summary(name)) for name in command_names()]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest name when there is no such subcommand."""
        if args and args[0] not in command_names() and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], command_names(), n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


def _cite(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(citation(), nl=False)
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "DEQCLI",
        "show_default": True,
        "max_content_width": 100,
    },
    epilog=EPILOG,
)
@click.version_option(__version__, "--version", prog_name="deqcli")
@click.option("--cite", is_flag=True, is_eager=True, expose_value=False, callback=_cite,
              help="Say what to cite, and exit.")  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Say more, and show tracebacks.")
@click.option("-q", "--quiet", is_flag=True, help="Neither progress nor notes.")
@click.pass_context
def main(ctx: click.Context, verbose: bool, quiet: bool) -> None:
    """When does a deep equilibrium model equal a shallow explicit network, and which one?"""
    ctx.obj = {"verbose": verbose, "quiet": quiet}
    level = logging.DEBUG if verbose else logging.ERROR if quiet else logging.INFO
    ctx.with_resource(_shown_from(level))


@contextmanager
def _shown_from(level: int) -> Iterator[None]:
    """Show log lines from a level on, those of other packages from warnings on, until the end."""
    root, own, handler = logging.getLogger(), logging.getLogger("deqcli"), _Echo()
    before = own.level
    root.addHandler(handler)
    own.setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(handler)
        own.setLevel(before)


class _Echo(logging.Handler):
    """Writes log lines to whatever standard error is now, with options in place of parameters."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(self.format(record))


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    tell(f"warning: {message}")


def run(arguments: Sequence[str]) -> int:
    """Run the command line on the given arguments and return its exit code."""
    verbose = "-v" in arguments or "--verbose" in arguments
    # Off a terminal, or where the user asks for none, click must not colour.
    color = False if os.environ.get("NO_COLOR") else None
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("once", OutsidePapersRangeWarning)
        try:
            code = main(list(arguments), prog_name="deqcli", standalone_mode=False, color=color)
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except click.exceptions.Exit as stop:
            return stop.exit_code
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            click.echo("interrupted; the same command continues", err=True)
            return 130
        # click leaves by this where the reader of stdout went away (head, less), and when it has
        # completed a word for a shell.
        except (SystemExit, BrokenPipeError) as stop:
            if VARIABLE in os.environ and isinstance(stop, SystemExit):
                return int(stop.code or 0)
            _forget_stdout()
            return 141
        except MemoryError:
            click.echo("error: out of memory; lower --n or --jobs.", err=True)
            return 1
        except Exception as error:
            if verbose:
                traceback.print_exc()
            # The name of a file may have a line break.
            tell(" ".join(f"error: {_sentence(error)}".splitlines()))
            if isinstance(error, DeqcliError):
                return error.exit_code
            return 2 if isinstance(error, OSError) and error.filename is not None else 1


def _sentence(error: Exception) -> str:
    if isinstance(error, DeqcliError):
        return str(error)
    if isinstance(error, OSError) and error.filename is None:
        reason = f"{error.strerror or error}."
        # Nothing but click and the last flush here writes to standard output.
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        module = frame.f_globals["__name__"]
        if module != __name__ and not module.startswith("click."):
            return reason
        _forget_stdout()
        return f"cannot write to standard output: {reason}"
    # The library has a sentence for each file that it reads or writes; of a name that cannot even
    # be asked about (too long, in a closed folder) the system's words say enough.
    if isinstance(error, OSError):
        return f"{error.filename} cannot be used: {error.strerror}; give another name or folder."
    return f"{type(error).__name__}: {error} (deqcli -v shows where; please report it)."


def _forget_stdout() -> None:
    """Keep Python from complaining at its exit that what is left cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
