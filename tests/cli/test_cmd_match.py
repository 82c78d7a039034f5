from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import deqcli as library
from deqcli.equivalents import operator_distance, operator_norm
from deqcli.kernels.exact import explicit_kernels, implicit_kernels
from deqcli.runs import tables
from deqcli.statistics import estimate_statistics
from deqcli.study import get
from deqcli.training.trio import trio

SMALL = ("--n", "120", "--p", "150", "-j", "1")


def findings(name: str) -> dict:
    return json.loads(Path(f"results/{name}.json").read_text())["findings"]


def test_a_twin_is_fitted_and_judged_on_other_samples(deqcli):
    done = deqcli("match", "--act", "relu", "--sigma-a2", "0.2", *SMALL, "--name", "f", "--export",
                  "numpy")  # fmt: skip
    assert done.code == 0
    assert "matches within 0.01" in done.err
    assert "fitted to 60 samples (1770 pairs), judged on 60 others" in done.err
    assert "on data of root mean squared norm" in done.err
    recorded = findings("f")
    assert recorded["match"]["design"]["rows"] == 60
    assert recorded["matched_relative"] == recorded["match"]["distance"] <= 0.01
    assert recorded["plain_relative"] == recorded["match"]["plain_distance"]
    table = tables.read(Path("results/f.csv"))
    spectra = table[table["kind"] == "eigenvalue"]
    assert (spectra.groupby("source").size() == 60).all()
    assert runpy.run_path("results/f-numpy.py")["KERNEL"] == "ck"


def test_two_samples_are_one_pair(deqcli):
    done = deqcli("match", "--design", "2", *SMALL, "--within", "0.9")
    assert "fitted to 2 samples (1 pair), judged on 118 others" in done.err


def test_a_twin_that_is_too_far_is_an_answer(deqcli):
    done = deqcli("match", "--act", "relu", "--family", "htanh", *SMALL, "--within", "0.001",
                  "--name", "no", "--export", "torch")  # fmt: skip
    assert done.code == 3
    assert "No network that was tried is within 0.001" in done.err
    assert "was not tried" in done.err
    assert done.out.split() == ["results/no.csv", "results/no.png", "results/no.json"]
    assert findings("no")["feasible"] is False


def test_the_exported_file_scales_real_data_as_the_study_did(deqcli):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 255, (60, 6)) * rng.uniform(0.2, 1, (60, 1))
    np.savez("own.npz", X=X, y=np.arange(60) % 2)
    done = deqcli("match", "--data", "own.npz", "--act", "tanh", "--within", "0.3", "--export",
                  "numpy", "-j", "1", "--name", "own")  # fmt: skip
    assert done.code == 0
    Z = runpy.run_path("results/own-numpy.py")["standardise"](X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    assert np.mean(np.sum(Z**2, axis=1)) == pytest.approx(1)


def test_command_python_and_training_have_one_twin_of_one_deq(deqcli):
    """Classes far apart: within them norms are half of what samples have."""
    rng = np.random.default_rng(1)
    y = np.arange(80) % 2
    X = rng.standard_normal((80, 8)) + np.where(y[:, None] == 0, 2.5, -2.5) * np.eye(8)[0]
    np.savez("apart.npz", X=X * rng.uniform(0.7, 1.3, (80, 1)), y=y)
    done = deqcli("match", "--data", "apart.npz", "--act", "gelu", "--sigma-a2", "0.1", "--kernel",
                  "ntk", "--seed", "3", "--family", "lrelu", "--layers", "1", "--within", "0.2",
                  "-j", "1", "--name", "apart")  # fmt: skip
    assert done.code == 0
    recorded = findings("apart")["match"]
    loaded = library.load("apart.npz", seed=3)
    rows = loaded.X
    asked = {"kernel": "ntk", "family": "lrelu", "layers": 1, "within": 0.2, "seed": 3}
    twin = library.match("gelu", 0.1, X=rows, **asked)
    assert [(act["name"], act["shift"]) for act in recorded["activations"]] == list(twin.names)
    assert recorded["distance"] == pytest.approx(twin.distance, rel=1e-9)
    assert recorded["norms_range"] == pytest.approx(twin.norms_range, rel=1e-9)
    # One DEQ, too: of the data's norm, which is 1, and not of what it is within classes.
    assert recorded["deq"]["shift"] == twin.deq.shift
    assert recorded["tau0"] == twin.tau0 == pytest.approx(1)
    assert estimate_statistics(rows, loaded.y).tau0 < 0.8
    nets = trio("gelu", 0.1, 0.9, rows, "ntk", twin="scalars")
    assert (nets.act.shift, nets.twin.tau0) == (twin.act.shift, twin.tau0)


def test_by_scalars_the_deq_is_that_of_its_equivalent(deqcli):
    asked = (
        "match",
        "--act",
        "gelu",
        "--sigma-a2",
        "0.1",
        *SMALL,
        "--design",
        "0",
        "--within",
        "0.2",
    )
    assert deqcli(*asked, "--name", "s").code in (0, 3)
    mixture = library.GaussianMixture.papers(150)
    tau0 = mixture.statistics([60, 60]).tau0
    assert findings("s")["match"]["tau0"] == pytest.approx(tau0, rel=1e-12)


def test_relu_gets_two_layers_by_scalars_and_says_why(deqcli):
    done = deqcli("match", "--act", "relu", "--sigma-a2", "0.2", *SMALL, "--design", "0", "--name",
                  "m")  # fmt: skip
    assert done.code == 0
    assert "one hidden layer cannot match" in done.err
    recorded = findings("m")
    assert recorded["match"]["family"] == "lrelu"
    assert recorded["match"]["layers"] == 2
    assert max(abs(r) for r in recorded["match"]["residuals"].values()) < 1e-10
    assert recorded["matched_distance"] < 1e-3 * recorded["plain_distance"]
    table = tables.read(Path("results/m.csv"))
    spectra = table[table["kind"] == "eigenvalue"]
    assert (spectra.groupby("source").size() == 120).all()
    assert set(spectra["source"]) == {"deq", "matched", "plain"}
    scalars = table[(table["kind"] == "scalar") & (table["source"] == "matched")]
    assert {"alpha1", "alpha2", "alpha3", "gamma2", "diagonal_slope"} <= set(scalars["name"])
    # The figure has people's names of activations.
    legend = get("match").draw(tables.read(Path("results/m.csv"))).axes[0].get_legend()
    labels = " ".join(text.get_text() for text in legend.get_texts())
    assert "ReLU" in labels
    assert "Leaky ReLU" in labels
    assert "maxlin" not in labels


def test_infeasible_request_is_an_answer(deqcli):
    request = ("match", "--act", "relu", "--family", "htanh", "--design", "0", *SMALL)
    done = deqcli(*request, "--name", "no")
    assert done.code == 3
    assert "would do" in done.err
    assert "relative residual" in done.err
    assert done.out.split() == ["results/no.csv", "results/no.png", "results/no.json"]
    assert findings("no")["feasible"] is False
    # Asked again, it is the same answer.
    assert deqcli(*request, "--name", "no").code == 3


@pytest.mark.parametrize("act", ["tanh", "arctan"])
def test_quadratic_is_infeasible_for_odd_activations(deqcli, act):
    done = deqcli("match", "--act", act, "--sigma-a2", "0.1", "--family", "quadratic", "--tau0",
                  "1", "--name", "q")  # fmt: skip
    assert done.code == 3


def test_sphere_gives_the_papers_coefficients(deqcli):
    expected = {
        "preactivation-ck": (0.13363, 0.94518, 0.13266),
        "preactivation-ntk": (0.16739, 0.70806, 0.11391),
    }
    for kernel, numbers in expected.items():
        # The coefficients depend on the dimension, not on n.
        done = deqcli(
            *("match", "--data", "sphere", "--act", "nrelu", "--sigma-a2", "0.2", "-j", "1"),
            *("--n", "60", "--p", "1200", "--kernel", kernel, "--name", kernel),
        )
        assert done.code == 0
        name = findings(kernel)["match"]["activations"][0]["name"]
        values = [float(part.partition("=")[2]) for part in name.partition(":")[2].split(",")]
        np.testing.assert_allclose(values, numbers, atol=6e-6)


def test_on_the_sphere_the_family_that_is_advised_can_be_had(deqcli):
    odd = ("match", "--data", "sphere", "--act", "tanh", "--n", "40", "--p", "60", "-j", "1")
    done = deqcli(*odd)
    assert done.code == 3
    assert "cubic activation would do" in done.err
    assert deqcli(*odd, "--sigma-a2", "0.1", "--family", "cubic", "--export", "numpy").code == 0


def test_tau0_in_place_of_data(deqcli):
    done = deqcli("match", "--act", "gelu", "--sigma-a2", "0.1", "--kernel", "preactivation-ntk",
                  "--tau0", "1.2", "--name", "t")  # fmt: skip
    assert done.code == 0
    table = tables.read(Path("results/t.csv"))
    assert not (table["kind"] == "eigenvalue").any()
    twin = library.match("gelu", 0.1, tau0=1.2, kernel="preactivation-ntk")
    shown = table[(table["kind"] == "scalar") & (table["source"] == "matched")]
    values = dict(zip(shown["name"], shown["value"], strict=True))
    assert values["beta1"] == pytest.approx(twin.achieved["beta1"], rel=1e-9)


def test_scalars_that_agree_are_not_kernels_that_agree(deqcli):
    """An example of the help: the verdict has the distance, and calls no kernels equal."""
    asked = ("match", "--act", "gelu", "--sigma-a2", "0.1", "--kernel", "ntk", "--tau0", "1")
    done = deqcli(*asked, "--name", "apart")
    assert done.code == 0
    said = findings("apart")["verdict"]
    assert said in done.err
    far = float(said.split(" of the norm apart, more than 0.01.")[0].split()[-1])
    assert "match by these scalars; on Gaussian data of norm 1 the kernels are" in said
    # The same rows: the longest of 300 makes most of the distance, and another draw has 0.038.
    rows = np.random.default_rng(0).standard_normal((300, 300)) / 300**0.5
    twin = library.match("gelu", 0.1, tau0=1.0, kernel="ntk")
    deq = implicit_kernels(rows, twin.act, 0.1).ntk
    ours = explicit_kernels(rows, twin.acts).ntk
    assert far == pytest.approx(operator_distance(deq, ours) / operator_norm(deq), abs=5e-4)
    near = deqcli(*asked, "--within", "0.1", "--name", "near")
    assert "of the norm apart.\n" in near.err
    assert "searched from half to twice its own" in near.err


def test_exported_network_has_the_library_activations(deqcli):
    done = deqcli("match", "--act", "relu", "--sigma-a2", "0.2", "--tau0", "1", "--export", "numpy",
                  "--name", "x")  # fmt: skip
    assert done.code == 0
    assert done.out.split()[-1] == "results/x-numpy.py"
    module = runpy.run_path("results/x-numpy.py")
    x = np.linspace(-3, 3, 41)
    twin = library.match("relu", 0.2, tau0=1.0)
    for k, act in enumerate(twin.acts, start=1):
        np.testing.assert_allclose(module[f"sigma_{k}"](x), act(x), atol=1e-14)


def test_export_is_not_overwritten_silently(deqcli):
    arguments = ("match", "--act", "tanh", "--sigma-a2", "0.1", "--tau0", "1", "--export", "numpy")
    assert deqcli(*arguments, "--name", "x").code == 0
    Path("results/x-numpy.py").write_text("mine\n")
    refused = deqcli(*arguments, "--name", "x")
    assert refused.code == 2
    assert "x-numpy.py exists and differs; give another --name, or --force." in refused.err
    assert Path("results/x-numpy.py").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--data", "sphere", "--family", "htanh"), "--family is htanh; on the sphere give"),
        (("--data", "sphere", "--layers", "2"), "--layers is 2; on the sphere one layer is enough"),
        (("--data", "sphere", "--tau0", "1"), "--tau0 does not matter on the sphere"),
        (("--family", "spline", "--tau0", "1"), "--family is spline, which is fitted to data"),
        (("--n", "19"), "--n is 19; a twin is fitted to 20 samples or more"),
        (("--within", "0"), "--within is 0"),
        (("--layers", "3"), "--layers is '3'; choose from 1, 2, auto"),
        (("--design", "1"), "--design is 1; give at least 2, or 0 for no fit."),
        (("--act", "cubic"), "no finite Lipschitz constant"),
    ],
)
def test_bad_input(deqcli, tmp_path, arguments, words):
    refused = deqcli("match", *arguments)
    assert refused.code == 2
    assert words in refused.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.ones((60, 8)), "rows that are all the same"),
        (np.zeros((60, 8)), "rows that are all the same"),
        (1e-60 * np.random.default_rng(0).standard_normal((60, 8)), "too small; scale it up"),
    ],
)
def test_samples_that_cannot_be_fitted_to(deqcli, X, words):
    np.savez("own.npz", X=X, y=np.arange(60) % 2)
    refused = deqcli("match", "--data", "own.npz", "--preprocess", "raw", "--act", "tanh")
    assert refused.code == 2
    assert words in refused.err
    assert "tau0" not in refused.err
