r"""The equilibrium of a layer of finite width, the adjoint of its gradients, its activation.

With samples in columns and the scale of the weights in :math:`W = \sigma_aA/\sqrt m`, the
equilibrium :math:`Y = \sqrt m Z` and the adjoint T of a source S solve

.. math:: Y = \phi(U), \quad U = WY + \text{bias}, \qquad T = \phi'(U)\circ(S + W^\top T)

(theory.md §1-2, by implicit differentiation): two fixed points alike, and no Jacobian is formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from deqcli.activations import Activation
from deqcli.closed_forms import PiecewiseLinear
from deqcli.finite.fixed_point import Outcome, anderson, gauss_seidel
from deqcli.vocabulary import Solver

Array = NDArray[Any]
Precision = Literal["float32", "float64"]

#: Rows of a block of neurons: fewer lose matrix-product speed, more lose contraction.
_BLOCK = 256
#: Heights of blocks are multiples of this, as matrix products go by whole tiles.
_GRAIN = 64
#: Values replaced at a time; they and their temporaries stay in the cache.
_CHUNK = 1 << 16

# atanh(erf(x))/x as a quotient of polynomials in t = x**2, lowest power first, the last coefficient
# of the denominator being 1: fitted to the least largest error of erf, 1e-7, about the rounding of
# float32. Beyond |x| = 4.2 the quotient only grows, so that tanh gives 1.
_ERF_ABOVE = (88.4396216, 20.3067096, 2.23048869, 0.0513037766)
_ERF_BELOW = (78.3775081, 10.8585070)


def blocks(width: int, solver: Solver = Solver.GAUSS_SEIDEL) -> list[slice]:
    """Return the blocks of neurons that are updated together; one, but for Gauss-Seidel.

    Examples
    --------
    >>> [(block.start, block.stop) for block in blocks(600)]
    [(0, 320), (320, 600)]
    """
    count = max(1, round(width / _BLOCK)) if solver == Solver.GAUSS_SEIDEL else 1
    height = _GRAIN * math.ceil(width / count / _GRAIN)
    return [slice(start, min(start + height, width)) for start in range(0, width, height)]


class Equilibrium:
    """Solves both fixed points of a layer, each from zero.

    Parameters
    ----------
    act : Activation
        Used as it is, shift included.
    width : int
    solver : Solver
        All reach the same point. Gauss-Seidel updates blocks of neurons in turn: the same
        products, a third fewer iterations (:func:`deqcli.finite.fixed_point.gauss_seidel`).
    tolerance : float
        The largest relative residual, over samples, of both fixed points.
    max_iterations : int
    dtype : {"float32", "float64"}

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> layer = Equilibrium(activation("identity"), 1, dtype="float64")
    >>> W, U, Y, T = np.array([[0.5]]), *np.empty((3, 1, 1))
    >>> layer.forward(W, np.ones((1, 1)), Y, U).converged, Y.round(4).item()
    (True, 2.0)
    >>> layer.adjoint(W, np.ones((1, 1)), U, T).converged, T.round(4).item()
    (True, 2.0)
    """

    def __init__(
        self,
        act: Activation,
        width: int,
        solver: Solver = Solver.GAUSS_SEIDEL,
        tolerance: float = 1e-6,
        max_iterations: int = 500,
        dtype: Precision = "float32",
    ) -> None:
        self.solver, self.tolerance, self.max_iterations = solver, tolerance, max_iterations
        self.blocks = blocks(width, solver)
        self._elementwise = Elementwise(act, dtype)

    def forward(
        self, matrix: Array, bias: Array, value: Array, preactivation: Array | None = None
    ) -> Outcome:
        """Solve for Y.

        Parameters
        ----------
        matrix : ndarray of shape (m, m)
            W.
        bias : ndarray of shape (m, n)
        value : ndarray of shape (m, n)
            Receives Y.
        preactivation : ndarray of shape (m, n), optional
            Receives U.
        """

        def finish(block: slice, product: Array) -> None:
            product += bias[block]
            if preactivation is not None:
                preactivation[block] = product
            self._elementwise.value(product)

        return self._solve(matrix, finish, value)

    def adjoint(self, matrix: Array, source: Array, preactivation: Array, value: Array) -> Outcome:
        """Solve for T.

        Parameters
        ----------
        matrix : ndarray of shape (m, m)
            W, as for :meth:`forward`.
        source : ndarray of shape (m, n) or (m, 1)
            S.
        preactivation : ndarray of shape (m, n)
            U; overwritten by the slope of the activation there.
        value : ndarray of shape (m, n)
            Receives T.
        """
        slope = preactivation
        self._elementwise.slope(slope)

        def finish(block: slice, product: Array) -> None:
            product += source[block]
            product *= slope[block]

        return self._solve(matrix.T, finish, value)

    def _solve(
        self, matrix: Array, finish: Callable[[slice, Array], None], value: Array
    ) -> Outcome:
        limits = self.tolerance, self.max_iterations
        if self.solver != Solver.ANDERSON:
            return gauss_seidel(
                matrix, finish, value, *limits, blocks=self.blocks, predict_residual=True
            )

        def step(rows: Array) -> Array:
            product = np.empty_like(value)
            np.matmul(matrix, rows.T, out=product)
            finish(slice(0, len(product)), product)
            return product.T

        solution = anderson(step, np.zeros_like(value.T), *limits)
        value[...] = solution.value.T
        return Outcome(
            solution.residual, solution.iterations, solution.status, solution.contraction
        )


class Elementwise:
    r"""An activation and its slope, each replacing the values of an array.

    In float32 some activations have a faster form, equal to within 2.5e-7 max(1, abs(x)):
    :math:`\mathrm{erf}\,x = \tanh(x\,q(x^2))` with q a quotient of polynomials, swish by
    :math:`1/(1+e^{-x}) = (1 + \tanh(x/2))/2`, gelu by erf. A form is taken only when it agrees
    with the activation on a grid: a function of the user's own may bear the same name.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> relu = Elementwise(activation("relu").shifted(0.5), "float32")
    >>> x, y = np.array([[-1.0, 0.0, 2.0]] * 2, dtype=np.float32)
    >>> relu.value(x), relu.slope(y)
    (None, None)
    >>> x.tolist(), y.tolist()
    ([-0.5, -0.5, 1.5], [0.0, 0.0, 1.0])
    """

    def __init__(self, act: Activation, dtype: DTypeLike) -> None:
        self._act = act
        self._shift = np.asarray(act.shift, dtype)
        self._pieces = act.closed_form if isinstance(act.closed_form, PiecewiseLinear) else None
        form = _FORMS.get(act.name) if np.dtype(dtype) == np.float32 else None
        if form is not None:
            grid = np.linspace(-8, 8, 1001, dtype=np.float32)
            values = grid.copy()
            form(values)
            if not np.allclose(values, act.function(grid), rtol=1e-6, atol=1e-6):
                form = None
        self._form = form

    def value(self, x: Array) -> None:
        """Replace the values by the activation."""
        for part in _parts(x):
            if self._form is None:
                part[...] = self._act(part)
            else:
                self._form(part)
                if self._shift:
                    np.subtract(part, self._shift, out=part)

    def slope(self, x: Array) -> None:
        """Replace the values by the derivative there."""
        for part in _parts(x):
            if self._pieces is None:
                part[...] = self._act.derivative(part)
            else:
                _piecewise_slope(self._pieces, part)


def _parts(x: Array) -> Iterator[Array]:
    if not x.flags.c_contiguous:  # then a flat array would be a copy
        yield from x
        return
    flat = x.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        yield flat[start : start + _CHUNK]


def _piecewise_slope(pieces: PiecewiseLinear, x: Array) -> None:
    """Sum the jumps of slope to the left of each value: five times as fast as a choice."""
    steps = [(x > knot, jump) for knot, jump in zip(pieces.knots, pieces.jumps, strict=True)]
    x.fill(pieces.slope)
    for beyond, jump in steps:
        x += beyond * x.dtype.type(jump)


def _relu(x: Array) -> None:
    np.maximum(x, 0, out=x)


def _tanh(x: Array) -> None:
    np.tanh(x, out=x)


def _erf(x: Array) -> None:
    t = np.square(x)
    above = t * np.float32(_ERF_ABOVE[3])
    above += np.float32(_ERF_ABOVE[2])
    above *= t
    above += np.float32(_ERF_ABOVE[1])
    above *= t
    above += np.float32(_ERF_ABOVE[0])
    x *= above
    below = np.add(t, np.float32(_ERF_BELOW[1]), out=above)
    below *= t
    below += np.float32(_ERF_BELOW[0])
    x /= below
    np.tanh(x, out=x)


def _swish(x: Array) -> None:
    half = x * np.float32(0.5)
    np.tanh(half, out=x)
    x += 1
    x *= half


def _gelu(x: Array) -> None:
    half = x * np.float32(0.5)
    x *= np.float32(math.sqrt(0.5))
    _erf(x)
    x += 1
    x *= half


_FORMS: dict[str, Callable[[Array], None]] = {
    "relu": _relu,
    "tanh": _tanh,
    "erf": _erf,
    "swish": _swish,
    "gelu": _gelu,
}
