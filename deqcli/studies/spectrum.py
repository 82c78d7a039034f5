"""Eigenvalues of a DEQ's kernel and of its equivalent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deqcli.quantities import Finished, Measured, Quantity
from deqcli.settings import setting
from deqcli.shared_settings import (
    DeqSettings,
    MonteCarloSettings,
    SampleSettings,
    kernel_setting,
)
from deqcli.study import Assembled, Study, Tolerance
from deqcli.vocabulary import Estimator, Kernel

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from deqcli.equivalents import Equivalent
    from deqcli.models import Model
    from deqcli.study import Arrays, Load

# A chunk is what a kill can cost; large kernels make fewer and larger parts to spare the disk.
_CHUNK, _LARGE_N, _LARGE_PARTS = 20, 2000, 8


@dataclass(frozen=True, kw_only=True)
class SpectrumSettings(MonteCarloSettings, SampleSettings, DeqSettings):
    """Settings of ``deqcli spectrum``."""

    kernel: Kernel = kernel_setting(Kernel.PREACTIVATION_CK)
    estimator: tuple[Estimator, ...] = setting(
        (Estimator.MONTE_CARLO, Estimator.EXACT),
        "What to set beside the equivalent: averages over random networks, the exact kernel.",
    )
    save_kernels: bool = setting(False, "Write the matrices too (.npz).")

    def unused(self) -> Collection[str]:
        averaged = Estimator.MONTE_CARLO in self.estimator
        return {*super().unused(), *(() if averaged else self.MONTE_CARLO)}


@dataclass(frozen=True)
class Prepared:
    """The DEQ on its samples, and the closed-form matrix that its kernel is compared with."""

    settings: SpectrumSettings
    model: Model
    closed: Equivalent


class Spectrum(Study[SpectrumSettings, Prepared]):
    """Eigenvalues of a DEQ's kernel and of its closed-form equivalent.

    Draws three spectra: the kernel averaged over random networks of finite width (blue), the
    exact kernel of infinite width, and the equivalent matrix (red), with the operator-norm
    distances between them. Writes a CSV of all eigenvalues, a figure, and a JSON with settings,
    versions, solver statistics and distances.
    """

    name = "spectrum"
    settings = SpectrumSettings
    examples = (
        "--act tanh --sigma-a2 0.1",
        "--act arctan --sigma-a2 0.1 --name iclr-figure-1-left",
        "--act relu --kernel ntk --estimator exact --n 2000 --p 1500",
        "--data mnist --classes 6,8 --n 6000 --estimator exact",
        "--act tanh --weights rademacher --realizations 100 --format png,pdf",
    )
    quick = {"n": 1000, "realizations": 40}
    # Networks are solved in single precision.
    tolerances = {
        "eigenvalue": Tolerance(1e-5, 1e-6),
        "distance": Tolerance(1e-3, 1e-5),
        "norm": Tolerance(1e-5),
    }

    def prepare(self, settings: SpectrumSettings) -> Prepared:
        from deqcli.models import deq_model

        inputs = settings.law(settings.p).load(self.data_streams(settings), settings.n)
        model = deq_model(inputs, settings.act, settings.sigma_a2, settings.sigma_b2)
        return Prepared(settings, model, model.equivalent(settings.kernel))

    def points(self, settings: SpectrumSettings) -> dict[str, tuple[Any, ...]]:
        """The two closed routes, and chunks of realizations."""
        points: dict[str, tuple[Any, ...]] = {"equivalent": ("equivalent",)}
        if Estimator.EXACT in settings.estimator:
            points["exact"] = ("exact",)
        for start, stop in _chunks(settings):
            points[_chunk_key(start, stop)] = ("realizations", start, stop)
        return points

    def memory(self, settings: SpectrumSettings) -> int:
        from deqcli.runs.memory import peak

        n, p = settings.shape
        # The assembly: kernels, and what reading them and checking their symmetry takes.
        work = 36 * n * n
        if Estimator.MONTE_CARLO in settings.estimator:
            work = max(50 * n * n, settings.averaging_bytes(n, p, settings.kernel))
        loading = settings.law(settings.p).loading(settings.n)
        return peak(loading=loading, held=8 * n * p, work=work)

    def compute(self, prepared: Prepared, kind: str, start: int = 0, stop: int = 0) -> Arrays:
        from deqcli.equivalents import eigenvalues
        from deqcli.monte_carlo import accumulate

        settings, model = prepared.settings, prepared.model
        if kind == "equivalent":
            return {"eigenvalues": prepared.closed.eigenvalues()}
        if kind == "exact":
            (kernel,) = model.kernel(settings.kernel)
            return {"eigenvalues": eigenvalues(kernel), "kernel": kernel}
        total = accumulate(
            model.X,
            settings.ensemble(model, settings.kernel),
            range(start, stop),
            partial(self.stream, settings, "realization"),
        )
        solves = [
            [solve for solve in (record.forward, record.adjoint) if solve is not None]
            for record in total.records
        ]
        return _columns(
            sum=total.sums[settings.kernel],
            converged=[record.converged for record in total.records],
            iterations=[max(solve.iterations for solve in each) for each in solves],
            residual=[max(solve.residual for solve in each) for each in solves],
            status=[
                next((str(s.status) for s in each if not s.converged), "converged")
                for each in solves
            ],
        )

    def assemble(self, prepared: Prepared, load: Load) -> Assembled:
        import pandas as pd

        from deqcli.equivalents import count_isolated, eigenvalues, operator_distance

        settings, model = prepared.settings, prepared.model
        kernels: dict[str, NDArray[np.float64]] = {}
        spectra = {"equivalent": load("equivalent")["eigenvalues"]}
        findings: dict[str, Any] = {"details": dict(model.inputs.data.details)}
        if Estimator.EXACT in settings.estimator:
            exact = load("exact")
            spectra["exact"], kernels["exact"] = exact["eigenvalues"], exact["kernel"]
        if Estimator.MONTE_CARLO in settings.estimator:
            average, findings["monte_carlo"] = _average(settings, load)
            if "exact" in kernels:
                distance = operator_distance(average, kernels["exact"])
                findings["monte_carlo"]["distance_to_exact"] = distance
            spectra["monte-carlo"], kernels["monte-carlo"] = eigenvalues(average), average
        distances = {
            source: _distance(settings, kernels[source], prepared.closed)
            for source in sorted(kernels)
        }
        findings["distances"] = distances
        # Decided on the equivalent: it is what tells how many the theory expects.
        findings["isolated"] = count_isolated(spectra["equivalent"][::-1])
        if model.scalars is not None:
            findings["scalars"] = {
                key: value
                for key, value in model.scalars.as_record().items()
                if key != "activation"
            }
        rows = [
            _rows(settings, model, source, spectra[source], distances.get(source), findings)
            for source in sorted(spectra)
        ]
        arrays = None
        if settings.save_kernels:
            data = {"X": model.X, "y": model.inputs.data.y, "equivalent": prepared.closed.dense()}
            arrays = {**{name.replace("-", "_"): k for name, k in kernels.items()}, **data}
        return Assembled(pd.concat(rows, ignore_index=True), findings, arrays)

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        for source, values in findings["distances"].items():
            yield (
                f"{source}: distance to the equivalent {values['distance']:.4g} "
                f"({values['relative']:.2g} of the norm {values['norm']:.4g})"
            )

    def shortcomings(self, findings: Mapping[str, Any]) -> Sequence[str]:
        averages = findings.get("monte_carlo", {})
        lost = averages.get("not_converged", {})
        if not lost:
            return ()
        total = averages["realizations"]
        return (f"{len(lost)} of {total} realizations did not converge and were left out",)

    def quantities(self, settings: SpectrumSettings) -> Sequence[Quantity]:
        letter = settings.kernel.letter
        exact = partial(_measured_distance, source="exact")
        size = ("n", "p")
        return (
            Quantity(
                "averaged",
                f"‖{letter} − {letter}̄‖, averaged over random networks",
                partial(_measured_distance, source="monte-carlo"),
                needs=(*size, "realizations"),
                # What the data's fluctuation does shows in the exact kernel, in a second.
                over_seeds=exact,
            ),
            Quantity("exact", f"‖{letter} − {letter}̄‖, exact kernel", exact, needs=size),
        )

    def reseeded(self, settings: SpectrumSettings, seed: int) -> SpectrumSettings | None:
        """The exact kernel shows what another draw changes."""
        if not settings.drawn:
            return None
        return replace(settings, seed=seed, estimator=(Estimator.EXACT,))


def _measured_distance(run: Finished, source: str) -> Measured:
    return Measured(run.findings["distances"][source]["distance"])


def _columns(**values: Any) -> Arrays:
    import numpy as np

    return {name: np.asarray(value) for name, value in values.items()}


def _chunks(settings: SpectrumSettings) -> list[tuple[int, int]]:
    total = settings.realizations if Estimator.MONTE_CARLO in settings.estimator else 0
    large = settings.shape[0] > _LARGE_N
    size = max(_CHUNK, -(-total // _LARGE_PARTS)) if large else _CHUNK
    return [(start, min(start + size, total)) for start in range(0, total, size)]


def _chunk_key(start: int, stop: int) -> str:
    return f"realizations {start:05d}-{stop:05d}"


def _average(settings: SpectrumSettings, load: Load) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the kernel averaged over the realizations that converged, and how they did."""
    import numpy as np

    from deqcli.errors import InputError

    total: NDArray[np.float64] | None = None
    columns: dict[str, list[NDArray[Any]]] = {}
    for start, stop in _chunks(settings):
        part = load(_chunk_key(start, stop))
        total = part["sum"] if total is None else total + part["sum"]
        for key in ("converged", "iterations", "residual", "status"):
            columns.setdefault(key, []).append(part[key])
    solves = {key: np.concatenate(values) for key, values in columns.items()}
    assert total is not None
    good = solves["converged"]
    if not good.any():
        raise InputError(
            f"none of the {good.size} realizations converged at `sigma_a2` {settings.sigma_a2:g}; "
            "lower it or raise `width`."
        )
    statistics = {
        "realizations": int(good.size),
        "not_converged": {
            str(index): str(solves["status"][index]) for index in np.flatnonzero(~good)
        },
        "iterations_mean": float(solves["iterations"][good].mean()),
        "iterations_max": int(solves["iterations"].max()),
        "residual_max": float(solves["residual"][good].max()),
        "tolerance": settings.tolerance,
        "solver": settings.solver,
    }
    return total / good.sum(), statistics


def _distance(
    settings: SpectrumSettings, kernel: NDArray[np.float64], closed: Equivalent
) -> dict[str, float]:
    r"""Return the operator-norm distance of a kernel to its equivalent.

    A pre-activation kernel and its equivalent differ by :math:`\sigma_a^2` times what the
    network's differ by, so one distance gives both.
    """
    from deqcli.equivalents import operator_distance, operator_norm

    distance, norm = operator_distance(kernel, closed), operator_norm(kernel)
    distances = {"distance": distance, "norm": norm, "relative": distance / norm}
    if not settings.kernel.before_activation:
        distances["preactivation_kernel"] = distance * settings.sigma_a2
    elif settings.sigma_a2 > 0:
        distances["network_kernel"] = distance / settings.sigma_a2
    return distances


def _rows(
    settings: SpectrumSettings,
    model: Model,
    source: str,
    spectrum: NDArray[np.float64],
    distance: Mapping[str, float] | None,
    findings: Mapping[str, Any],
) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    descending = spectrum[::-1]
    index = np.arange(descending.size)
    averaged = source == "monte-carlo"
    return pd.DataFrame(
        {
            "source": source,
            "index": index,
            "eigenvalue": descending,
            "isolated": index < findings["isolated"],
            "distance": distance["distance"] if distance else 0.0,
            "norm": distance["norm"] if distance else float(np.abs(descending).max()),
            "kernel": settings.kernel,
            "act": model.act.name,
            "sigma_a2": settings.sigma_a2,
            "data": settings.data,
            "n": model.inputs.data.n_samples,
            "p": model.X.shape[1],
            "realizations": settings.realizations if averaged else 0,
            "width": settings.width if averaged else 0,
        }
    )


STUDY = Spectrum()
