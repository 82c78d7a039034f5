"""The exported file stands alone and holds the DEQ and its twin."""

import subprocess
import sys

import numpy as np
import pytest

from deqcli.activations import Activation
from deqcli.errors import InputError
from deqcli.kernels.exact import explicit_kernels, implicit_kernels
from deqcli.matching import export, match, match_sphere

pytestmark = pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")


def data(n=40, p=9):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) * rng.uniform(0.5, 1.5, (n, 1)) / np.sqrt(p)
    return X


TWINS = {
    "htanh": lambda: match("tanh", 0.1),
    "linear": lambda: match("identity", 0.1),
    "lrelu": lambda: match("relu", 0.1),
    "quadratic": lambda: match("relu", 0.1, family="quadratic"),
    "cubic": lambda: match("gelu", 0.1, kernel="preactivation-ntk"),
    "spline": lambda: match("swish", 0.1, X=data(), family="spline"),
    "quintic": lambda: match("softplus", 0.1, X=data(), family="quintic", layers=1),
    "sphere": lambda: match_sphere("nrelu", 0.2, 50),
    "sphere_cubic": lambda: match_sphere("tanh", 0.2, 50, family="cubic"),
}


def load(text):
    module = {"__name__": "exported"}
    exec(compile(text, "exported.py", "exec"), module)
    return module


@pytest.fixture(autouse=True)
def _default_type():
    """Exported modules work in double precision."""
    torch = pytest.importorskip("torch")
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


@pytest.mark.parametrize("kind", TWINS)
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_activations_are_the_library_s(kind, target):
    torch = pytest.importorskip("torch") if target == "torch" else None
    twin = TWINS[kind]()
    module = load(export(twin, target))
    x = np.linspace(-4, 4, 101)
    functions = dict(zip(module["ACTIVATIONS"], twin.acts, strict=True))
    if twin.act is not None:
        functions[module["phi"]] = twin.act
    for sigma, act in functions.items():
        value = sigma(torch.from_numpy(x)).numpy() if torch else sigma(x)
        assert value == pytest.approx(act(x), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", ["arctan", "erf", "sin", "cos", "elu:alpha=0.7", "abs", "nrelu",
                                  "htanh:a=0.5,c=1"])  # fmt: skip
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_the_deq_s_activation_is_the_library_s(name, target):
    torch = pytest.importorskip("torch")
    twin = match(name, 0.1)
    phi = load(export(twin, target))["phi"]
    x = np.linspace(-4, 4, 101)
    value = phi(torch.from_numpy(x)).numpy() if target == "torch" else phi(x)
    assert value == pytest.approx(twin.act(x), rel=1e-12, abs=1e-14)


@pytest.fixture(scope="module")
def spline():
    """A twin of two different layers, none of them odd."""
    return match("gelu", 0.2, X=data(), kernel="ntk", family="spline", layers=2)


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_wide_networks_have_the_exact_kernels(spline, target):
    # The file's own kernels of random networks against the library's exact ones.
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module, X = load(export(spline, target)), data(8)
    deq = implicit_kernels(X, spline.act, 0.2)
    twin = explicit_kernels(X, spline.acts)
    for name, kernels in (("DEQ", deq), ("Twin", twin)):
        exact = kernels.compute("ck", "ntk")
        errors = []
        for width in (60, 600):
            mean = np.zeros((2, 8, 8))
            for draw in range(8):
                rng = {} if target == "torch" else {"rng": draw}
                network = module[name](9, width, **rng)
                mean += np.stack(network.kernels(module["of_numpy"](X))) / 8
            errors.append([np.linalg.norm(m - e) / np.linalg.norm(e)
                           for m, e in zip(mean, exact, strict=True)])  # fmt: skip
        # Over eight draws: some 0.05 at width 600, and the bias of a narrow DEQ falls with it.
        assert max(errors[1]) < 0.1
        assert max(errors[1]) < max(errors[0])


def test_the_file_s_exact_kernels_are_the_library_s(spline):
    module, X = load(export(spline)), data(6)
    deq = implicit_kernels(X, spline.act, 0.2).compute("ck", "ntk")
    twin = explicit_kernels(X, spline.acts).compute("ck", "ntk")
    for ours, exact in zip(module["exact_deq"](X), deq, strict=True):
        assert np.linalg.norm(ours - exact) < 1e-4 * np.linalg.norm(exact)
    # The twin has kinks, and its slopes jump, on a grid of spacing 0.13.
    for ours, exact, bound in zip(module["exact_twin"](X), twin, (5e-4, 5e-3), strict=True):
        assert np.linalg.norm(ours - exact) < bound * np.linalg.norm(exact)


def test_both_files_have_the_same_networks_and_gradients(spline):
    torch = pytest.importorskip("torch")
    ours, theirs = load(export(spline)), load(export(spline, "torch"))
    X, rng = data(5), np.random.default_rng(1)
    Y = rng.standard_normal((5, 3))
    for name, order in (("DEQ", ("readout", "A", "B")),
                        ("Twin", ("readout", "weights.0", "weights.1"))):  # fmt: skip
        first = ours[name](9, 30, 3, rng=2)
        second = theirs[name](9, 30, 3)
        weights = dict(zip(order, first.weights, strict=True))
        second.load_state_dict({k: torch.from_numpy(w.copy()) for k, w in weights.items()})
        assert first(X) == pytest.approx(second(torch.from_numpy(X)).detach().numpy(), rel=1e-8)
        losses = (
            ours["train_step"](first, X, Y, 0.1),
            theirs["train_step"](second, torch.from_numpy(X), torch.from_numpy(Y), 0.1),
        )
        assert losses[0] == pytest.approx(losses[1], rel=1e-8)
        for key, value in second.state_dict().items():
            # After a step by gradients: differences of 1e-6 in numpy, exact in torch.
            assert weights[key] == pytest.approx(value.numpy(), rel=1e-6, abs=1e-7)


def test_implicit_gradient_is_that_of_the_loss(spline):
    module, X = load(export(spline)), data(5)
    network = module["DEQ"](9, 20, 2, rng=3)
    gradients = network.gradients(X, np.ones((5, 2)))
    rng = np.random.default_rng(4)
    for W, gradient in zip(network.weights, gradients, strict=True):
        step = rng.standard_normal(W.shape)
        sums = []
        for sign in (1, -1):
            W += sign * 1e-5 * step
            sums.append(network(X).sum())
            W -= sign * 1e-5 * step
        assert (sums[0] - sums[1]) / 2e-5 == pytest.approx(np.sum(gradient * step), rel=1e-5)


def test_widths_are_one_a_layer(spline):
    for target in ("numpy", "torch"):
        module = load(export(spline, target))
        assert module["Twin"](7, [20, 30])(module["of_numpy"](np.ones((2, 7)))).shape == (2, 1)
        with pytest.raises(ValueError, match="2 widths"):
            module["Twin"](7, [20])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_the_file_is_a_program(tmp_path, target):
    raw = 3 * data(30, 5) + 2
    mean = raw.mean(axis=0)
    scale = float(np.sqrt(np.mean(np.sum((raw - mean) ** 2, axis=1))))
    twin = match("relu", 0.2, X=(raw - mean) / scale, kernel="ntk")
    np.savez(tmp_path / "data.npz", X=raw, y=np.arange(30) % 3)
    path = tmp_path / "twin.py"
    path.write_text(export(twin, target, mean=mean, scale=scale).replace(
        'if __name__ == "__main__":', 'assert "deqcli" not in __import__("sys").modules\nif True:'
    ))  # fmt: skip
    # -I: no PYTHONPATH, no current folder.
    done = subprocess.run(
        [sys.executable, "-I", str(path), "--check", "data.npz", "--train", "data.npz",
         "--width", "200", "--steps", "20"],
        check=True, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    deq, ours, exact, heading, *losses = done.stdout.splitlines()
    for line in (deq, ours):
        assert 0.001 < float(line.split("width 200, ")[1].split()[0]) < 0.4
    assert float(exact.split("Twin ")[1].split()[0]) < 0.05
    assert heading.split() == ["step", "DEQ", "Twin"]
    table = np.array([line.split() for line in losses], dtype=float)
    assert table.shape == (11, 3)
    assert (table[-1, 1:] < 0.8 * table[0, 1:]).all()


def test_a_function_of_one_s_own_has_a_twin_but_no_deq():
    own = match(Activation.from_function(np.arctan, name="mine"), 0.1)
    for target in ("numpy", "torch"):
        module = load(export(own, target))
        assert module["DEQ"] is None
        assert module["Twin"](3, 5)(module["of_numpy"](np.ones((2, 3)))).shape == (2, 1)


def test_what_cannot_be_exported_is_refused():
    with pytest.raises(InputError, match="numpy or torch"):
        export(match("tanh", 0.1), "jax")
    with pytest.raises(InputError, match="`scale` is 0"):
        export(match("tanh", 0.1), scale=0.0)
    with pytest.raises(InputError, match="`mean`"):
        export(match("tanh", 0.1), mean=["a"])
