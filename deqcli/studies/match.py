"""The shallow explicit network that equals a DEQ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deqcli.checks import LARGEST, SMALLEST
from deqcli.errors import InputError
from deqcli.quantities import Finished, Measured, Quantity
from deqcli.settings import setting, with_default
from deqcli.shared_settings import LAW_FIELDS, DeqSettings, SampleSettings, kernel_setting
from deqcli.study import Assembled, Study, Tolerance
from deqcli.vocabulary import Kernel, Net

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from deqcli.activations import Activation
    from deqcli.matching import Match
    from deqcli.models import Model
    from deqcli.study import Arrays, Load

# The range on which activations are drawn, in units of tau0.
_REACH, _SAMPLES = 3.5, 141
# What a fit takes: series of some thousand pairs for every number, in complex numbers.
_FIT = 60_000_000
#: The relative distances that a verdict is about.
_RELATIVE = ("matched_relative", "matched_frobenius", "plain_relative")
# Single-precision networks have no part here: only a solver that stops at its tolerance.
_SOLVED = Tolerance(1e-5, 1e-7, 1e-9)


@dataclass(frozen=True, kw_only=True)
class MatchSettings(SampleSettings, DeqSettings):
    """Settings of ``deqcli match``."""

    act: str = with_default(DeqSettings, "act", "relu")
    sigma_a2: float = with_default(DeqSettings, "sigma_a2", 0.2)
    kernel: Kernel = kernel_setting(Kernel.CK)
    family: str = setting(
        "auto",
        "Activations of the twin; auto: the smallest network that matches, piecewise linear ones "
        "first. spline (piecewise linear) and quintic are fitted to data.",
        choices=("auto", "htanh", "lrelu", "quadratic", "cubic", "spline", "quintic"),
    )
    layers: str = setting("auto", "Hidden layers of the twin.", choices=("1", "2", "auto"))
    design: int = setting(
        200, "Samples that the twin is fitted to, at most half; it is judged on the others. 0: no "
        "fit, the papers' four scalars alone.", least=0,
    )  # fmt: skip
    within: float = setting(
        0.02, "Distance, in units of the DEQ's norm, at which a twin on data matches.",
        above=0, below=1,
    )  # fmt: skip
    tau0: float | None = setting(
        None, "Root of the data's mean variance, in place of data (no spectra).",
        least=SMALLEST, most=LARGEST,
    )  # fmt: skip
    export: str | None = setting(
        None,
        "Write a self-contained Python file that defines the twin.",
        choices=("torch", "numpy"),
        identity=False,
    )

    @property
    def fitted(self) -> bool:
        """Whether the twin is fitted to samples."""
        return self.tau0 is None and not self.on_sphere and self.design > 0

    def check(self) -> None:
        super().check()
        if not self.fitted and self.family in ("spline", "quintic"):
            raise InputError(
                f"`family` is {self.family}, which is fitted to data; give `data` with a `design`, "
                "or another family."
            )
        if self.fitted and self.n is not None and self.n < 20:
            raise InputError(
                f"`n` is {self.n}; a twin is fitted to 20 samples or more (`design` 0: to none)."
            )
        if not self.on_sphere:
            return
        if self.family not in ("auto", "quadratic", "cubic"):
            raise InputError(f"`family` is {self.family}; on the sphere give quadratic or cubic.")
        if self.layers == "2":
            raise InputError("`layers` is 2; on the sphere one layer is enough (HLD Corollary 1).")
        if self.tau0 is not None:
            raise InputError("`tau0` does not matter on the sphere; leave it out.")

    def unused(self) -> Collection[str]:
        if self.tau0 is not None:
            return {"data", "n", "design", "within", *LAW_FIELDS}
        return {*super().unused(), *({"design", "within"} if self.on_sphere else ())}

    def inputs(self) -> dict[str, Any]:
        return super().inputs() if self.tau0 is None else {}


@dataclass(frozen=True)
class Prepared:
    """The DEQ on its samples (None if only ``tau0`` is known), its twin and a plain network.

    ``X`` are the samples that the networks are compared on: those that were not fitted to.
    """

    settings: MatchSettings
    model: Model | None
    twin: Match
    plain: tuple[Activation, ...]
    X: NDArray[np.float64] | None = None


class MatchStudy(Study[MatchSettings, Prepared]):
    """Design the shallow explicit network that equals a given DEQ.

    Finds activations for one or two hidden layers so that the network's kernel is the DEQ's on the
    data: fitted to the pairs of some samples (--design), judged on the others, on which it sets the
    two spectra over each other, beside an unmatched plain network of the same depth. Without data
    (--tau0), or with --design 0, the twin has the four scalars of the papers. A twin that is not
    within what was asked for is an answer: exit code 3, with its distance, the plain network's and
    what would help.
    """

    name = "match"
    settings = MatchSettings
    examples = (
        "--act relu --sigma-a2 0.2",
        "--act gelu --sigma-a2 0.1 --kernel ntk --data mnist --n 1000",
        "--act tanh --sigma-a2 0.1 --within 0.005 --export torch",
        "--act gelu --sigma-a2 0.1 --kernel ntk --tau0 1",
        "--act relu --family htanh          (not feasible: exit code 3, and why)",
        "--data sphere --act nrelu --sigma-a2 0.2 --kernel preactivation-ck --n 1000 --p 1200",
    )
    version = 2
    quick = {"n": 1000}
    tolerances = {
        "value": _SOLVED,
        "name": _SOLVED,
        "distance": Tolerance(1e-3, 1e-5, 1e-8),
        "residual": Tolerance(0, 0, 1e-6),
    }

    def prepare(self, settings: MatchSettings) -> Prepared:
        from deqcli.activations import activation
        from deqcli.errors import silence_range_warning
        from deqcli.matching import fit_twin, match, match_sphere, plain_network
        from deqcli.models import deq_model

        deq = settings.act, settings.sigma_a2, settings.sigma_b2
        layers = settings.layers if settings.layers == "auto" else int(settings.layers)
        wanted: dict[str, Any] = {"kernel": settings.kernel, "family": settings.family}
        with silence_range_warning():
            if settings.tau0 is not None:
                twin = match(*deq, settings.tau0, layers=layers, **wanted)
                plain = plain_network(settings.act, twin.layers, settings.tau0)
                return Prepared(settings, None, twin, plain)
            inputs = settings.law(settings.p).load(self.data_streams(settings), settings.n)
            model = deq_model(inputs, *deq)
            if inputs.statistics is None:
                act, sigma_a2, sigma_b2 = deq
                family = "quadratic" if settings.family == "auto" else settings.family
                twin = match_sphere(
                    act, sigma_a2, model.X.shape[1], settings.kernel, sigma_b2=sigma_b2,
                    family=family,
                )  # fmt: skip
                plain = (activation(act),) * len(twin.acts)
                return Prepared(settings, model, twin, plain, model.X)
            # The DEQ is centred at the tau0 of its equivalent, as in every other study.
            tau0 = inputs.statistics.tau0
            if settings.fitted:
                _, twin = fit_twin(
                    *deq, tau0, layers=layers, X=model.X, within=settings.within,
                    seed=settings.seed, design=settings.design, **wanted,
                )  # fmt: skip
                assert twin.design is not None
                return Prepared(settings, model, twin, twin.plain, model.X[twin.design.others])
            twin = match(*deq, tau0, layers=layers, **wanted)
        plain = plain_network(settings.act, len(twin.acts), tau0)
        return Prepared(settings, model, replace(twin, limit=settings.within), plain, model.X)

    def points(self, settings: MatchSettings) -> dict[str, tuple[Any, ...]]:
        """Return one point a network; without data there is no kernel to compute."""
        return {} if settings.tau0 is not None else {net.value: (net,) for net in Net}

    def memory(self, settings: MatchSettings) -> int:
        from deqcli.runs.memory import peak

        if settings.tau0 is not None:
            return peak(loading=0, held=0, work=0)
        n, p = settings.shape
        loading = settings.law(settings.p).loading(settings.n)
        # Beside the samples those that were not fitted to; the fit has its pairs' series.
        held = (16 if settings.fitted else 8) * n * p
        return peak(loading=loading, held=held, work=48 * n * n + (_FIT if settings.fitted else 0))

    def compute(self, prepared: Prepared, net: Net) -> Arrays:
        from deqcli.equivalents import eigenvalues
        from deqcli.errors import silence_range_warning
        from deqcli.kernels.exact import explicit_kernels, implicit_kernels

        model, twin, X = prepared.model, prepared.twin, prepared.X
        assert model is not None
        assert X is not None
        if net == Net.DEQ:
            with silence_range_warning():
                kernels = implicit_kernels(X, model.act, model.sigma_a2, model.sigma_b2)
            (kernel,) = kernels.compute(twin.kernel)
        else:
            layers = twin.acts if net == Net.MATCHED else prepared.plain
            (kernel,) = explicit_kernels(X, layers).compute(twin.twin_kernel)
        return {"eigenvalues": eigenvalues(kernel), "kernel": kernel}

    def assemble(self, prepared: Prepared, load: Load) -> Assembled:
        """Make the table: eigenvalues, scalars and sampled activations, one row each."""
        import pandas as pd

        from deqcli.activations import activation
        from deqcli.matching import Distances, judge

        settings, model, twin = prepared.settings, prepared.model, prepared.twin
        distances: dict[str, float] = {}
        if prepared.X is not None:
            spectra, distances = _compare(load)
        if twin.limit is not None:
            ours, frobenius, control = (distances[key] for key in _RELATIVE)
            rows = spectra[Net.DEQ].size
            twin = judge(twin, Distances(ours, frobenius, control, rows))
        frames = [_activation_rows(settings, twin), _scalar_rows(twin)]
        if distances:
            frames += _eigenvalue_rows(twin, spectra, distances)
        findings: dict[str, Any] = {
            "verdict": twin.reason,
            "feasible": twin.feasible,
            "match": twin.as_record(),
            "plain": [{"name": act.name, "shift": act.shift} for act in prepared.plain],
            **distances,
        }
        table = pd.concat(frames, ignore_index=True)
        table["act"] = activation(settings.act).name
        table["sigma_a2"] = settings.sigma_a2
        table["data"] = settings.data if model is not None else f"tau0 = {twin.tau0:g}"
        table["n"] = 0 if prepared.X is None else len(prepared.X)
        table["feasible"] = twin.feasible
        return Assembled(table, findings)

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        record = findings["match"]
        yield findings["verdict"]
        for number, layer in enumerate(record["activations"], start=1):
            yield f"  layer {number}: {layer['name']}, shift {layer['shift']!r}"
        for name, achieved in record["achieved"].items():
            yield (
                f"  {name}: DEQ {record['target'][name]:.10g}, twin {achieved:.10g} "
                f"(relative residual {record['residuals'][name]:.1e})"
            )
        if slope := record.get("diagonal_slope"):
            yield (
                f"  diagonal slope: DEQ {slope['target']:.6g}, twin {slope['achieved']:.6g} "
                f"(mismatch {slope['mismatch']:.1e})"
            )
        for net in (Net.MATCHED, Net.PLAIN):
            if f"{net}_distance" in findings:
                yield (
                    f"  {net} network: distance {findings[f'{net}_distance']:.4g} "
                    f"({findings[f'{net}_relative']:.2g} of the DEQ's norm {findings['norm']:.4g})"
                )
        if design := record.get("design"):
            yield (
                f"  fitted to {design['rows']} samples ({design['pairs']} pairs), judged on "
                f"{design['held_out']} others"
            )
            low, high = record["norms_range"] or (0.0, 0.0)
            yield (
                f"  within {record['limit']:g} for data of root mean squared norm {low:.3g} to "
                f"{high:.3g}"
                if high
                else "  at no norm within what was asked for"
            )

    def shortcomings(self, findings: Mapping[str, Any]) -> Sequence[str]:
        return () if findings["feasible"] else ("no match; the nearest network is shown",)

    def quantities(self, settings: MatchSettings) -> Sequence[Quantity]:
        deq, twin = settings.kernel.letter, "Σ" if settings.kernel.explicit == Kernel.CK else "Θ̃"
        difference = f"‖{deq} − {twin}‖"
        return tuple(
            Quantity(key, name, partial(_finding, key=key), needs=needs)
            for key, name, needs in (
                ("matched_distance", f"{difference}, twin", ("n", "p")),
                ("matched_relative", f"{difference}/‖{deq}‖, twin", ()),
                ("plain_relative", f"{difference}/‖{deq}‖, plain network", ()),
            )
        )

    def reseeded(self, settings: MatchSettings, seed: int) -> MatchSettings | None:
        return replace(settings, seed=seed) if settings.drawn and settings.tau0 is None else None

    def exports(
        self, settings: MatchSettings, prepare: Callable[[], Prepared]
    ) -> Mapping[str, str]:
        if settings.export is None:
            return {}
        from deqcli.matching import export, judge, measure

        prepared = prepare()
        twin = prepared.twin
        if prepared.model is not None and twin.limit is not None:
            twin = judge(twin, measure(twin, prepared.model.X))
        if not twin.feasible:
            return {}
        return {f"-{settings.export}.py": export(twin, settings.export)}


def _finding(run: Finished, key: str) -> Measured:
    return Measured(run.findings[key])


def _compare(load: Load) -> tuple[dict[Net, NDArray[np.float64]], dict[str, float]]:
    """Return the spectra of the three networks, and the distances of two to the DEQ."""
    import numpy as np

    from deqcli.equivalents import operator_distance, operator_norm

    deq = load(Net.DEQ.value)
    norm = operator_norm(deq["kernel"])
    spectra, distances = {Net.DEQ: deq["eigenvalues"]}, {"norm": norm}
    for net in (Net.MATCHED, Net.PLAIN):
        other = load(net.value)
        spectra[net] = other["eigenvalues"]
        distance = operator_distance(deq["kernel"], other["kernel"])
        gap = float(np.linalg.norm(deq["kernel"] - other["kernel"]))
        distances |= {
            f"{net}_distance": distance,
            f"{net}_relative": distance / norm,
            f"{net}_frobenius": gap / float(np.linalg.norm(deq["kernel"])),
        }
    return spectra, distances


def _eigenvalue_rows(
    twin: Match,
    spectra: Mapping[Net, NDArray[np.float64]],
    distances: Mapping[str, float],
) -> list[pd.DataFrame]:
    import numpy as np
    import pandas as pd

    from deqcli.equivalents import count_isolated

    isolated = count_isolated(spectra[Net.DEQ][::-1])
    index = np.arange(spectra[Net.DEQ].size)
    return [
        pd.DataFrame(
            {
                "kind": "eigenvalue",
                "source": net.value,
                "name": (twin.kernel if net == Net.DEQ else twin.twin_kernel).value,
                "index": index,
                "value": spectrum[::-1],
                "isolated": index < isolated,
                "distance": distances.get(f"{net}_distance", 0.0),
            }
        )
        for net, spectrum in spectra.items()
    ]


def _activation_rows(settings: MatchSettings, twin: Match) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    from deqcli.activations import activation

    x = twin.tau0 * np.linspace(-_REACH, _REACH, _SAMPLES)
    deq = activation(settings.act)
    if twin.deq is not None:
        deq = deq.shifted(twin.deq.shift)
    curves = [("deq", "phi", deq)]
    curves += [("matched", f"sigma_{k + 1}", act) for k, act in enumerate(twin.acts)]
    return pd.concat(
        [
            pd.DataFrame(
                {"kind": "activation", "source": source, "name": f"{name}: {act.name}", "index": k,
                 "x": x, "value": np.asarray(act(x), dtype=float)}
            )
            for k, (source, name, act) in enumerate(curves)
        ],
        ignore_index=True,
    )  # fmt: skip


def _scalar_rows(twin: Match) -> pd.DataFrame:
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for name, value in twin.target.items():
        rows.append({"kind": "scalar", "source": "deq", "name": name, "value": value})
        if name in twin.achieved:
            rows.append(
                {"kind": "scalar", "source": "matched", "name": name, "value": twin.achieved[name],
                 "residual": twin.residuals[name]}
            )  # fmt: skip
    if slope := twin.diagonal_slope:
        rows += [
            {"kind": "scalar", "source": source, "name": "diagonal_slope", "value": value}
            for source, value in (("deq", slope.target), ("matched", slope.achieved))
        ]
    return pd.DataFrame(rows)


STUDY = MatchStudy()
