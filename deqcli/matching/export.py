"""Write a matched network as a short Python file that needs numpy or torch alone."""

from __future__ import annotations

import numpy as np

from deqcli.activation_functions import Bound, polynomial
from deqcli.activations import Activation
from deqcli.checks import shown
from deqcli.errors import InputError
from deqcli.matching.result import Match
from deqcli.vocabulary import Kernel

_TITLES = {
    Kernel.CK: "conjugate kernel G",
    Kernel.PREACTIVATION_CK: "conjugate kernel of the pre-activations",
    Kernel.NTK: "tangent kernel",
    Kernel.PREACTIVATION_NTK: "tangent kernel K of the pre-activations",
}

_NUMPY = '''"""{docstring}"""

import numpy as np

{functions}

ACTIVATIONS = [{names}]


def initialise(n_features, widths, rng):
    """Draw standard normal weights: one matrix a layer (any widths), and the readout."""
    sizes = [n_features, *widths]
    weights = [rng.standard_normal((m, k)) for k, m in zip(sizes, sizes[1:])]
    return weights, rng.standard_normal(sizes[-1])


def features(X, weights):
    """Return the last hidden layer; X holds samples in rows."""
    for sigma, W in zip(ACTIVATIONS, weights, strict=True):
        X = sigma(X @ W.T) / np.sqrt(len(W))
    return X


def network(X, weights, readout):
    """Return the outputs, one a sample."""
    return features(X, weights) @ readout
'''

_TORCH = '''"""{docstring}"""

import torch
from torch import nn

{functions}

ACTIVATIONS = [{names}]


class Network(nn.Module):
    """The network, with standard normal weights and any widths; samples in rows."""

    def __init__(self, n_features, widths):
        super().__init__()
        if len(widths) != len(ACTIVATIONS):
            raise ValueError(f"{{len(ACTIVATIONS)}} widths are needed, not {{len(widths)}}")
        sizes = [n_features, *widths]
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(m, k)) for k, m in zip(sizes, sizes[1:])
        )
        self.readout = nn.Parameter(torch.randn(sizes[-1]))

    def features(self, X):
        for sigma, W in zip(ACTIVATIONS, self.weights):
            X = sigma(X @ W.T) / len(W) ** 0.5
        return X

    def forward(self, X):
        return self.features(X) @ self.readout
'''


def export(match: Match, target: str = "numpy") -> str:
    r"""Return the text of a self-contained Python file that defines the matched network.

    .. math:: x^{(l)} = \sigma_l(W_lx^{(l-1)})/\sqrt{m_l}, \qquad f(x) = a^\top x^{(L)},

    with W and a standard normal and the widths free (theory.md §5): at infinite width the features
    have the matched conjugate kernel, or f with all weights trained the matched tangent kernel.

    Parameters
    ----------
    match : Match
        Feasible or not: the docstring of the file says which.
    target : str
        ``numpy`` (functions) or ``torch`` (a module).

    Examples
    --------
    >>> from deqcli.matching import match
    >>> text = export(match("tanh", 0.1))
    >>> [line for line in text.splitlines() if "clip" in line]
    ['    return 0.780... * np.clip(x, -1.187..., 1.187...)']
    """
    templates = {"numpy": _NUMPY, "torch": _TORCH}
    if not isinstance(match, Match):
        raise InputError(f"`match` is {shown(match)}; give what `match` returned.")
    if not isinstance(target, str) or target not in templates:
        raise InputError(f"`target` is {shown(target)}; choose numpy or torch.")
    names = [f"sigma_{i}" for i in range(1, len(match.acts) + 1)]
    functions = "\n\n\n".join(
        f"def {name}(x):\n    return {_expression(act, target)}"
        for name, act in zip(names, match.acts, strict=True)
    )
    return templates[target].format(
        docstring=_docstring(match), functions="\n" + functions + "\n", names=", ".join(names)
    )


def _docstring(match: Match) -> str:
    layers = "one hidden layer" if len(match.acts) == 1 else f"{len(match.acts)} hidden layers"
    if match.dimension is not None:
        whose = f"a deep equilibrium model for unit-norm inputs in {match.dimension} dimensions"
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
    return (
        f"An explicit network with {layers}.\n\n"
        f"In the wide limit its {kind} {verb} the high-dimensional {_TITLES[match.kernel]} of\n"
        f"{whose}.\n\n"
        "Weights are standard normal: x_l = sigma_l(W_l x_(l-1)) / sqrt(m_l), f = a.x_L.\n"
    )


def _expression(act: Activation, target: str) -> str:
    """Return the activation, shift included, as an expression in ``x``."""
    family, p, shift = act.name.partition(":")[0], act.parameters, act.shift
    constant = f" - {shift!r}" if shift > 0 else f" + {-shift!r}" if shift < 0 else ""
    if family == "htanh":
        clip = "np.clip" if target == "numpy" else "torch.clamp"
        return f"{p['a']!r} * {clip}(x, {-p['c']!r}, {p['c']!r})" + constant
    if family == "maxlin":
        top = "np.maximum" if target == "numpy" else "torch.maximum"
        return f"{top}({p['a']!r} * x, {p['b']!r} * x)" + constant
    if not (isinstance(act.function, Bound) and act.function.function is polynomial):
        raise InputError(f"`match` has {act.name!r}, which is of no family that can be exported.")
    ascending = [float(c) for c in np.trim_zeros(act.function.parameters[0], "b")]
    ascending[0] -= shift
    text = repr(ascending[-1])
    for c in ascending[-2::-1]:
        inner = f"({text})" if "x" in text else text
        text = f"{inner} * x {'-' if c < 0 else '+'} {abs(c)!r}"
    return text
