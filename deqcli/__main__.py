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
    from deqcli.cli import run

    sys.exit(run(sys.argv[1:]))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Stop in good order at the first Ctrl-C, and at once at the second."""
    signal.signal(number, lambda *_: os._exit(130))
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
