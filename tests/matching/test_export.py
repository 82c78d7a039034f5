"""The exported file stands alone and holds the DEQ and its twin."""

import subprocess
import sys

import numpy as np
import pytest

from deqcli.activations import Activation
from deqcli.data.mixture import sphere
from deqcli.errors import InputError
from deqcli.kernels.exact import explicit_kernels, implicit_kernels
from deqcli.matching import export, match, match_sphere
from deqcli.vocabulary import Kernel

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


@pytest.fixture(scope="module")
def raw():
    """Samples as a user has them, what to subtract and divide by, and a twin for the result."""
    X = 3 * data(30, 5) + 2
    mean = X.mean(axis=0)
    scale = float(np.sqrt(np.mean(np.sum((X - mean) ** 2, axis=1))))
    twin = match("relu", 0.2, X=(X - mean) / scale, kernel="ntk", family="lrelu", layers=1)
    return X, mean, scale, twin


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_the_file_is_a_program(tmp_path, target, raw):
    pytest.importorskip("torch")
    X, mean, scale, twin = raw
    np.savez(tmp_path / "data.npz", X=X, y=np.array(["ant", "bee", "cow"])[np.arange(30) % 3])
    path = tmp_path / "twin.py"
    path.write_text(export(twin, target, mean=mean, scale=scale).replace(
        'if __name__ == "__main__":', 'assert "deqcli" not in sys.modules\nif True:'
    ))  # fmt: skip

    def run(*words):
        # -I: no PYTHONPATH, no current folder.
        command = [sys.executable, "-I", str(path), *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run("--check", "data.npz", "--train", "data.npz", "--width", "200", "--steps", "20")
    assert (done.returncode, done.stderr) == (0, "")
    deq, ours, exact, heading, *losses = done.stdout.splitlines()
    for line in (deq, ours):
        assert 0.001 < float(line.split("width 200, ")[1].split()[0]) < 0.4
    # On the 16 samples that the file looks at.
    Z = (X[np.linspace(0, 29, 16).astype(int)] - mean) / scale
    exactly = implicit_kernels(Z, twin.act, 0.2).ntk
    near = explicit_kernels(Z, twin.acts).ntk
    apart = np.linalg.norm(near - exactly, 2) / np.linalg.norm(exactly, 2)
    # ReLU's slopes jump, on a grid of spacing 0.13.
    assert float(exact.split("Twin ")[1].split()[0]) == pytest.approx(apart, abs=2e-3)
    assert heading.split() == ["step", "DEQ", "Twin"]
    table = np.array([line.split() for line in losses], dtype=float)
    assert table.shape == (11, 3)
    assert (table[-1, 1:] < 0.8 * table[0, 1:]).all()
    again = run("--train", "data.npz", "--width", "200", "--steps", "20")
    assert again.stdout.splitlines() == [heading, *losses]
    other = run("--train", "data.npz", "--width", "200", "--steps", "20", "--seed", "1")
    assert other.stdout.splitlines()[1:] != losses
    refused = run("--check", "nothing.npz")
    assert refused.returncode == 1
    assert refused.stderr == "nothing.npz cannot be read: No such file or directory.\n"


BAD_FILES = {
    "no-x": ({"Z": data()}, "has no array X but Z"),
    "no-y": ({"X": data(30, 5)}, "has no array y but X"),
    "wide": ({"X": data(30, 6), "y": np.arange(30) % 2}, "has 6 columns; this twin is for 5"),
    "nan": ({"X": np.full((3, 5), np.nan), "y": np.arange(3)}, "3 row.s. that are not finite"),
    "vector": ({"X": np.ones(5), "y": np.ones(5)}, r"is of shape \(5,\), float64; give numbers"),
    "empty": ({"X": np.ones((0, 5)), "y": np.ones(0)}, r"is of shape \(0, 5\)"),
    "words": ({"X": np.array([["a"] * 5]), "y": [0]}, "<U1; give numbers"),
    "objects": ({"X": np.array([{}, 1], dtype=object), "y": [0, 1]}, "is no .npz of plain arrays"),
    "short": ({"X": data(30, 5), "y": np.arange(4)}, "one class for each of 30 samples"),
    "one-class": ({"X": data(30, 5), "y": np.zeros(30)}, "1 different values; give 2 to 1000"),
    "nan-class": (
        {"X": data(30, 5), "y": np.append(np.arange(29.0) % 2, np.nan)},
        "y in .* has 1 entries that are not finite",
    ),
    "text": (b"X, y", "is no .npz of plain arrays"),
    "nothing": (b"", "is no .npz of plain arrays"),
    "cut": (b"PK\x03\x04", "is no .npz of plain arrays"),
}


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_ends_in_a_sentence(tmp_path, monkeypatch, target, kind, raw):
    pytest.importorskip("torch")
    content, words = BAD_FILES[kind]
    path = tmp_path / "bad.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.savez(path, **content)
    _, mean, scale, twin = raw
    module = load('"""A file."""\n' + export(twin, target, mean=mean, scale=scale))
    monkeypatch.setattr(sys, "argv", ["twin.py", "--train", str(path), "--width", "5"])
    with pytest.raises(SystemExit, match=words) as ended:
        module["main"]()
    # A text as the code of an exit is printed, and the code is 1.
    assert ended.value.code.endswith(".")
    assert "\n" not in ended.value.code


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_training_that_does_not_converge_ends_in_a_sentence(tmp_path, monkeypatch, target, raw):
    pytest.importorskip("torch")
    X, mean, scale, twin = raw
    np.savez(tmp_path / "data.npz", X=X, y=np.arange(30) % 2)
    module = load('"""A file."""\n' + export(twin, target, mean=mean, scale=scale))
    for words, text in (
        (["--rate", "1e9"], "no fixed point .*; take a smaller --rate"),
        (["--rate", "nan"], "--rate is above 0"),
        (["--width", "0"], "--width is at least 1"),
        (["--seed", "-1"], "--seed is not negative"),
    ):
        arguments = ["twin.py", "--train", str(tmp_path / "data.npz"), "--width", "9", *words]
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit, match=text):
            module["main"]()


@pytest.mark.parametrize("kernel", Kernel)
def test_training_says_which_kernel_decides_it(tmp_path, monkeypatch, capsys, kernel):
    """All weights learn by Θ: a twin of another kernel need not train like its DEQ."""
    np.savez(tmp_path / "data.npz", X=data(20, 4), y=np.arange(20) % 2)
    module = load('"""A file."""\n' + export(match("tanh", 0.1, kernel=kernel)))
    arguments = ["twin.py", "--train", str(tmp_path / "data.npz"), "--width", "9", "--steps", "1"]
    monkeypatch.setattr(sys, "argv", arguments)
    module["main"]()
    said = f"The twin has the {kernel.value} of the DEQ" in capsys.readouterr().out
    assert said == (kernel is not Kernel.NTK)


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_the_deq_on_the_sphere_is_in_the_file(target):
    twin = match_sphere("nrelu", 0.2, 50)
    text = export(twin, target)
    assert "phi = nrelu, sigma_a^2 = 0.2, sigma_b^2 = 0.8, for inputs of norm 1 in 50" in text
    module, X = load(text), sphere(20, 50, np.random.default_rng(0)).X
    ours = module["of_kernel"](module["exact_deq"](X), X)
    assert module["distance"](ours, implicit_kernels(X, "nrelu", 0.2).preactivation_ck) < 1e-3
    assert module["DEQ"](50, 5)(module["of_numpy"](X)).shape == (20, 1)


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
