"""Figures of a paper that join the results of several presets, such as ICLR Figure 3 (d)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from deqcli.paired import gaps
from deqcli.reproduction import presets
from deqcli.runs import files, reading
from deqcli.runs.lock import alone

#: The columns of a joined table.
COLUMNS = ("dataset", "act", "net", "width", "trials", "accuracy", "accuracy_interval")


@dataclass(frozen=True)
class Joined:
    """A figure made of the results of others.

    Attributes
    ----------
    name : str
        ``<paper>/<figure>``, as for presets.
    parts : tuple of str
        The presets whose results it joins.
    title, about : str
    page : int
    """

    name: str
    parts: tuple[str, ...]
    title: str
    about: str
    page: int

    @property
    def stem(self) -> str:
        """Name of its files."""
        return self.name.replace("/", "-")

    @property
    def heading(self) -> str:
        """Title and page."""
        return f"{self.title}, p. {self.page}"

    @property
    def command(self) -> str:
        """The command that makes it."""
        return f"deqcli reproduce {' '.join(self.parts)}"


def load() -> tuple[Joined, ...]:
    """Return the figures that join others.

    Examples
    --------
    >>> [figure.name for figure in load()]
    ['iclr/figure-3-d']
    """
    path = presets.folder() / "joined.toml"
    if not path.is_file():
        return ()
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(
        Joined(name, tuple(entry["parts"]), entry["title"], " ".join(entry["about"].split()),
               entry["page"])
        for name, entry in entries.items()
    )  # fmt: skip


def write(out: Path) -> list[Path]:
    """Write table and figure of all whose parts are finished in a folder; return the paths.

    Raises
    ------
    InputError
        If a part's table is broken.
    """
    # Not needed by those who only ask what there is.
    from deqcli.figures.accuracy_gaps import draw

    written = []
    for joined in load():
        stems = [name.replace("/", "-") for name in joined.parts]
        if not all((out / f"{stem}.json").is_file() for stem in stems):
            continue
        parts = [reading.table(out / f"{stem}.csv") for stem in stems]
        # Tables of before do not name the activation.
        acts = [part["act"].iloc[0] if "act" in part else "DEQ" for part in parts]
        rows = [gaps(part).assign(act=act) for part, act in zip(parts, acts, strict=True)]
        table = pd.concat(rows, ignore_index=True)[list(COLUMNS)]
        paths = [out / f"{joined.stem}{suffix}" for suffix in (".csv", ".png")]
        with alone(*paths):
            files.write_csv(paths[0], table, digits=10)
            files.write_figure(paths[1], draw(files.read_csv(paths[0])), joined.name)
        written += paths
    return written
