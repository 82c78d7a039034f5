"""Predict the test error of the DEQ, its twin and a plain network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deqcli.predict_settings import INFINITE, PredictSettings, line
from deqcli.quantities import Claim, Finished, Measured, Quantity
from deqcli.study import Assembled, Study, Tolerance
from deqcli.vocabulary import Kernel, Net

if TYPE_CHECKING:
    from deqcli.data.laws import Law
    from deqcli.readouts import Readout
    from deqcli.spectral.covariances import Covariances
    from deqcli.study import Arrays, Load

# Samples among which a twin is fitted.
_FITTED = 2000


@dataclass(frozen=True)
class Prepared:
    """The networks by variance, and the moments of classes by the norm of their means."""

    settings: PredictSettings
    networks: Mapping[float, Mapping[Net, Readout]]
    moments: Mapping[float, Covariances]


class Predict(Study[PredictSettings, Prepared]):
    """Predict the test error of the DEQ, its twin and a plain network, before any is trained.

    Readouts are trained by ridge regression on the features of random networks (or all weights, in
    the lazy regime: --kernel ntk). Draws the test error against width: predicted as lines, measured
    as points with 95 % intervals over networks, each on samples of its own, and infinite width at
    the right; beside it the output's mean and spread (blue the DEQ, red its twin, green the plain
    network). --against has other axes: n, ridge, mean-norm, sigma-a2. For real data the lines are
    those of a mixture with its moments, a model; for more than 16 classes they are the limits that
    four scalars decide.
    """

    name = "predict"
    version = 5
    duration = "about 40 seconds"
    settings = PredictSettings
    examples = (
        "",
        "--kernel ntk --act gelu --sigma-a2 0.1 --values 50,200,800",
        "--against ridge --classes 4 --mean-norm 4",
        "--against n --width 300 --act tanh",
        "--data mnist --classes 3,5 --act tanh --values 100,400,1600 --trials 5",
    )
    quick = {"values": 400, "trials": 4, "test_size": 500}
    # Networks are solved in single precision; one sample on the border is one of a thousand.
    tolerances = {
        "error": Tolerance(1e-4, 0, 0.005),
        "mean": Tolerance(1e-3, 1e-4),
        "deviation": Tolerance(1e-3, 1e-4),
    }

    def prepare(self, settings: PredictSettings) -> Prepared:
        import numpy as np

        from deqcli.data.laws import Mixture, RealData
        from deqcli.predicted import pooled
        from deqcli.readouts import readouts
        from deqcli.spectral.from_moments import covariances_of

        places = [settings.place(value) for value in line(settings)]
        norms = dict.fromkeys(place.mean_norm for place in places)
        streams = self.data_streams(settings)
        source, X = settings.law(settings.p), None
        moments: dict[float, Covariances] = {}
        if isinstance(source, RealData):
            whole = source.whole(streams)
            shares = np.bincount(whole.y) / whole.n_samples
            moments = dict.fromkeys(norms, pooled(whole))
            X = whole.X[:: max(1, whole.n_samples // _FITTED)].copy()
            del whole
        else:
            assert isinstance(source, Mixture)
            shares = np.full(source.n_classes, 1 / source.n_classes)
            for norm in norms:
                mixture = replace(source, mean_norm=norm).mixture
                moments[norm] = covariances_of(
                    mixture.means, mixture.covariances, mixture.shape, shares
                )
            if settings.twin == "data":
                X = source.load(streams, _FITTED).data.X
        tau0 = float(np.sqrt(shares @ next(iter(moments.values())).traces))
        fitted = X if settings.twin == "data" else None
        variances = dict.fromkeys(place.sigma_a2 for place in places)
        networks = {
            sigma_a2: readouts(
                *settings.deq(sigma_a2), tau0, settings.kernel, settings.nets, X=fitted,
                seed=settings.seed,
            )
            for sigma_a2 in variances
        }  # fmt: skip
        return Prepared(settings, networks, moments)

    def points(self, settings: PredictSettings) -> dict[str, tuple[Any, ...]]:
        """Return the largest networks first, and then the points of the lines."""
        points: dict[str, tuple[Any, ...]] = {}
        for value in sorted(settings.measured, reverse=True):
            points |= {_key(value, trial): (value, trial) for trial in range(settings.trials)}
        return points | {_key(value): (value,) for value in line(settings)}

    def memory(self, settings: PredictSettings) -> int:
        from deqcli.data.laws import RealData
        from deqcli.runs.memory import peak

        law = settings.law(settings.p)
        places = [settings.place(value) for value in settings.measured]
        n, (_, p) = max(place.n for place in places), law.shape(settings.n)
        samples, q = n + settings.test_size, settings.test_size
        m = max(place.width or 0 for place in places)
        # Weights, bias and value in single precision, the features in double; then either system.
        work = 4 * m * (m + p + 2 * samples) + 8 * m * samples + 24 * min(m, n) ** 2
        if settings.kernel is Kernel.NTK:
            work = 4 * m * (m + p + 4 * samples) + 52 * samples**2
        if any(place.width is None for place in places):
            work = max(work, 8 * n * samples + 8 * n * n + 60_000_000)
        loading = law.loading(n, q)
        held = 16 * samples * p
        if isinstance(law, RealData):
            loading = max(loading, law.whole_bytes())
        elif settings.covariance.startswith("toeplitz"):
            held += 32 * p * p
        return peak(loading=loading, held=held, work=work)

    def compute(self, prepared: Prepared, value: float, trial: int | None = None) -> Arrays:
        """Train one network of each kind on one draw of the samples; or predict for all draws."""
        import numpy as np

        from deqcli.predicted_errors import seen

        settings = prepared.settings
        place = settings.place(value)
        networks = prepared.networks[place.sigma_a2]
        if trial is None:
            return self._predict(prepared, value)
        streams = self.data_streams(settings, str(value), trial)
        source = _source(settings, place.mean_norm)
        data, test = source.load_halves(streams, place.n, settings.test_size)
        rows = []
        for net, network in networks.items():
            rng = self.stream(settings, net.value, str(value), trial)
            f = network.outputs(data, test, place.ridge, place.width, rng, settings.bias)
            rows.append(seen(f, test.y, np.bincount(data.y) / data.n_samples))
        return dict(zip(("error", "mean", "deviation"), np.array(rows).T, strict=True))

    def _predict(self, prepared: Prepared, value: float) -> Arrays:
        import numpy as np

        from deqcli.predicted_errors import told

        settings = prepared.settings
        place, k = settings.place(value), settings.law(settings.p).n_classes
        counts = place.n // k + (np.arange(k) < place.n % k)
        moments = prepared.moments[place.mean_norm]
        # The same, as if features were independent, beside what is measured at finite width.
        kinds = (False, True) if place.width is not None and value in settings.values else (False,)
        where = moments, counts, place.ridge, place.width, settings.bias
        rows = [
            told(network.predict(*where, independent=independent, real=not settings.drawn))
            for independent in kinds
            for network in prepared.networks[place.sigma_a2].values()
        ]
        return dict(zip(("error", "mean", "deviation"), np.array(rows).T, strict=True))

    def assemble(self, prepared: Prepared, load: Load) -> Assembled:
        """Make the table, one row a network and value: each trial, and what was predicted."""
        import pandas as pd

        from deqcli.predicted_errors import findings

        settings = prepared.settings
        rows = []
        keys = [(value, trial) for value in settings.measured for trial in range(settings.trials)]
        for value, trial in [*keys, *((value, None) for value in line(settings))]:
            found, place = load(_key(value, trial)), settings.place(value)
            networks = prepared.networks[place.sigma_a2]
            for row in range(len(found["error"])):
                net = settings.nets[row % len(settings.nets)]
                kind = "independent" if row >= len(settings.nets) else "predicted"
                rows.append(
                    {
                        "net": net.value,
                        "layers": len(networks[net].acts),
                        "kind": kind if trial is None else "measured",
                        "value": value,
                        "trial": -1 if trial is None else trial,
                        **{name: float(column[row]) for name, column in found.items()},
                        "width": place.width or INFINITE,
                        "n": place.n,
                        "ridge": place.ridge,
                        "mean_norm": place.mean_norm,
                        "sigma_a2": place.sigma_a2,
                    }
                )
        table = pd.DataFrame(rows).assign(
            against=settings.against, act=settings.act, kernel=settings.kernel.value,
            data=settings.source,
        )  # fmt: skip
        first = next(iter(prepared.networks.values()))
        layers = {net.value: len(network.acts) for net, network in first.items()}
        known = {"model": not settings.drawn, "layers": layers, "against": settings.against}
        return Assembled(table, findings(table) | known)

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        from deqcli.predicted_errors import sentences

        return sentences(findings)

    def quantities(self, settings: PredictSettings) -> Sequence[Quantity]:
        quantities = [
            Quantity(
                f"{net}_gap",
                f"test error, predicted minus measured, mean over values, {net}",
                partial(_gap, net=net.value),
            )
            for net in settings.nets
        ]
        if set(Net) <= set(settings.nets):
            quantities.append(
                Quantity(
                    "advantage",
                    "how much farther from the DEQ's test error the plain network's is than the "
                    "twin's, points",
                    _advantage,
                    Claim("> 0: the twin is nearer", least=0.0),
                )
            )
        return quantities


def _source(settings: PredictSettings, norm: float) -> Law:
    """Return where samples come from, the mixture with means of this norm."""
    from deqcli.data.laws import Mixture

    law = settings.law(settings.p)
    return replace(law, mean_norm=norm) if isinstance(law, Mixture) else law


def _key(value: float, trial: int | None = None) -> str:
    return f"value={value:g}" if trial is None else f"value={value:g} trial={trial}"


def _gap(run: Finished, net: str) -> Measured:
    return Measured(**run.findings["gaps"][net])


def _advantage(run: Finished) -> Measured:
    return Measured(**run.findings["advantage"])


STUDY = Predict()
