r"""The test error of kernel ridge regression on a mixture, and of networks of finite width.

For x of class a the output is nearly Gaussian, :math:`f(x) \sim N(m_a, \Sigma_a)`, so that its
error is a tail probability; nothing is drawn and nothing trained (theory.md §11).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deqcli.checks import NOT_NEGATIVE, POSITIVE, number, of_type, shown
from deqcli.errors import ConvergenceError, InputError
from deqcli.prediction.regression import PredictedError, Regression, Scalars
from deqcli.scalars import Coefficients, ExplicitScalars, ImplicitScalars
from deqcli.spectral.covariances import Covariances
from deqcli.spectral.from_moments import covariances_of
from deqcli.spectral.law import Mixture
from deqcli.vocabulary import Form, Kernel


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
        layer of independent features. With one even activation (``abs``, ``cos``) errors of ``ntk``
        are mostly right to 0.02, and of far fewer neurons than dimensions to less.
    bias : bool
        Whether there is b, which makes the residuals sum to zero (LS-SVM); else b = 0.
    form : Form or str, optional
        ``own-norm``: the exact kernel to higher order in 1/p, and with the draw of the training
        samples. ``papers``: the limit, which four scalars decide. By default the first where it
        can be had: not for bare ``Coefficients``, more than 16 classes, means of many times the
        noise's norm, or more than p^2 samples.

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
