"""How the equivalent's error falls with n."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deqcli.errors import ConvergenceError, InputError
from deqcli.quantities import Claim, Finished, Measured, Quantity, mean_interval
from deqcli.settings import setting, split_activations, with_default
from deqcli.shared_settings import (
    DeqSettings,
    MonteCarloSettings,
    SourceSettings,
    adopt_activations,
    kernel_setting,
)
from deqcli.storage import MOST_DENSE
from deqcli.study import Assembled, Study, Tolerance
from deqcli.vocabulary import ACTIVATIONS, Estimator, Form, Kernel

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from deqcli.data.laws import Inputs
    from deqcli.models import Model
    from deqcli.study import Arrays, Load

# The rate is a limit: at these sizes a fitted slope may miss it by a little.
RATE = Claim("−1/2, fitted ≤ −0.45", most=-0.45)
# Relative errors below this are rounding.
_ROUNDING = 1e-12
_CLAIMED = ("relu", "tanh", "swish", "lrelu")


@dataclass(frozen=True, kw_only=True)
class ErrorSettings(MonteCarloSettings, SourceSettings):
    """Settings of ``deqcli error-vs-n``."""

    act: tuple[str, ...] = setting(
        ("relu", "tanh", "swish", "lrelu"),
        "Activations, separated by commas (see 'deqcli list activations').",
        split=split_activations,
        suggestions=ACTIVATIONS,
        metavar="NAME,…",
        adopt=adopt_activations,
    )
    sigma_a2: float = with_default(DeqSettings, "sigma_a2", 0.2)
    sigma_b2: float = with_default(DeqSettings, "sigma_b2", None)
    kernel: Kernel = kernel_setting(Kernel.CK)
    n: tuple[int, ...] = setting(
        (64, 128, 256, 512, 1024, 2048, 4096),
        "Sample sizes, separated by commas.",
        least=8,
        metavar="N,…",
    )
    ratio: float = setting(0.8, "p/n of drawn samples.", above=0, most=1000)
    trials: int = setting(5, "Data sets at each n.", least=1, most=10_000)
    estimator: Estimator = setting(
        Estimator.EXACT, "Exact kernels, or averages over random networks."
    )

    def check(self) -> None:
        from deqcli.activations import activation
        from deqcli.gaussian import check_existence

        self.law(self.dimension(min(self.n))).check()
        chosen = [activation(name) for name in self.act]
        for act in chosen:
            check_existence(act, self.sigma_a2, self.sigma_b2, papers_range=not self.on_sphere)
        if len({act.name for act in chosen}) != len(chosen):
            raise InputError("`act` names an activation twice; give each once.")
        if len(self.n) < 2:
            raise InputError(f"`n` is {self.n[0]}; give at least two sizes for a slope.")

    def unused(self) -> Collection[str]:
        averaged = self.estimator == Estimator.MONTE_CARLO
        return {*super().unused(), *(() if averaged else self.MONTE_CARLO)}

    def inputs(self) -> dict[str, Any]:
        return self.law(self.dimension(min(self.n))).identity()

    def as_operator(self, n: int) -> bool:
        """Whether so many samples have a kernel that is kept as an operator."""
        return self.estimator is Estimator.EXACT and n > MOST_DENSE

    def dimension(self, n: int) -> int | None:
        """Return the dimension of n drawn samples; real data has its own."""
        return max(16, round(self.ratio * n)) if self.drawn else None


class ErrorVsN(Study[ErrorSettings, ErrorSettings]):
    """How the equivalent's relative error falls with the number of samples.

    Measures the operator norm of the difference between a DEQ's kernel and its closed-form
    equivalent, relative to the kernel's, for several activations; the theory promises
    n^(-1/2). Beside it the equivalent with every sample's own norm, whose error the theory
    predicts with its constant, and whose rate is 1/n for odd activations. Prints each fitted
    slope.

    Beyond 20 000 samples exact kernels are operators, whose rounding changes errors by less
    than 1e-4 of themselves; 60 000 samples take about 8 GB and, for each activation, some
    minutes.
    """

    name = "error-vs-n"
    settings = ErrorSettings
    duration = "about five minutes"
    examples = (
        "",
        "--act relu,htanh:a=1,c=2 --kernel ntk --n 64,128,256,512 --trials 3",
        "--data mnist --classes 6,8 --n 250,500,1000,2000 --act tanh",
        "--data mnist --n 1000,4000,15000,60000 --trials 1 --act tanh,relu -j 1",
    )
    version = 3
    constants = {(): ("kernel", "sigma_a2", "data", "estimator"), ("act",): ("slope", "own_slope")}
    quick = {"n": 1024, "trials": 2}
    # Own-norm equivalents are so near that the rounding of kernels shows.
    tolerances = {
        "error": Tolerance(1e-5),
        "distance": Tolerance(1e-5),
        "slope": Tolerance(1e-5),
        "own_error": Tolerance(1e-3),
        "own_slope": Tolerance(1e-3),
        "predicted": Tolerance(1e-5),
    }

    def prepare(self, settings: ErrorSettings) -> ErrorSettings:
        """Return the settings: every point draws samples of its own, if there are enough."""
        if not settings.drawn:
            settings.law().load(self.data_streams(settings), max(settings.n))
        return settings

    def points(self, settings: ErrorSettings) -> dict[str, tuple[Any, ...]]:
        """Return the largest sizes first, so that the last ones to finish are short."""
        return {
            _key(n, trial): (n, trial)
            for n in reversed(settings.n)
            for trial in range(settings.trials)
        }

    def memory(self, settings: ErrorSettings) -> int:
        # Not always the largest n: where that is an operator, a smaller matrix may be more.
        return max(self._bytes(settings, n) for n in settings.n)

    def memory_remedy(self, settings: ErrorSettings) -> str:
        decisive = max(settings.n, key=partial(self._bytes, settings))
        which = "the largest" if decisive == max(settings.n) else str(decisive)
        return super().memory_remedy(settings).replace("the largest of `n`", f"{which} of `n`")

    def _bytes(self, settings: ErrorSettings, n: int) -> int:
        """Return the bytes that a process takes for points of n samples."""
        from deqcli.operators import operator_bytes
        from deqcli.runs.memory import peak

        law = settings.law(settings.dimension(n))
        p = law.shape(n)[1]
        # Two kernels, and what checking the symmetry of one takes.
        work = 36 * n * n
        if settings.as_operator(n):
            work = operator_bytes(n, p, law.n_classes)
        if settings.estimator == Estimator.MONTE_CARLO:
            work = max(work, settings.averaging_bytes(n, p, settings.kernel))
        return peak(loading=law.loading(n), held=8 * n * p, work=work)

    def compute(self, settings: ErrorSettings, n: int, trial: int) -> Arrays:
        """Measure the error of every activation on one data set."""
        import numpy as np

        # The stream does not know the activation: all of them see the same samples.
        streams = self.data_streams(settings, n, trial)
        inputs = settings.law(settings.dimension(n)).load(streams, n)
        left = _squares_left(inputs)
        # One kernel at a time: each is gone when the next is made.
        measured = [self._measure(settings, inputs, act, n, trial, left) for act in settings.act]
        names = ("distance", "norm", "own", "predicted")
        found = dict(zip(names, np.array(measured).T, strict=True))
        return {**found, "p": np.array(inputs.data.X.shape[1])}

    def _measure(
        self, settings: ErrorSettings, inputs: Inputs, act: str, n: int, trial: int, left: float
    ) -> tuple[float, float, float, float]:
        """Return distances of one kernel from both forms, its norm, and what is predicted."""
        from deqcli.equivalents import operator_distance, operator_norm
        from deqcli.models import deq_model
        from deqcli.operators import KernelOperator, operator_of
        from deqcli.panels import rest_of

        model = deq_model(inputs, act, settings.sigma_a2, settings.sigma_b2)
        closed = None
        if model.scalars is not None:
            closed = model.equivalent(settings.kernel, Form.OWN_NORM)
        kernel: NDArray[np.float64] | KernelOperator
        if settings.as_operator(n):
            kernel = operator_of(rest_of(model, settings.kernel, equivalent=closed))
        else:
            kernel = self._kernel(settings, model, n, trial)
        distance = operator_distance(kernel, model.equivalent(settings.kernel))
        own = math.nan
        if closed is not None:
            # An operator is kept as what it differs by.
            if isinstance(kernel, KernelOperator):
                own = kernel.distance()
            else:
                own = operator_distance(kernel, closed)
        return distance, operator_norm(kernel), own, _predicted(settings, model, left)

    def _kernel(
        self, settings: ErrorSettings, model: Model, n: int, trial: int
    ) -> NDArray[np.float64]:
        if settings.estimator == Estimator.EXACT:
            return model.kernel(settings.kernel)[0]
        from deqcli.monte_carlo import accumulate

        ensemble = settings.ensemble(model, settings.kernel)
        streams = partial(self.stream, settings, n, trial, "realization")
        total = accumulate(model.X, ensemble, range(settings.realizations), streams)
        lost = settings.realizations - total.converged
        if lost:
            raise ConvergenceError(
                f"{lost} of {settings.realizations} realizations did not converge; lower "
                "`sigma_a2` or raise `width`."
            )
        return total.mean(settings.kernel)

    def assemble(self, settings: ErrorSettings, load: Load) -> Assembled:
        """Make the table, one row an activation, size and trial, with the fitted slopes."""
        import pandas as pd

        from deqcli.activations import activation

        points = {
            (n, trial): load(_key(n, trial)) for n in settings.n for trial in range(settings.trials)
        }
        rows = [
            {
                "act": activation(name).name,
                "n": n,
                "p": int(point["p"]),
                "trial": trial,
                "error": float(point["distance"][place] / point["norm"][place]),
                "distance": float(point["distance"][place]),
                "norm": float(point["norm"][place]),
                "own_error": float(point["own"][place] / point["norm"][place]),
                "predicted": float(point["predicted"][place] / point["norm"][place]),
            }
            for place, name in enumerate(settings.act)
            for (n, trial), point in points.items()
        ]
        table = pd.DataFrame(rows)
        slopes, own_slopes = _slopes(table, "error"), _slopes(table, "own_error")
        table["slope"], table["own_slope"] = table["act"].map(slopes), table["act"].map(own_slopes)
        for key in ("kernel", "sigma_a2", "data", "estimator"):
            table[key] = getattr(settings, key)
        last = table[table["n"] == table["n"].max()].groupby("act", sort=False)
        gains = (last["error"].mean() / last["own_error"].mean()).dropna().to_dict()
        own = {act: value for act, value in own_slopes.items() if not math.isnan(value)}
        found = {act: value for act, value in slopes.items() if not math.isnan(value)}
        exact = [act for act in slopes if act not in found]
        return Assembled(
            table, {"slopes": found, "exact": exact, "own_slopes": own, "own_gains": gains}
        )

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        for act, value in findings["slopes"].items():
            text = f"{act}: slope {value:.3f}"
            if act in findings["own_slopes"]:
                text += (
                    f"; with own norms {findings['own_slopes'][act]:.3f}, "
                    f"{findings['own_gains'][act]:.3g} times nearer at the largest n"
                )
            yield text
        # Records of former versions do not say.
        for act in findings.get("exact", ()):
            yield f"{act}: exact, to rounding"

    def quantities(self, settings: ErrorSettings) -> Sequence[Quantity]:
        return tuple(
            Quantity(
                act,
                f"slope of log error against log n, {act}",
                partial(_measured_slope, act=act),
                RATE if act in _CLAIMED else None,
            )
            for act in settings.act
        )


def _slopes(table: pd.DataFrame, column: str) -> dict[str, float]:
    """Return the slope of each activation's mean error, NaN where that is rounding or none."""
    means = table.groupby(["act", "n"], sort=False)[column].mean().reset_index()
    return {
        str(act): slope(group["n"].to_numpy(), group[column].to_numpy())
        if (group[column] > _ROUNDING).all()
        else math.nan
        for act, group in means.groupby("act", sort=False)
    }


def _squares_left(inputs: Inputs) -> float:
    """Return what own norms leave of squares of inner products; nothing known on the sphere."""
    from deqcli.own_norms import squares_left

    if inputs.statistics is None:
        return math.nan
    return squares_left(inputs.data.X, inputs.data.y, inputs.statistics.centres)


def _predicted(settings: ErrorSettings, model: Model, left: float) -> float:
    """Return the error that own norms leave (theory.md §9); nothing where c3 is none."""
    c3 = 0.0 if model.scalars is None else model.scalars.coefficients(settings.kernel).c3
    return c3 * left if c3 > 1e-9 and left > 0 else math.nan


def _key(n: int, trial: int) -> str:
    return f"n={n} trial={trial}"


def slope(sizes: NDArray[Any], errors: NDArray[Any]) -> float:
    """Return the slope of the least-squares line through log error against log n.

    Examples
    --------
    >>> import numpy as np
    >>> n = np.array([64, 256, 1024])
    >>> round(slope(n, 3 / np.sqrt(n)), 12)
    -0.5
    """
    import numpy as np

    if not np.all(errors > 0):
        return math.nan
    return float(np.polyfit(np.log(sizes.astype(float)), np.log(errors), 1)[0])


def fitted_slope(rows: pd.DataFrame, value: float) -> Measured:
    """Return a slope fitted to means, with the interval of the trials' own slopes.

    Parameters
    ----------
    rows : DataFrame
        Columns n, error and trial.
    value : float
        The slope through the means over trials.
    """
    slopes = [
        slope(trial["n"].to_numpy(), trial["error"].to_numpy())
        for _, trial in rows.groupby("trial")
    ]
    return replace(mean_interval(slopes), value=value)


def _measured_slope(run: Finished, act: str) -> Measured:
    rows = run.table[run.table["act"].str.partition(":")[0] == act.partition(":")[0]]
    return fitted_slope(rows, float(rows["slope"].iloc[0]))


STUDY = ErrorVsN()
