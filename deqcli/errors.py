"""Every error a user can meet, named, each with the exit code the command line gives it.

A message is one sentence. It puts the names of parameters between backquotes, as in "`n` is 1; give
at least 2"; the command line shows such a name as the option that sets it.

Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 finished with failed or infeasible
points, 130 interrupted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class DeqcliError(Exception):
    """Base of all errors raised on purpose; the message is one sentence for a person."""

    exit_code = 1


class InputError(DeqcliError, ValueError):
    """Something the user gave is wrong: a value, a shape, a name, a file."""

    exit_code = 2


class MissingExtraError(DeqcliError, ImportError):
    """A package that only some of deqcli needs is not installed; the message says how to."""

    exit_code = 2


class ActivationError(InputError):
    """An unknown activation, a bad parameter, or a user function that misbehaves."""


class ExistenceError(InputError):
    """``sigma_a2`` is so large that the equilibrium need not exist."""


class DataError(InputError):
    """Data that cannot be used: not finite, wrong shape, mismatched labels, a broken file."""


class ConvergenceError(DeqcliError):
    """An iteration or an approximation did not reach its tolerance; another input may."""

    exit_code = 2


class RunError(DeqcliError):
    """A run could not read or write its files."""


class RunConflictError(RunError):
    """A result of the same name exists with other settings, or another process is writing it."""

    exit_code = 2


class OutsidePapersRangeWarning(UserWarning):
    """``sigma_a2`` is legal but at or above ``1/(4 L^2)``, where the papers prove nothing."""


@contextmanager
def silence_range_warning() -> Iterator[None]:
    """Keep that warning quiet where it was given before, when the settings were checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsidePapersRangeWarning)
        yield
