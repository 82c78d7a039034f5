"""How many multiplications a study is, by its settings, for an estimate of its time.

A function for each study, under its name. What is no matrix product counts as the multiplications
of one that takes as long.
"""

from __future__ import annotations

from typing import Any

from deqcli.storage import MOST_DENSE
from deqcli.vocabulary import Estimator, Kernel, Net

#: The equations of a law, with its edges and isolated eigenvalues, and of a test error.
_LAW, _PREDICTION = 2e9, 4e9


def spectrum(settings: Any) -> float:
    """Of the spectra of the equivalents, of the exact kernel and of the average over networks."""
    n, p = settings.shape
    if not settings.dense:
        # Half of a kernel, products of four columns and of one; those with samples, in spectra of
        # the equivalents too; and orthogonal bases.
        return _kernel(n, p) / 2 + 4000.0 * n * n + 8000.0 * n * p + 3e5 * n
    work = len(settings.form) * _spectrum(n)
    if Estimator.EXACT in settings.estimator:
        work += _kernel(n, p) + _spectrum(n)
    if Estimator.MONTE_CARLO in settings.estimator:
        work += settings.realizations * _network(n, p, settings) + _spectrum(n)
    return work


def error_vs_n(settings: Any) -> float:
    """Of a kernel and some norms for every size, trial and activation."""
    total = 0.0
    for n in settings.n:
        p = settings.law(settings.dimension(n)).shape(n)[1]
        exact = (_kernel(n, p) / 2 if settings.as_operator(n) else _kernel(n, p)) + 200 * n * n
        drawn = settings.estimator == Estimator.MONTE_CARLO
        one = settings.realizations * _network(n, p, settings) if drawn else exact
        total += settings.trials * len(settings.act) * one
    return total


def visible(settings: Any) -> float:
    """Of a kernel and a few eigenvectors for every ratio, norm, trial and activation, and a law."""
    each = [_kernel(settings.n, settings.dimension(ratio)) for ratio in settings.ratio]
    each = [one + 400.0 * settings.n**2 for one in each]
    laws = _LAW * len(settings.ratio)
    return len(settings.act) * len(settings.mean_norm) * (settings.trials * sum(each) + laws)


def match(settings: Any) -> float:
    """Of the spectra of three networks, exact or averaged; without data there is none."""
    if settings.tau0 is not None:
        return 0.0
    n, p = settings.shape
    work = 3 * (_kernel(n, p) + _spectrum(n))
    if settings.averaged:
        # The DEQ, and an explicit network that is a fraction of it.
        work += 1.3 * settings.realizations * _network(n, p, settings)
    return work


def predict(settings: Any) -> float:
    """Of random networks, solved equations and exact kernels, for every value and trial."""
    from deqcli.predict_settings import line

    p, total = settings.law(settings.p).shape(settings.n)[1], 0.0
    for place in map(settings.place, settings.measured):
        samples = place.n + settings.test_size
        if place.width is None:
            total += len(settings.nets) * (_kernel(samples, p) + place.n**3)
            continue
        m, solves = place.width, 20.0 if settings.kernel is Kernel.NTK else 10.0
        # A DEQ solves by some ten steps what an explicit network has in one or two.
        each = [solves if net == Net.DEQ else 2.0 for net in settings.nets]
        total += sum(40.0 * m * (m + p) + samples * m * (p + steps * m) / 2 for steps in each)
        total += len(each) * min(m, place.n) * m * samples
    return settings.trials * total + _PREDICTION * len(settings.nets) * len(line(settings))


def accuracy(settings: Any) -> float:
    """Of training: forward, backward and update; a DEQ solves the first two by some ten steps."""
    n, p = settings.law(settings.p).shape(settings.n)
    q = settings.test_size or n
    each = {net: 30 if net == Net.DEQ else 3 for net in settings.nets}
    widths = sum(each[net] * m * m + 3 * m * p for net in each for m in settings.widths)
    total = settings.trials * settings.epochs * (n + q / 3) * widths / 2
    if settings.limit == "linearised":
        total += len(each) * (_kernel(n + q, p) + n**3)
    if settings.limit == "regression":
        total += float(q) * n * (p + 1500)
        # Beyond what is solved directly: half of a kernel, and products in some hundred steps.
        total += _kernel(n, p) + n**3 / 3 if n <= MOST_DENSE else _kernel(n, p) / 2 + 8000.0 * n * n
    return total


def flow(settings: Any) -> float:
    """Of descent: ten steps of each of two equations, and four gradients in a step of an ODE."""
    n, _ = settings.shape
    each = 20 * (4 if settings.method == "ode" else 1)
    steps = sum((each * n + settings.test_size) * m * m + n * n * m for m in settings.widths)
    return settings.trials * settings.steps * float(steps)


def errata(settings: Any) -> float:
    """Of an exact kernel for every erratum, size and trial; claims cost the same at any size."""
    from deqcli.misprints import ERRATA, RATIO

    kernels = sum(_kernel(n, round(RATIO * n)) for n in settings.n)
    return len(ERRATA) * settings.trials * kernels


def _kernel(n: int, p: int) -> float:
    """Of an exact kernel: inner products, and at each the value of an interpolated function."""
    return float(n) * n * (p + 1500)


def _spectrum(n: int) -> float:
    """Of all eigenvalues of a symmetric matrix, which runs at a fraction of the usual speed."""
    return 6.0 * n**3


def _network(n: int, p: int, settings: Any) -> float:
    """Of one random network on n samples: its weights, some ten iterations, a Gram matrix.

    In single precision, twice as fast; tangent kernels have a second equation.
    """
    width = settings.width
    solves = 2 if settings.kernel.explicit is Kernel.NTK else 1
    drawn = 40.0 * width * (width + p)
    return drawn + n * width * (p + 10.0 * solves * width + solves * n) / 2
