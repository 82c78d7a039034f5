"""Eigenvalues of a DEQ's kernel and of its equivalent."""

from __future__ import annotations

import math
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

# What a distance is relative to, and what sampling alone would make of it.
_SHARES = ("relative", "network_relative", "noise_floor")


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
    version = 2
    quick = {"n": 1000, "realizations": 40}
    # Networks are solved in single precision.
    tolerances = {
        "eigenvalue": Tolerance(1e-5, 1e-6),
        "distance": Tolerance(1e-3, 1e-5),
        "norm": Tolerance(1e-5),
        "relative": Tolerance(1e-3, 1e-5),
        "network_relative": Tolerance(1e-3, 1e-5),
        "noise_floor": Tolerance(1e-3, 1e-5),
    }

    def prepare(self, settings: SpectrumSettings) -> Prepared:
        from deqcli.models import deq_model

        inputs = settings.law(settings.p).load(self.data_streams(settings), settings.n)
        model = deq_model(inputs, settings.act, settings.sigma_a2, settings.sigma_b2)
        return Prepared(settings, model, model.equivalent(settings.kernel))

    def points(self, settings: SpectrumSettings) -> dict[str, tuple[Any, ...]]:
        """The two closed routes, and chunks of realizations."""
        from deqcli.averaging import chunk_key

        points: dict[str, tuple[Any, ...]] = {"equivalent": ("equivalent",)}
        if Estimator.EXACT in settings.estimator:
            points["exact"] = ("exact",)
        return points | {chunk_key(chunk): ("realizations", *chunk) for chunk in _chunks(settings)}

    def memory(self, settings: SpectrumSettings) -> int:
        from deqcli.runs.memory import peak

        n, p = settings.shape
        # The assembly: kernels, and what reading them and checking their symmetry takes.
        work = 36 * n * n
        if Estimator.MONTE_CARLO in settings.estimator:
            work = max(50 * n * n, settings.averaging_bytes(n, p, settings.kernel))
        loading = settings.law(settings.p).loading(settings.n)
        return peak(loading=loading, held=8 * n * p, work=work)

    def work(self, settings: SpectrumSettings) -> float:
        from deqcli.work import work_of_kernel, work_of_networks, work_of_spectrum

        n, p = settings.shape
        work = work_of_spectrum(n)
        if Estimator.EXACT in settings.estimator:
            work += work_of_kernel(n, p) + work_of_spectrum(n)
        if Estimator.MONTE_CARLO in settings.estimator:
            each = work_of_networks(n, p, settings.width, settings.kernel)
            work += settings.realizations * each + work_of_spectrum(n)
        return work

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
            source: _distance(settings, model, kernels[source], prepared.closed)
            for source in sorted(kernels)
        }
        if Estimator.MONTE_CARLO in settings.estimator:
            distances["monte-carlo"]["noise_floor"] = findings["monte_carlo"]["noise_floor"]
        findings["distances"] = distances
        # Decided on the equivalent: it is what tells how many the theory expects.
        findings["isolated"] = count_isolated(spectra["equivalent"][::-1])
        if model.scalars is not None:
            findings["scalars"] = {
                key: value for key, value in vars(model.scalars).items() if key != "activation"
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
            text = (
                f"{source}: distance to the equivalent {values['distance']:.4g} "
                f"({values['relative']:.2g} of the norm {values['norm']:.4g}"
            )
            if "input_norm" in values:
                text += f", of which the inputs make {values['input_norm']:.4g}"
                if values["network_relative"] is not None:
                    text += f"; {values['network_relative']:.2g} of the kernel without them"
            text += ")"
            if values.get("noise_floor") is not None:
                text += f"; two such averages are {values['noise_floor']:.2g} apart"
            yield text

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
    found = run.findings["distances"][source]
    return Measured(found["distance"], noise=found.get("noise_floor"))


def _columns(**values: Any) -> Arrays:
    import numpy as np

    return {name: np.asarray(value) for name, value in values.items()}


def _chunks(settings: SpectrumSettings) -> list[tuple[int, int]]:
    from deqcli.averaging import chunks

    averaged = Estimator.MONTE_CARLO in settings.estimator
    return chunks(settings.realizations, settings.shape[0]) if averaged else []


def _average(settings: SpectrumSettings, load: Load) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the kernel averaged over the realizations that converged, and how they did."""
    import numpy as np

    from deqcli.averaging import average, chunk_key
    from deqcli.errors import InputError

    columns: dict[str, list[NDArray[Any]]] = {}

    def part(chunk: tuple[int, int]) -> Arrays:
        arrays = load(chunk_key(chunk))
        for key in ("converged", "iterations", "residual", "status"):
            columns.setdefault(key, []).append(arrays[key])
        return arrays

    mean = average([partial(part, chunk) for chunk in _chunks(settings)])
    solves = {key: np.concatenate(values) for key, values in columns.items()}
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
        "noise_floor": mean.floor(),
    }
    return mean.mean, statistics


def _distance(
    settings: SpectrumSettings, model: Model, kernel: NDArray[np.float64], closed: Equivalent
) -> dict[str, Any]:
    r"""Return the operator-norm distance of a kernel to its equivalent, and what it is part of.

    A pre-activation kernel is :math:`\sigma_a^2` times the network's plus the inputs'
    :math:`\sigma_b^2 XX^\top`, which its equivalent has exactly: one distance gives both, but the
    inputs' part makes it look small beside the norm. So ``network_relative`` sets it beside the
    network's part alone; None where that part is zero.
    """
    from deqcli.equivalents import operator_distance, operator_norm

    distance, norm = operator_distance(kernel, closed), operator_norm(kernel)
    distances: dict[str, Any] = {"distance": distance, "norm": norm, "relative": distance / norm}
    if not settings.kernel.before_activation:
        distances["preactivation_kernel"] = distance * settings.sigma_a2
        return distances | {"network_relative": distance / norm}
    inputs = settings.sigma_b2 * (model.X @ model.X.T)
    distances["input_norm"] = operator_norm(inputs)
    part = operator_distance(kernel, inputs) if settings.sigma_a2 > 0 else 0.0
    if settings.sigma_a2 > 0:
        distances["network_kernel"] = distance / settings.sigma_a2
        distances["network_norm"] = part / settings.sigma_a2
    return distances | {"network_relative": distance / part if part else None}


def _rows(
    settings: SpectrumSettings,
    model: Model,
    source: str,
    spectrum: NDArray[np.float64],
    distance: Mapping[str, Any] | None,
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
            **{name: _number(distance, name) for name in _SHARES},
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


def _number(distance: Mapping[str, Any] | None, name: str) -> float:
    """Return what is known of a source's distance, an empty cell where nothing is."""
    value = distance.get(name) if distance else None
    return math.nan if value is None else float(value)


STUDY = Spectrum()
