"""The command line: ``deqcli`` and ``python -m deqcli``."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line; errors become one sentence and an exit code."""
    # Where the caller ignores it, as a shell does for background jobs, it stays ignored.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
    _open_streams()
    from deqcli.cli import run

    sys.exit(run(sys.argv[1:]))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Stop in good order at the first Ctrl-C, and at once at the second."""
    signal.signal(number, lambda *_: os._exit(130))
    raise KeyboardInterrupt


def _open_streams() -> None:
    """Let streams that the caller closed lead nowhere, before a file takes their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


if __name__ == "__main__":
    main()
