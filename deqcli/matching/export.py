"""Write a DEQ and its twin as a Python file that needs numpy, or numpy and torch, alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from deqcli.activation_functions import Bound, linear_spline, polynomial, two_slopes
from deqcli.activations import Activation
from deqcli.checks import LARGEST, SMALLEST, Range, number, shown
from deqcli.errors import InputError
from deqcli.kernels.matrix import check_samples
from deqcli.matching.program import PROGRAM
from deqcli.matching.result import Match
from deqcli.matching.templates import COMMON, NUMPY, TORCH
from deqcli.vocabulary import Kernel

_TITLES = {
    Kernel.CK: "conjugate kernel G",
    Kernel.PREACTIVATION_CK: "conjugate kernel of the pre-activations",
    Kernel.NTK: "tangent kernel",
    Kernel.PREACTIVATION_NTK: "tangent kernel K of the pre-activations",
}

# Functions of the registry that are written as they stand, in numpy and in torch.
_ERF = "np.vectorize(math.erf, otypes=[float])({})"
_WRITTEN = {
    "tanh": ("np.tanh(x)", "torch.tanh(x)"),
    "arctan": ("np.arctan(x)", "torch.arctan(x)"),
    "erf": (_ERF.format("x"), "torch.erf(x)"),
    "sin": ("np.sin(x)", "torch.sin(x)"),
    "cos": ("np.cos(x)", "torch.cos(x)"),
    "swish": ("x * (1 + np.tanh(x / 2)) / 2", "x * torch.sigmoid(x)"),
    "gelu": (
        f"x * (1 + {_ERF.format('x / math.sqrt(2)')}) / 2",
        "x * (1 + torch.erf(x / math.sqrt(2))) / 2",
    ),
    "softplus": ("np.logaddexp(0, x)", "nn.functional.softplus(x)"),
    "elu": (
        "np.where(x > 0, x, {alpha!r} * np.expm1(np.minimum(x, 0)))",
        "torch.where(x > 0, x, {alpha!r} * torch.expm1(torch.clamp(x, max=0)))",
    ),
}


def export(
    match: Match, target: str = "numpy", mean: ArrayLike | None = None, scale: float = 1.0
) -> str:
    r"""Return the text of a Python file that defines the DEQ and its twin, ready to be trained.

    .. math:: x^{(l)} = \sigma_l(W_lx^{(l-1)})/\sqrt{m_l}, \qquad f(x) = a^\top x^{(L)},

    with W and a standard normal and the widths free (theory.md §5): at infinite width the features
    have the matched conjugate kernel, or f with all weights trained the matched tangent kernel. The
    DEQ has the gradient of its fixed point. Run as a program the file compares kernels of random
    networks with exact ones (``--check data.npz``) and trains both networks (``--train data.npz``).

    Parameters
    ----------
    match : Match
        Feasible or not: the docstring of the file says which.
    target : str
        ``numpy`` (classes with their gradients) or ``torch`` (modules).
    mean, scale : array of shape (p,), float
        What the file subtracts from samples and then divides by.

    Examples
    --------
    >>> from deqcli import match
    >>> text = export(match("tanh", 0.1))
    >>> [line for line in text.splitlines() if "* np.clip" in line]
    ['    return 0.780... * np.clip(x, -1.187..., 1.187...)']
    """
    if not isinstance(match, Match):
        raise InputError(f"`match` is {shown(match)}; give what `match` returned.")
    if not isinstance(target, str) or target not in ("numpy", "torch"):
        raise InputError(f"`target` is {shown(target)}; choose numpy or torch.")
    scale = number(scale, "scale", float, Range(least=SMALLEST, most=LARGEST))
    centre = check_samples(np.atleast_2d(0.0 if mean is None else mean), "mean")[0]
    names = [f"sigma_{i}" for i in range(1, len(match.acts) + 1)]
    layers = dict(zip(names, match.acts, strict=True))
    deq = match.deq
    variances = match.variances or ((0.0, 0.0) if deq is None else (deq.sigma_a2, deq.sigma_b2))
    if match.act is not None and _writable(match.act):
        layers = {"phi": match.act, **layers}
    functions = [
        f"def {name}(x):\n    return {_expression(act, target)}" for name, act in layers.items()
    ]
    imports = ["import argparse", "import math", "import sys", "", "import numpy as np"]
    if target == "torch":
        imports += [
            "import torch",
            "from torch import nn",
            "",
            "torch.set_default_dtype(torch.float64)",
        ]
    values = [0.0] if mean is None else [float(x) for x in centre]
    constants = [
        "# Samples are expected with this mean subtracted, divided by this scale.",
        f"MEAN = np.array({values!r})" if len(values) > 1 else f"MEAN = {values[0]!r}",
        f"SCALE = {scale!r}",
        "# The kernel of the DEQ that the twin has, and the DEQ's variances.",
        f"KERNEL = {match.kernel.value!r}",
        f"SIGMA_A = {math.sqrt(variances[0])!r}",
        f"SIGMA_B = {math.sqrt(variances[1])!r}",
    ]
    networks = NUMPY if target == "numpy" else TORCH
    if "phi" not in layers:
        # Without the function there is no DEQ to write down.
        start, stop = networks.index("class DEQ"), networks.index("class Twin")
        networks = networks[:start] + "DEQ = None\n\n\n" + networks[stop:]
        networks = networks.replace("DEQ.kernels = Twin.kernels", "Twin.kernels")
    parts = [
        f'"""{_docstring(match)}"""',
        "\n".join(imports),
        "\n".join(constants) + "\n",
        "\n\n\n".join(functions) + "\n",
        f"ACTIVATIONS = [{', '.join(names)}]\n",
        networks.strip("\n") + "\n",
        COMMON.strip("\n") + "\n",
        PROGRAM.strip("\n") + "\n",
    ]
    return "\n\n".join(parts)


def _docstring(match: Match) -> str:
    layers = "one hidden layer" if len(match.acts) == 1 else f"{len(match.acts)} hidden layers"
    if match.act is not None and match.variances is not None:
        a2, b2 = match.variances
        whose = (
            "the deep equilibrium model z = phi(sigma_a A z + sigma_b B x)/sqrt(m) with\n"
            f"phi = {match.act.name}, sigma_a^2 = {a2!r}, sigma_b^2 = {b2!r}, for inputs of norm 1 "
            f"in {match.dimension} dimensions"
        )
    elif match.deq is None:
        whose = f"the network it was matched to, for data of tau0 = {match.tau0!r}"
    else:
        d = match.deq
        whose = (
            "the deep equilibrium model z = phi(sigma_a A z + sigma_b B x)/sqrt(m) with\n"
            f"phi = {d.activation} - {d.shift!r}, sigma_a^2 = {d.sigma_a2!r}, "
            f"sigma_b^2 = {d.sigma_b2!r}, for data of tau0 = {d.tau0!r}"
        )
    kind = "features" if match.twin_kernel is Kernel.CK else "outputs, all weights trained,"
    verb = "have" if match.feasible else "come near to (but do not have)"
    what = _TITLES[match.kernel]
    if match.distance is None:
        what = f"high-dimensional {what}"
    else:
        verb = f"have to {match.distance:.2g} of its norm" if match.feasible else verb
    return (
        f"An explicit network with {layers}.\n\n"
        f"In the wide limit its {kind} {verb} the {what} of\n"
        f"{whose}.\n\n"
        "Weights are standard normal: x_l = sigma_l(W_l x_(l-1)) / sqrt(m_l), f = a.x_L.\n"
    )


def _writable(act: Activation) -> bool:
    """Whether the activation is one of the registry, and no function of a user's own."""
    try:
        _expression(act, "numpy")
    except InputError:
        return False
    return True


def _expression(act: Activation, target: str) -> str:
    """Return the activation, shift included, as an expression in ``x``."""
    torch = target == "torch"
    family, shift, f = act.name.partition(":")[0], act.shift, act.function
    constant = f" - {shift!r}" if shift > 0 else f" + {-shift!r}" if shift < 0 else ""
    if family in _WRITTEN:
        return _WRITTEN[family][torch].format(**act.parameters) + constant
    above, below = (
        ("torch.clamp({}, min=0)", "torch.clamp({}, max=0)")
        if torch
        else ("np.maximum({}, 0)", "np.minimum({}, 0)")
    )
    if family == "htanh":
        a, c = act.parameters["a"], act.parameters["c"]
        return f"{a!r} * {'torch.clamp' if torch else 'np.clip'}(x, {-c!r}, {c!r})" + constant
    if isinstance(f, Bound) and f.function is two_slopes:
        right, left = f.parameters
        return f"{right!r} * {above.format('x')} + {left!r} * {below.format('x')}" + constant
    if isinstance(f, Bound) and f.function is linear_spline:
        slope, knots, jumps = f.parameters
        ramps = [
            f" + {d!r} * {above.format(f'x - {k!r}')}" for k, d in zip(knots, jumps, strict=True)
        ]
        return f"{slope!r} * x" + "".join(ramps) + constant
    if not (isinstance(f, Bound) and f.function is polynomial):
        raise InputError(f"`match` has {act.name!r}, which is of no family that can be exported.")
    ascending = [float(c) for c in np.trim_zeros(f.parameters[0], "b")] or [0.0]
    ascending[0] -= shift
    text = repr(ascending[-1])
    for c in ascending[-2::-1]:
        inner = f"({text})" if "x" in text else text
        text = f"{inner} * x {'-' if c < 0 else '+'} {abs(c)!r}"
    return text if "x" in text else f"{text} + 0 * x"
