"""What the law of a spectrum says of a study's samples: rows of a table, and sentences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deqcli.data.dataset import Dataset
from deqcli.errors import DataError, DeqcliError
from deqcli.spectral.covariances import Covariances
from deqcli.spectral.forms import MOST_CLASSES
from deqcli.spectral.from_moments import covariances_of, spanned
from deqcli.spectral.law import SpectralLaw, law_on
from deqcli.spectral.spikes import Spike, carried
from deqcli.vocabulary import Net

if TYPE_CHECKING:
    import pandas as pd

    from deqcli.activations import Activation
    from deqcli.data.mixture import GaussianMixture
    from deqcli.matching import Match
    from deqcli.models import Model
    from deqcli.scalars import ImplicitScalars
    from deqcli.training.trio import Trio
    from deqcli.vocabulary import Form, Kernel

# Of predicted errors, in units of the kernel's mean diagonal.
_RIDGE = 0.1
_MODEL = "a mixture with the moments of the whole set, a model of these data"
# Points of the density in a table, for each interval.
_POINTS = 120
# Classes with less than this part of what an eigenvector has of all are not named.
_NAMED = 0.15


def law_of_samples(
    model: Model, kernel: Kernel, form: Form, whole: Dataset | None
) -> SpectralLaw | str:
    """Return the law of a DEQ's kernel on its samples, or say why there is none.

    Parameters
    ----------
    whole : Dataset or None
        Real data has the law of a mixture with the moments of this, the whole set.
    """
    data, mixture = model.inputs.data, model.inputs.mixture
    counts = np.bincount(data.y)
    if model.scalars is None:
        return "points on the sphere have no law here"
    if counts.size > MOST_CLASSES:
        return f"laws are for at most {MOST_CLASSES} classes"
    shares = counts / counts.sum()
    if mixture is None and whole is None:
        return "there is no law of these samples"
    try:
        if mixture is not None:
            covariances = covariances_of(mixture.means, mixture.covariances, mixture.shape, shares)
        else:
            assert whole is not None
            covariances = pooled(whole)
        return law_on(covariances, counts, model.scalars, kernel, form)
    except DeqcliError as error:
        return str(error)


def pooled(data: Dataset) -> Covariances:
    """Return the moments of labelled samples: class means, and multiples of one covariance."""
    n, p = data.X.shape
    means, traces = [], []
    # Few samples span few dimensions: then they are kept, else only their products.
    few = n < p
    shape, kept = np.zeros((0, 0) if few else (p, p)), []
    # Each class has the shape of all, so that one decomposition serves.
    for a in range(len(data.classes)):
        rows = data.X[data.y == a]
        means.append(rows.mean(axis=0))
        rows -= means[-1]
        traces.append(float(np.vdot(rows, rows)) / len(rows))
        if traces[-1] == 0:
            raise DataError(f"class {data.classes[a]} does not vary")
        if few:
            rows *= np.sqrt(p / n / traces[-1])
            kept.append(rows)
        else:
            shape += rows.T @ rows / traces[-1]
    centres = np.sqrt(p) * np.array(means)
    if few:
        return spanned(centres, np.array(traces), np.concatenate(kept))
    return covariances_of(centres, [np.array(trace) for trace in traces], shape * (p / n))


def errors_on(
    data: Dataset,
    source: GaussianMixture | Dataset,
    deq: ImplicitScalars,
    explicit: Mapping[Net, tuple[Activation, ...]],
    kernel: Kernel,
    ridge: float,
) -> dict[str, float] | None:
    """Predict the test errors of infinitely wide networks trained on samples, by their names.

    Parameters
    ----------
    source : GaussianMixture or Dataset
        What has the samples' moments: their mixture, or for real data the whole set. Few samples
        in many dimensions would tell classes apart by their own noise.

    Returns
    -------
    dict of str to float, or None
        None where there is no answer: one class, very many, or moments that are too far off.
    """
    from deqcli.readouts import predicted_errors

    counts = np.bincount(data.y, minlength=data.n_classes)
    if not 2 <= counts.size <= MOST_CLASSES or counts.min() < 2:
        return None
    try:
        real = isinstance(source, Dataset)
        if isinstance(source, Dataset):
            moments = pooled(source)
        else:
            shares = counts / counts.sum()
            moments = covariances_of(source.means, source.covariances, source.shape, shares)
        return predicted_errors(moments, counts, deq, explicit, kernel, ridge, real)
    except DeqcliError:
        return None


def errors_of_match(
    model: Model, twin: Match, plain: tuple[Activation, ...], whole: Dataset | None
) -> dict[str, float] | None:
    """Predict the errors of a DEQ, its twin and a plain network on samples like these.

    Parameters
    ----------
    whole : Dataset or None
        The set that real data is part of.
    """
    data, source = model.inputs.data, model.inputs.mixture or whole
    if model.scalars is None or source is None:
        return None
    explicit = {Net.MATCHED: twin.acts, Net.PLAIN: plain}
    return errors_on(data, source, model.scalars, explicit, twin.kernel, _RIDGE)


def errors_sentence(errors: Mapping[str, float], real: bool) -> str:
    """Say what they are.

    Examples
    --------
    >>> errors_sentence({"deq": 0.05, "matched": 0.0503}, real=False)
    'predicted test error, ridge 0.1: deq 0.0500, matched 0.0503'
    """
    told = ", ".join(f"{net} {error:.4f}" for net, error in errors.items())
    where = f" on {_MODEL}" if real else ""
    return f"predicted test error{where}, ridge {_RIDGE:g}: {told}"


def errors_of_trio(trio: Trio, data: Dataset, settings: Any) -> dict[str, float] | None:
    """Predict the errors on a mixture of networks that are trained to the end by least squares."""
    from deqcli.data.laws import Mixture
    from deqcli.training.scale import deciding_kernel

    law = settings.law(settings.p)
    if not isinstance(law, Mixture):
        return None
    explicit: dict[Net, tuple[Activation, ...]] = {
        net: trio.acts(net) for net in settings.nets if net != Net.DEQ
    }
    kernel = deciding_kernel(settings.train)
    errors = errors_on(data, law.mixture, trio.scalars, explicit, kernel, 0.0)
    return errors and {net: errors[net] for net in settings.nets}


def name_of(spike: Spike | Mapping[str, Any], classes: tuple[str, ...]) -> str:
    """Return in a few words what an isolated eigenvalue's vector carries."""
    found = spike if isinstance(spike, Mapping) else vars(spike)
    alignment = np.asarray(found["alignment"])
    kind = carried(alignment, found["common"], found["norms"])
    if kind != "classes":
        return kind
    named = [classes[a] for a in _most_of(alignment)]
    return f"class{'es' if len(named) > 1 else ''} {', '.join(named)}"


def _most_of(alignment: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the classes that an eigenvector carries; all where it lies in many alike."""
    above = np.flatnonzero(alignment >= _NAMED * alignment.sum())
    return above if above.size else np.arange(alignment.size)


def findings_of(law: SpectralLaw, form: Form, model: bool) -> dict[str, Any]:
    """Return the law in numbers, for a record.

    Parameters
    ----------
    model : bool
        Whether the samples are real ones, and the mixture a model of them.
    """
    return {
        "form": form,
        "model": model,
        "edges": [list(interval) for interval in law.edges],
        "largest": law.largest,
        "atoms": [list(atom) for atom in law.atoms],
        "spikes": [
            {
                "position": spike.position,
                "alignment": spike.alignment.tolist(),
                "informative": spike.informative,
                "common": spike.common,
                "norms": spike.norms,
            }
            for spike in law.above
        ],
        "mixed": [
            [first.position, second.position]
            for first, second in itertools.pairwise(law.above)
            if _mix(first, second, law.counts)
        ],
    }


def _mix(first: Spike, second: Spike, counts: NDArray[np.int64]) -> bool:
    r"""Tell whether two isolated eigenvalues fluctuate across each other (theory.md §10).

    Nearer than :math:`1/\sqrt{n_a}` of themselves, the smallest class that they carry, their
    eigenvectors mix from draw to draw.
    """
    least = min(int(counts[_most_of(spike.alignment)].min()) for spike in (first, second))
    return first.position - second.position < first.position / np.sqrt(max(least, 1))


def rows_of(law: SpectralLaw, classes: tuple[str, ...]) -> pd.DataFrame:
    """Return the law in rows: isolated eigenvalues with what they carry, then the density."""
    import pandas as pd

    spikes = pd.DataFrame(
        {
            "eigenvalue": [spike.position for spike in law.above],
            "isolated": True,
            "carries": [name_of(spike, classes) for spike in law.above],
            "aligned": [float(spike.alignment.sum()) for spike in law.above],
        }
    )
    x = law.points(_POINTS)
    bulk = {"eigenvalue": x, "isolated": False, "density": law.density(x),
            "distribution": law.distribution(x)}  # fmt: skip
    table = pd.concat([spikes, pd.DataFrame(bulk)], ignore_index=True)
    return table.assign(index=np.arange(len(table)))


def sentences_of(law: Mapping[str, Any], classes: tuple[str, ...]) -> Iterator[str]:
    """Say what the law predicts."""
    where = _MODEL if law["model"] else ""
    bulk = "there is no bulk"
    if law["edges"]:
        bulk = f"the bulk ends at {law['edges'][-1][1]:.4g}"
        bulk += f", its largest eigenvalue at about {law['largest']:.4g}"
    apart = f"; its distribution is {law['apart']:.2g} from the kernel's" if "apart" in law else ""
    yield f"law, {law['form']} form{f' ({where})' if where else ''}: {bulk}{apart}"
    for spike in law["spikes"]:
        name = name_of(spike, classes)
        share = spike["norms"] if name == "norms" else sum(spike["alignment"])
        kind = "informative" if name.startswith("class") else "not informative"
        place = f"{spike['position']:.4g} stands apart"
        yield f"law: {place} and carries {name} ({share:.0%}, {kind})"
    # Records of former versions do not say.
    for first, second in law.get("mixed", ()):
        yield (
            f"law: {first:.4g} and {second:.4g} are so near to each other that in one "
            "draw of the samples their eigenvectors mix"
        )


def law_apart(spectrum: NDArray[np.float64], law: SpectralLaw) -> float:
    """Return the largest distance of a law's distribution from that of some eigenvalues.

    Parameters
    ----------
    spectrum : ndarray of shape (n,)
        Increasing.
    """
    shares = np.arange(spectrum.size + 1) / spectrum.size
    told = law.distribution(spectrum)
    return float(max(np.max(told - shares[:-1]), np.max(shares[1:] - told)))


def isolated_values(spectrum: NDArray[np.float64], law: SpectralLaw | str) -> int:
    """Return how many of the largest eigenvalues stand apart: as many as the law says."""
    from deqcli.equivalents import count_isolated

    return count_isolated(spectrum[::-1]) if isinstance(law, str) else len(law.above)
