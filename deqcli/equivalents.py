r"""The closed-form matrices that the kernels approach in high dimension.

.. math:: \bar M = c_1 XX^\top + V\begin{bmatrix} c_2tt^\top + c_3T & c_2t \\ c_2t^\top & c_2
          \end{bmatrix}V^\top + (d - \tau_0^2c_1)I, \qquad V = [J/\sqrt p,\ \psi],

at distance :math:`O(n^{-1/2})` in operator norm from the kernel whose scalars it has
(ICLR Theorems 1, 2; theory.md §4; ICLR's further term :math:`-\tau_0^4\alpha_3 I` is a misprint).
Eigenvalues and operator norms, of kernels and of these, are here too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigvalsh, qr
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

from deqcli.checks import LARGEST, Range, number, shown
from deqcli.display import Displayed
from deqcli.errors import DataError, InputError
from deqcli.kernels.matrix import check_samples
from deqcli.lanczos import DENSE
from deqcli.own_norms import kernel_expansion, own_norm_parts
from deqcli.scalars import Coefficients, ExplicitScalars, ImplicitScalars, SphereScalars
from deqcli.statistics import MixtureStatistics, check_labels, estimate_statistics
from deqcli.vocabulary import Form, Kernel

Array = NDArray[np.float64]
# Columns that a product with an own-norm equivalent makes at a time.
_TOGETHER = 64


class Equivalent(Displayed, LinearOperator):  # type: ignore[misc]
    r"""The matrix :math:`c\,XX^\top + V C V^\top + \delta I`, kept in factors.

    A scipy ``LinearOperator``: products cost O(np), and the whole spectrum an eigenproblem of
    size p + K + 1 when n is larger than that. In the own-norm form c is a matrix
    :math:`FF^\top`, by which the Gram matrix is multiplied entry by entry, and :math:`\delta`
    has a value for each sample.

    Attributes
    ----------
    X : ndarray of shape (n, p)
    linear : float, or ndarray of shape (n, r)
        c, the weight of the Gram matrix, or F.
    factor : ndarray of shape (n, q)
        V.
    core : ndarray of shape (q, q)
        C, symmetric.
    ridge : float, or ndarray of shape (n,)
        :math:`\delta`.
    """

    def __init__(
        self, X: Array, linear: float | Array, factor: Array, core: Array, ridge: float | Array
    ) -> None:
        self.X, self.factor = check_samples(X, "X"), check_samples(factor, "factor")
        self.core = check_samples(core, "core")
        n, q = self.factor.shape
        self.linear = _number_or_rows(linear, "linear", n)
        self.ridge = _number_or_rows(ridge, "ridge", n)
        if len(self.X) != n or self.core.shape != (q, q):
            raise DataError(
                f"`X`, `factor` and `core` have shapes {self.X.shape}, {self.factor.shape} and "
                f"{self.core.shape}; give (n, p), (n, q) and (q, q)."
            )
        super().__init__(dtype=np.float64, shape=(n, n))

    def _matmat(self, block: Array) -> Array:
        out = self.factor @ (self.core @ (self.factor.T @ block))
        if isinstance(self.linear, float):
            out += self.linear * (self.X @ (self.X.T @ block))
        else:
            # Some at a time, so that X is read once for many columns of F and few are there.
            n, width = self.linear.shape
            step = max(1, _TOGETHER // width)
            for start in range(0, block.shape[1], step):
                part = self.linear[:, :, None] * block[:, None, start : start + step]
                image = self.X @ (self.X.T @ part.reshape(n, -1))
                weighted = np.einsum("ij,ijk->ik", self.linear, image.reshape(part.shape))
                out[:, start : start + step] += weighted
        own = self.ridge if isinstance(self.ridge, float) else self.ridge[:, None]
        return np.asarray(out + own * block)

    def _matvec(self, vector: Array) -> Array:
        return self._matmat(vector.reshape(-1, 1)).ravel()

    def _adjoint(self) -> Equivalent:
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the matrix for ``np.asarray``; it is always made anew."""
        if copy is False:
            raise ValueError("the matrix of an Equivalent has to be made; allow a copy.")
        return self.dense().astype(dtype or np.float64, copy=False)

    def _facts(self) -> dict[str, object]:
        (n, p), q = self.X.shape, self.factor.shape[1]
        return {
            "matrix": f"{n} x {n}, kept as {n} x {p} and {n} x {q}",
            "weight of XX'": self.linear,
            "ridge": self.ridge,
        }

    def dense(self) -> Array:
        """Return the matrix, of shape (n, n)."""
        out = self.X @ self.X.T
        out *= self.linear if isinstance(self.linear, float) else self.linear @ self.linear.T
        low_rank = self.factor @ (self.core @ self.factor.T)
        out += 0.5 * (low_rank + low_rank.T)
        out[np.diag_indices_from(out)] += self.ridge
        return out

    def eigenvalues(self) -> Array:
        r"""Return all n eigenvalues in ascending order.

        With :math:`[X, V] = QR`, those off :math:`\delta` are the eigenvalues of
        :math:`R\,\mathrm{diag}(cI, C)\,R^\top + \delta I`.
        """
        n, p = self.X.shape
        q = self.factor.shape[1]
        if n <= p + q or not isinstance(self.linear, float) or not isinstance(self.ridge, float):
            return np.asarray(eigvalsh(self.dense(), check_finite=False))
        (triangle,) = qr(np.hstack([self.X, self.factor]), mode="r", check_finite=False)
        R = triangle[: p + q]
        left = np.hstack([self.linear * R[:, :p], R[:, p:] @ self.core])
        small = left @ R.T
        inner = eigvalsh(0.5 * (small + small.T), check_finite=False)
        return np.sort(np.concatenate([inner, np.zeros(n - p - q)])) + self.ridge


def _number_or_rows(value: float | Array, name: str, n: int) -> float | Array:
    """Return a number, or a matrix (a vector for the ridge) with a row for each sample."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return number(value, name, float, Range(least=-LARGEST, most=LARGEST))
    rows = check_samples(value[:, None] if value.ndim == 1 else value, name)
    if len(rows) != n or (name == "ridge" and rows.shape[1] != 1):
        raise DataError(f"`{name}` has shape {np.shape(value)}; give a row for each sample.")
    return rows.ravel() if name == "ridge" else rows


def equivalent(
    X: ArrayLike,
    y: ArrayLike | None,
    scalars: ImplicitScalars | ExplicitScalars | SphereScalars | Coefficients,
    kernel: Kernel | str = Kernel.CK,
    statistics: MixtureStatistics | None = None,
    form: Form | str = Form.PAPERS,
    components: int = 0,
) -> Equivalent:
    r"""Return the high-dimensional equivalent of a kernel on the rows of ``X``.

    Parameters
    ----------
    X : array of shape (n, p)
    y : array of shape (n,), or None
        Labels of any kind; None where the data has no classes (one class, or the sphere).
    scalars : ImplicitScalars, ExplicitScalars, SphereScalars or Coefficients
        Of the network. Sphere scalars give :math:`\alpha 11^\top + \beta XX^\top + \mu I`.
    kernel : Kernel or str
        One of the four; ``ck`` or ``ntk`` for an explicit network. Sphere scalars and coefficients
        already are of one kernel, and it is not used.
    statistics : MixtureStatistics, optional
        Known exactly; estimated from ``X`` and ``y`` when absent.
    form : Form or str
        ``papers``, or ``own-norm``: expanded at every sample's own norm, which is much nearer
        (theory.md §9) and needs the activations that scalars of networks carry.
    components : int
        Own-norm form: principal components whose share of :math:`(x_i^\top x_j)^2` is kept
        besides that of the class means; for real data whose activation is not odd.

    Examples
    --------
    >>> from deqcli.scalars import implicit_scalars
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 20)) / np.sqrt(20)
    >>> M = equivalent(X, np.repeat([0, 1], 30), implicit_scalars("relu", 0.2), kernel="ck")
    >>> bool(np.allclose(M.eigenvalues(), np.linalg.eigvalsh(M.dense())))
    True
    """
    samples = check_samples(X, "X", least=2)
    components = number(components, "components", int, Range(least=0))
    if Form.of(form, "form") is Form.OWN_NORM:
        return _own_norm(samples, y, scalars, kernel, statistics, components)
    if components:
        raise InputError(f"`components` is {components}; only the own-norm `form` takes them.")
    if isinstance(scalars, SphereScalars):
        ones = np.ones((len(samples), 1))
        return Equivalent(samples, scalars.beta, ones, np.array([[scalars.alpha]]), scalars.mu)
    if not isinstance(scalars, ImplicitScalars | ExplicitScalars | Coefficients):
        raise InputError(f"`scalars` is {shown(scalars)}; give scalars of a network.")
    c = scalars if isinstance(scalars, Coefficients) else scalars.coefficients(kernel)
    labels = check_labels(np.zeros(len(samples), int) if y is None else y, len(samples))
    known = estimate_statistics(samples, labels) if statistics is None else statistics
    _check_statistics(known, samples, labels)
    J = np.eye(len(known.t))[labels]
    factor = np.column_stack([J / np.sqrt(samples.shape[1]), known.fluctuations(samples, labels)])
    direction = np.append(known.t, 1.0)
    core = c.c2 * np.outer(direction, direction)
    core[:-1, :-1] += c.c3 * known.T
    return Equivalent(samples, c.c1, factor, core, c.d - c.tau0**2 * c.c1)


def _own_norm(
    samples: Array,
    y: ArrayLike | None,
    scalars: object,
    kernel: Kernel | str,
    statistics: MixtureStatistics | None,
    components: int,
) -> Equivalent:
    labels = check_labels(np.zeros(len(samples), int) if y is None else y, len(samples))
    expansion = kernel_expansion(scalars, kernel)
    if statistics is not None:
        _check_statistics(statistics, samples, labels)
        centres = statistics.centres
    else:
        counts = np.bincount(labels)
        centres = (np.eye(counts.size)[labels] / counts).T @ samples
    parts = own_norm_parts(samples, labels, centres, expansion, components)
    return Equivalent(samples, parts.weights, parts.factor, parts.core, parts.ridge)


def _check_statistics(known: object, samples: Array, labels: NDArray[np.int64]) -> None:
    """Refuse statistics that are not of these samples."""
    if not isinstance(known, MixtureStatistics):
        raise InputError(f"`statistics` is {shown(known)}; give MixtureStatistics.")
    n_classes = len(known.t)
    if labels.max() >= n_classes or known.centres.shape[1] != samples.shape[1]:
        raise DataError(
            f"`statistics` of {n_classes} class(es) in {known.centres.shape[1]} dimensions do not "
            f"match data of {labels.max() + 1} in {samples.shape[1]}."
        )


def eigenvalues(matrix: Array) -> Array:
    """Return the eigenvalues of a symmetric matrix in ascending order."""
    return np.asarray(eigvalsh(matrix, check_finite=False))


def _square(matrix: object, name: str) -> Array | LinearOperator:
    """Return a symmetric matrix as float64, an operator as it is, or say what is wrong."""
    if not isinstance(matrix, LinearOperator):
        matrix = check_samples(matrix, name)
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"`{name}` has shape {matrix.shape}; give a square matrix.")
    if isinstance(matrix, np.ndarray) and not np.allclose(
        matrix, matrix.T, rtol=1e-6, atol=1e-6 * np.abs(matrix).max()
    ):
        raise DataError(f"`{name}` is not symmetric; its operator norm is no eigenvalue.")
    return matrix


def operator_norm(matrix: Array | LinearOperator) -> float:
    """Return the largest absolute eigenvalue of a symmetric matrix or operator, by Lanczos.

    Parameters
    ----------
    matrix : ndarray or LinearOperator of shape (n, n)
        Symmetric.

    Examples
    --------
    >>> operator_norm(np.diag([1.0, -3.0, 2.0]))
    3.0
    """
    matrix = _square(matrix, "matrix")
    operator = aslinearoperator(matrix)
    n = operator.shape[0]
    if n <= DENSE:
        dense = matrix if isinstance(matrix, np.ndarray) else operator @ np.eye(n)
        return float(np.abs(np.linalg.eigvalsh(0.5 * (dense + dense.T))).max())
    # A fixed start makes the answer repeat; a random direction misses no eigenvector.
    start = np.random.default_rng(0).standard_normal(n)
    if not np.any(operator @ start):
        return 0.0
    top = eigsh(operator, k=1, which="LM", v0=start, tol=1e-10, return_eigenvectors=False)
    return float(np.abs(top).max())


def operator_distance(first: Array | LinearOperator, second: Array | LinearOperator) -> float:
    """Return the operator norm of the difference of two symmetric matrices, formed by neither.

    Examples
    --------
    >>> operator_distance(np.eye(3), np.zeros((3, 3)))
    1.0
    """
    first, second = _square(first, "first"), _square(second, "second")
    if first.shape != second.shape:
        raise DataError(
            f"`first` has shape {first.shape} and `second` {second.shape}; give two of one shape."
        )
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and len(first) <= DENSE:
        return operator_norm(first - second)
    return operator_norm(aslinearoperator(first) - aslinearoperator(second))


def count_isolated(descending: Array, most: int = 12, factor: float = 4.0) -> int:
    """Return how many of the largest eigenvalues stand apart from the bulk.

    The last gap, among the first ``most``, that is ``factor`` times as wide as each of the fifteen
    gaps after it ends the isolated ones; inside a bulk neighbouring gaps differ less than that.

    Parameters
    ----------
    descending : ndarray of shape (n,)
        Eigenvalues, the largest first.

    Examples
    --------
    >>> bulk = np.linspace(1, 0, 100)
    >>> count_isolated(np.concatenate([[9.0, 3.0], bulk]))
    2
    >>> count_isolated(bulk)
    0
    """
    gaps = -np.diff(descending)
    isolated = 0
    for k in range(min(most, len(gaps) - 15)):
        if gaps[k] > factor * gaps[k + 1 : k + 16].max():
            isolated = k + 1
    return isolated
