r"""Deep equilibrium models of infinite width for scikit-learn: a kernel, a classifier, a regressor.

What gradient descent makes of an infinitely wide network is regression with its kernel: with the
tangent kernel when all weights are trained, with the conjugate kernel when only the readout is
(theory.md §2). These are the exact kernels of :func:`deqcli.implicit_kernels`, for any activation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.activations import ActivationLike
from deqcli.checks import NOT_NEGATIVE, Range, number
from deqcli.data.dataset import fit_transform
from deqcli.errors import InputError, MissingExtraError
from deqcli.kernel_ridge import DIRECT, fit_kernel_ridge
from deqcli.kernels.exact import ExactKernels, implicit_kernels
from deqcli.kernels.matrix import check_samples
from deqcli.runs.memory import available_bytes
from deqcli.vocabulary import Kernel as KernelName

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.gaussian_process.kernels import Hyperparameter, Kernel
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise MissingExtraError(
        "DEQKernel, DEQClassifier and DEQRegressor need scikit-learn 1.6 or newer; run "
        "`pip install 'deqcli[sklearn]'`."
    ) from error

if TYPE_CHECKING:
    from typing import Self

Array = NDArray[np.float64]

#: Step of the derivative in log sigma_a2: truncation and rounding, of kernels right to 1e-12, meet.
_STEP = 1e-3


class DEQKernel(Kernel):  # type: ignore[misc]
    r"""The exact kernel of a DEQ, wherever scikit-learn takes one.

    A callable for ``SVC(kernel=DEQKernel())`` and ``KernelRidge``, and a kernel of
    ``GaussianProcessRegressor`` whose hyperparameter ``sigma_a2`` is learned with the others; it
    can be added to and multiplied with other kernels.

    Parameters
    ----------
    act : str, Activation or callable
        Used as it is; a shift counts.
    sigma_a2 : float
        Variance of the hidden weights; an equilibrium exists below :math:`1/L^2`.
    sigma_b2 : float, optional
        Variance of the input weights, by default ``1 - sigma_a2``.
    kernel : {"ck", "ntk", "preactivation-ck", "preactivation-ntk"}
    sigma_a2_bounds : pair of float, or "fixed"
        Within which a Gaussian process may move ``sigma_a2``.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> X = np.array([[1.0, 0.0], [0.9, 0.2], [0.0, 1.0], [-0.1, 0.8]])
    >>> SVC(kernel=DEQKernel("tanh", 0.1)).fit(X, ["a", "a", "b", "b"]).predict([[1.0, 0.1]])
    array(['a'], dtype='<U1')
    >>> DEQKernel("relu", 0.2) + 1
    DEQKernel(act='relu', sigma_a2=0.2, kernel='ntk') + 1**2
    """

    def __init__(
        self,
        act: ActivationLike = "relu",
        sigma_a2: float = 0.1,
        sigma_b2: float | None = None,
        kernel: str = "ntk",
        sigma_a2_bounds: tuple[float, float] | str = (1e-3, 0.24),
    ) -> None:
        self.act = act
        self.sigma_a2 = sigma_a2
        self.sigma_b2 = sigma_b2
        self.kernel = kernel
        self.sigma_a2_bounds = sigma_a2_bounds

    @property
    def hyperparameter_sigma_a2(self) -> Any:
        """What a Gaussian process learns."""
        return Hyperparameter("sigma_a2", "numeric", self.sigma_a2_bounds)

    def __call__(
        self, X: ArrayLike, Y: ArrayLike | None = None, eval_gradient: bool = False
    ) -> Any:
        r"""Return the matrix, of shape (n, n) or (n, q).

        With ``eval_gradient`` also its derivative in :math:`\log\sigma_a^2`, of shape (n, n, 1), by
        a central difference of fourth order, right to about 1e-9.
        """
        if eval_gradient and Y is not None:
            raise InputError("`eval_gradient` is there for `Y` None alone; leave `Y` out.")
        matrix = self._matrix(X, Y, self.sigma_a2)
        if not eval_gradient:
            return matrix
        if self.hyperparameter_sigma_a2.fixed:
            return matrix, np.empty((*matrix.shape, 0))
        at = {k: self._matrix(X, None, self.sigma_a2 * np.exp(k * _STEP)) for k in (-2, -1, 1, 2)}
        slope = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * _STEP)
        return matrix, slope[:, :, None]

    def diag(self, X: ArrayLike) -> Array:
        """Return the kernel of each sample with itself, of shape (n,)."""
        samples = check_samples(X)
        # Two rows are the fewest that a symmetric kernel has.
        kernels = self._kernels(np.vstack([samples, samples[:1]]), None, self.sigma_a2)
        return kernels.diagonal(self.kernel)[:-1]

    def is_stationary(self) -> bool:
        """Tell that it depends on more than the difference of two samples."""
        return False

    def _kernels(self, X: ArrayLike, Y: ArrayLike | None, sigma_a2: float) -> ExactKernels:
        return implicit_kernels(X, self.act, sigma_a2, self.sigma_b2, Y=Y)

    def _matrix(self, X: ArrayLike, Y: ArrayLike | None, sigma_a2: float) -> Array:
        samples = check_samples(X)
        other = samples if Y is None and len(samples) == 1 else Y
        (matrix,) = self._kernels(samples, other, sigma_a2).compute(self.kernel)
        return matrix

    def __repr__(self) -> str:
        act = repr(self.act) if isinstance(self.act, str) else getattr(self.act, "name", "callable")
        b = "" if self.sigma_b2 is None else f", sigma_b2={self.sigma_b2:g}"
        return f"DEQKernel(act={act}, sigma_a2={self.sigma_a2:.3g}{b}, kernel={self.kernel!r})"


class _KernelRidge(BaseEstimator):  # type: ignore[misc]
    """Ridge regression in the kernel of a DEQ, which both estimators are."""

    def __init__(
        self,
        act: ActivationLike = "relu",
        sigma_a2: float = 0.1,
        sigma_b2: float | None = None,
        kernel: str = "ntk",
        ridge: float = 1e-3,
        preprocess: str = "centred",
        direct: int = DIRECT,
    ) -> None:
        self.act = act
        self.sigma_a2 = sigma_a2
        self.sigma_b2 = sigma_b2
        self.kernel = kernel
        self.ridge = ridge
        self.preprocess = preprocess
        self.direct = direct

    def _fit(self, X: Array, targets: Array) -> None:
        ridge = number(self.ridge, "ridge", float, NOT_NEGATIVE)
        name = KernelName.of(self.kernel, "kernel")
        self.scaling_, self.samples_ = fit_transform(X, self.preprocess)
        self.kernel_ = DEQKernel(self.act, self.sigma_a2, self.sigma_b2, name.value)
        self.fit_ = fit_kernel_ridge(
            self.samples_, targets, self.act, self.sigma_a2, self.sigma_b2, kernel=name,
            ridge=ridge, direct=number(self.direct, "direct", int, Range(least=0)),
            budget=max(available_bytes() or 0, 2.0**30),
        )  # fmt: skip
        self.dual_coef_ = self.fit_.weights
        if self.fit_.residual is not None:
            self.residual_ = self.fit_.residual

    def _outputs(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=np.float64, reset=False)
        return self.fit_.outputs(self.scaling_(samples))


class DEQRegressor(RegressorMixin, _KernelRidge):  # type: ignore[misc]
    r"""Regression by a DEQ of infinite width.

    .. math:: \hat f(x) = \bar y
              + k(x)^\top(K + \rho\,\tfrac{\operatorname{tr}K}{n}I)^{-1}(y - \bar y)

    Parameters
    ----------
    act, sigma_a2, sigma_b2, kernel
        Of the DEQ: see :class:`DEQKernel`. ``ntk`` is the network with all weights trained, ``ck``
        with its readout alone.
    ridge : float
        :math:`\rho`, in units of the kernel's mean diagonal entry.
    preprocess : {"centred", "unit", "raw"}
        ``centred`` moves the training samples to mean 0 and mean squared norm 1, where activations
        are neither linear nor saturated; new samples go through the same map.
    direct : int
        Samples up to which the kernel is a matrix and the equations are solved directly; beyond,
        it is an operator of two bytes a pair, and conjugate gradients solve them.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n,) or (n, k)
    samples_ : ndarray of shape (n, p)
        Training samples, preprocessed.
    residual_ : float
        Relative residual that conjugate gradients left, where they were used.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> y = X[:, 0] + np.abs(X[:, 1])
    >>> score = DEQRegressor("relu", 0.2).fit(X[:200], y[:200]).score(X[200:], y[200:])
    >>> bool(score > 0.8)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to samples in rows, of shape (n, p), and targets of shape (n,) or (n, k)."""
        samples, targets = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, multi_output=True, ensure_min_samples=2
        )
        targets = np.asarray(targets, dtype=np.float64)
        self.intercept_ = targets.mean(axis=0)
        self._fit(samples, targets - self.intercept_)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return a prediction for each sample."""
        return self._outputs(X) + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags


class DEQClassifier(ClassifierMixin, _KernelRidge):  # type: ignore[misc]
    r"""Classification by a DEQ of infinite width: regression on centred one-hot labels.

    ``deqcli accuracy --limit regression`` is the same.

    Parameters
    ----------
    act, sigma_a2, sigma_b2, kernel, ridge, preprocess, direct
        As in :class:`DEQRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, of any kind.
    dual_coef_ : ndarray of shape (n, K)

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.9, 0.2], [0.0, 1.0], [-0.1, 0.8]])
    >>> DEQClassifier("relu", 0.2).fit(X, ["a", "a", "b", "b"]).predict([[1.0, 0.1]])
    array(['a'], dtype='<U1')
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to samples in rows, of shape (n, p), and their labels, of shape (n,)."""
        samples, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, indices = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError("`y` has 1 class; a classifier needs at least 2.")
        self._fit(samples, np.eye(len(self.classes_))[indices] - 1 / len(self.classes_))
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Return an output for each class, of shape (q, K); for two classes that of the second."""
        check_is_fitted(self)
        outputs = self._outputs(X)
        return outputs[:, 1] - outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each sample."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self._outputs(X).argmax(axis=1)])
