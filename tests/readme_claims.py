"""What README and docs/findings.md say of results, made by rule from the committed tables and records.

Each section has a function that returns its statements: sentences, list items and rows of tables.
``tests/test_claims.py`` asks that every number and every comparing word of a section is in one of
them. ``python tests/readme_claims.py`` prints them, to be pasted after results were made again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import head_claims
import numpy as np
import pandas as pd
import predicted_claims
import training_claims
from claims_reading import ROOT, findings, settings, span, table, verdicts
from scipy.stats import ttest_1samp

from deqcli.display import number
from deqcli.misprints import ERRATA, MEAN_NORM, RATIO, SIGMA_A2, SPHERE_RATIO
from deqcli.quantities import AGREES, DIFFERS, LEVEL, mean_interval, trials_to_decide
from deqcli.studies.error_vs_n import slope


def around(value: float, half: float | None, places: int) -> str:
    """Return a value and half of its interval."""
    text = f"{value:.{places}f}" + ("" if half is None else f" ± {half:.{places}f}")
    return text.replace("-", "−")


def found() -> list[str]:
    """What was found, a line each."""
    curves, size = findings("icml-error-vs-n"), max(settings("icml-error-vs-n")["n"])
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    text = text.partition("## Twins on real data")[2].partition("\n## ")[0]
    pairs = [
        (float(before), float(after))
        for before, after in re.findall(r"(0\.\d{4}) → (0\.\d{4})", text)
    ]
    # "as near as promised": by the verdicts of the summary.
    assert set(verdicts("icml/error-vs-n").values()) == {AGREES}
    return [
        "* The closed forms are as near as promised: relative errors fall like n to the power "
        f"{span(curves['slopes'].values())}. With every sample's own norm they are "
        f"{span(curves['own_gains'].values(), '.0f')} times nearer at n = {size} "
        f"([more](docs/findings.md#against-the-papers)). {head_claims.whole_in_short()}",
        f"* One hidden layer is mostly enough, also on images: {len(pairs)} fitted twins are "
        f"{100 * max(after for _, after in pairs):.1f} % from the DEQ's kernel at most, those with the "
        f"papers' four scalars up to {100 * max(b for b, _ in pairs):.0f} % "
        "([twins](docs/findings.md#twins-on-real-data)).",
        f"* {training_claims.in_short()} "
        "([training](docs/findings.md#does-the-twin-train-like-the-deq)).",
        f"* {predicted_claims.classifies()} "
        "([figure](docs/findings.md#the-test-error-before-training)).",
        f"* {len(ERRATA)} misprinted formulas: corrected, their errors fall like n^-1/2 (fitted powers "
        f"{_slopes('right')}), as printed they do not ({_slopes('printed')}; "
        "[errata](docs/findings.md#what-was-found-wrong-in-the-papers)).",
        head_claims.image(
            predicted_claims.STEMS["two"],
            "Test error of a ReLU DEQ, its two-layer twin and a plain network against width",
            'align="right" width="450"',
        ),
        predicted_claims.caption(),
    ]


def papers() -> list[str]:
    """What there is to say of printed numbers, after the table of verdicts."""
    two = findings("iclr-figure-2-gmm")
    printed, images = (findings(f"iclr-figure-2-{end}") for end in ("gmm-printed", "mnist"))
    averaged, floor = two["averaged"]["distance"], two["averaged"]["noise_floor"]
    exact, relative = two["matched_distance"], two["matched_relative"]
    wide, narrow = (
        findings(stem)["distances"]
        for stem in ("iclr-figure-1-left", "iclr-figure-1-left-width-20")
    )
    width = settings("iclr-figure-1-left-width-20")["width"]
    # 0.23 is noise if sampling alone makes more than half of it, and as much as we measure.
    noise = floor >= 0.5 * averaged and floor >= 0.5 * 0.23 and abs(averaged - 0.23) < floor
    assert noise, "the sentence on Figure 2 does not hold"
    shown = images["averaged"]
    assert shown["noise_floor"] >= max(shown["distance"], 1.83)
    # 0.12 lies between the two widths.
    low, high = wide["monte-carlo"]["distance"], narrow["monte-carlo"]["distance"]
    reached = "is reached" if round(high, 2) >= 0.12 else "is not reached"
    one, unit = (
        findings(stem)["distances"]["exact"]["distance"]
        for stem in ("iclr-figure-1-right", "iclr-figure-1-right-unit")
    )
    return [
        f"What stands after ± is half of a {100 * LEVEL:.0f} % interval, by Student's t over trials "
        "or seeds; the smallest difference that a run could have seen.",
        f"In ICLR Figure 2 the averages over {two['averaged']['realizations']} networks of width "
        f"{two['averaged']['width']} are {averaged:.2f} apart, and sampling alone makes that "
        f"{floor:.2f}; the exact kernels are {number(exact, 2)} apart, {100 * relative:.1g} % of "
        "‖Λ‖. So the printed 0.23 is no more than sampling noise of such networks makes, and does "
        "not tell how near the twin is.",
        f"With its equations as printed the layer would be {printed['averaged']['distance']:.0f} "
        f"away, {printed['matched_scaled'] * printed['norm']:.1f} at the DEQ's scale, and cannot be "
        "what was run.",
        f"On MNIST, where it prints 1.83, they are {shown['distance']:.1f} apart, and sampling alone "
        f"makes that {shown['noise_floor']:.1f}; the exact kernels are "
        f"{number(images['matched_distance'], 2)} apart, {100 * images['matched_relative']:.1g} %.",
        f"In Figure 1 (left) 0.12 {reached} by narrow networks: it is {low:.3f} at width "
        f"{settings('iclr-figure-1-left')['width']} and {high:.3f} at width {width}, where two such "
        f"averages differ by {narrow['monte-carlo']['noise_floor']:.2f}; the width is not given.",
        f"In Figure 1 (right) the distance depends on the scale of the images, which is open: "
        f"{one:.3g} with a mean squared norm of 1, {unit:.3g} with every sample of norm 1.",
        *head_claims.headline(),
        head_claims.whole(),
    ]


def _flow_runs() -> pd.DataFrame:
    return pd.DataFrame(findings("gen-figure-1")["runs"])


def _path(column: str) -> tuple[float, float | None, np.ndarray]:
    """Return the slope of the largest distances over the common time, its interval, the widths."""
    rows = table("gen-figure-1")
    alive = rows[rows["peak"].notna()]
    common = alive.groupby(["width", "trial"])["time"].max().min()
    early = alive[alive["time"] <= common * (1 + 1e-9)]
    peaks = early.groupby(["width", "trial"])[column].max().unstack()
    sizes = peaks.index.to_numpy()
    trials = mean_interval([slope(sizes, peaks[trial].to_numpy()) for trial in peaks])
    return slope(sizes, peaks.mean(axis=1).to_numpy()), trials.spread, sizes


def _verdict(value: float, half: float | None, bound: float) -> str:
    if half is not None and abs(value - bound) < half:
        return "undecided"
    return "holds" if value <= bound else "does not hold"


def _ratios(column: str, of_start: bool = False) -> list[float]:
    """Return the loss of the narrowest over that of the widest at the last common time, by trial.

    ``of_start``: each in units of its own start.
    """
    good = table("gen-figure-1")
    good = good[good["status"] == "ok"].dropna(subset=column)
    common = good.groupby(["width", "trial"])["time"].max().min()

    def at(rows: pd.DataFrame) -> float:
        end = float(np.exp(np.interp(common, rows["time"], np.log(rows[column]))))
        return end / float(rows[column].iloc[0]) if of_start else end

    ends = {key: at(rows) for key, rows in good.groupby(["width", "trial"])}
    narrow, wide = good["width"].min(), good["width"].max()
    trials = sorted({trial for _, trial in ends})
    return [ends[narrow, trial] / ends[wide, trial] for trial in trials]


def _ratio_verdict(ratios: list[float]) -> str:
    measured = mean_interval(ratios)
    room = measured.value - 1
    if measured.spread is not None and abs(room) < measured.spread:
        needed = trials_to_decide(measured, room)
        many = f"{needed} trials" if needed else "no affordable number of trials"
        return f"undecided: {many} would decide, if mean and scatter stayed"
    return "holds" if room > 0 else "does not hold"


def flow() -> list[str]:
    """The promises of GEN, a row each."""
    runs, rows = _flow_runs(), table("gen-figure-1")
    widths = sorted(set(runs["width"]))
    narrow, wide = widths[0], widths[-1]
    good = rows[rows["status"] == "ok"]
    ends = good.groupby(["width", "trial"])["envelope"].agg(lambda x: x.iloc[-1] / x.iloc[0])
    ends = ends[[not runs.set_index(["width", "trial"])["lost"][key] for key in ends.index]]
    alive = runs[~runs["lost"]]
    lost = runs[runs["lost"]]
    assert set(lost["width"]) == {narrow}
    assert set(alive["width"]) == set(widths[1:])
    below = (good["train_loss"] <= good["envelope"] * (1 + 1e-12)).all()
    falling = (runs["largest_rise"] <= 0).all()
    flow_slope, flow_half, sizes = _path("distance")
    own_slope, own_half, _ = _path("distance_method")
    ratio = runs["lambda_min_ratio"]
    halves = {width: ratio[runs["width"] == width].min() >= 0.5 for width in widths}
    assert halves == {width: width != narrow for width in widths}
    change = runs["kernel_change"] / (runs["lambda0"] / 2)
    assert (change > 1).all()
    # "and more below"
    assert change.groupby(runs["width"]).mean().is_monotonic_decreasing
    at_wide = runs["width"] == wide
    faster, better = _ratios("train_loss"), _ratios("test_loss")
    of_start = mean_interval(_ratios("train_loss", of_start=True))
    p_value = ttest_1samp(faster, 1.0).pvalue
    steps = sorted(int(step) for step in lost["steps"])
    words = {3: "three", 4: "four", 5: "five"}
    trials = runs["trial"].nunique()
    measured, tested = mean_interval(faster), mean_interval(better)
    return [
        f"`deqcli reproduce gen/figure-1` trains on {rows['n'].iloc[0]} MNIST samples of 0 and 1 at "
        f"{words[len(widths)]} widths, {words[trials]} trials each:",
        f"| loss(t) ≤ e^(−λ0 t) loss(0) | {'below it' if below else 'not below it'} at every step, "
        f"and {'never rising' if falling else 'rising at times'}; but it asks for little, as it ends "
        f"at {span(ends)} of the start at widths from {widths[1]} | "
        f"{'holds, a weak test' if below else 'does not hold'} |",
        f"| the distance to û(t) falls like m^(−1/4) | m^({around(flow_slope, flow_half, 2)}) over "
        f"widths {sizes[0]} to {sizes[-1]} | {_verdict(flow_slope, flow_half, -0.25)} |",
        f"| the same to linearised descent, free of the error of the steps | "
        f"m^({around(own_slope, own_half, 2)}) | {_verdict(own_slope, own_half, -0.25)} |",
        f"| λ_min(H(t)) ≥ λ0/2 | {span(ratio[runs['width'] > narrow])} of λ0 at widths from "
        f"{widths[1]}; {span(ratio[runs['width'] == narrow])} at {narrow} | not at width {narrow} |",
        f"| ‖H(t) − H(0)‖ ≤ λ0/2, on which the proof rests | {span(runs['kernel_change'][at_wide])} "
        f"at width {wide}, which is {span(change[at_wide], '.0f')} times too much, and more below | "
        "fails at every width |",
        f"| ‖γA(k)‖ stays below 1 | at most {alive[alive['width'] == wide]['norm_largest'].max():.2f} "
        f"at width {wide}, {alive[alive['width'] == widths[1]]['norm_largest'].max():.2f} at "
        f"{widths[1]}; reaches 1 after {', '.join(map(str, steps[:-1]))} and {steps[-1]} steps at "
        f"{narrow}, where the run stops (exit code 3) | not at width {narrow} |",
        f"| wider layers train faster | at equal time the loss at width {narrow} is "
        f"{around(measured.value, measured.spread, 2)} times that at {wide} (p = {p_value:.2f}), in "
        f"parts of its own start, which is random, {around(of_start.value, of_start.spread, 1)} times | "
        f"{_ratio_verdict(faster)} |",
        f"| and generalise better | {around(tested.value, tested.spread, 1)} times; test error "
        f"{span(100 * alive['test_error'], '.1f')} % at widths from {widths[1]} | "
        f"{_ratio_verdict(better)} |",
        f"| the bound on the test error | its leading term is {span(runs['bound'])}, times a "
        "constant that the paper hides in O(·); the Rademacher complexity behind it is "
        f"{span(runs['rademacher'])}, the mean distance to the label {span(runs['test_absolute'])} "
        "| not tested: the constant is open |",
    ]


#: How docs/findings.md writes what the papers print and what is right.
_FORMS = {
    "icml-theorem-1": ("α2 with α4", "α4²"),
    "iclr-theorem-1": ("diagonal with −τ0⁴ α3", "no such term"),
    "iclr-theorem-2": ("the same in the NTK", "no such term"),
    "icml-theorem-3": ("α̃4, α̃1 not squared, α̃4 without ½", "squares, and ½"),
    "icml-ntk": ("κ² with τ*², β3 with β1 (σa² m2² + σb²) α1",
                 "κ² with γ², β3 with β1 σa² m2² (σa² α1 + σb²)"),
    "hld-theorem-3": ("k'(0) over σa² f' − 1", "the opposite sign"),
}  # fmt: skip


def errata() -> list[str]:
    """What is wrong as printed: curves in a table, claims in a list."""
    found = findings("errata-printed-forms")
    where = {entry["name"]: entry["where"] for entry in found["entries"]}
    curves = found["errata"]
    sizes = next(iter(curves.values()))["sizes"]
    rows = []
    for name, (printed, right) in _FORMS.items():
        curve = curves[name]
        ends = [
            f"{curve[f'{form}_errors'][0]:.3g} → {curve[f'{form}_errors'][-1]:.3g}"
            for form in ("printed", "right")
        ]
        rows.append(f"| {where[name]} | {printed} | {right} | {ends[0]} | {ends[1]} |")
    times = [curve["printed_errors"][-1] / curve["right_errors"][-1] for curve in curves.values()]
    claims, networks = found["claims"], found["empirical_ntk"]
    two, arc = claims["iclr-corollary-2"], claims["iclr-figure-1"]["distances"]
    residuals = [value for by_act in claims["iclr-corollary-1"]["residuals"].values()
                 for value in by_act.values()]  # fmt: skip
    scale = claims["input-scale"]
    return [
        "The printed form stays away from the exact kernel, the corrected one comes near it like "
        f"n^-1/2: from n = {sizes[0]} to {sizes[-1]} errors change with powers of n of {_slopes('right')} "
        f"as corrected and {_slopes('printed')} as printed, ± {_half():.2f} at most, so that every one is "
        f"decided by its interval; at n = {sizes[-1]} the printed forms are {span(times, '.0f')} times as "
        f"far away. Operator-norm errors at n = {sizes[0]} and n = {sizes[-1]}, {_trials()} trials; "
        f"centred ReLU, σa² = {SIGMA_A2:g}, σb² = {1 - SIGMA_A2:g} ({ERRATA['icml-theorem-1'].sigma_b2:g} "
        "for ICML Theorem 1, where α4 ≈ 1 would hide it), the papers' mixture with means of norm "
        f"{MEAN_NORM:g}, p/n = {RATIO:g}; for HLD √2·ReLU on the sphere, d/n = {SPHERE_RATIO:g}:",
        *rows,
        "* ICML's G/(1 − Ġ) is a definition rather than a slip: the tangent kernel with B frozen. "
        f"Simulated networks are {100 * networks['frozen_relative']:.1f} % from it if the gradient in "
        f"B is left out, {100 * networks['printed_relative']:.0f} % if it is not; then "
        f"Θ is {100 * networks['right_relative']:.1f} % away.",
        "* ICLR Corollary 1, a two-layer quadratic twin for every DEQ: there is none for odd "
        "activations, and none was found for ReLU, gelu or softplus; the nearest is "
        f"{number(min(residuals), 1)} to {number(max(residuals), 1)} off in the scalars.",
        "* ICLR Corollary 2, one Leaky-ReLU layer for ReLU, prints (a − b)² = 4α1² for (a + b)² = 4α1 "
        "and ab for 2ab in the variance. E φ'' is not 0 for ReLU, so one layer does not match "
        f"exactly, but nearly: corrected it is {100 * two['one_layer_relative'][-1]:.1g} % of G away, "
        f"two layers {100 * two['two_layers_relative'][-1]:.1g} %; as printed "
        f"{100 * two['printed_relative'][-1]:.0f} % of Λ.",
        "* ICLR and HLD (1)-(2) print √(σb²/m) Bx, with which the input vanishes: its variance is "
        f"{number(scale['variances'][0], 1)} at width {scale['widths'][0]} and "
        f"{number(scale['variances'][1], 1)} at {scale['widths'][1]}, where their recursions have 0.8.",
        f'* ICLR Figure 1\'s "Arc-Tanh" cannot be artanh: '
        f"{100 * claims['iclr-figure-1']['share']:.0f} % of the inputs' part of the pre-activations "
        "lie where it is not defined. We take arctan; the printed distance does not decide, as the "
        f"exact one is {arc['arctan']:.3f} with arctan, {arc['arsinh']:.3f} with arsinh and "
        f"{arc['tanh']:.3f} with tanh.",
        "* ICLR (5), HLD (4) and ICML, the sum behind the NTK: published recursions of this form set "
        "the last factor Ġ to 1, which the papers do not say. Read literally it ends "
        f"{100 * claims['sum-for-k']['printed_relative']:.0f} % off the limit that they use.",
        _contraction(),
    ]


def _contraction() -> str:
    """When GEN's scaling contracts, from drawn matrices."""
    m = 400
    A = np.random.default_rng(0).standard_normal((m, m))
    gaussian, half = (np.linalg.norm(each, 2) / np.sqrt(m) for each in (A, np.abs(A)))
    return (
        f"* GEN's γ = γ0/√m with a small γ0 contracts for Gaussian A below γ0 = {1 / gaussian:.1f}, as "
        f"‖A‖ is {gaussian:.1f}√m; for the half-normal A of its section 5.1, where it is {half:.0f}√m "
        f"at width {m}, only below {1 / half:.2f}, and ever less as m grows. `deqcli flow` divides by "
        "‖A(0)‖."
    )


def _slopes(form: str) -> str:
    """Return the fitted powers of n of one form's errors; the verdicts on them are decided."""
    said = verdicts("errata/printed-forms")
    wanted = {"right": ("corrected", AGREES), "printed": ("as printed", DIFFERS)}[form]
    judged = [each for name, each in said.items() if f", {wanted[0]}:" in name]
    assert judged == [wanted[1]] * len(ERRATA)
    curves = findings("errata-printed-forms")["errata"].values()
    return span([curve[f"{form}_slope"] for curve in curves], ".2f")


def _half() -> float:
    """Return half of the widest interval of those powers."""
    curves = findings("errata-printed-forms")["errata"].values()
    return max(curve[f"{form}_interval"] for curve in curves for form in ("printed", "right"))


def _trials() -> int:
    return int(settings("errata-printed-forms")["trials"])


#: The sections of README and docs/findings.md that speak of results; the first has no heading.
SECTIONS: dict[str, Callable[[], list[str]]] = {
    "": head_claims.head,
    "What was found": found,
    "Against the papers": papers,
    "Does the twin train like the DEQ?": training_claims.section,
    "The test error before training": predicted_claims.section,
    "Does training only the implicit layer keep its promises?": flow,
    "What was found wrong in the papers": errata,
}

if __name__ == "__main__":
    for heading, statements in SECTIONS.items():
        print(f"## {heading}", *statements(), "", sep="\n")
