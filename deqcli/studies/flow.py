"""Train only the implicit layer; the theory's promises measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deqcli.errors import DataError, InputError
from deqcli.flow.settings import DescentSettings, LayerSettings
from deqcli.settings import setting
from deqcli.shared_settings import SampleSettings
from deqcli.study import Assembled, Study, Tolerance

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from deqcli.data.dataset import Dataset
    from deqcli.flow.network import Samples
    from deqcli.quantities import Quantity
    from deqcli.study import Arrays, Load

# A distance below this, over the norm of y, is that of two sums of the same numbers.
_ROUNDING = 1e-10
# Columns of the distances to the linearised paths, by the suffix of their peaks and slopes.
_COLUMNS = {"": "distance_method", "_flow": "distance"}
Run = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class FlowSettings(LayerSettings, DescentSettings, SampleSettings):
    """Settings of ``deqcli flow``."""

    test_size: int = setting(
        500, "Test samples: drawn, of the test half, or held out of a file.", least=2
    )
    widths: tuple[int, ...] = setting(
        (100, 500, 1000, 2000), "Neurons, separated by commas.", least=2, metavar="M,…"
    )
    trials: int = setting(1, "Networks and data sets for each width.", least=1, most=10_000)

    def check(self) -> None:
        super().check()
        if self.on_sphere:
            return
        if self.data.endswith(":test"):
            raise InputError(
                f"`data` is {self.data}; leave out ':test', which the test samples come from."
            )
        law = self.law(self.p)
        if law.n_classes == 2:
            return
        if self.classes:
            raise InputError(
                f"`classes` is {','.join(self.classes)} and two classes are told apart; give "
                f"{'2' if self.drawn else 'two labels'}."
            )
        names = ",".join(law.class_names[:2])
        remedy = f"name two as `classes`, such as {names}" if law.n_classes > 2 else "give others"
        raise InputError(
            f"`data` is {self.data}, which has {law.n_classes} class(es), and two are told apart; "
            f"{remedy}."
        )

    def identity(self) -> dict[str, Any]:
        # Samples are scaled to norm 1 in any case, so that these two are one.
        values = super().identity()
        if values.get("preprocess") == "centred":
            values["preprocess"] = "unit"
        return values


@dataclass(frozen=True)
class Prepared:
    """The samples of every trial; all widths of a trial see the same."""

    settings: FlowSettings
    samples: tuple[Samples, ...]


class Flow(Study[FlowSettings, Prepared]):
    """Train only the implicit layer of a ReLU DEQ, and check the theory's promises.

    Follows f(x) = z'b/sqrt(m), z = relu(gamma A'z + phi(W'x)), with A trained on half the squared
    error and labels -1 and 1, for several widths m. Every sample is preprocessed, then
    scaled to norm 1, and points on the sphere are labelled by the sign of their first coordinate.
    Writes loss and error on training and test samples, ||gamma A||, the kernel's extreme
    eigenvalues, the distance to the linearised path, and the promised envelope and bound.

    A network that loses contraction (||gamma A|| reaches 1), or whose solve fails, stops there: the
    exit code is 3, and everything computed is kept and written.
    """

    name = "flow"
    settings = FlowSettings
    duration = "about 15 minutes"
    version = 3
    constants = {
        (): ("n", "p", "n_test", "data", "method", "init", "injection", "gamma0", "scaling",
             "slope", "slope_flow", "window"),
        ("width", "trial"): ("bound", "rademacher", "gamma", "step_size", "peak", "peak_flow"),
    }  # fmt: skip
    digits = 10
    examples = (
        "--data mnist --classes 0,1 --n 500 --widths 100,500,1000,2000",
        "--data sphere --n 100 --p 50 --widths 200,400,800 --method ode --steps 50",
        "--data mnist --classes 0,1 --n 200 --init half-normal --widths 250,500,1000",
    )
    quick = {"n": 200, "test_size": 200, "widths": 500, "steps": 200, "trials": 2}
    # Measured for three kinds of processor at the size of ``--quick``: columns differ by 4e-6 of
    # their largest value, since training magnifies rounding.
    tolerances = {
        "": Tolerance(1e-3, 1e-6),
        "train_error": Tolerance(0, 0, 0, 2, "n"),
        "test_error": Tolerance(0, 0, 0, 2, "n_test"),
    }

    def prepare(self, settings: FlowSettings) -> Prepared:
        from deqcli.flow.network import Samples

        law = settings.law(settings.p)

        def load(trial: int) -> Samples:
            streams = self.data_streams(settings, trial)
            train, test = law.load_halves(streams, settings.n, settings.test_size)
            return Samples(*_unit(train, settings.on_sphere), *_unit(test, settings.on_sphere))

        return Prepared(settings, tuple(map(load, range(settings.trials))))

    def points(self, settings: FlowSettings) -> dict[str, tuple[Any, ...]]:
        """Return the widest first, so that the last ones to finish are short."""
        return {
            _key(width, trial): (width, trial)
            for width in reversed(settings.widths)
            for trial in range(settings.trials)
        }

    def memory(self, settings: FlowSettings) -> int:
        from deqcli.runs.memory import peak

        n, p = settings.shape
        m, test = max(settings.widths), settings.test_size
        # Of ode 16.2 were measured: seven stages, and what a step makes of them.
        matrices = 17 if settings.method == "ode" else 4
        samples = 8 * (n + test) * p
        others = (settings.trials - 1) * samples
        return peak(
            loading=others + settings.law(settings.p).loading(settings.n, test),
            held=others + samples,
            work=8 * (m * (matrices * m + p + 12 * n + 4 * test) + 6 * n * n),
        )

    def compute(self, prepared: Prepared, width: int, trial: int) -> Arrays:
        """Train one network, and return its rows as columns."""
        import numpy as np

        from deqcli.flow.network import draw_network
        from deqcli.flow.training import train

        settings, samples = prepared.settings, prepared.samples[trial]
        rng = self.stream(settings, "network", width, trial)
        network = draw_network(samples.X.shape[1], width, rng, settings)
        run = train(network, samples, settings)
        line = run.linearised
        return {
            **{name: np.array([getattr(row, name) for row in run.rows]) for name in _columns()},
            "bound": np.array(line.bound if line else np.nan),
            "rademacher": np.array(line.rademacher if line else np.nan),
            "gamma": np.array(network.gamma),
            "step_size": np.array(run.step_size),
            "end": np.array(run.status),
            "shape": np.array([*samples.X.shape, len(samples.y_test)]),
        }

    def assemble(self, prepared: Prepared, load: Load) -> Assembled:
        """Make the table, one row a time of a run, and say of each promise whether it held."""
        import pandas as pd

        from deqcli.flow.promises import promises
        from deqcli.flow.training import FINISHED

        settings = prepared.settings
        parts: list[pd.DataFrame] = []
        ends: dict[Run, str] = {}
        for width in settings.widths:
            for trial in range(settings.trials):
                point = load(_key(width, trial))
                ends[width, trial] = str(point["end"])
                columns = {name: point[name] for name in _columns()}
                parts.append(pd.DataFrame({"width": width, "trial": trial} | columns))
                for name in ("bound", "rademacher", "gamma", "step_size"):
                    # A singular H(0) promises nothing: no number, and a sentence that says so.
                    value = float(point[name])
                    parts[-1][name] = value if math.isfinite(value) else math.nan
                for name, value in zip(("n", "p", "n_test"), point["shape"], strict=True):
                    parts[-1][name] = int(value)
        table = pd.concat(parts, ignore_index=True)
        lost = {key for key, end in ends.items() if end not in FINISHED}
        fitted = _add_peaks(table, lost)
        for key in ("data", "method", "init", "injection", "gamma0", "scaling"):
            table[key] = getattr(settings, key)
        runs = []
        for (width, trial), end in ends.items():
            rows = table[(table["width"] == width) & (table["trial"] == trial)]
            known = {"width": width, "trial": trial, "end": end, "lost": (width, trial) in lost}
            runs.append(known | promises(rows))
        return Assembled(table, fitted | {"runs": runs})

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        from deqcli.flow_quantities import PATHS

        yield from map(_sentence, findings["runs"])
        for key, path in PATHS.items():
            if findings[f"slope{key}"] is not None:
                yield f"distance to {path}: slope {findings[f'slope{key}']:.3f} in the width"

    def shortcomings(self, findings: Mapping[str, Any]) -> Sequence[str]:
        return [
            f"width {run['width']}, trial {run['trial']}: {run['end']}"
            for run in findings["runs"]
            if run["lost"]
        ]

    def quantities(self, settings: FlowSettings) -> Sequence[Quantity]:
        from deqcli.flow_quantities import QUANTITIES

        return QUANTITIES


def _key(width: int, trial: int) -> str:
    return f"width={width} trial={trial}"


def _columns() -> tuple[str, ...]:
    from dataclasses import fields

    from deqcli.flow.training import Row

    return tuple(field.name for field in fields(Row))


def _unit(data: Dataset, teacher: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Return samples scaled to norm 1, and targets -1 (first class) and 1.

    Points on the sphere have no classes: their teacher is :math:`y = \mathrm{sign}(x_1)`, which by
    symmetry stands for every half-space.
    """
    import numpy as np

    norms = np.linalg.norm(data.X, axis=1, keepdims=True)
    if not norms.all():
        raise DataError(f"{data.name}: sample {int(np.argmin(norms))} is zero and has no norm 1.")
    positive = data.X[:, 0] >= 0 if teacher else data.y == 1
    return data.X / norms, np.where(positive, 1.0, -1.0)


def _add_peaks(table: pd.DataFrame, lost: Collection[Run]) -> dict[str, float | None]:
    r"""Add the largest distances to the linearised paths over the time that all survivors share.

    To the linearisation of the method, and to GEN's :math:`\hat u(t)`, which has the error of the
    steps in it. Lost runs have no peak and do not shorten the time. Returns that time, the window,
    and the slopes of the peaks' means over trials in log-log, for which GEN Lemma 4.3 promises -1/4
    or less; None where no run survived or no time passed, and for a slope also below two widths or
    where a peak is rounding.
    """
    import numpy as np

    from deqcli.studies.error_vs_n import slope

    keys = list(zip(table["width"], table["trial"], strict=True))
    alive = table[[key not in lost for key in keys]]
    common = float(alive.groupby(["width", "trial"])["time"].max().min())
    fitted: dict[str, float | None] = {"window": common if common > 0 else None}
    early = alive[alive["time"] <= common * (1 + 1e-9)] if common > 0 else alive.iloc[:0]
    for suffix, column in _COLUMNS.items():
        peaks = early.groupby(["width", "trial"])[column].max()
        means = peaks.groupby("width").mean()
        fitted[f"slope{suffix}"] = None
        if len(means) > 1 and (peaks > _ROUNDING * np.sqrt(alive["n"].iloc[0])).all():
            fitted[f"slope{suffix}"] = slope(means.index.to_numpy(), means.to_numpy())
        table[f"peak{suffix}"] = [peaks.get(key, np.nan) for key in keys]
    for name, value in fitted.items():
        table[name] = np.nan if value is None else value
    return fitted


def _sentence(run: Mapping[str, Any]) -> str:
    head = f"width {run['width']}, trial {run['trial']}: "
    if "steps" not in run:
        norm = "" if run["norm_start"] is None else f", ||gamma A|| = {run['norm_start']:.3g}"
        return f"{head}{run['end']} at the start{norm}"
    test = "H(0) is singular and gives no bound, " if run["bound"] is None else ""
    if run["test_loss"] is not None:
        test += f"test loss {run['test_loss']:.3g}, test error {run['test_error']:.2%}, "
    return (
        f"{head}{run['end']} after {run['steps']} steps, training loss {run['train_loss']:.3g}, "
        f"{test}||gamma A|| up to {run['norm_largest']:.3g}"
    )


STUDY = Flow()
