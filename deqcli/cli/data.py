"""``deqcli data``: list, fetch, verify and locate real data; compute VGG-19 features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deqcli.cli import options
from deqcli.data import registry
from deqcli.shared_settings import SourceSettings

if TYPE_CHECKING:
    from deqcli.data.registry import Source, Split

_HALVES: tuple[Split, ...] = ("train", "test")
_NAMES = click.Choice(registry.names())

_data_dir = options.shared(
    *(part for part in options.setting_options(SourceSettings) if part.name == "data_dir")
)


@click.group("data", cls=options.Group)
def command() -> None:
    """Real data: MNIST, Fashion-MNIST, CIFAR-10 and its VGG-19 features.

    Only 'fetch' uses the network. Everything else reads the data folder, which is --data-dir,
    else DEQCLI_DATA_DIR, else the user's cache.
    """


@command.command("list")
@_data_dir
def list_(data_dir: str | None) -> None:
    """List the data sets and what is here of them.

    Example: deqcli data list
    """
    from deqcli.data import folder

    root = folder.data_dir(data_dir)
    rows = [("name", "train", "test", "features", "classes", "here", "what", "licence")]
    for source in registry.SOURCES.values():
        halves = [half for half in _HALVES if _complete(source, half, root)]
        rows.append(
            (
                source.name,
                str(source.count("train")),
                str(source.count("test")),
                str(source.features),
                str(len(source.classes)),
                {0: "no", 1: "".join(halves), 2: "yes"}[len(halves)],
                source.title,
                source.licence,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


@command.command()
@click.argument("names", type=_NAMES, nargs=-1, required=True)
@_data_dir
def fetch(names: tuple[str, ...], data_dir: str | None) -> None:
    """Download what the data folder lacks.

    Every file is tried at several mirrors and checked by its sha256 before it gets its name.
    Files that are there and right are left alone. The paths go to standard output, one a line.

    Example: deqcli data fetch mnist
    """
    from deqcli.data.fetch import fetch as fetch_files

    for name in names:
        for path in fetch_files(registry.SOURCES[name], data_dir):
            click.echo(path)


@command.command()
@click.argument("names", type=_NAMES, nargs=-1)
@_data_dir
def verify(names: tuple[str, ...], data_dir: str | None) -> None:
    """Check files against their registered sha256.

    What counts is the unpacked content, so a file is right whether it is plain, .gz, .xz or in
    the official archive. Without NAMES all data sets are looked at and missing ones are only
    mentioned; a named one must be complete.

    Example: deqcli data verify mnist
    """
    from deqcli.data import folder
    from deqcli.errors import DataError

    root = folder.data_dir(data_dir)
    complaints = []
    for name in names or registry.names():
        source = registry.SOURCES[name]
        for item in folder.verify(source, root):
            state = "ok" if item.ok else "missing" if item.path is None else "WRONG"
            where = item.path or root / source.folders[0] / item.piece.name
            click.echo(
                "  ".join([f"{state:7}", str(where), item.verdict if item.ok else ""]).rstrip()
            )
            if state == "WRONG":
                complaints.append(item.verdict)
            elif state == "missing" and names and item.piece.split != "none":
                complaints.append(f"{where} is missing.")
    if complaints:
        raise DataError(" ".join(complaints))


@command.command()
@click.argument("name", required=False)
@_data_dir
def path(name: str | None, data_dir: str | None) -> None:
    """Print the data folder, or the files of NAME.

    NAME:test means the test half alone.

    Example: deqcli data path mnist
    """
    from deqcli.data import folder

    root = folder.data_dir(data_dir)
    if name is None:
        click.echo(root)
        return
    source, split = registry.find(name)
    halves = (split,) if ":" in name else _HALVES
    located = [file for half in halves for file in folder.locate(source, half, root).values()]
    for file in dict.fromkeys(located):
        click.echo(file)


@command.command()
@click.argument("source", type=click.Choice(["cifar10"]))
@click.option(
    "--weights",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="VGG-19's 16 convolutions (.npz; keys block1_conv1/kernel, block1_conv1/bias, ...).",
)
@click.option(
    "--split",
    type=click.Choice(_HALVES),
    default="train",
    show_default=True,
    help="Which half of CIFAR-10.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many images.")
@click.option(
    "--batch", type=click.IntRange(min=1), default=256, show_default=True, help="Images at a time."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to.  [default: cifar-10-vgg19 in the data folder]",
)
@click.option("--force", is_flag=True, help="Replace features that are there.")
@_data_dir
def features(
    source: str,
    weights: Path,
    split: Split,
    limit: int | None,
    batch: int,
    out: Path | None,
    force: bool,
    data_dir: str | None,
) -> None:
    """Compute the VGG-19 features of CIFAR-10.

    Needs torch: pip install 'deqcli[vision]'. Writes features-SPLIT-f16.npy.xz, labels.npz and,
    last, features-SPLIT-f16.json, which says what they were made from. The paths go to standard
    output, one a line.

    Example: deqcli data features cifar10 --weights vgg19-conv-weights-f16.npz --split test
    """
    from deqcli.data import folder, vgg

    root = folder.data_dir(data_dir)
    written = vgg.make(root, weights, out=out, split=split, limit=limit, batch=batch, force=force)
    for file in written:
        click.echo(file)


def _complete(source: Source, split: Split, root: Path) -> bool:
    from deqcli.data import folder

    return all(folder.find(source, piece, root) for piece in source.needed(split))
