"""From which distance of the means two classes show in a spectrum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from deqcli.errors import InputError
from deqcli.quantities import Finished, Measured, Quantity
from deqcli.settings import setting, split_activations, with_default
from deqcli.shared_settings import DeqSettings, SeedSettings, adopt_activations, kernel_setting
from deqcli.study import Assembled, Study, Tolerance
from deqcli.vocabulary import ACTIVATIONS, Kernel

if TYPE_CHECKING:
    from deqcli.data.laws import Inputs
    from deqcli.data.mixture import GaussianMixture
    from deqcli.study import Arrays, Load

# Among these leading eigenvectors is the one that carries the classes, if any does: before it
# there may be those of the mean and of the norms.
_LEADING = 4
# Points of the predicted lines between the least and the largest norm.
_LINE = 16


@dataclass(frozen=True, kw_only=True)
class VisibleSettings(SeedSettings):
    """Settings of ``deqcli visible``."""

    act: tuple[str, ...] = setting(
        ("relu", "tanh"),
        "Activations, separated by commas (see 'deqcli list activations').",
        split=split_activations,
        suggestions=ACTIVATIONS,
        metavar="NAME,…",
        adopt=adopt_activations,
    )
    sigma_a2: float = with_default(DeqSettings, "sigma_a2", 0.2)
    sigma_b2: float = with_default(DeqSettings, "sigma_b2", None)
    kernel: Kernel = kernel_setting(Kernel.CK)
    n: int = setting(400, "Number of samples, half in each class.", least=16)
    ratio: tuple[float, ...] = setting(
        (0.25, 1.0, 4.0), "p/n, separated by commas.", above=0, most=1000, metavar="P/N,…"
    )
    mean_norm: tuple[float, ...] = setting(
        (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0),
        "Norms of the means mu and -mu, separated by commas.",
        least=0,
        most=100,
        metavar="NORM,…",
    )
    trials: int = setting(3, "Data sets at each point.", least=1, most=10_000)

    def check(self) -> None:
        from deqcli.activations import activation
        from deqcli.gaussian import check_existence

        chosen = [activation(name) for name in self.act]
        for act in chosen:
            check_existence(act, self.sigma_a2, self.sigma_b2)
        for name, values in (
            ("act", [act.name for act in chosen]),
            ("ratio", self.ratio),
            ("mean_norm", self.mean_norm),
        ):
            if len(set(values)) != len(values):
                raise InputError(f"`{name}` names one twice; give each once.")

    def dimension(self, ratio: float) -> int:
        """Return the dimension of the samples."""
        return max(8, round(ratio * self.n))


class Visible(Study[VisibleSettings, VisibleSettings]):
    """From which distance of the means two classes show in a kernel's spectrum.

    Two classes of means mu and -mu and covariance I. As long as mu'mu < sqrt(p/n) no eigenvector of
    any kernel carries them; above it one does, and the law says how much of it. The threshold
    depends on neither the kernel nor the activation, unless that is even and has no linear part.
    Draws the predicted share of the classes in the eigenvector that carries most of them, and that
    of exact kernels on drawn samples.
    """

    name = "visible"
    settings = VisibleSettings
    duration = "about ten seconds"
    examples = (
        "",
        "--act relu,lrelu,tanh --kernel ntk --ratio 0.5,2 --trials 2",
        "--n 200 --mean-norm 0.5,1,1.5,2",
    )
    version = 2
    quick = {"n": 200, "trials": 2}
    constants = {(): ("n", "kernel", "sigma_a2"), ("ratio",): ("p", "threshold")}
    tolerances = {
        "alignment": Tolerance(1e-3, 1e-4),
        "eigenvalue": Tolerance(1e-5),
        "predicted": Tolerance(1e-4, 1e-5),
        "edge": Tolerance(1e-5),
    }

    def prepare(self, settings: VisibleSettings) -> VisibleSettings:
        return settings

    def points(self, settings: VisibleSettings) -> dict[str, tuple[Any, ...]]:
        """Return the points with the largest matrices first, and then those of the lines."""
        ratios = sorted(settings.ratio, reverse=True)
        points: dict[str, tuple[Any, ...]] = {
            _key(ratio, norm, trial): (ratio, norm, trial)
            for ratio in ratios
            for norm in settings.mean_norm
            for trial in range(settings.trials)
        }
        return points | {
            _key(ratio, norm): (ratio, norm) for ratio in ratios for norm in line(settings)
        }

    def memory(self, settings: VisibleSettings) -> int:
        from deqcli.runs.memory import peak

        n, p = settings.n, settings.dimension(max(settings.ratio))
        return peak(loading=24 * n * p, held=8 * n * p, work=36 * n * n)

    def compute(
        self, settings: VisibleSettings, ratio: float, norm: float, trial: int | None = None
    ) -> Arrays:
        """Measure the share of the classes for every activation on one data set, or predict it."""
        import numpy as np

        from deqcli.data.laws import Inputs

        mixture = _mixture(settings.dimension(ratio), norm)
        # The stream does not know the activation: all of them see the same samples.
        rng = self.stream(settings, str(ratio), str(norm), trial or 0)
        data = mixture.sample(settings.n, rng)
        inputs = Inputs(data, mixture.statistics(np.bincount(data.y)), mixture)
        found, names = _measured, ("alignment", "eigenvalue")
        if trial is None:
            found, names = _predicted, ("predicted", "edge")
        rows = [found(settings, inputs, act) for act in settings.act]
        return dict(zip(names, np.array(rows).T, strict=True))

    def assemble(self, settings: VisibleSettings, load: Load) -> Assembled:
        """Make the table, one row an activation, ratio, norm and trial, and those of the lines."""
        import pandas as pd

        from deqcli.activations import activation

        rows = []
        for ratio in settings.ratio:
            for norm in line(settings):
                told = load(_key(ratio, norm))
                trials = range(settings.trials) if norm in settings.mean_norm else ()
                found = [load(_key(ratio, norm, trial)) for trial in trials]
                for place, name in enumerate(settings.act):
                    row = {
                        "act": activation(name).name,
                        "ratio": ratio,
                        "p": settings.dimension(ratio),
                        "mean_norm": norm,
                        "predicted": float(told["predicted"][place]),
                        "edge": float(told["edge"][place]),
                        "threshold": threshold(settings.n, settings.dimension(ratio)),
                    }
                    rows.append({**row, "kind": "predicted", "trial": -1})
                    rows += [
                        {
                            **row,
                            "kind": "measured",
                            "trial": trial,
                            "alignment": float(point["alignment"][place]),
                            "eigenvalue": float(point["eigenvalue"][place]),
                        }
                        for trial, point in enumerate(found)
                    ]
        table = pd.DataFrame(rows).assign(
            n=settings.n, kernel=settings.kernel, sigma_a2=settings.sigma_a2
        )
        keys = ["act", "ratio", "mean_norm"]
        measured = table[table["kind"] == "measured"]
        means = measured.groupby(keys, sort=False)[["alignment", "predicted"]].mean()
        gaps = (means["alignment"] - means["predicted"]).abs()
        return Assembled(
            table,
            {
                "thresholds": {
                    f"{p / settings.n:g}": threshold(settings.n, p)
                    for p in map(settings.dimension, settings.ratio)
                },
                "mean_gap": gaps.groupby("act", sort=False).mean().to_dict(),
                "largest_gap": gaps.groupby("act", sort=False).max().to_dict(),
            },
        )

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        for ratio, value in findings["thresholds"].items():
            yield (
                f"p/n = {ratio}: classes show from means of norm {value:.3g} on, whatever the "
                "activation, if it is not even"
            )
        for act, gap in findings["mean_gap"].items():
            yield (
                f"{act}: mean share of the classes {gap:.3f} from the prediction on average, "
                f"at most {findings['largest_gap'][act]:.3f}"
            )

    def quantities(self, settings: VisibleSettings) -> Sequence[Quantity]:
        from deqcli.activations import activation

        return tuple(
            Quantity(
                name,
                f"share of the classes in an eigenvector, distance to the law, {name}",
                partial(_measured_gap, act=activation(name).name),
            )
            for name in settings.act
        )


def _measured_gap(run: Finished, act: str) -> Measured:
    return Measured(run.findings["mean_gap"][act])


def threshold(n: int, p: int) -> float:
    """Return the norm of the means above which classes of covariance I show: (p/n)^(1/4).

    Examples
    --------
    >>> threshold(400, 100)
    0.7071067811865476
    """
    return float((p / n) ** 0.25)


def line(settings: VisibleSettings) -> tuple[float, ...]:
    """Return the norms at which shares are predicted: those measured, and some between."""
    import numpy as np

    norms = settings.mean_norm
    between = np.linspace(min(norms), max(norms), _LINE) if len(norms) > 1 else ()
    return tuple(sorted({float(f"{norm:.6g}") for norm in between} | set(norms)))


def _key(ratio: float, norm: float, trial: int | None = None) -> str:
    where = f"ratio={ratio:g} norm={norm:g}"
    return where if trial is None else f"{where} trial={trial}"


def _mixture(p: int, norm: float) -> GaussianMixture:
    import numpy as np

    from deqcli.data.mixture import GaussianMixture

    means = np.zeros((2, p))
    means[:, 0] = norm, -norm
    return GaussianMixture(means, [1.0, 1.0])


def _measured(settings: VisibleSettings, inputs: Inputs, act: str) -> tuple[float, float]:
    """Return the largest share of the classes in a leading eigenvector, and its eigenvalue."""
    import numpy as np
    from scipy.sparse.linalg import eigsh

    from deqcli.models import deq_model

    contrast = np.where(inputs.data.y == 0, 1.0, -1.0)
    contrast -= contrast.mean()
    contrast /= np.linalg.norm(contrast)
    model = deq_model(inputs, act, settings.sigma_a2, settings.sigma_b2)
    (kernel,) = model.kernel(settings.kernel)
    start = np.random.default_rng(0).standard_normal(settings.n)
    values, vectors = eigsh(kernel, k=_LEADING, which="LA", v0=start)
    shares = (contrast @ vectors) ** 2
    place = int(shares.argmax())
    return float(shares[place]), float(values[place])


def _predicted(settings: VisibleSettings, inputs: Inputs, act: str) -> tuple[float, float]:
    """Return the share of the classes in the eigenvector with most of it, and the bulk's edge."""
    import numpy as np

    from deqcli.models import deq_model
    from deqcli.spectral.law import spectral_law

    scalars = deq_model(inputs, act, settings.sigma_a2, settings.sigma_b2).scalars
    assert scalars is not None
    assert inputs.mixture is not None
    law = spectral_law(inputs.mixture, np.bincount(inputs.data.y), scalars, settings.kernel)
    return max((spike.informative for spike in law.above), default=0.0), law.edge


STUDY = Visible()
