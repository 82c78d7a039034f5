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
from deqcli.shared_settings import (
    LAW_FIELDS,
    DeqSettings,
    MonteCarloSettings,
    SampleSettings,
    kernel_setting,
)
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

#: One L-ReLU layer by the equations of ICLR Corollary 2; whether they are as printed.
COROLLARY_2 = {"corollary-2": False, "corollary-2-printed": True}
# The networks that are averaged over random weights too.
_AVERAGED = (Net.DEQ, Net.MATCHED)
# The range on which activations are drawn, in units of tau0.
_REACH, _SAMPLES = 3.5, 141
# Single-precision networks have no part here: only a solver that stops at its tolerance.
_SOLVED = Tolerance(1e-5, 1e-7, 1e-9)


@dataclass(frozen=True, kw_only=True)
class MatchSettings(MonteCarloSettings, SampleSettings, DeqSettings):
    """Settings of ``deqcli match``."""

    act: str = with_default(DeqSettings, "act", "relu")
    sigma_a2: float = with_default(DeqSettings, "sigma_a2", 0.2)
    kernel: Kernel = kernel_setting(Kernel.CK)
    family: str = setting(
        "auto",
        "Activations of the twin; auto: the shallowest network that matches, the papers' families "
        "first; corollary-2: one L-ReLU layer by ICLR's equations, corrected or as printed.",
        choices=("auto", "htanh", "lrelu", "quadratic", "cubic", *COROLLARY_2),
    )
    layers: str = setting("auto", "Hidden layers of the twin.", choices=("1", "2", "auto"))
    tau0: float | None = setting(
        None, "Root of the data's mean variance, in place of data (no spectra).",
        least=SMALLEST, most=LARGEST,
    )  # fmt: skip
    averaged: bool = setting(
        False, "Also average both kernels over random networks, as the papers do."
    )
    export: str | None = setting(
        None,
        "Write a self-contained Python file that defines the twin.",
        choices=("torch", "numpy"),
        identity=False,
    )

    def check(self) -> None:
        super().check()
        if self.averaged and self.tau0 is not None:
            raise InputError(
                "`averaged` is given with `tau0`, which has no samples; leave one out."
            )
        if self.family in COROLLARY_2 and self.layers == "2":
            raise InputError(f"`layers` is 2, but `family` {self.family} has one.")
        if not self.on_sphere:
            return
        if self.family not in ("auto", "quadratic", "cubic"):
            raise InputError(f"`family` is {self.family}; on the sphere give quadratic or cubic.")
        if self.layers == "2":
            raise InputError("`layers` is 2; on the sphere one layer is enough (HLD Corollary 1).")
        if self.tau0 is not None:
            raise InputError("`tau0` does not matter on the sphere; leave it out.")

    def unused(self) -> Collection[str]:
        drawn = () if self.averaged else self.MONTE_CARLO
        samples = super().unused() if self.tau0 is None else {"data", "n", *LAW_FIELDS}
        return {*samples, *drawn}

    def inputs(self) -> dict[str, Any]:
        return super().inputs() if self.tau0 is None else {}


@dataclass(frozen=True)
class Prepared:
    """The DEQ on its samples (None if only ``tau0`` is known), its twin and a plain network."""

    settings: MatchSettings
    model: Model | None
    twin: Match
    plain: tuple[Activation, ...]


class MatchStudy(Study[MatchSettings, Prepared]):
    """Design the shallow explicit network that equals a given DEQ.

    Finds activations for one or two hidden layers so that the network's kernel has the same
    four scalars as the DEQ's, says why that family and depth, and sets the two spectra over each
    other, beside an unmatched plain network of the same depth. A request that no network of the
    family can meet is an answer: exit code 3, with the residuals, the reason and what would work.
    """

    name = "match"
    settings = MatchSettings
    examples = (
        "--act relu --sigma-a2 0.2",
        "--act tanh --sigma-a2 0.1 --export torch",
        "--act gelu --sigma-a2 0.1 --kernel ntk --tau0 1",
        "--act relu --family htanh          (not feasible: exit code 3, and why)",
        "--data sphere --act nrelu --sigma-a2 0.2 --kernel preactivation-ck --n 1000 --p 1200",
    )
    quick = {"n": 1000, "realizations": 40}
    tolerances = {
        "value": _SOLVED,
        "name": _SOLVED,
        "distance": Tolerance(1e-3, 1e-5, 1e-8),
        "residual": Tolerance(0, 0, 1e-6),
    }

    def prepare(self, settings: MatchSettings) -> Prepared:
        from deqcli.activations import activation
        from deqcli.errors import silence_range_warning
        from deqcli.matching import match, match_sphere, plain_network
        from deqcli.matching.corollary import corollary_2
        from deqcli.models import deq_model

        deq = settings.act, settings.sigma_a2, settings.sigma_b2
        layers = settings.layers if settings.layers == "auto" else int(settings.layers)
        model, tau0 = None, settings.tau0
        if tau0 is None:
            inputs = settings.law(settings.p).load(self.data_streams(settings), settings.n)
            model = deq_model(inputs, *deq)
            if inputs.statistics is not None:
                tau0 = inputs.statistics.tau0
        with silence_range_warning():
            if tau0 is None:
                assert model is not None
                act, sigma_a2, sigma_b2 = deq
                family = "quadratic" if settings.family == "auto" else settings.family
                sphere_twin = match_sphere(
                    act, sigma_a2, model.X.shape[1], settings.kernel, sigma_b2=sigma_b2,
                    family=family,
                )  # fmt: skip
                plain = (activation(act),) * len(sphere_twin.acts)
                return Prepared(settings, model, sphere_twin, plain)
            if settings.family in COROLLARY_2:
                printed = COROLLARY_2[settings.family]
                twin = corollary_2(*deq, tau0, kernel=settings.kernel, printed=printed)
            else:
                twin = match(
                    *deq, tau0, kernel=settings.kernel, family=settings.family, layers=layers
                )
        return Prepared(settings, model, twin, plain_network(settings.act, len(twin.acts), tau0))

    def points(self, settings: MatchSettings) -> dict[str, tuple[Any, ...]]:
        """Return one point a network, and chunks of random ones; none without data."""
        from deqcli.averaging import chunk_key

        if settings.tau0 is not None:
            return {}
        points: dict[str, tuple[Any, ...]] = {net.value: (net,) for net in Net}
        for chunk in _chunks(settings):
            points |= {chunk_key(chunk, net): (net, *chunk) for net in _AVERAGED}
        return points

    def memory(self, settings: MatchSettings) -> int:
        from deqcli.runs.memory import peak

        if settings.tau0 is not None:
            return peak(loading=0, held=0, work=0)
        n, p = settings.shape
        loading = settings.law(settings.p).loading(settings.n)
        work = 48 * n * n
        if settings.averaged:
            work = max(work + 16 * n * n, settings.averaging_bytes(n, p, settings.kernel))
        return peak(loading=loading, held=8 * n * p, work=work)

    def compute(self, prepared: Prepared, net: Net, start: int = 0, stop: int = 0) -> Arrays:
        from deqcli.averaging import sum_chunk
        from deqcli.equivalents import eigenvalues
        from deqcli.kernels.exact import explicit_kernels

        model, twin = prepared.model, prepared.twin
        assert model is not None
        if stop:
            streams = partial(self.stream, prepared.settings, net.value)
            acts = None if net == Net.DEQ else twin.acts
            return sum_chunk(prepared.settings, model, acts, twin.kernel, (start, stop), streams)
        if net == Net.DEQ:
            (kernel,) = model.kernel(twin.kernel)
        else:
            layers = twin.acts if net == Net.MATCHED else prepared.plain
            (kernel,) = explicit_kernels(model.X, layers).compute(twin.twin_kernel)
        return {"eigenvalues": eigenvalues(kernel), "kernel": kernel}

    def assemble(self, prepared: Prepared, load: Load) -> Assembled:
        """Make the table: eigenvalues, scalars and sampled activations, one row each."""
        import pandas as pd

        from deqcli.activations import activation

        settings, model, twin = prepared.settings, prepared.model, prepared.twin
        frames = [_activation_rows(settings, twin), _scalar_rows(twin)]
        findings: dict[str, Any] = {
            "verdict": twin.reason,
            "feasible": twin.feasible,
            "match": twin.as_record(),
            "plain": [{"name": act.name, "shift": act.shift} for act in prepared.plain],
        }
        if model is not None:
            spectra, distances = _compare(load)
            findings |= distances
            frames += _eigenvalue_rows(twin, spectra, distances)
            if settings.averaged:
                findings["averaged"], rows = _averaged(settings, load)
                frames.append(rows)
        table = pd.concat(frames, ignore_index=True)
        table["act"] = activation(settings.act).name
        table["sigma_a2"] = settings.sigma_a2
        table["data"] = settings.data if model is not None else f"tau0 = {twin.tau0:g}"
        table["n"] = 0 if model is None else model.inputs.data.n_samples
        table["feasible"] = twin.feasible
        return Assembled(table, findings)

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        record = findings["match"]
        yield findings["verdict"]
        for number, layer in enumerate(record["activations"], start=1):
            yield f"  layer {number}: {layer['name']}, shift {layer['shift']!r}"
        for name, value in record["target"].items():
            yield (
                f"  {name}: DEQ {value:.10g}, twin {record['achieved'][name]:.10g} "
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

        if averaged := findings.get("averaged"):
            from deqcli.averaging import sentence

            yield f"  {sentence(averaged)}"

    def shortcomings(self, findings: Mapping[str, Any]) -> Sequence[str]:
        if findings["feasible"]:
            return ()
        # What the equations of a corollary give need not be the nearest.
        nearest = (
            "" if "Corollary 2" in findings.get("verdict", "") else "; the nearest network is shown"
        )
        return (f"no exact match{nearest}",)

    def quantities(self, settings: MatchSettings) -> Sequence[Quantity]:
        deq, twin = settings.kernel.letter, "Σ" if settings.kernel.explicit == Kernel.CK else "Θ̃"
        difference = f"‖{deq} − {twin}‖"
        averaged = Quantity(
            "averaged_distance",
            f"{difference}, both averaged over random networks",
            _averaged_distance,
            needs=("n", "p", "realizations"),
            remark=_average_text,
            # Another seed is one of exact kernels: networks are not simulated again.
            seeded=False,
        )
        return (averaged,) * settings.averaged + tuple(
            Quantity(key, name, partial(_finding, key=key), needs=needs)
            for key, name, needs in (
                ("matched_distance", f"{difference}, twin", ("n", "p")),
                ("matched_relative", f"{difference}/‖{deq}‖, twin", ()),
                ("plain_relative", f"{difference}/‖{deq}‖, plain network", ()),
            )
        )

    def reseeded(self, settings: MatchSettings, seed: int) -> MatchSettings | None:
        """Exact kernels show what another draw of the data changes."""
        if not settings.drawn or settings.tau0 is not None:
            return None
        return replace(settings, seed=seed, averaged=False)

    def exports(
        self, settings: MatchSettings, prepare: Callable[[], Prepared]
    ) -> Mapping[str, str]:
        if settings.export is None:
            return {}
        from deqcli.matching import export

        twin = prepare().twin
        if not twin.feasible:
            return {}
        return {f"-{settings.export}.py": export(twin, settings.export)}


def _finding(run: Finished, key: str) -> Measured:
    return Measured(run.findings[key])


def _averaged_distance(run: Finished) -> Measured:
    averaged = run.findings["averaged"]
    return Measured(averaged["distance"], noise=averaged["noise_floor"])


def _average_text(run: Finished) -> str:
    from deqcli.averaging import sentence

    return sentence(run.findings["averaged"]) + "."


def _chunks(settings: MatchSettings) -> list[tuple[int, int]]:
    from deqcli.averaging import chunks

    return chunks(settings.realizations, settings.shape[0]) if settings.averaged else []


def _averaged(settings: MatchSettings, load: Load) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return how far the averages of DEQ and twin are apart, as findings and as rows."""
    import pandas as pd

    from deqcli.averaging import chunk_key, compare

    deq, twin = (
        [partial(load, chunk_key(chunk, net)) for chunk in _chunks(settings)] for net in _AVERAGED
    )
    size = {"realizations": settings.realizations, "width": settings.width}
    findings = compare(deq, twin) | size
    values = pd.Series(findings, dtype=float).dropna()
    rows = {
        "kind": "average",
        "source": Net.MATCHED.value,
        "name": values.index,
        "distance": values,
    }
    return findings, pd.DataFrame(rows)


def _compare(load: Load) -> tuple[dict[Net, NDArray[np.float64]], dict[str, float]]:
    """Return the spectra of the three networks, and the distances of two to the DEQ."""
    from deqcli.equivalents import operator_distance, operator_norm

    deq = load(Net.DEQ.value)
    norm = operator_norm(deq["kernel"])
    spectra, distances = {Net.DEQ: deq["eigenvalues"]}, {"norm": norm}
    for net in (Net.MATCHED, Net.PLAIN):
        other = load(net.value)
        spectra[net] = other["eigenvalues"]
        distance = operator_distance(deq["kernel"], other["kernel"])
        distances |= {f"{net}_distance": distance, f"{net}_relative": distance / norm}
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
