from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import trapezoid

from deqcli.runs import tables

# Finished parts; those still being written have names that begin with a dot.
PARTS = "[!.]*.npz"
SMALL = ("--n", "60", "--p", "80", "--realizations", "45", "--width", "50")


def test_writes_table_figure_and_provenance(deqcli):
    done = deqcli("spectrum", "--act", "tanh", *SMALL, "--name", "small", "-j", "1")
    assert done.code == 0
    table = tables.read(Path("results/small.csv"))
    assert set(table["source"]) == {"equivalent", "exact", "law", "monte-carlo", "own-norm"}
    spectra = table[table["source"] != "law"]
    assert (spectra.groupby("source").size() == 60).all()
    for _, rows in spectra.groupby("source"):
        assert (np.diff(rows.sort_values("index")["eigenvalue"]) <= 0).all()
    assert Path("results/small.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads(Path("results/small.json").read_text())
    assert record["settings"]["realizations"] == 45
    assert record["settings"]["seed"] == 0
    averages = record["findings"]["monte_carlo"]
    assert averages["not_converged"] == {}
    assert averages["residual_max"] <= averages["tolerance"] == 1e-3
    for source, distances in record["findings"]["distances"].items():
        rows = table[table["source"] == source]
        assert distances["distance"] == pytest.approx(rows["distance"].iloc[0], rel=1e-12)
        assert f"{source}: distance to the equivalent {distances['distance']:.4g}" in done.err
    assert set(record["findings"]["distances"]) == {"exact", "monte-carlo"}
    assert not list(Path("results").glob("*.parts"))


def test_distance_and_eigenvalues_from_saved_kernels(deqcli):
    arguments = ("--save-kernels", "--name", "k", "-j", "1", "--kernel", "ntk", "--act", "relu")
    assert deqcli("spectrum", *SMALL, *arguments).code == 0
    with np.load("results/k.npz") as saved:
        matrices = {name: saved[name] for name in ("exact", "equivalent", "monte_carlo")}
    table = tables.read(Path("results/k.csv"))
    for source, name in (("exact", "exact"), ("monte-carlo", "monte_carlo")):
        rows = table[table["source"] == source]
        gap = np.linalg.norm(matrices[name] - matrices["equivalent"], 2)
        assert rows["distance"].iloc[0] == pytest.approx(gap, rel=1e-9)
        eigenvalues = np.linalg.eigvalsh(matrices[name])[::-1]
        np.testing.assert_allclose(rows["eigenvalue"], eigenvalues, atol=1e-10)


def test_the_law_is_drawn_counted_and_said(deqcli):
    words = ("--estimator", "exact", "--n", "200", "--p", "250", "--kernel", "ck", "-j", "1")
    done = deqcli("spectrum", "--act", "relu", *words, "--name", "law")
    assert done.code == 0
    table = tables.read(Path("results/law.csv"))
    law = json.loads(Path("results/law.json").read_text())["findings"]["law"]
    assert law["form"] == "own-norm"
    rows = table[table["source"] == "law"]
    spikes = rows[rows["isolated"]]
    assert (table[table["isolated"]].groupby("source").size() == len(spikes)).all()
    np.testing.assert_allclose(spikes["eigenvalue"], [x["position"] for x in law["spikes"]])
    exact = table[(table["source"] == "exact") & table["isolated"]]["eigenvalue"]
    np.testing.assert_allclose(spikes["eigenvalue"], exact, rtol=0.06)
    assert spikes["carries"].str.startswith("class").all()
    assert f"{law['spikes'][0]['position']:.4g} stands apart and carries class" in done.err
    bulk = rows[~rows["isolated"]]
    assert trapezoid(bulk["density"], bulk["eigenvalue"]) == pytest.approx(1, abs=0.01)
    assert bulk["distribution"].iloc[-1] == pytest.approx(1, abs=1e-3)
    distances = table[table["source"] == "exact"].iloc[0]
    assert distances["own_norm"] < 0.1 * distances["distance"]


def test_one_form_alone_and_the_sphere(deqcli):
    words = ("--estimator", "exact", "--n", "60", "--p", "80", "-j", "1")
    assert deqcli("spectrum", *words, "--form", "papers", "--name", "one").code == 0
    table = tables.read(Path("results/one.csv"))
    assert set(table["source"]) == {"equivalent", "exact", "law"}
    assert table["own_norm"].isna().all()
    assert deqcli("spectrum", *words, "--form", "own-norm", "--name", "two").code == 0
    assert set(tables.read(Path("results/two.csv"))["source"]) == {"own-norm", "exact", "law"}
    ball = deqcli("spectrum", *words, "--data", "sphere", "--name", "three")
    assert ball.code == 0
    assert "no law: points on the sphere" in ball.err
    refused = deqcli("spectrum", *words, "--data", "sphere", "--form", "own-norm")
    assert refused.code == 2
    assert "on the sphere all norms are one" in refused.err


@pytest.mark.slow
def test_killed_run_continues_to_the_same_bytes(process, tmp_path):
    arguments = ("spectrum", "--n", "200", "--p", "250", "--realizations", "600", "--width", "300")
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    for folder in (broken, whole):
        folder.mkdir()
    child = process(*arguments, "--name", "r", "-j", "1", cwd=broken)
    parts = broken / "results" / "r.parts"
    deadline = time.monotonic() + 60
    while len(list(parts.glob(PARTS))) < 3:
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = len(list(parts.glob(PARTS)))
    assert kept >= 3
    assert not (broken / "results" / "r.json").exists()
    again = process(*arguments, "--name", "r", "-j", "1", cwd=broken)
    unbroken = process(*arguments, "--name", "r", "-j", "1", cwd=whole)
    assert (again.wait(), unbroken.wait()) == (0, 0)
    for suffix in (".csv", ".png"):
        ours, theirs = (f / "results" / f"r{suffix}" for f in (broken, whole))
        assert ours.read_bytes() == theirs.read_bytes()


def test_interrupt_exits_130_and_can_be_resumed(process, tmp_path):
    # More than a busy machine can finish before the signal is sent.
    arguments = ("spectrum", "--n", "200", "--p", "250", "--realizations", "40000",
                 "--width", "300", "--name", "r", "-j", "1")  # fmt: skip
    child = process(*arguments)
    parts = tmp_path / "results" / "r.parts"
    deadline = time.monotonic() + 60
    while len(list(parts.glob(PARTS))) < 2:
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert len(list(parts.glob(PARTS))) >= 2


def test_force_starts_over_other_settings(deqcli):
    exact = ("spectrum", "--p", "80", "--estimator", "exact", "--name", "one", "-j", "1")
    assert deqcli(*exact, "--n", "60").code == 0
    before = Path("results/one.csv").read_bytes()
    refused = deqcli(*exact, "--n", "61")
    assert refused.code == 2
    assert "n is 60 there and 61 here" in refused.err
    assert Path("results/one.csv").read_bytes() == before
    assert deqcli(*exact, "--n", "61", "--force").code == 0
    assert Path("results/one.csv").read_bytes() != before


def test_a_refused_force_leaves_what_was_there(deqcli):
    exact = ("spectrum", "--n", "60", "--p", "80", "--estimator", "exact", "--name", "one")
    assert deqcli(*exact, "-j", "1").code == 0
    before = {path: path.read_bytes() for path in Path("results").iterdir()}
    np.savez("short.npz", X=np.ones((5, 3)), y=np.zeros(4))
    refused = deqcli("spectrum", "--data", "short.npz", "--name", "one", "--force", "-j", "1")
    assert refused.code == 2
    assert {path: path.read_bytes() for path in Path("results").iterdir()} == before


@pytest.mark.usefixtures("no_small_runs")
def test_dry_run_counts_the_points(deqcli):
    # Two equivalents, the exact kernel, 400 realizations by 20.
    assert "23 points, 0 already done" in deqcli("spectrum", "--dry-run").out


@pytest.mark.slow
def test_settings_from_toml_and_from_an_earlier_result(deqcli, tmp_path):
    settings = tmp_path / "s.toml"
    settings.write_text('act = "relu"\nsigma-a2 = 0.2\nn = 60\np = 80\nestimator = ["exact"]\n')
    assert deqcli("spectrum", "--config", str(settings), "--name", "a").code == 0
    record = json.loads(Path("results/a.json").read_text())
    assert record["settings"]["act"] == "relu"
    assert record["settings"]["estimator"] == ["exact"]
    # The result's own JSON asks for the same again, and the command line wins over it.
    assert deqcli("spectrum", "--config", "results/a.json", "--name", "b").code == 0
    assert Path("results/a.csv").read_bytes() == Path("results/b.csv").read_bytes()
    assert deqcli("spectrum", "--config", "results/a.json", "--n", "61", "--name", "c").code == 0
    assert json.loads(Path("results/c.json").read_text())["settings"]["n"] == 61


def test_outside_the_papers_range_warns(deqcli):
    done = deqcli("spectrum", "--sigma-a2", "0.3", "--n", "60", "--p", "80", "--estimator", "exact")
    assert done.code == 0
    assert done.err.count("outside the papers' range") == 1


def test_realizations_that_do_not_converge_are_reported(deqcli):
    # Far outside the papers' range the spectral radius of a narrow network may exceed one.
    done = deqcli("spectrum", "--act", "identity", "--sigma-a2", "0.98", "--n", "20", "--p", "30",
                  "--width", "12", "--realizations", "30", "--name", "x", "-j", "1")  # fmt: skip
    assert done.code == 3
    lost = json.loads(Path("results/x.json").read_text())["findings"]["monte_carlo"][
        "not_converged"
    ]
    assert 0 < len(lost) < 30
    assert f"{len(lost)} of 30 realizations did not converge and were left out" in done.err


def test_own_file_and_own_activation(deqcli, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 50)) / np.sqrt(50)
    np.savez(tmp_path / "mine.npz", X=X, y=np.repeat(["a", "b"], 20))
    (tmp_path / "mymodule.py").write_text("import numpy as np\n\ndef half(x):\n    return x / 2\n")
    done = deqcli(
        *("spectrum", "--data", "mine.npz", "--act", "mymodule:half", "--estimator", "exact"),
        *("--preprocess", "raw", "--kernel", "ck", "--name", "own", "-j", "1"),
    )
    assert done.code == 0
    table = tables.read(Path("results/own.csv"))
    # phi = x/2 is linear: G = sigma_b2 / 4 / (1 - sigma_a2 / 4) X X^T.
    expected = 0.9 / 4 / (1 - 0.1 / 4) * np.linalg.eigvalsh(X @ X.T)[::-1]
    eigenvalues = table.loc[table["source"] == "exact", "eigenvalue"]
    np.testing.assert_allclose(eigenvalues, expected, atol=1e-9)


def test_weights_laws_agree(deqcli):
    spectra = {}
    for law in ("gaussian", "rademacher", "student-t"):
        assert deqcli("spectrum", *SMALL, "--weights", law, "--name", law, "-j", "1").code == 0
        table = tables.read(Path(f"results/{law}.csv"))
        spectra[law] = table.loc[table["source"] == "monte-carlo", "eigenvalue"].to_numpy()
    # 45 draws of width 50: sampling error of a few percent of the largest eigenvalue.
    for law in ("rademacher", "student-t"):
        gap = np.abs(spectra[law] - spectra["gaussian"]).max()
        assert 0 < gap < 0.03 * spectra["gaussian"].max()
