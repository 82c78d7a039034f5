r"""The test error of kernel ridge regression on a mixture, and of networks of finite width.

For x of class a the output is nearly Gaussian, :math:`f(x) \sim N(m_a, \Sigma_a)`, so that its
error is a tail probability; nothing is drawn and nothing trained (theory.md §11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deqcli.checks import NOT_NEGATIVE, POSITIVE, number, of_type, shown
from deqcli.display import Displayed
from deqcli.errors import ConvergenceError, InputError
from deqcli.kernels.expansion import Expansion
from deqcli.kernels.pairs import ExplicitPairs, WeightedPairs
from deqcli.kernels.tiles import Combination
from deqcli.own_norms import kernel_expansion
from deqcli.prediction.forms import by_class
from deqcli.prediction.layers import Layers, layers_of
from deqcli.prediction.limits import Limits, limits_of
from deqcli.prediction.tails import Bend, wrong_share
from deqcli.prediction.width import FiniteWidth
from deqcli.scalars import Coefficients, ExplicitScalars, ImplicitScalars
from deqcli.spectral.covariances import Covariances, covariances_of
from deqcli.spectral.forms import Model, own_norm_form, papers_form
from deqcli.spectral.law import Mixture
from deqcli.vocabulary import Form, Kernel

Array = NDArray[np.float64]
Scalars = ImplicitScalars | ExplicitScalars | Coefficients

# In place of no ridge, in units of the diagonal: least squares is the limit.
_LEAST = 1e-9
# Deviations of outputs below this part of them are rounding, and tell no classes apart.
_ROUNDING = 1e-10
# Bends below this are not seen: errors move by less than 1e-3.
_STRAIGHT = 0.02


@dataclass(frozen=True, repr=False)
class PredictedError(Displayed):
    r"""What is predicted of a classifier on new samples.

    Attributes
    ----------
    error : ndarray of shape (K,)
        The share of each class that is taken for another.
    total : float
        Their mean, classes weighted as in training.
    mean : ndarray of shape (K, r)
        Mean outputs on each class, :math:`m_a`. Two classes have r = 1 output, with targets -1
        and 1; more have r = K, with targets :math:`I - 11^\top/K`.
    covariance : ndarray of shape (K, r, r)
        Of the outputs, over new samples, training samples and random weights, :math:`\Sigma_a`.
    effective_ridge : float
        The ridge at which infinite width has these mean outputs, in units of the mean diagonal;
        for several layers, that of the last.
    width : int or None
    form : Form
        By which it was predicted.
    """

    error: Array
    total: float
    mean: Array
    covariance: Array
    effective_ridge: float
    width: int | None
    form: Form

    def _facts(self) -> dict[str, object]:
        deviations = np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        return {
            "total": self.total,
            "error": tuple(map(float, self.error)),
            "mean": self.mean.round(4).tolist(),
            "deviation": deviations.round(4).tolist(),
            "effective ridge": self.effective_ridge,
            "width": self.width or "infinite",
            "form": self.form,
        }


def predict_error(
    mixture: Mixture,
    counts: Sequence[int] | NDArray[np.int64],
    scalars: Scalars,
    kernel: Kernel | str = Kernel.CK,
    ridge: float = 0.1,
    width: int | None = None,
    *,
    bias: bool = False,
    form: Form | str | None = None,
) -> PredictedError:
    r"""Predict the test error of ridge regression with a network's kernel or features.

    .. math:: f(x) = k(x)^\top(K + \lambda I)^{-1}JY_0 + b

    with training kernel K, labels J and targets :math:`Y_0` (theory.md §11). ``ck`` is the readout
    of a network trained by least squares, ``ntk`` all its weights in the lazy regime.

    Parameters
    ----------
    mixture : GaussianMixture
        Any covariances. Full ones that do not commute cost matrix products.
    counts : sequence of K int
        Training samples of each class.
    scalars : ImplicitScalars, ExplicitScalars or Coefficients
        Of the network, made with the mixture's ``statistics(counts).tau0``.
    kernel : Kernel or str
        One of the four; ``ck`` or ``ntk`` for an explicit network.
    ridge : float
        :math:`\lambda` in units of the kernel's mean diagonal.
    width : int, optional
        Neurons of every layer; infinitely many by default. Bare ``Coefficients`` are taken for one
        layer of independent features.
    bias : bool
        Whether there is b, which makes the residuals sum to zero (LS-SVM); else b = 0.
    form : Form or str, optional
        ``own-norm``: the exact kernel to higher order in 1/p, and with the draw of the training
        samples. ``papers``: the limit, which four scalars decide. By default the first where it
        can be had: not for bare ``Coefficients``, means of many times the noise's norm, or more
        than p^2 samples.

    Examples
    --------
    >>> from deqcli import GaussianMixture, implicit_scalars
    >>> mixture = GaussianMixture.papers(p=500, mean_norm=2.0, spread=0.0)
    >>> s = implicit_scalars("relu", 0.2)
    >>> round(predict_error(mixture, [200, 200], s, ridge=0.1, form="papers").total, 4)
    0.1635
    >>> predict_error(mixture, [200, 200], s, ridge=0.1, width=400).total.__round__(3)
    0.313
    """
    covariances, sizes = _samples(mixture, counts)
    return predict_on(covariances, sizes, scalars, kernel, ridge, width, bias=bias, form=form)


def predict_on(
    covariances: Covariances,
    counts: NDArray[np.int64],
    scalars: Scalars,
    kernel: Kernel | str,
    ridge: float,
    width: int | None,
    *,
    bias: bool = False,
    form: Form | str | None = None,
    real: bool = False,
) -> PredictedError:
    """Predict for given moments of classes that all have samples.

    Parameters
    ----------
    real : bool
        Whether they are those of real data, of which a mixture is a model: squares of inner
        products, which do not concentrate there, are left out of the papers' form.
    """
    if not isinstance(scalars, ImplicitScalars | ExplicitScalars | Coefficients):
        raise InputError(f"`scalars` is {shown(scalars)}; give scalars of a network.")
    forms = [Form.OWN_NORM, Form.PAPERS] if form is None else [Form.of(form, "form")]
    if real or (form is None and isinstance(scalars, Coefficients)):
        forms = [Form.PAPERS]
    ridge, n = number(ridge, "ridge", float, NOT_NEGATIVE), int(counts.sum())
    of_type(bias, "bias", bool, "True or False")
    member = Kernel.of(kernel, "kernel")
    if width is not None:
        width = number(width, "width", int, POSITIVE)
        # All weights together have no such peak.
        if member is Kernel.CK:
            check_peak(ridge, width, n)
    for chosen in forms:
        setting = Regression(covariances, counts, scalars, member, chosen, squares=not real)
        try:
            with np.errstate(all="ignore"):
                return setting.predict(ridge, width, bias)
        except (ConvergenceError, np.linalg.LinAlgError):
            continue
        except InputError:
            if chosen is forms[-1]:
                raise
    raise ConvergenceError(
        f"outputs for {n} samples in {covariances.dimension} dimensions with `ridge` {ridge:g} "
        "could not be predicted; raise `ridge`, or give a dimension of the order of the number of "
        "samples and moderate means."
    )


def check_peak(ridge: float, width: int, n: int, option: str = "width") -> None:
    """Refuse least squares where there are as many neurons as samples.

    Parameters
    ----------
    option : str
        What said how many neurons.
    """
    if ridge == 0 and width == n:
        raise InputError(
            f"`ridge` is 0 and `{option}` {width} is the number of samples, where the output's "
            f"variance is infinite; give a `ridge` above 0 or another `{option}`."
        )


def _samples(mixture: Mixture, counts: object) -> tuple[Covariances, NDArray[np.int64]]:
    """Check a mixture and the numbers of its samples."""
    try:
        mixture.statistics(np.asarray(counts))  # refuses wrong counts
        sizes = np.asarray(counts, dtype=np.int64)
        shares = sizes / sizes.sum()
        moments = mixture.means, mixture.covariances, mixture.shape
    except AttributeError:
        raise InputError(f"`mixture` is {shown(mixture)}; give a GaussianMixture.") from None
    if sizes.size < 2:
        raise InputError(f"`mixture` has {sizes.size} class; give at least 2 to tell apart.")
    if not sizes.all():
        raise InputError(
            f"`counts` is {shown(sizes.tolist())}; give every class a sample, or leave it out of "
            "the mixture."
        )
    return covariances_of(*moments, shares), sizes


def targets_of(classes: int) -> Array:
    """Return the targets of each class: -1 and 1 for two, else one-hot and centred.

    Examples
    --------
    >>> targets_of(2).tolist(), targets_of(4)[0].tolist()
    ([[-1.0], [1.0]], [0.75, -0.25, -0.25, -0.25])
    """
    return np.array([[-1.0], [1.0]]) if classes == 2 else np.eye(classes) - 1 / classes


@dataclass(frozen=True)
class Regression:
    """Ridge regression with one kernel of a network on the samples of a mixture."""

    covariances: Covariances
    counts: NDArray[np.int64]
    scalars: Scalars
    kernel: Kernel
    form: Form
    squares: bool = True

    def predict(self, ridge: float, width: int | None, bias: bool = False) -> PredictedError:
        """Return what is predicted; the ridge is in units of the mean diagonal."""
        n, k = int(self.counts.sum()), self.counts.size
        model, unit = self._model()
        own = self.form is Form.OWN_NORM
        effective, shift = ridge, ridge * unit
        if width is None:
            found = limits_of(model, n, shift, higher=own)
        else:
            shift = max(ridge, _LEAST) * unit
            layers = layers_of(self.scalars, self.kernel)
            layers = layers if self.squares else layers.without_squares()
            finite = FiniteWidth(layers, self.covariances, self.counts, width)
            e = finite.solve(shift)
            amounts, effective = layers.amounts(e), shift / unit / float(e[-1])
            found = limits_of(finite.model(e), n, shift, higher=own)
            added = finite.variances(e, shift)
            if own:
                # A class of longer samples has larger features, in all that the kernel is made of.
                quiet = papers_form(self.covariances, layers.coefficients(amounts), self.counts)
                added *= (_sizes(model) / _sizes(quiet))[:, None, None]
                # Noise in the norms is known in the papers' form; what that drops is added.
                less = limits_of(quiet, n, shift, higher=True)
                more = limits_of(self._effective(layers, amounts), n, shift, higher=True)
                found = Limits(*(x + y - z for x, y, z in zip(found, more, less, strict=True)))
            found = found._replace(covariances=found.covariances + added)
        targets, offset = targets_of(k), np.zeros(targets_of(k).shape[1])
        if bias:
            rows = found.inverse.sum(axis=0)
            offset = rows @ targets / rows.sum()
        targets = targets - offset
        mean, covariance = found.means @ targets + offset, targets.T @ found.covariances @ targets
        covariance += (_ROUNDING / (1 + effective)) ** 2 * np.eye(offset.size)
        bends = [
            Bend(line, linear, bend) if bend > _STRAIGHT else None
            for line, linear, bend in zip(
                found.lines @ targets, targets.T @ found.linear @ targets, found.bends, strict=True
            )
        ]
        error = np.array([wrong_share(mean[a], covariance[a], a, bends[a]) for a in range(k)])
        if not np.isfinite(error).all():
            raise ConvergenceError("an error is no number.")
        return PredictedError(
            error, float(self.counts @ error / n), mean, covariance, effective, width, self.form
        )

    def _model(self) -> tuple[Model, float]:
        """Return the model of the kernel itself, and its mean diagonal."""
        if self.form is Form.PAPERS:
            c = self.scalars
            c = c if isinstance(c, Coefficients) else c.coefficients(self.kernel)
            c = c if self.squares else replace(c, c3=0.0)
            return papers_form(self.covariances, c, self.counts), c.d
        model = own_norm_form(
            self.covariances,
            kernel_expansion(self.scalars, self.kernel),
            self.counts,
            pairwise=True,
        )
        return model, float(model.equations.shares @ _diagonal(model))

    def _effective(self, layers: Layers, amounts: Array) -> Model:
        """Return the own-norm model of the kernel that a finite width leaves."""
        known = kernel_expansion(self.scalars, self.kernel)
        limit = layers.amounts(np.ones(amounts.size))
        change = layers.shares(amounts) - layers.shares(limit)
        parts = [(known.combination.scale, known.pairs, self.kernel)]
        for depth, amount in enumerate(change, start=1):
            features = known.pairs
            if isinstance(features, ExplicitPairs):
                features = ExplicitPairs(features.acts[:depth])
            parts.append((float(amount), features, Kernel.CK))
        combination = Combination(Kernel.CK, gram=known.combination.gram)
        return own_norm_form(
            self.covariances,
            Expansion(WeightedPairs(tuple(parts)), combination),
            self.counts,
            pairwise=True,
        )


def _diagonal(model: Model) -> Array:
    """Return the kernel's mean diagonal on each group."""
    equations, low_rank = model
    covariances, classes = equations.covariances, equations.classes
    means = np.diagonal(covariances.grams) / covariances.dimension
    noise = covariances.response(np.zeros(equations.n_classes))
    linear = equations.scales * noise[classes] + low_rank.linear**2 * means[classes]
    return np.asarray(equations.offsets + linear + low_rank.columns**2 @ low_rank.signs)


def _sizes(model: Model) -> Array:
    """Return the diagonal on each class, in units of its mean."""
    diagonal = _diagonal(model)
    return by_class(model.equations, diagonal) / float(model.equations.shares @ diagonal)
