"""Which number of each figure is set beside the paper's, and how it is read from a finished run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from deqcli.reproduction.verdicts import Claim, Measured, Printed, Quantity, Run, standard_error

_SIZE = ("n", "p")
_WIDTH = "The width of the networks, solver and seed are open."
_SCALE = "The distance grows with the scale of the images, which is open."
_LAYERS = "The paper's twin has one layer, which cannot match ReLU; ours has two and is far closer."
# The rate is a limit: at these sizes a fitted slope may miss it by a little.
_RATE = Claim("−1/2 or steeper", most=-0.45)


def _distance(run: Run, source: str) -> Measured:
    return Measured(run.results["distances"][source]["distance"])


def _matched(run: Run, key: str) -> Measured:
    return Measured(run.results[key])


def _slope(run: Run, act: str) -> Measured:
    rows = run.table[run.table["act"].str.partition(":")[0] == act]
    return Measured(float(rows["slope"].iloc[0]), _slope_error(rows))


def _slope_error(rows: pd.DataFrame) -> float | None:
    slopes = [
        np.polyfit(np.log(trial["n"].to_numpy(dtype=float)), np.log(trial["error"]), 1)[0]
        for _, trial in rows.groupby("trial")
    ]
    return standard_error(np.array(slopes))


def _erratum(run: Run, name: str, form: str) -> Measured:
    rows = run.table[(run.table["erratum"] == name) & (run.table["form"] == form)]
    return Measured(run.results["errata"][name][f"{form}_slope"], _slope_error(rows))


def _accuracy(run: Run) -> Measured:
    trained = run.table[run.table["net"] == "deq"]
    widest = trained[trained["width"] == trained["width"].max()]
    last = widest.loc[widest.groupby("seed")["epoch"].idxmax(), "test_accuracy"].to_numpy()
    return Measured(100 * float(last.mean()), _percent(standard_error(last)))


def _gap(run: Run, net: str) -> Measured:
    found = {gap["net"]: gap for gap in run.results["gaps"] if gap["width"] == _widest(run)}
    return Measured(100 * found[net]["mean"], _percent(found[net]["standard_error"]))


def _advantage(run: Run) -> Measured:
    twin, plain = _gap(run, "matched"), _gap(run, "plain")
    spread = None
    if twin.spread is not None and plain.spread is not None:
        spread = float(np.hypot(twin.spread, plain.spread))
    return Measured(abs(plain.value) - abs(twin.value), spread)


def _widest(run: Run) -> int:
    return max(gap["width"] for gap in run.results["gaps"])


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _flow(run: Run, key: str, width: Callable[[list[int]], int]) -> Measured:
    chosen = width([entry["width"] for entry in run.results["runs"]])
    values = [
        entry[key]
        for entry in run.results["runs"]
        if entry["width"] == chosen and entry.get(key) is not None
    ]
    return Measured(float(np.mean(values)), standard_error(np.array(values)))


def _narrow_over_wide(run: Run, key: str) -> Measured:
    narrow, wide = _flow(run, key, min), _flow(run, key, max)
    ratio = narrow.value / wide.value
    if narrow.spread is None or wide.spread is None:
        return Measured(ratio)
    relative = np.hypot(narrow.spread / narrow.value, wide.spread / wide.value)
    return Measured(ratio, float(ratio * relative))


def _spectrum(printed: str, note: str) -> tuple[Quantity, ...]:
    exact = partial(_distance, source="exact")
    return (
        Quantity(
            "‖G* − Ḡ‖, averaged over random networks",
            partial(_distance, source="monte_carlo"),
            Printed(printed),
            note,
            needs=(*_SIZE, "realizations"),
            # What the data's fluctuation does shows in the exact kernel, in a second.
            over_seeds=exact,
        ),
        Quantity("‖G* − Ḡ‖, exact kernel", exact, Printed(printed), note, needs=_SIZE),
    )


def _match(deq: str, twin: str, printed: str | None = None, note: str = "") -> tuple[Quantity, ...]:
    found = [
        Quantity(f"‖{deq} − {twin}‖/‖{deq}‖, twin", partial(_matched, key="matched_relative")),
        Quantity(
            f"‖{deq} − {twin}‖/‖{deq}‖, plain network", partial(_matched, key="plain_relative")
        ),
    ]
    if printed is not None:
        measure = partial(_matched, key="matched_distance")
        found.insert(0, Quantity(f"‖{deq} − {twin}‖, twin", measure, Printed(printed), note, _SIZE))
    return tuple(found)


_TRAINED = (
    Quantity("DEQ at the largest width, % right", _accuracy),
    Quantity("DEQ − twin at the largest width, points", partial(_gap, net="matched")),
    Quantity("DEQ − plain at the largest width, points", partial(_gap, net="plain")),
    Quantity("|DEQ − plain| − |DEQ − twin|, points", _advantage,
             Claim("> 0: only the twin follows", least=0.0), needs=("train-size", "epochs")),
)  # fmt: skip

_ERRATA = {
    "icml-theorem-1": "ICML Theorem 1", "iclr-theorem-1": "ICLR Theorem 1",
    "iclr-theorem-2": "ICLR Theorem 2", "icml-theorem-3": "ICML Theorem 3",
    "icml-ntk": "ICML NTK", "hld-theorem-3": "HLD Theorem 3",
}  # fmt: skip

#: By preset; in the order of the summary.
QUANTITIES: dict[str, tuple[Quantity, ...]] = {
    "hld/figure-1-ck": _match("G*", "Σ"),
    "hld/figure-1-ntk": _match("K*", "Θ"),
    "iclr/figure-1-left": _spectrum("0.12", _WIDTH),
    "iclr/figure-1-right": _spectrum("1.57", _SCALE),
    "iclr/figure-2-gmm": _match("G*", "Σ", "0.23", _LAYERS),
    "iclr/figure-2-mnist": _match("G*", "Σ", "1.83", f"{_LAYERS} {_SCALE}"),
    "iclr/figure-3-a": _TRAINED,
    "iclr/figure-3-b": _TRAINED,
    "iclr/figure-3-c": _TRAINED,
    "icml/error-vs-n": tuple(
        Quantity(f"slope of log error against log n, {act}", partial(_slope, act=act), _RATE)
        for act in ("relu", "tanh", "swish", "lrelu")
    ),
    "icml/h-tanh": _match("G*", "Σ"),
    "icml/l-relu": _match("G*", "Σ"),
    "icml/accuracies": _TRAINED,
    "gen/figure-1": (
        Quantity("training loss at the end, widest", partial(_flow, key="train_loss", width=max)),
        Quantity("training error at the end, widest", partial(_flow, key="train_error", width=max),
                 Claim("decreases to 0", most=0.0)),
        Quantity("training loss at the end, narrowest / widest",
                 partial(_narrow_over_wide, key="train_loss"),
                 Claim("> 1: wider is faster", least=1.0), needs=("n",)),
        Quantity("test loss at the end, narrowest / widest",
                 partial(_narrow_over_wide, key="test_loss"),
                 Claim("> 1: wider is better", least=1.0), needs=("n",)),
        Quantity("test error at the end, widest", partial(_flow, key="test_error", width=max)),
        Quantity("largest ‖γA(k)‖, widest", partial(_flow, key="norm_largest", width=max),
                 Claim("stays below 1", most=1.0)),
    ),
    "errata/printed-forms": tuple(
        Quantity(f"{where}, {form}: slope of log error against log n",
                 partial(_erratum, name=name, form=key), _RATE, note)
        for name, where in _ERRATA.items()
        for key, form, note in (("printed", "as printed", "Misprint."), ("right", "corrected", ""))
    ),
}  # fmt: skip
