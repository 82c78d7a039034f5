r"""Ridge regression with one kernel of a network: what is predicted of its outputs.

The infinite kernel, or the features and the tangent kernel of a network of finite width, on the
samples of a mixture, in one of two forms (theory.md §11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from deqcli.display import Displayed
from deqcli.errors import ConvergenceError
from deqcli.kernels.expansion import Expansion
from deqcli.kernels.pairs import ExplicitPairs
from deqcli.kernels.tiles import Combination
from deqcli.own_norms import kernel_expansion
from deqcli.prediction.grouped import Table
from deqcli.prediction.layers import layers_of
from deqcli.prediction.limits import Limits, limits_of
from deqcli.prediction.metric import Metric
from deqcli.prediction.outputs import Outputs
from deqcli.prediction.samples import samples_of
from deqcli.prediction.slopes import Slopes, slopes_of
from deqcli.prediction.tails import wrong_of_groups
from deqcli.prediction.thirds import thirds_of
from deqcli.prediction.width import FiniteWidth
from deqcli.scalars import Coefficients, ExplicitScalars, ImplicitScalars
from deqcli.spectral.covariances import Covariances
from deqcli.spectral.forms import check_own_norms, papers_form
from deqcli.vocabulary import Form, Kernel

Array = NDArray[np.float64]
Scalars = ImplicitScalars | ExplicitScalars | Coefficients
Tabulated = Callable[[], tuple[Table, Array]]

# In place of no ridge, in units of the diagonal: least squares is the limit.
_LEAST = 1e-9
# Deviations of outputs below this part of them are rounding, and tell no classes apart.
_ROUNDING = 1e-10


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
        effective = ridge
        if width is None:
            found = self._infinite(ridge)
        else:
            found, effective = self._finite(max(ridge, _LEAST), width)
        targets, offset = targets_of(k), np.zeros(targets_of(k).shape[1])
        if bias:
            rows = found.inverse.sum(axis=0)
            offset = rows @ targets / rows.sum()
        targets = targets - offset
        means, within = found.means @ targets + offset, targets.T @ found.covariances @ targets
        within += (_ROUNDING / (1 + effective)) ** 2 * np.eye(offset.size)
        sums = found.weights * (found.classes == np.arange(k)[:, None])
        skews = np.einsum(
            "ai,ixyz,xr,ys,zt->arst", sums, found.skews, *[targets] * 3, optimize=True
        )
        mean = sums @ means
        away = means - mean[found.classes]
        spread = within + away[:, :, None] * away[:, None, :]
        error = np.array(
            [
                wrong_of_groups(means[i], within[i], found.weights[i], found.nodes[i], a, skews[a])
                for a, i in enumerate(sums > 0)
            ]
        )
        if not np.isfinite(error).all():
            raise ConvergenceError("an error is no number.")
        covariance = np.tensordot(sums, spread, 1)
        return PredictedError(
            error, float(self.counts @ error / n), mean, covariance, effective, width, self.form
        )

    @property
    def _coefficients(self) -> Coefficients:
        c = self.scalars
        c = c if isinstance(c, Coefficients) else c.coefficients(self.kernel)
        return c if self.squares else replace(c, c3=0.0)

    def _infinite(self, ridge: float) -> Limits:
        n = int(self.counts.sum())
        if self.form is Form.PAPERS:
            c = self._coefficients
            return limits_of(papers_form(self.covariances, c, self.counts), n, ridge * c.d)
        table = self._table([kernel_expansion(self.scalars, self.kernel)])
        return _limits(Outputs(table.kernel(np.ones(1), n), ridge * table.unit()))

    def _finite(self, ridge: float, width: int) -> tuple[Limits, float]:
        """Return the limits, and the effective ridge in units of the mean diagonal."""
        layers = layers_of(self.scalars, self.kernel)
        layers = layers if self.squares else layers.without_squares()
        finite = FiniteWidth(layers, self.covariances, self.counts, width)
        if self.form is Form.PAPERS:
            shift = ridge * self._coefficients.d
            e = finite.solve(shift)
            return finite.limits(e, shift), ridge / float(e[-1])
        tables = self._tables(finite)
        table, _ = next(tables)()
        shift = ridge * table.unit()
        e = finite.solve(shift)
        for tabulated in self._tables(finite, e):
            try:
                return self._of_table(finite, *tabulated(), e, shift), ridge / float(e[-1])
            except ConvergenceError:
                continue
        raise ConvergenceError("the own-norm form has no prediction.")

    def _tables(self, finite: FiniteWidth, e: Array | None = None) -> Iterator[Tabulated]:
        """Yield the kernel and those of the layers' features on groups, and noise of slopes.

        One after the other, where the one before has no prediction: in the metric of an even layer,
        with samples of all lengths in it and with one; and as they are.
        """
        layers, width, p = finite.layers, finite.width, self.covariances.dimension
        parts, tangent = self._parts(layers.links.size), self._tangent
        if tangent is None:
            yield lambda: (self._table(parts), np.zeros((1, 1)))
            return
        plain = slopes_of(tangent, self.kernel)
        if e is not None:
            left = layers.amounts(e) / layers.amounts(np.ones(e.size))
            slopes = slopes_of(tangent, self.kernel, left)
            if slopes.metric is not None and slopes.metric.holds(width, p):
                yield partial(self._in_metric, parts, slopes, slopes.metric, width, True)
                yield partial(self._in_metric, parts, slopes, slopes.metric, width, False)

        def as_they_are() -> tuple[Table, Array]:
            scales = plain.scales(width)
            table = self._table(parts, scales=scales)
            noise = plain.noise(table, width)
            if scales and e is not None:
                table = plain.rescaled(table, width, layers.features(e))
            return table, noise

        yield as_they_are

    def _in_metric(
        self, parts: Sequence[Expansion], slopes: Slopes, metric: Metric, width: int, long: bool
    ) -> tuple[Table, Array]:
        shares = self.counts / self.counts.sum()
        seen = metric.applied(self.covariances, shares, width)
        long = long and metric.stretches(width, self.covariances.dimension)
        table = self._table(parts, seen, scales=long)
        if long:
            table = metric.stretched(table, parts[0], width)
        return table, slopes.noise(table, width)

    def _of_table(
        self, finite: FiniteWidth, table: Table, noise: Array, e: Array, shift: float
    ) -> Limits:
        """Return the limits in the own-norm form."""
        n, layers, width = int(self.counts.sum()), finite.layers, finite.width
        limit = layers.shares(layers.amounts(np.ones(e.size)))
        thirds = thirds_of(self.scalars, table, width)
        table = table.with_products(thirds.bent(table.diagonals[1:]))

        def forms(x: Array, added: Array | float) -> Outputs:
            amounts = layers.amounts(x)
            change = layers.shares(amounts + added) - limit
            squares = layers.added(amounts + added).ravel() / width
            kernel = table.kernel(np.concatenate([[1.0], change, squares]), n, noise)
            return Outputs(kernel, shift, partial(thirds.pairs, amounts=amounts))

        outputs = forms(e, 0.0)
        found, random = _limits(outputs), finite.variances(e, shift, forms)
        means, added = found.means, random.sum(axis=0)
        amounts, state = layers.amounts(e), outputs.state
        lean = outputs.against(thirds.means)
        means = means + thirds.own(state, amounts).T @ lean
        new = np.einsum("lia,lb->iab", outputs.against(thirds.of_new(state, amounts)), lean)
        added += new + np.swapaxes(new, 1, 2)
        skews = thirds.of_outputs(state, amounts, lean, outputs.linear, random)
        covariances = found.covariances + added
        if finite.noisy:
            # What noise in the norms does is known in the papers' form.
            with_noise, without = (finite.limits(e, shift, noisy) for noisy in (True, False))
            means = means + (with_noise.means - without.means)[found.classes]
            change = with_noise.covariances - without.covariances
            covariances = covariances + change[found.classes]
        return found._replace(means=means, covariances=covariances, skews=skews)

    @property
    def _tangent(self) -> ImplicitScalars | ExplicitScalars | None:
        """The network, if its tangent kernel is used."""
        if self.kernel.explicit is not Kernel.NTK or isinstance(self.scalars, Coefficients):
            return None
        return self.scalars

    def _table(
        self,
        kernels: Sequence[Expansion],
        seen: Covariances | None = None,
        *,
        scales: bool = False,
    ) -> Table:
        """Tabulate kernels; the covariances are as seen in another metric, if one is given."""
        own = self.covariances
        check_own_norms(own, self.counts)
        samples = samples_of(seen or own, self.counts, scales=scales, norms=own)
        return Table.of(samples, kernels)

    def _parts(self, depth: int) -> list[Expansion]:
        """Return the kernel, and that of the features of each layer."""
        known = kernel_expansion(self.scalars, self.kernel)
        pairs = [known.pairs]
        if isinstance(known.pairs, ExplicitPairs):
            pairs = [ExplicitPairs(known.pairs.acts[:last]) for last in range(1, depth + 1)]
        return [known, *(Expansion(one, Combination(Kernel.CK)) for one in pairs)]


def _limits(found: Outputs) -> Limits:
    samples = found.samples
    weights = samples.averages.sum(axis=1)
    shown = found.inverse, found.means, found.covariances
    k = len(found.inverse)
    straight = np.zeros((weights.size, k, k, k))
    return Limits(*shown, samples.classes, weights, samples.nodes, straight)
