"""The shallow explicit network that equals a DEQ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deqcli.match_settings import COROLLARY_2, MatchSettings
from deqcli.quantities import Finished, Measured, Quantity
from deqcli.study import Assembled, Study, Tolerance
from deqcli.vocabulary import Kernel, Net

if TYPE_CHECKING:
    import pandas as pd

    from deqcli.activations import Activation
    from deqcli.matching import Match
    from deqcli.models import Model
    from deqcli.study import Arrays, Load

# The networks that are averaged over random weights too.
_AVERAGED = (Net.DEQ, Net.MATCHED)
# What a fit takes: series of some thousand pairs for every number, in complex numbers.
_FIT = 60_000_000
#: The relative distances that a verdict is about.
_RELATIVE = ("matched_relative", "matched_frobenius", "plain_relative")
# Single-precision networks have no part here: only a solver that stops at its tolerance.
_SOLVED = Tolerance(1e-5, 1e-7, 1e-9)


@dataclass(frozen=True)
class Prepared:
    """The DEQ on its samples (None if only ``tau0`` is known), its twin and a plain network."""

    settings: MatchSettings
    model: Model | None
    twin: Match
    plain: tuple[Activation, ...]


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
    version = 2
    settings = MatchSettings
    duration = "a few seconds"
    examples = (
        "--act relu --sigma-a2 0.2",
        "--act gelu --sigma-a2 0.1 --kernel ntk --data mnist --n 1000",
        "--act tanh --sigma-a2 0.1 --within 0.005 --export torch",
        "--act gelu --sigma-a2 0.1 --kernel ntk --tau0 1",
        "--act relu --family htanh          (not feasible: exit code 3, and why)",
        "--data sphere --act nrelu --sigma-a2 0.2 --kernel preactivation-ck --n 1000 --p 1200",
    )
    quick = {"n": 1000, "realizations": 40}
    constants = {(): ("act", "sigma_a2", "data", "n", "feasible"),
                 ("kind", "source", "name"): ("distance", "scaled")}  # fmt: skip
    digits = 10
    tolerances = {
        "value": _SOLVED,
        "name": _SOLVED,
        "distance": Tolerance(1e-3, 1e-5, 1e-8),
        "scaled": Tolerance(1e-3, 1e-5, 1e-8),
        "residual": Tolerance(0, 0, 1e-6),
    }

    def prepare(self, settings: MatchSettings) -> Prepared:
        from deqcli.activations import activation
        from deqcli.errors import silence_range_warning
        from deqcli.matching import fit_twin, match, match_sphere, on_gaussian_data, plain_network
        from deqcli.matching.corollary import corollary_2
        from deqcli.models import deq_model

        deq = settings.act, settings.sigma_a2, settings.sigma_b2
        layers = settings.layers if settings.layers == "auto" else int(settings.layers)
        wanted: dict[str, Any] = {"kernel": settings.kernel, "family": settings.family}
        model, tau0 = None, settings.tau0
        with silence_range_warning():
            if tau0 is None:
                inputs = settings.law(settings.p).load(self.data_streams(settings), settings.n)
                if settings.fitted:
                    twin = fit_twin(
                        *deq, None, layers=layers, X=inputs.data.X, within=settings.within,
                        seed=settings.seed, design=settings.design, **wanted,
                    )  # fmt: skip
                    assert twin.design is not None
                    # The DEQ of a fitted twin is centred at the samples' norm.
                    model = deq_model(inputs, *deq, twin.tau0).part(twin.design.others)
                    return Prepared(settings, model, twin, twin.plain)
                model = deq_model(inputs, *deq)
                if inputs.statistics is None:
                    act, sigma_a2, sigma_b2 = deq
                    family = "quadratic" if settings.family == "auto" else settings.family
                    twin = match_sphere(
                        act, sigma_a2, model.X.shape[1], settings.kernel, sigma_b2=sigma_b2,
                        family=family,
                    )  # fmt: skip
                    return Prepared(settings, model, twin, (activation(act),) * len(twin.acts))
                # That of a twin by scalars is at the tau0 of its equivalent, as in other studies.
                tau0 = inputs.statistics.tau0
            if settings.family in COROLLARY_2:
                printed = COROLLARY_2[settings.family]
                twin = corollary_2(*deq, tau0, kernel=settings.kernel, printed=printed)
            else:
                twin = match(*deq, tau0, layers=layers, **wanted)
            plain = plain_network(settings.act, len(twin.acts), tau0)
            if model is None and settings.family not in COROLLARY_2:
                twin = on_gaussian_data(twin, settings.within)
            elif settings.family not in COROLLARY_2:
                twin = replace(twin, limit=settings.within, plain=plain)
        return Prepared(settings, model, twin, plain)

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
        from deqcli.data.laws import RealData
        from deqcli.runs.memory import peak

        if settings.tau0 is not None:
            return peak(loading=0, held=0, work=0)
        n, p = settings.shape
        law = settings.law(settings.p)
        loading = law.loading(settings.n)
        work = 48 * n * n
        if isinstance(law, RealData):
            # At the end, the whole set and the decomposition of its covariance.
            work = max(work, law.whole_bytes())
        if settings.averaged:
            work = max(work + 16 * n * n, settings.averaging_bytes(n, p, settings.kernel))
        # The fit is over before the first point.
        work = max(work, _FIT) if settings.fitted else work
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
        from deqcli.data.laws import RealData
        from deqcli.matching import Distances, judge
        from deqcli.matching.tables import activation_rows, compare, eigenvalue_rows, scalar_rows
        from deqcli.predicted import errors_of_match

        settings, model, twin = prepared.settings, prepared.model, prepared.twin
        distances: dict[str, float] = {}
        if model is not None:
            spectra, distances = compare({net: load(net.value) for net in Net})
        if twin.limit is not None:
            ours, frobenius, control = (distances[key] for key in _RELATIVE)
            size = spectra[Net.DEQ].size
            twin = judge(twin, Distances(ours, frobenius, control, size))
        frames = [activation_rows(settings.act, twin), scalar_rows(twin)]
        findings: dict[str, Any] = {
            "verdict": twin.reason,
            "feasible": twin.feasible,
            "match": twin.as_record(),
            "plain": [{"name": act.name, "shift": act.shift} for act in prepared.plain],
            **distances,
        }
        if model is not None:
            source = settings.law(settings.p)
            whole = None
            if isinstance(source, RealData):
                whole = source.whole(self.data_streams(settings))
            findings["predicted"] = errors_of_match(model, twin, prepared.plain, whole)
            findings["model"] = whole is not None
            frames += eigenvalue_rows(twin, spectra, distances)
            if settings.averaged:
                findings["averaged"], rows = _averaged(settings, load)
                frames.append(rows)
        table = pd.concat(frames, ignore_index=True)
        table["act"] = activation(settings.act).name
        table["sigma_a2"] = settings.sigma_a2
        table["data"] = settings.source if model is not None else f"tau0 = {twin.tau0:g}"
        table["n"] = 0 if model is None else model.inputs.data.n_samples
        table["feasible"] = twin.feasible
        return Assembled(table, findings)

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        from deqcli.matching.reasons import describe

        yield findings["verdict"]
        yield from describe(findings["match"])
        for net in (Net.MATCHED, Net.PLAIN):
            if f"{net}_distance" in findings:
                yield (
                    f"  {net} network: distance {findings[f'{net}_distance']:.4g} "
                    f"({findings[f'{net}_relative']:.2g} of the DEQ's norm {findings['norm']:.4g}; "
                    f"{findings[f'{net}_scaled']:.2g} with the DEQ's mean diagonal)"
                )
        if predicted := findings.get("predicted"):
            from deqcli.predicted import errors_sentence

            yield f"  {errors_sentence(predicted, findings.get('model', False))}"
        if averaged := findings.get("averaged"):
            from deqcli.averaging import sentence

            yield f"  {sentence(averaged)}"

    def shortcomings(self, findings: Mapping[str, Any]) -> Sequence[str]:
        if findings["feasible"]:
            return ()
        twin = findings.get("match", {})
        limit, distance = twin.get("limit"), twin.get("distance")
        # A twin by scalars may be near, although they do not agree.
        near = limit is None or (distance is not None and distance <= limit)
        kind = "no exact match" if near else f"no match within {limit:g}"
        # What the equations of a corollary give need not be the nearest.
        by_equations = "Corollary 2" in findings.get("verdict", "")
        return (kind if by_equations else f"{kind}; the nearest network is shown",)

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
                ("matched_scaled", f"{difference}/‖{deq}‖, twin with the DEQ's scale", ()),
                ("plain_scaled", f"{difference}/‖{deq}‖, plain network with the DEQ's scale", ()),
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
        from deqcli.matching import compare, export, judge

        prepared = prepare()
        twin = prepared.twin
        if prepared.model is not None and twin.limit is not None:
            twin = judge(twin, compare(twin, prepared.model.X).distances(twin))
        if not twin.feasible:
            return {}
        scaling = None
        if settings.tau0 is None:
            scaling = settings.law(settings.p).scaling(self.data_streams(settings), settings.n)
        known: dict[str, Any] = (
            {} if scaling is None else {"mean": scaling.mean, "scale": scaling.scale}
        )
        return {f"-{settings.export}.py": export(twin, settings.export, **known)}


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
    from deqcli.averaging import chunk_key, compare
    from deqcli.matching.tables import average_rows

    deq, twin = (
        [partial(load, chunk_key(chunk, net)) for chunk in _chunks(settings)] for net in _AVERAGED
    )
    size = {"realizations": settings.realizations, "width": settings.width}
    findings = compare(deq, twin) | size
    return findings, average_rows(findings)


STUDY = MatchStudy()
