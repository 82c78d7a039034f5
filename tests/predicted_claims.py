"""What README and docs/findings.md say of predicted test errors, made by rule from the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from accuracy_section import around
from claims_reading import findings, settings, table

from deqcli.quantities import Measured, mean_interval

STEMS = {"one": "predict-relu", "two": "predict-relu-two-layers"}
NETS = ("matched", "plain")


def differences(stem: str, net: str) -> dict[float, tuple[Measured, float]]:
    """Return by width a network's test error minus the DEQ's, measured within trials and told."""
    rows = table(stem)
    seen, told = (
        rows[rows["kind"] == kind].pivot(index="trial", columns=["net", "width"], values="error")
        for kind in ("measured", "predicted")
    )
    apart = seen[net] - seen["deq"]
    return {
        width: (
            mean_interval(apart[width].tolist()),
            float(told[net][width].mean() - told["deq"][width].mean()),
        )
        for width in [*(w for w in apart if w), *(w for w in apart if not w)]
    }


def section() -> list[str]:
    """Return the sentences and the table of the section."""
    here, rows = settings(STEMS["one"]), table(STEMS["one"])
    found = {key: findings(stem) for key, stem in STEMS.items()}
    told = rows[(rows["kind"] == "predicted") & (rows["net"] == "deq")].set_index("width")["error"]
    return [
        f"Readouts of a ReLU DEQ on {here['n']} samples of the papers' mixture with means of norm "
        f"{here['mean_norm']:g}, {here['trials']} networks at each width: the predicted test error is "
        f"within two standard errors at {_near(found['one'], 'deq')}.",
        f"It rises from {told.loc[200]:.2f} at 200 neurons to {told.loc[400]:.2f} at as many as "
        f"samples, and falls to {told.loc[3200]:.3f} at 3200 and {told.loc[0]:.3f} at infinite width.",
        _one_layer(),
        f"Predictions for the fitted twin are within two standard errors at {_near(found['one'], 'matched')}, "
        f"{_gap(found['one'], 'matched')}; those for the plain layer at "
        f"{_near(found['one'], 'plain')}.",
        _two_layers(),
        f"Predictions for the twin of two layers are within two standard errors at "
        f"{_near(found['two'], 'matched')}; the formula for one layer at "
        f"{_near(found['two'], 'matched', 'independent_')}.",
        f"Those for two plain layers are at {_near(found['two'], 'plain')}.",
        *_rows(),
    ]


def _near(found: dict[str, Any], net: str, kind: str = "") -> str:
    agreement = found["agreement"][net]
    return (
        f"{agreement[f'{kind}within']} of {agreement[f'{kind}of']} widths, at most "
        f"{agreement[f'{kind}largest']:.3f} away"
    )


def _gap(found: dict[str, Any], net: str) -> str:
    """Return how far predictions are from what is measured in the mean over widths."""
    gap = found["gaps"][net]
    side = "below" if gap["value"] < 0 else "above"
    zero = "leaves out" if abs(gap["value"]) > gap["spread"] else "has"
    return (
        f"but in the mean over widths {around(abs(gap['value']), gap['spread'], 4)} {side} what is "
        f"measured, an interval that {zero} 0"
    )


def _rows() -> list[str]:
    """Return a row a width: what each network's error is above the DEQ's, measured (predicted)."""
    columns = [differences(stem, net) for stem in STEMS.values() for net in NETS]
    widths = list(columns[0])
    assert all(list(column) == widths for column in columns)
    rows = []
    for width in widths:
        cells = [
            f"{around(measured.value, measured.spread, 4)} ({around(told, None, 4)})"
            for measured, told in (column[width] for column in columns)
        ]
        rows.append(f"| {f'{width:g}' if width else '∞'} | " + " | ".join(cells) + " |")
    return rows


def _decided(stem: str, net: str) -> tuple[list[float], list[float]]:
    """Return the finite widths at which a network's error is shown to be larger, and smaller."""
    known = {
        width: measured for width, (measured, _) in differences(stem, net).items()
        if width and measured.spread is not None
    }  # fmt: skip
    return (
        [width for width, m in known.items() if m.value > m.spread],
        [width for width, m in known.items() if m.value < -m.spread],
    )


def _at_infinity(stem: str, net: str) -> str:
    measured, told = differences(stem, net)[0]
    return f"{around(measured.value, measured.spread, 4)} (predicted {around(told, None, 4)})"


def _counts(stem: str, net: str) -> str:
    larger, smaller = _decided(stem, net)
    widths = len(differences(stem, net)) - 1
    return f"larger at {len(larger)} and smaller at {len(smaller)} of {widths} finite widths"


def mean_difference(stem: str, net: str) -> str:
    """Return the mean over finite widths of what an error is above the DEQ's, and its prediction."""
    rows = table(stem)
    seen = rows[(rows["kind"] == "measured") & (rows["width"] > 0)].pivot(
        index="trial", columns=["net", "width"], values="error"
    )
    measured = mean_interval((seen[net] - seen["deq"]).mean(axis=1).tolist())
    told = np.mean([told for width, (_, told) in differences(stem, net).items() if width])
    return f"{around(measured.value, measured.spread, 4)}, predicted {around(float(told), None, 4)}"


def _one_layer() -> str:
    stem = STEMS["one"]
    return (
        "Does the twin classify like the DEQ? A fitted twin of one layer nearly does: "
        f"its error is {_counts(stem, 'matched')}, and above the DEQ's by "
        f"{_at_infinity(stem, 'matched')} at infinite width. But a plain ReLU layer's is "
        f"{_counts(stem, 'plain')}, and above by {_at_infinity(stem, 'plain')} at infinite width."
    )


def _two_layers() -> str:
    stem = STEMS["two"]
    return (
        "The papers' twin of two layers has the DEQ's error at infinite width, where it is above by "
        f"{_at_infinity(stem, 'matched')}; at finite ones it is {_counts(stem, 'matched')}, in the "
        f"mean larger by {mean_difference(stem, 'matched')}. A plain network of two ReLU layers is "
        f"{_counts(stem, 'plain')}, and above by {_at_infinity(stem, 'plain')} at infinite width: on "
        "this mixture not following the DEQ is no disadvantage there."
    )


def classifies() -> str:
    """Say for the README how the papers' twin classifies."""
    stem = STEMS["two"]
    twin, plain = (differences(stem, net)[0][0] for net in NETS)
    # "yes": to the digits of the table in findings; "less": the interval leaves out 0.
    assert abs(twin.value) + (twin.spread or 0) < 5e-5
    assert -plain.value > (plain.spread or 0)
    return (
        "Does it classify like the DEQ? Infinitely wide, yes, and two plain layers err less, by "
        f"{around(-plain.value, plain.spread, 4)}. In the mean of "
        f"{len(differences(stem, 'matched')) - 1} finite widths the papers' twin errs more, by "
        f"{mean_difference(stem, 'matched')}"
    )


def caption() -> str:
    """Return what stands below the figure of the README."""
    agreement = findings(STEMS["two"])["agreement"]
    deq, twin, plain = (
        f"{agreement[net]['within']} of {agreement[net]['of']}" for net in ("deq", *NETS)
    )
    return (
        "*Test error against width, of a ReLU DEQ, the papers' twin of two layers and two plain "
        "layers: predicted before training (lines) and measured (points, with 95 % intervals). "
        f"Predictions are within two standard errors at {deq}, {twin} and {plain} widths.*"
    )


if __name__ == "__main__":
    print(*section(), sep="\n")
