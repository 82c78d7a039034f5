"""The exported file stands alone and is the matched network."""

import subprocess
import sys

import numpy as np
import pytest

from deqcli.errors import InputError
from deqcli.kernels.exact import explicit_kernels
from deqcli.matching import export, match, match_sphere

pytestmark = pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")

TWINS = {
    "htanh": lambda: match("tanh", 0.1),
    "linear": lambda: match("identity", 0.1),
    "lrelu": lambda: match("relu", 0.1),
    "quadratic": lambda: match("relu", 0.1, family="quadratic"),
    "cubic": lambda: match("gelu", 0.1, kernel="preactivation-ntk"),
    "sphere": lambda: match_sphere("nrelu", 0.2, 50),
    "sphere_cubic": lambda: match_sphere("tanh", 0.2, 50, family="cubic"),
}


def load(text):
    module = {"__name__": "exported"}
    exec(compile(text, "exported.py", "exec"), module)
    return module


@pytest.mark.parametrize("kind", TWINS)
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_activations_are_the_library_s(kind, target):
    torch = pytest.importorskip("torch") if target == "torch" else None
    twin = TWINS[kind]()
    module = load(export(twin, target))
    x = np.linspace(-4, 4, 101)
    for sigma, act in zip(module["ACTIVATIONS"], twin.acts, strict=True):
        value = sigma(torch.from_numpy(x)).numpy() if torch else sigma(x)
        assert value == pytest.approx(act(x), rel=1e-12, abs=1e-14)


def test_wide_features_have_the_kernel():
    twin = match("gelu", 0.2)
    module = load(export(twin))
    X = np.random.default_rng(0).standard_normal((12, 30)) / np.sqrt(30)
    exact = explicit_kernels(X, twin.acts).ck
    errors = []
    for width in (250, 2000):
        rng = np.random.default_rng(1)
        gaps = []
        for _ in range(6):
            weights, readout = module["initialise"](30, [width, width], rng)
            Z = module["features"](X, weights)
            gaps.append(np.abs(Z @ Z.T - exact).max())
            assert module["network"](X, weights, readout).shape == (12,)
        errors.append(np.mean(gaps))
    # 1/sqrt(width): 0.35, over six draws.
    assert errors[1] < 0.55 * errors[0]
    assert errors[1] < 0.15 * np.abs(exact).max()


def test_torch_network_is_the_numpy_network():
    torch = pytest.importorskip("torch")
    twin = match("relu", 0.2)
    plain, deep = load(export(twin)), load(export(twin, "torch"))
    network = deep["Network"](7, [20, 30]).double()
    weights = [w.detach().numpy() for w in network.weights]
    X = np.random.default_rng(0).standard_normal((5, 7))
    expected = plain["network"](X, weights, network.readout.detach().numpy())
    assert network(torch.from_numpy(X)).detach().numpy() == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="2 widths"):
        deep["Network"](7, [20])


def test_the_file_runs_without_this_package(tmp_path):
    text = export(match("relu", 0.2))
    assert "relu" in text
    assert "sigma_a^2 = 0.2" in text
    path = tmp_path / "twin.py"
    path.write_text(text + '\nassert "deqcli" not in __import__("sys").modules\n')
    # -I: no PYTHONPATH, no current folder.
    subprocess.run([sys.executable, "-I", str(path)], check=True, cwd=tmp_path)


def test_unknown_target_is_refused():
    with pytest.raises(InputError, match="numpy or torch"):
        export(match("tanh", 0.1), "jax")
