"""Eigenvalues of a DEQ's kernel and of its equivalent."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deqcli.errors import InputError
from deqcli.quantities import Finished, Measured, Quantity
from deqcli.settings import setting
from deqcli.shared_settings import (
    DeqSettings,
    MonteCarloSettings,
    kernel_setting,
)
from deqcli.storage import StorageSettings
from deqcli.study import Assembled, Study, Tolerance
from deqcli.vocabulary import Estimator, Form, Kernel, Storage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from deqcli.operators import KernelOperator
    from deqcli.spectrum_prepared import Prepared
    from deqcli.study import Arrays, Load

logger = logging.getLogger("deqcli")

#: What the equivalents are called in tables.
_SOURCES = {Form.PAPERS: "equivalent", Form.OWN_NORM: "own-norm"}


@dataclass(frozen=True, kw_only=True)
class SpectrumSettings(MonteCarloSettings, StorageSettings, DeqSettings):
    """Settings of ``deqcli spectrum``."""

    kernel: Kernel = kernel_setting(Kernel.PREACTIVATION_CK)
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


class Spectrum(Study[SpectrumSettings, "Prepared"]):
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
        "--data mnist --n 60000 --estimator exact --storage disk",
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
        from deqcli.spectrum_prepared import Prepared

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
        from deqcli.panels import panel_points
        from deqcli.spectrum_tables import chunks_of

        points: dict[str, tuple[Any, ...]] = {_SOURCES[f]: (_SOURCES[f],) for f in settings.form}
        if not settings.dense:
            kept_here = settings.storage is not Storage.CLUSTER
            return points | (panel_points(settings.shape[0]) if kept_here else {})
        if Estimator.EXACT in settings.estimator:
            points["exact"] = ("exact",)
        return points | {
            chunk_key(chunk): ("realizations", *chunk) for chunk in chunks_of(settings)
        }

    def needs_scheduler(self, settings: SpectrumSettings) -> str:
        return "`storage` cluster" if settings.storage is Storage.CLUSTER else ""

    def memory(self, settings: SpectrumSettings) -> int:
        from deqcli.runs.memory import peak

        n, p = settings.shape
        if not settings.dense:
            taken = settings.operator_bytes(settings.components)
            return peak(loading=self._loading(settings), held=0, work=taken)
        # The assembly: kernels, and what reading them and checking their symmetry takes.
        work = 36 * n * n
        if Estimator.MONTE_CARLO in settings.estimator:
            work = max(50 * n * n, settings.averaging_bytes(n, p, settings.kernel))
        held = 8 * n * p
        if Form.OWN_NORM in settings.form:
            directions = min(settings.law(settings.p).n_classes, 32) + settings.components
            held += 8 * n * directions**2
            work = max(work, 40 * n * n)
        return peak(loading=self._loading(settings), held=held, work=work)

    def point_memory(self, settings: SpectrumSettings) -> int | None:
        # Points make panels of the operator; the assembly alone has all of them.
        held = settings.shape[0] ** 2 if settings.storage is Storage.MEMORY else 0
        return None if settings.dense else self.memory(settings) - held

    def memory_remedy(self, settings: SpectrumSettings) -> str:
        remedy = super().memory_remedy(settings)
        return f"take `storage` disk, or {remedy}" if settings.storage is Storage.MEMORY else remedy

    def _loading(self, settings: SpectrumSettings) -> int:
        from deqcli.data.laws import RealData

        n, p = settings.shape
        law = settings.law(settings.p)
        loading = law.loading(settings.n)
        if isinstance(law, RealData):
            # The whole set beside the samples at hand, and the decomposition of its covariance.
            loading = max(loading, 8 * n * p + law.whole_bytes())
        return loading

    def compute(self, prepared: Prepared, kind: str, start: int = 0, stop: int = 0) -> Arrays:
        from deqcli.equivalents import eigenvalues
        from deqcli.monte_carlo import accumulate
        from deqcli.panels import make_panels

        settings, model = prepared.settings, prepared.model
        if kind in _SOURCES.values():
            closed = prepared.closed[next(f for f, name in _SOURCES.items() if name == kind)]
            if settings.dense:
                return {"eigenvalues": closed.eigenvalues()}
            return prepared.summarise(closed, self.stream(settings, "probes"))
        if kind == "panels":
            return make_panels(prepared.rest, start, stop)
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
        with ExitStack() as stack:
            return self._assemble(prepared, load, stack)

    def _assemble(self, prepared: Prepared, load: Load, stack: ExitStack) -> Assembled:
        import pandas as pd

        from deqcli.equivalents import eigenvalues, operator_distance
        from deqcli.predicted import isolated_values, law_apart
        from deqcli.sharded import open_operator
        from deqcli.spectrum_tables import average_of, distances_of, law_rows, spectrum_rows
        from deqcli.whole_spectra import density_rows, facts_of, grid_of

        settings, model = prepared.settings, prepared.model
        kernels: dict[str, NDArray[np.float64] | KernelOperator] = {}
        loaded: dict[str, Arrays] = {_SOURCES[f]: load(_SOURCES[f]) for f in prepared.closed}
        findings: dict[str, Any] = {"details": dict(model.inputs.data.details)}
        dense = settings.dense
        if not dense:
            kept = open_operator(model, settings.kernel, prepared.rest, load, settings.storage)
            operator = stack.enter_context(kept)
            logger.info("spectrum: some 300 products with the kernel, for its eigenvalues")
            kernels["exact"] = operator
            loaded["exact"] = prepared.summarise(operator, self.stream(settings, "probes"))
        spectra = {
            source: arrays["eigenvalues"] if dense else arrays["leading"][::-1]
            for source, arrays in loaded.items()
        }
        if dense and Estimator.EXACT in settings.estimator:
            exact = load("exact")
            spectra["exact"], kernels["exact"] = exact["eigenvalues"], exact["kernel"]
        if Estimator.MONTE_CARLO in settings.estimator:
            average, findings["monte_carlo"] = average_of(settings, load)
            if "exact" in kernels:
                distance = operator_distance(average, kernels["exact"])
                findings["monte_carlo"]["distance_to_exact"] = distance
            spectra["monte-carlo"], kernels["monte-carlo"] = eigenvalues(average), average
        distances = {
            source: distances_of(settings, model, kernels[source], prepared.first)
            for source in sorted(kernels)
        }
        own = prepared.closed.get(Form.OWN_NORM)
        for source, kernel in kernels.items() if own is not None else ():
            # An operator is kept as what it differs by.
            apart = operator_distance(kernel, own) if dense else operator.distance()
            distances[source]["own_norm"] = apart
        if not dense:
            distances["exact"]["rounding"] = operator.rounding
            findings["density"] = facts_of(loaded["exact"])
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
        if not dense:
            grid = grid_of(loaded, findings["isolated"])
            rows += [
                density_rows(loaded[source], grid, known)
                for source, known in zip(sorted(spectra), list(rows), strict=True)
            ]
        findings["classes"] = list(model.inputs.data.classes)
        if isinstance(prepared.law, str):
            findings["law"] = {"reason": prepared.law}
        else:
            real = not settings.drawn
            findings["law"], added = law_rows(prepared.law, prepared.last, model, rows[0], real)
            if dense:
                measured = spectra["exact" if "exact" in spectra else "monte-carlo"]
                findings["law"]["apart"] = law_apart(measured, prepared.law)
            rows.append(added)
        arrays = None
        if settings.save_kernels:
            data = {"X": model.X, "y": model.inputs.data.y}
            data |= {_SOURCES[f].replace("-", "_"): m.dense() for f, m in prepared.closed.items()}
            arrays = {**{name.replace("-", "_"): k for name, k in kernels.items()}, **data}
        return Assembled(pd.concat(rows, ignore_index=True), findings, arrays)

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        from deqcli.averaging import UNKNOWN_NOISE
        from deqcli.predicted import sentences_of

        for source, values in findings["distances"].items():
            own = values.get("own_norm")
            papers = own is None or not math.isclose(own, values["distance"], rel_tol=1e-6)
            form = "equivalent" if papers else "own-norm equivalent"
            text = (
                f"{source}: distance to the {form} {values['distance']:.4g} "
                f"({values['relative']:.2g} of the norm {values['norm']:.4g}"
            )
            if "input_norm" in values:
                text += f", of which the inputs make {values['input_norm']:.4g}"
                if values["network_relative"] is not None:
                    text += f"; {values['network_relative']:.2g} of the kernel without them"
            text += ")"
            if "noise_floor" in values:
                floor = values["noise_floor"]
                known = f"two such averages are {floor:.2g} apart" if floor else UNKNOWN_NOISE
                text += f"; {known}"
            if own is not None and papers:
                text += f"; to the own-norm equivalent {values['own_norm']:.4g}"
            if "rounding" in values:
                text += f"; each within {values['rounding']:.2g}, for what was rounded off"
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


STUDY = Spectrum()
