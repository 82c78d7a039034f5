"""Eigenvalues of a DEQ's kernel and of its equivalent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deqcli.errors import InputError
from deqcli.quantities import Finished, Measured, Quantity
from deqcli.settings import setting
from deqcli.shared_settings import (
    DeqSettings,
    MonteCarloSettings,
    SampleSettings,
    kernel_setting,
)
from deqcli.study import Assembled, Study, Tolerance
from deqcli.vocabulary import Estimator, Form, Kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from deqcli.equivalents import Equivalent
    from deqcli.models import Model
    from deqcli.spectral.law import SpectralLaw
    from deqcli.study import Arrays, Load

#: What the equivalents are called in tables.
_SOURCES = {Form.PAPERS: "equivalent", Form.OWN_NORM: "own-norm"}


@dataclass(frozen=True, kw_only=True)
class SpectrumSettings(MonteCarloSettings, SampleSettings, DeqSettings):
    """Settings of ``deqcli spectrum``."""

    kernel: Kernel = kernel_setting(Kernel.PREACTIVATION_CK)
    estimator: tuple[Estimator, ...] = setting(
        (Estimator.MONTE_CARLO, Estimator.EXACT),
        "What to set beside the equivalent: averages over random networks, the exact kernel.",
    )
    form: tuple[Form, ...] = setting(
        None,
        "Equivalents to draw: the papers', and the one with every sample's own norm.",
        derive=lambda settings: (Form.PAPERS,) if settings.on_sphere else tuple(Form),
        default_text="both; papers on the sphere",
        metavar="papers|own-norm,…",
    )
    components: int = setting(
        None,
        "Principal components whose share the own-norm equivalent keeps.",
        least=0,
        most=100,
        derive=lambda settings: 0 if settings.drawn else 20,
        default_text="0; 20 for real data",
    )
    save_kernels: bool = setting(False, "Write the matrices too (.npz).")

    def check(self) -> None:
        super().check()
        if self.on_sphere and Form.OWN_NORM in self.form:
            raise InputError(
                "`form` is own-norm, but on the sphere all norms are one; take papers."
            )

    def unused(self) -> Collection[str]:
        averaged = Estimator.MONTE_CARLO in self.estimator
        own = Form.OWN_NORM in self.form
        spare = () if averaged else self.MONTE_CARLO
        return {*super().unused(), *spare, *(() if own else ("components",))}


@dataclass(frozen=True)
class Prepared:
    """The DEQ on its samples, and what its kernel is compared with.

    Attributes
    ----------
    closed : mapping of Form to Equivalent
        The closed-form matrices; distances are to the first.
    law : SpectralLaw or str
        The law of the last, or why there is none.
    """

    settings: SpectrumSettings
    model: Model
    closed: Mapping[Form, Equivalent]
    law: SpectralLaw | str

    @property
    def first(self) -> Equivalent:
        """The matrix that distances are to, unless said otherwise."""
        return next(iter(self.closed.values()))

    @property
    def last(self) -> Form:
        """The form that is nearest to the kernel, whose law is drawn."""
        return list(self.closed)[-1]


class Spectrum(Study[SpectrumSettings, Prepared]):
    """Eigenvalues of a DEQ's kernel and of its closed-form equivalents, and the law they follow.

    Draws spectra of the kernel averaged over random networks of finite width (blue), of the exact
    kernel of infinite width, and of the equivalent matrices (red), with the operator-norm
    distances between them; over them the law that predicts the bulk, and the places of the
    eigenvalues that stand apart, with what their vectors carry (black). Writes a CSV of all
    eigenvalues, a figure, and a JSON with settings, versions, solver statistics and distances.
    """

    name = "spectrum"
    settings = SpectrumSettings
    duration = "one to two minutes"
    examples = (
        "--act tanh --sigma-a2 0.1",
        "--act arctan --sigma-a2 0.1 --name iclr-figure-1-left",
        "--act relu --kernel ntk --estimator exact --n 2000 --p 1500",
        "--data mnist --classes 6,8 --n 6000 --estimator exact",
        "--act tanh --weights rademacher --realizations 100 --format png,pdf",
    )
    version = 3
    constants = {
        (): ("kernel", "act", "sigma_a2", "data", "n", "p"),
        ("source",): (
            "distance", "norm", "relative", "network_relative", "noise_floor", "own_norm",
            "realizations", "width",
        ),
    }  # fmt: skip
    digits = 10
    quick = {"n": 1000, "realizations": 40}
    # Networks are solved in single precision.
    tolerances = {
        "eigenvalue": Tolerance(1e-5, 1e-6),
        "distance": Tolerance(1e-3, 1e-5),
        "norm": Tolerance(1e-5),
        "relative": Tolerance(1e-3, 1e-5),
        "network_relative": Tolerance(1e-3, 1e-5),
        "noise_floor": Tolerance(1e-3, 1e-5),
        "own_norm": Tolerance(1e-3, 1e-5),
        "density": Tolerance(1e-4, 1e-5),
        "distribution": Tolerance(1e-5, 1e-6),
        "aligned": Tolerance(1e-4, 1e-6),
    }

    def prepare(self, settings: SpectrumSettings) -> Prepared:
        from deqcli.data.laws import RealData
        from deqcli.models import deq_model
        from deqcli.predicted import law_of_samples

        inputs = settings.law(settings.p).load(self.data_streams(settings), settings.n)
        model = deq_model(inputs, settings.act, settings.sigma_a2, settings.sigma_b2)
        closed = {
            form: model.equivalent(settings.kernel, form, _components(settings, form))
            for form in sorted(settings.form, reverse=True)
        }
        source, whole = settings.law(settings.p), None
        if isinstance(source, RealData):
            whole = source.whole(self.data_streams(settings))
        law = law_of_samples(model, settings.kernel, list(closed)[-1], whole)
        return Prepared(settings, model, closed, law)

    def points(self, settings: SpectrumSettings) -> dict[str, tuple[Any, ...]]:
        """The closed routes, and chunks of realizations."""
        from deqcli.averaging import chunk_key

        points: dict[str, tuple[Any, ...]] = {_SOURCES[f]: (_SOURCES[f],) for f in settings.form}
        if Estimator.EXACT in settings.estimator:
            points["exact"] = ("exact",)
        return points | {chunk_key(chunk): ("realizations", *chunk) for chunk in _chunks(settings)}

    def memory(self, settings: SpectrumSettings) -> int:
        from deqcli.data.laws import RealData
        from deqcli.runs.memory import peak

        n, p = settings.shape
        # The assembly: kernels, and what reading them and checking their symmetry takes.
        work = 36 * n * n
        if Estimator.MONTE_CARLO in settings.estimator:
            work = max(50 * n * n, settings.averaging_bytes(n, p, settings.kernel))
        law = settings.law(settings.p)
        loading = law.loading(settings.n)
        if isinstance(law, RealData):
            # The whole set beside the samples at hand, and the decomposition of its covariance.
            loading = max(loading, 8 * n * p + law.whole_bytes() + 32 * p * p)
        held = 8 * n * p
        if Form.OWN_NORM in settings.form:
            directions = min(settings.law(settings.p).n_classes, 32) + settings.components
            held += 8 * n * directions**2
            work = max(work, 40 * n * n)
        return peak(loading=loading, held=held, work=work)

    def compute(self, prepared: Prepared, kind: str, start: int = 0, stop: int = 0) -> Arrays:
        from deqcli.equivalents import eigenvalues
        from deqcli.monte_carlo import accumulate

        settings, model = prepared.settings, prepared.model
        if kind in _SOURCES.values():
            form = next(form for form, source in _SOURCES.items() if source == kind)
            return {"eigenvalues": prepared.closed[form].eigenvalues()}
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

        from deqcli.equivalents import eigenvalues, operator_distance
        from deqcli.predicted import isolated_values
        from deqcli.spectrum_tables import distances_of, law_rows, spectrum_rows

        settings, model = prepared.settings, prepared.model
        kernels: dict[str, NDArray[np.float64]] = {}
        spectra = {_SOURCES[form]: load(_SOURCES[form])["eigenvalues"] for form in prepared.closed}
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
            source: distances_of(settings, model, kernels[source], prepared.first)
            for source in sorted(kernels)
        }
        own = prepared.closed.get(Form.OWN_NORM)
        for source in kernels if own is not None else ():
            distances[source]["own_norm"] = operator_distance(kernels[source], own)
        if Estimator.MONTE_CARLO in settings.estimator:
            distances["monte-carlo"]["noise_floor"] = findings["monte_carlo"]["noise_floor"]
        findings["distances"] = distances
        # As many as the theory expects: the law, or without one what the equivalent looks like.
        findings["isolated"] = isolated_values(spectra[_SOURCES[prepared.last]], prepared.law)
        if model.scalars is not None:
            findings["scalars"] = {
                key: value
                for key, value in model.scalars.as_record().items()
                if key != "activation"
            }
        rows = [
            spectrum_rows(settings, model, source, spectra[source], distances.get(source), findings)
            for source in sorted(spectra)
        ]
        findings["classes"] = list(model.inputs.data.classes)
        if isinstance(prepared.law, str):
            findings["law"] = {"reason": prepared.law}
        else:
            real = not settings.drawn
            findings["law"], added = law_rows(prepared.law, prepared.last, model, rows[0], real)
            rows.append(added)
        arrays = None
        if settings.save_kernels:
            data = {"X": model.X, "y": model.inputs.data.y}
            data |= {_SOURCES[f].replace("-", "_"): m.dense() for f, m in prepared.closed.items()}
            arrays = {**{name.replace("-", "_"): k for name, k in kernels.items()}, **data}
        return Assembled(pd.concat(rows, ignore_index=True), findings, arrays)

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        from deqcli.predicted import sentences_of

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
            if "own_norm" in values:
                text += f"; to the own-norm equivalent {values['own_norm']:.4g}"
            yield text
        if "form" in findings["law"]:
            yield from sentences_of(findings["law"], tuple(findings["classes"]))
        else:
            yield f"no law: {findings['law']['reason']}"

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


def _components(settings: SpectrumSettings, form: Form) -> int:
    return settings.components if form is Form.OWN_NORM else 0


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


STUDY = Spectrum()
