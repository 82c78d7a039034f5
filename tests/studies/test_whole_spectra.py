"""Spectra of kernels kept as operators: against whole decompositions, and through kills."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.sparse.linalg import aslinearoperator

import deqcli
from deqcli import study as studies
from deqcli.errors import InputError
from deqcli.lanczos import SplitQuadrature, quadrature
from deqcli.runs.store import Store
from deqcli.whole_spectra import PROBES, summarise

# Five panels, the last one partial; few dimensions, so that the bulk is seen apart.
LARGE = {"n": 1100, "p": 30, "act": "relu", "kernel": "ck", "estimator": "exact"}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The same run, its kernel kept in the three ways."""
    folder = tmp_path_factory.mktemp("kept")
    return {
        storage: deqcli.run(
            "spectrum", out=folder / storage, name="x", jobs=1, storage=storage, **LARGE
        )
        for storage in ("dense", "memory", "disk")
    }


def test_from_the_disk_come_the_same_bytes(kept):
    memory, disk = (kept[storage].paths for storage in ("memory", "disk"))
    assert [path.name for path in memory] == ["x.csv", "x.png", "x.json"]
    for one, other in list(zip(memory, disk, strict=True))[:2]:
        assert one.read_bytes() == other.read_bytes()
    assert kept["memory"].record["hash"] == kept["disk"].record["hash"]


def test_leading_eigenvalues_and_distances_are_those_of_the_matrix(kept):
    dense, large = (kept[s].findings["distances"]["exact"] for s in ("dense", "memory"))
    rounding = large.pop("rounding")
    assert 0 < rounding < 1e-3 * dense["own_norm"]
    for name in ("distance", "own_norm", "norm", "preactivation_kernel"):
        assert abs(large[name] - dense[name]) <= rounding, name
    tables = {s: kept[s].table[kept[s].table["source"] == "exact"] for s in ("dense", "memory")}
    leading = tables["memory"][tables["memory"]["error"].isna()]
    assert len(leading) == 20
    expected = tables["dense"]["eigenvalue"].iloc[:20]
    np.testing.assert_allclose(leading["eigenvalue"], expected, rtol=0, atol=rounding)
    assert leading["isolated"].tolist() == tables["dense"]["isolated"].iloc[:20].tolist()


@pytest.mark.parametrize("source", ["exact", "own-norm", "equivalent"])
def test_densities_are_those_of_all_eigenvalues_to_their_error(kept, source):
    values = kept["dense"].table.query("source == @source")["eigenvalue"].to_numpy()
    rows = kept["memory"].table.query("source == @source").dropna(subset=["error"])
    at, density, error = (rows[name].to_numpy() for name in ("eigenvalue", "density", "error"))
    # Where nothing is smoothed the share of eigenvalues below errs by probes and by r/n.
    split = kept["memory"].findings["density"]["split"]
    assert 0.01 < split < 0.03
    shares = np.searchsorted(np.sort(values), at, side="right") / values.size
    widest = np.diff(at).max() * 3
    lower, upper = (
        np.searchsorted(np.sort(values), at + sign * widest) / values.size for sign in (-1, 1)
    )
    noise = 4 / np.sqrt(PROBES * values.size)
    assert np.all(rows["distribution"] > lower - split - noise)
    assert np.all(rows["distribution"] < upper + split + noise)
    assert np.all(np.diff(rows["distribution"]) >= 0)
    assert trapezoid(density, at) == pytest.approx(shares[-1] - shares[0], abs=0.02 + split)
    assert np.median(error / density.max()) < 0.05


def test_probes_of_a_split_spectrum_resolve_a_small_bulk():
    rng = np.random.default_rng(0)
    n, rank = 600, 40
    directions = np.linalg.qr(rng.standard_normal((n, rank)))[0] * np.geomspace(3000, 1, rank)
    bulk = np.linspace(0.001, 0.002, n)
    matrix = directions @ directions.T + np.diag(bulk)
    arrays = summarise(aslinearoperator(matrix), directions, 0, np.random.default_rng(1))
    assert arrays["share"] == pytest.approx(rank / n, abs=20 / n)
    assert arrays["leading"].size == 20
    plain = quadrature(aslinearoperator(matrix), PROBES, 60, np.random.default_rng(1))
    inner = quadrature(
        aslinearoperator(matrix), PROBES, 60, np.random.default_rng(1),
        lambda v: v - _onto(directions, v),
    )  # fmt: skip
    split = SplitQuadrature(plain.diagonal, plain.beside, inner, rank / n)
    values = np.linalg.eigvalsh(matrix)
    at = np.array([0.0012, 0.0015, 0.0018])
    expected = np.searchsorted(values, at) / n
    found = split.density(at, 0.02, values[::-1][:20], n, log=True).distribution
    np.testing.assert_allclose(found, expected, atol=0.02)
    nodes, weights = split.nodes()
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert nodes.shape == weights.shape == (PROBES, 120)


def _onto(directions, columns):
    basis = np.linalg.qr(directions)[0]
    return basis @ (basis.T @ columns)


def test_killed_among_its_panels_it_goes_on_to_the_same_bytes(kept, tmp_path):
    words = [f"--{name}={value}" for name, value in LARGE.items()]
    command = [sys.executable, "-m", "deqcli", "spectrum", *words, "--storage=disk"]
    command += [f"--out={tmp_path}", "--name=x", "-j", "1"]
    environment = {**os.environ, "PYTHONPATH": str(Path(deqcli.__file__).parents[1])}
    child = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        while not list(tmp_path.glob("x.parts/panels*.npz")):
            assert child.poll() is None
            time.sleep(0.005)
    finally:
        child.kill()
        child.wait()
    assert not (tmp_path / "x.json").exists()
    again = deqcli.run("spectrum", out=tmp_path, name="x", jobs=1, storage="memory", **LARGE)
    assert (again.status, again.points) == ("done", 5)
    assert again.reused >= 1
    assert (tmp_path / "x.csv").read_bytes() == kept["memory"].paths[0].read_bytes()
    assert not (tmp_path / "x.parts").exists()


def test_stored_points_are_mapped_aligned_and_read_only(tmp_path):
    with Store(tmp_path, "x", {"settings": {}}).open() as store:
        codes = np.arange(100_000, dtype=np.int16).reshape(1000, 100)
        store.save("panels", {"codes00000": codes, "scale00000": np.ones(3), "codes00001": codes})
        arrays = store.load("panels", mapped=True)
        assert {name: type(array) for name, array in arrays.items()} == {
            "codes00000": np.memmap, "scale00000": np.ndarray, "codes00001": np.memmap,
        }  # fmt: skip
        for name in ("codes00000", "codes00001"):
            np.testing.assert_array_equal(arrays[name], codes)
            assert arrays[name].flags.aligned
            assert not arrays[name].flags.writeable


def test_when_a_kernel_is_an_operator_is_a_rule_of_the_settings():
    settings = studies.get("spectrum").settings
    few = settings(n=20_000, estimator="exact")
    many = settings(n=20_001, estimator="exact")
    assert (few.storage, many.storage) == ("dense", "memory")
    assert settings(n=20_001).storage == "dense"
    # Runs that had no choice before keep their identity; the disk changes nothing.
    assert "storage" not in few.identity()
    disk = settings(n=20_001, estimator="exact", storage="disk")
    assert many.identity() == disk.identity()
    dense = settings(n=20_001, estimator="exact", storage="dense")
    assert settings.load(dense.identity()).storage == "dense"
    with pytest.raises(InputError, match=r"`storage` is memory, which keeps exact kernels; take"):
        settings(storage="memory")
    with pytest.raises(InputError, match="`save_kernels` writes matrices, and `storage` disk has"):
        settings(storage="disk", estimator="exact", save_kernels=True)


def test_a_kernel_on_a_cluster_needs_one(tmp_path):
    with pytest.raises(InputError, match="`storage` cluster needs workers; give `scheduler`"):
        deqcli.run("spectrum", out=tmp_path, storage="cluster", **LARGE)
    assert not list(tmp_path.iterdir())


def test_whole_mnist_is_below_eight_gibibytes(real_data, monkeypatch):
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(real_data))
    study = studies.get("spectrum")
    for act in ("tanh", "relu"):
        memory, disk = (
            study.memory(study.settings(data="mnist", n=60_000, act=act, estimator="exact",
                                        storage=storage))
            for storage in ("memory", "disk")
        )  # fmt: skip
        # As docs/large.md says.
        assert (f"{memory / 2**30:.1f}", f"{disk / 2**30:.1f}") == ("5.4", "2.1")


@pytest.mark.parametrize(
    "options",
    [
        {"n": 2, "p": 2, "data": "sphere"}, {"n": 3, "p": 2, "data": "sphere"},
        {"n": 40, "p": 50, "sigma_a2": 0},
        {"n": 300, "p": 20, "data": "sphere"}, {"n": 50, "p": 60, "form": "papers"},
    ],
)  # fmt: skip
def test_small_and_odd_operators(options, tmp_path):
    result = deqcli.run(
        "spectrum", out=tmp_path, name="x", jobs=1, estimator="exact", storage="memory", **options
    )
    assert result.status == "done"
    numbers = result.table[["eigenvalue", "isolated"]].to_numpy(float)
    assert np.isfinite(numbers).all()
    assert result.findings["distances"]["exact"]["rounding"] >= 0


def test_errors_of_operators_are_those_of_matrices(monkeypatch):
    options = {"n": (200, 600), "trials": 1, "act": "tanh,relu", "ratio": 0.2}
    dense = deqcli.run("error-vs-n", jobs=1, **options).table
    monkeypatch.setattr("deqcli.studies.error_vs_n.MOST_DENSE", 300)
    large = deqcli.run("error-vs-n", jobs=1, **options).table
    few = dense["n"] == 200
    for name in ("error", "norm", "own_error", "predicted"):
        np.testing.assert_array_equal(large[name][few], dense[name][few])
        np.testing.assert_allclose(large[name][~few], dense[name][~few], rtol=1e-4)
    # It went another way, not the same one twice.
    assert np.any(large["own_error"][~few] != dense["own_error"][~few])
