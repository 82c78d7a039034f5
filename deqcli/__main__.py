"""The command line: ``deqcli`` and ``python -m deqcli``."""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


def main() -> None:
    """Run the command line; errors become one sentence and an exit code."""
    # Where the caller ignores it, as a shell does for background jobs, it stays ignored.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _unraisable
        # The last of what is registered: after it Python takes handlers away, and a Ctrl-C would
        # end by the signal what has its exit code.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    _open_streams()
    # Notebooks name their own for all they start, which need not be installed here.
    os.environ["MPLBACKEND"] = "agg"
    try:
        from deqcli.cli import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are loaded
        code = 130
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Stop in good order at the first Ctrl-C, and at once at the second."""
    signal.signal(number, lambda *_: os._exit(130))
    raise KeyboardInterrupt


def _unraisable(args: UnraisableHookArgs) -> None:
    """Send a Ctrl-C again that came in a destructor or a callback of C, which Python drops."""
    if args.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(args)
        return
    signal.signal(signal.SIGINT, _interrupt)
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()


def _open_streams() -> None:
    """Let streams that the caller closed lead nowhere, and standard output take every text."""
    # Before a file takes their number.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
    # What the terminal's encoding lacks, be it a sign or a name that is no text, is shown escaped.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
