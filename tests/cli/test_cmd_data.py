"""``deqcli data``, in process, on a tiny MNIST and without a network."""

import gzip
import hashlib
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from deqcli.cli.data import command
from deqcli.data import registry
from deqcli.errors import DataError, DeqcliError


def run(*arguments: object) -> list[str]:
    """Lines of standard output; errors are raised."""
    words = [str(word) for word in arguments]
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    if result.exit_code:
        raise SystemExit(result.output)
    return result.output.splitlines()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a tiny MNIST, and a registry to match."""
    source, downloads = registry.SOURCES["mnist"], []
    place = tmp_path / "data" / "mnist"
    place.mkdir(parents=True)
    for download in source.downloads:
        (piece,) = download.pieces
        shape = (20, 2, 2) if piece.role == "images" else (20,)
        sizes = b"".join(size.to_bytes(4, "big") for size in shape)
        values = np.arange(np.prod(shape), dtype=np.uint8) % 10
        content = bytes([0, 0, 8, len(shape)]) + sizes + values.tobytes()
        packed = gzip.compress(content)
        (place / download.filename).write_bytes(packed)
        digest = hashlib.sha256(content).hexdigest()
        piece = replace(piece, count=20, size=len(content), sha256=digest)
        digest = hashlib.sha256(packed).hexdigest()
        downloads.append(replace(download, pieces=(piece,), size=len(packed), sha256=digest))
    monkeypatch.setitem(registry.SOURCES, "mnist", replace(source, downloads=tuple(downloads)))
    monkeypatch.delenv("DEQCLI_DATA_DIR", raising=False)
    return place.parent


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def files(root: Path) -> list[str]:
    return [str(root / "mnist" / item.filename) for item in registry.SOURCES["mnist"].downloads]


def test_list_says_what_is_here(root, monkeypatch):
    header, *rows = run("list", "--data-dir", root)
    assert header.split()[:6] == ["name", "train", "test", "features", "classes", "here"]
    cells = {row.split()[0]: row.split()[1:6] for row in rows}
    assert list(cells) == list(registry.names())
    assert cells["mnist"] == ["20", "20", "784", "10", "yes"]
    assert cells["cifar10"] == ["50000", "10000", "3072", "10", "no"]
    (root / "mnist" / "train-images-idx3-ubyte.gz").unlink()
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(root))
    assert run("list")[1].split()[5] == "test"


def test_path_prints_the_folder_or_the_files(root, monkeypatch):
    assert run("path", "--data-dir", root) == [str(root)]
    assert run("path", "mnist", "--data-dir", root) == files(root)
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(root))
    assert run("path") == [str(root)]
    assert run("path", "mnist:test") == files(root)[2:]
    with pytest.raises(DataError, match=r"cifar10 is incomplete.* or --data-dir to the folder"):
        run("path", "cifar10")
    with pytest.raises(DataError, match="no data set 'minst'"):
        run("path", "minst")


def test_fetch_uses_what_is_there_without_a_network(root):
    assert run("fetch", "mnist", "--data-dir", root) == files(root)


def test_fetch_offline_is_one_sentence_and_fails(root):
    Path(files(root)[0]).unlink()
    with pytest.raises(DeqcliError, match=r"could not be fetched .*sha256 .*DEQCLI_DATA_DIR"):
        run("fetch", "mnist", "--data-dir", root)
    assert not Path(files(root)[0]).exists()


def test_verify_passes_fails_and_mentions(root):
    lines = run("verify", "mnist", "--data-dir", root)
    assert lines == [f"ok       {file}  as published" for file in files(root)]
    lines = run("verify", "--data-dir", root)  # the other sets are only mentioned
    assert sum(line.startswith("missing") for line in lines) == 4 + 6 + 4
    damaged = Path(files(root)[1])
    damaged.write_bytes(damaged.read_bytes()[:-3])
    result = CliRunner().invoke(command, ["verify", "--data-dir", str(root)])
    assert isinstance(result.exception, DataError)
    assert f"{damaged} is truncated" in str(result.exception)
    assert f"WRONG    {damaged}" in result.output
    damaged.unlink()
    with pytest.raises(DataError, match="train-labels-idx1-ubyte is missing"):
        run("verify", "mnist", "--data-dir", root)


def test_features_needs_cifar(root, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'deqcli[vision]'")
    weights = tmp_path / "weights.npz"
    np.savez(weights, a=np.zeros(3))
    with pytest.raises(DataError, match="has no array block1_conv1/kernel"):
        run("features", "cifar10", "--weights", weights, "--data-dir", root)


@pytest.mark.parametrize(
    "words",
    [
        ["fetch"],
        ["fetch", "minst"],
        ["verify", "minst"],
        ["features", "cifar10"],
        ["features", "mnist", "--weights", "x"],
        ["features", "cifar10", "--weights", "absent.npz"],
    ],
)
def test_bad_usage_exits_with_2(words):
    assert CliRunner().invoke(command, words).exit_code == 2


@pytest.mark.parametrize("name", ["list", "fetch", "verify", "path", "features"])
def test_every_help_has_an_example_and_names_the_variable(name):
    text = "\n".join(run(name, "--help"))
    assert f"Example: deqcli data {name}" in text
    assert "DEQCLI_DATA_DIR" in text


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from deqcli.cli.data import command\n"
        "command(['fetch', '--help'], standalone_mode=False)\n"
        "print(sorted({'numpy', 'pandas', 'pooch', 'torch', 'tqdm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"
