"""The command line: ``deqcli`` and ``python -m deqcli``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; errors become one sentence and an exit code."""
    from deqcli.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
