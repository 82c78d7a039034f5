"""Predict the test error of the DEQ, its twin and a plain network."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from deqcli.checks import LARGEST, POSITIVE, number
from deqcli.errors import InputError
from deqcli.quantities import Claim, Finished, Measured, Quantity
from deqcli.settings import setting, with_default
from deqcli.shared_settings import DeqSettings, SampleSettings, SourceSettings, kernel_setting
from deqcli.study import Assembled, Study, Tolerance
from deqcli.vocabulary import Kernel, Net

if TYPE_CHECKING:
    from deqcli.data.laws import Law
    from deqcli.readouts import Readout
    from deqcli.spectral.covariances import Covariances
    from deqcli.study import Arrays, Load

#: What errors can be drawn against, with the values that are measured unless told otherwise.
AXES: dict[str, tuple[float, ...]] = {
    "width": (50, 100, 200, 300, 400, 600, 800, 1600, 3200),
    "n": (100, 200, 400, 800, 1600),
    "ridge": (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0),
    "mean-norm": (0.5, 1.0, 1.5, 2.0, 2.5, 3.0),
    "sigma-a2": (0.0, 0.05, 0.1, 0.15, 0.2),
}
_WHOLE = ("width", "n")
# Points of a line between the measured ones.
_LINE = 16
# Samples among which a twin is fitted.
_FITTED = 2000
#: The width that stands for infinitely many neurons in tables.
INFINITE = 0


class Place(NamedTuple):
    """Where networks are trained: one value of each axis; no width is an infinite one."""

    width: int | None
    n: int
    ridge: float
    mean_norm: float
    sigma_a2: float


@dataclass(frozen=True, kw_only=True)
class PredictSettings(SampleSettings, DeqSettings):
    """Settings of ``deqcli predict``."""

    act: str = with_default(DeqSettings, "act", "relu")
    sigma_a2: float = with_default(DeqSettings, "sigma_a2", 0.2)
    kernel: Kernel = kernel_setting(Kernel.CK, "ck: the readout is trained, ntk: all weights, as "
                                    "in the lazy regime. The kernels")  # fmt: skip
    n: int = setting(400, "Training samples, the same number of each class.", least=4)
    p: int | None = setting(
        None, "Dimension of drawn samples.", least=2, metavar="P", default_text="500",
        derive=lambda settings: 500 if settings.drawn else None,
    )  # fmt: skip
    mean_norm: float = with_default(SourceSettings, "mean_norm", 2.0)
    ridge: float = setting(
        0.01, "Ridge, in units of the kernel's mean diagonal.", least=0, most=LARGEST
    )
    against: str = setting("width", "What errors are drawn against.", choices=tuple(AXES))
    values: tuple[float, ...] = setting(
        None, "Its values at which networks are trained, separated by commas.", least=0,
        most=LARGEST, metavar="VALUE,…", derive=lambda settings: AXES[settings.against],
        default_text="50 to 3200 neurons; others in the text",
    )  # fmt: skip
    width: int | None = setting(
        None, "Neurons of each layer, where errors are drawn against something else.", least=1,
        default_text="infinitely many: exact kernels",
    )  # fmt: skip
    nets: tuple[Net, ...] = setting(
        tuple(Net), "Networks: the DEQ, its explicit twin, a plain one of as many layers."
    )
    twin: str = setting(
        "data", "How the twin is found; data: fitted to the DEQ's kernel on samples; scalars: it "
        "has the DEQ's four scalars.", choices=("data", "scalars"),
    )  # fmt: skip
    bias: bool = setting(False, "Train a bias too, which makes the residuals sum to zero.")
    test_size: int = setting(1000, "New samples that errors are measured on.", least=2)
    trials: int = setting(
        10, "Networks of each kind at each value, each on samples of its own.", least=1, most=10_000
    )

    def check(self) -> None:
        from deqcli.activations import activation
        from deqcli.gaussian import check_existence
        from deqcli.prediction.error import check_peak

        super().check()
        if self.on_sphere:
            raise InputError("`data` is sphere, which has no classes; take another.")
        if self.kernel.before_activation:
            raise InputError(f"`kernel` is {self.kernel}; networks are trained by ck and ntk.")
        classes = self.law(self.p).n_classes
        if classes < 2:
            raise InputError("there is one class; `classes` must be at least 2 to be told apart.")
        if self.test_size < classes:
            raise InputError(f"`test_size` is {self.test_size}; give one of each class or more.")
        if self.against == "mean-norm" and self.data != "gmm":
            raise InputError(f"`against` is mean-norm, which `data` {self.data} does not have.")
        for value in self.values:
            if self.against in _WHOLE:
                if value != int(value):
                    raise InputError(f"`values` has {value:g}; give whole numbers.")
                number(int(value), "values", int, POSITIVE)
            place = self.place(value)
            if place.n < 2 * classes:
                raise InputError(f"`n` is {place.n}; give two samples of each class or more.")
            if place.width is not None and self.kernel is Kernel.CK:
                given = "width" if self.against != "width" else "values"
                check_peak(place.ridge, place.width, place.n, given)
            if self.against == "sigma-a2":
                check_existence(activation(self.act), value, self._sigma_b2(value))

    def unused(self) -> Collection[str]:
        axis = {"n", "ridge", "mean_norm", "sigma_a2", "width"} & {self.against.replace("-", "_")}
        return {*super().unused(), *axis}

    def place(self, value: float) -> Place:
        """Return where networks are trained for one value of the axis."""
        here = Place(self.width, self.n, self.ridge, self.mean_norm, self.sigma_a2)
        found: Any = int(value) if self.against in _WHOLE else value
        if self.against == "width" and value == INFINITE:
            found = None
        return here._replace(**{self.against.replace("-", "_"): found})

    def _sigma_b2(self, sigma_a2: float) -> float:
        return 1 - sigma_a2 if self.sigma_b2 == 1 - self.sigma_a2 else self.sigma_b2

    def deq(self, sigma_a2: float) -> tuple[str, float, float]:
        """Return the DEQ of one variance; the other one follows it unless it was given."""
        return self.act, sigma_a2, self._sigma_b2(sigma_a2)

    @property
    def measured(self) -> tuple[float, ...]:
        """The values at which networks are trained; against width, also the limit."""
        return (*self.values, INFINITE) if self.against == "width" else self.values


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
    those of a mixture with its moments, a model.
    """

    name = "predict"
    version = 3
    duration = "two to three minutes"
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
        from deqcli.spectral.covariances import covariances_of

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
            for row in range(len(found["error"])):
                kind = "independent" if row >= len(settings.nets) else "predicted"
                rows.append(
                    {
                        "net": settings.nets[row % len(settings.nets)].value,
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


def line(settings: PredictSettings) -> tuple[float, ...]:
    """Return the values at which errors are predicted: those measured, and some between."""
    import numpy as np

    values = np.array(settings.values)
    low, high = float(values.min()), float(values.max())
    between: Any = []
    if settings.against != "sigma-a2" and high > low:
        space = np.linspace if settings.against == "mean-norm" or low == 0 else np.geomspace
        between = space(low, high, _LINE)
        if settings.against in _WHOLE:
            between = np.round(between)
            if settings.ridge == 0:
                # There the variance of a readout is infinite.
                peak = settings.n if settings.against == "width" else settings.width
                between = between[between != peak]
    ends = (INFINITE,) if settings.against == "width" else ()
    found = {float(f"{value:.6g}") for value in between} | set(settings.values) | set(ends)
    return tuple(sorted(found))


def _key(value: float, trial: int | None = None) -> str:
    return f"value={value:g}" if trial is None else f"value={value:g} trial={trial}"


def _gap(run: Finished, net: str) -> Measured:
    return Measured(**run.findings["gaps"][net])


def _advantage(run: Finished) -> Measured:
    return Measured(**run.findings["advantage"])


STUDY = Predict()
