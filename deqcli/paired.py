r"""Statistics of a table of trained networks: how far each is from the DEQ, trial by trial.

Networks of one trial share samples, their order and weights, so that differences within a trial
have less noise than the networks themselves. All differences are signed, and positive where the
network is behind the DEQ:

.. math:: r_e = \log\frac{L_e}{L_e^{\mathrm{DEQ}}}, \qquad
          \mathrm{loss} = \frac1E\sum_{e=1}^Er_e, \qquad \mathrm{end} = r_E, \qquad
          \mathrm{distance} = \Bigl(\frac1E\sum_{e=1}^Er_e^2\Bigr)^{1/2},

L the mean training loss of an epoch, over the same batches; and ``accuracy``, the DEQ's minus the
network's, of the test samples after the last epoch. The distance has no sign; it is there because
curves may cross, so that their mean difference hides how far apart they are. Intervals are of
95 %, by Student's t over trials.

A width of 0 in such a table stands for the limit of infinite width
(:mod:`deqcli.training.linearised`): what it says of a difference is the prediction for wide
networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from deqcli.errors import InputError
from deqcli.quantities import Finished, Measured, mean_interval, t_quantile, trials_to_decide
from deqcli.vocabulary import Net

#: What the status of an epoch begins with after which training was cut short.
STOPPED = "stopped"
#: The status of an epoch in which the norm of the DEQ's matrix was clipped.
CLIPPED = "projected"
#: What the name of a network ends with in the rows of its limit, and the width of these rows.
LIMIT, INFINITE = "-limit", 0
#: The networks that are compared with the DEQ, and what is measured of each.
OTHERS = (Net.MATCHED, Net.PLAIN)
MEASURES = ("loss", "end", "distance", "accuracy")

_TRAINING = ["dataset", "net", "width", "trial"]
# Below it a loss is rounding of single precision, and zero has no logarithm.
_LEAST_LOSS = 1e-9


def finished(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of trainings that were not cut short, limits under their network's name."""
    named = table.assign(net=table["net"].str.removesuffix(LIMIT))
    stopped = named["status"].astype(str).str.startswith(STOPPED)
    return named[~stopped.groupby([named[key] for key in _TRAINING]).transform("any")]


def last_epochs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the last epoch of every training that was not cut short."""
    rows = finished(table)
    return rows.loc[rows.groupby(_TRAINING)["epoch"].idxmax()]


def accuracies(table: pd.DataFrame) -> pd.DataFrame:
    """Return final test accuracies: a row a data set, width and trial, a column a network."""
    return _columns(last_epochs(table), ["dataset", "width", "trial"], "test_accuracy")


def log_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Return log(training loss / the DEQ's) of every epoch, a column for each other network."""
    losses = _columns(finished(table), ["dataset", "width", "trial", "epoch"], "train_loss")
    logs = losses.clip(lower=_LEAST_LOSS).apply(np.log)
    return logs[list(OTHERS)].sub(logs[Net.DEQ], axis=0)


def differences(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the four measures of every trial.

    Each has a row a data set, width and trial, and a column for each other network.
    """
    ratios, final = log_ratios(table), accuracies(table)
    trained = ratios[ratios.index.get_level_values("epoch") > 0]
    by_trial = trained.groupby(["dataset", "width", "trial"], sort=False)
    return {
        "loss": by_trial.mean(),
        "end": by_trial.last(),
        "distance": (trained**2).groupby(["dataset", "width", "trial"], sort=False).mean() ** 0.5,
        "accuracy": -final[list(OTHERS)].sub(final[Net.DEQ], axis=0),
    }


def gaps(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means of all measures at every width, with intervals.

    Returns
    -------
    DataFrame
        Columns dataset, net, width, trials, and for each measure its mean and, as
        ``<measure>_interval``, half of the interval (None for one trial).

    Examples
    --------
    >>> rows = [("a", net, 32, trial, epoch, 2.0 * (1 + (net == "plain")), accuracy, "done")
    ...         for net, trial, accuracy in
    ...         [("deq", 0, 0.9), ("deq", 1, 0.8), ("plain", 0, 0.7), ("plain", 1, 0.8)]
    ...         for epoch in (0, 1)]
    >>> names = ["dataset", "net", "width", "trial", "epoch", "train_loss", "test_accuracy",
    ...          "status"]
    >>> gap = gaps(pd.DataFrame(rows, columns=names)).to_dict("records")[0]
    >>> gap["net"], round(gap["loss"], 4), round(gap["accuracy"], 4), gap["trials"]
    ('plain', 0.6931, 0.1, 2)
    """
    parts = differences(table)
    rows = []
    for net in OTHERS:
        for key, pairs in parts["loss"][net].dropna().groupby(["dataset", "width"], sort=False):
            row: dict[str, object] = {"dataset": key[0], "net": net.value, "width": key[1]}
            row["trials"] = pairs.size
            for name in MEASURES:
                found = mean_interval(parts[name].loc[pairs.index, net].tolist())
                row |= {name: found.value, f"{name}_interval": found.spread}
            rows.append(row)
    intervals = [f"{name}_interval" for name in MEASURES]
    names = ["dataset", "net", "width", "trials", *MEASURES, *intervals]
    return pd.DataFrame(rows, columns=names).astype(dict.fromkeys(intervals, object))


def means(values: pd.Series, keys: Sequence[str]) -> pd.DataFrame:
    """Return the columns ``mean`` and ``half`` (of the interval) over all levels but ``keys``.

    Half is 0 where there is one trial and so no interval.

    Examples
    --------
    >>> index = pd.MultiIndex.from_product([[32], [0, 1, 2]], names=["width", "trial"])
    >>> means(pd.Series([1.0, 2.0, 3.0], index), ["width"]).round(3).to_dict("list")
    {'mean': [2.0], 'half': [2.484]}
    """
    groups = values.dropna().groupby(list(keys))
    counts = groups.size()
    quantiles = {n: t_quantile(n - 1) if n > 1 else 0.0 for n in sorted(set(counts))}
    half: pd.Series = counts.map(quantiles) * groups.std().fillna(0.0) / counts**0.5
    return pd.DataFrame({"mean": groups.mean(), "half": half})


def clipped(table: pd.DataFrame) -> pd.Series:
    """Return the share of the DEQ's epochs in which its norm was clipped, by data set and width."""
    rows = table[(table["net"] == Net.DEQ) & (table["epoch"] > 0)]
    shares = (rows["status"] == CLIPPED).groupby([rows["dataset"], rows["width"]]).mean()
    return shares.rename("share")


def advantage(values: pd.DataFrame, signed: bool = True) -> Measured:
    r"""Return how much farther from the DEQ the plain network is than the twin, signs aside.

    With the differences p of the plain network and t of the twin,

    .. math:: |p| - |t| = \pm\min(|p - t|, |p + t|),

    positive if both have the same sign. The interval is that of the smaller one, within trials, if
    the interval of the larger one leaves out 0; else the signs are open, and it is the wider of
    the two, which cannot decide: it reaches beyond both.

    Parameters
    ----------
    values : DataFrame
        Differences from the DEQ, a row a trial, columns ``matched`` and ``plain``.
    signed : bool
        False for a measure that is never negative: then it is p - t.

    Examples
    --------
    >>> values = pd.DataFrame({"matched": [-0.1, -0.2], "plain": [0.5, 0.7]})
    >>> round(advantage(values).value, 6)
    0.45
    """
    pairs = values.dropna()
    twin, plain = (pairs[net] for net in OTHERS)
    if not signed:
        return average(plain - twin)
    value = abs(float(plain.mean())) - abs(float(twin.mean()))
    small, large = _sides(pairs)
    if small.spread is None or large.spread is None:
        return Measured(value, None, small.count)
    certain = abs(large.value) > large.spread
    half = small.spread if certain else max(small.spread, large.spread)
    needed = _latest(trials_to_decide(each, each.value) for each in (small, large))
    return Measured(value, half, small.count, trials=needed)


def _sides(pairs: pd.DataFrame) -> list[Measured]:
    """Return p - t and p + t, the smaller first."""
    twin, plain = (pairs[net] for net in OTHERS)
    return sorted(map(average, (plain - twin, plain + twin)), key=lambda m: abs(m.value))


def _latest(counts: Iterable[int | None]) -> int | None:
    """Return the largest of some numbers of trials, None if one is beyond all."""
    known = list(counts)
    return None if None in known else max(count for count in known if count is not None)


def average(values: pd.Series) -> Measured:
    """Return a mean over trials and its interval, or say that there is none."""
    if values.empty:
        raise InputError("no training at the largest width reached its end")
    return mean_interval(values.tolist())


def advantages(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return :func:`advantage` in distance and accuracy at every width, and what it decides.

    ``nearer`` is ``twin`` or ``plain`` where the interval leaves out 0, else ``undecided``.
    """
    rows: list[dict[str, Any]] = []
    for measure, values in _judged(table):
        for key, pairs in values.dropna().groupby(["dataset", "width"], sort=False):
            found = advantage(pairs, measure != "distance")
            nearer = ("twin" if found.value > 0 else "plain") if _decided(found) else "undecided"
            rows.append(
                {"dataset": key[0], "width": key[1], "measure": measure, "advantage": found.value,
                 "interval": found.spread, "nearer": nearer}
            )  # fmt: skip
    return rows


def resolution(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return whether the trials are enough to see at the largest width what theory predicts.

    The limits are trained in the same trials, from the same draws of samples and weights, so that
    what they predict has an interval too. Where it reaches 0 there is no effect to be seen, and no
    number of trials that would be enough for it.

    Returns
    -------
    list of dict
        For distance and accuracy: ``predicted`` and ``predicted_interval``, the limits'
        :func:`advantage`; ``effect``, whether that interval leaves out 0; ``interval``, half of
        that of the networks; ``enough``, whether there is an effect and the interval is smaller;
        ``trials``, how many would be (None without an effect, or if ten thousand are not).
    """
    rows: list[dict[str, Any]] = []
    widest = table["width"].max()
    for measure, values in _judged(table):
        width = values.index.get_level_values("width")
        limit, found = (values[width == each].dropna() for each in (INFINITE, widest))
        if widest == INFINITE or limit.empty or found.empty:
            continue
        signed = measure != "distance"
        predicted, measured = advantage(limit, signed), advantage(found, signed)
        effect = _decided(predicted)
        enough = effect and measured.spread is not None and measured.spread < abs(predicted.value)
        needed = None
        if enough:
            needed = measured.count
        elif effect and signed:
            small, large = _sides(found)
            needed = _latest(
                trials_to_decide(each, room)
                for each, room in ((small, predicted.value), (large, large.value))
            )
        elif effect:
            needed = trials_to_decide(measured, predicted.value)
        rows.append(
            {"measure": measure, "predicted": predicted.value,
             "predicted_interval": predicted.spread, "effect": effect,
             "interval": measured.spread, "enough": enough, "trials": needed}
        )  # fmt: skip
    return rows


def _decided(found: Measured) -> bool:
    """Tell whether an interval leaves out 0."""
    return found.spread is not None and abs(found.value) > found.spread


def _judged(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    parts = differences(table)
    return [(measure, parts[measure]) for measure in ("distance", "accuracy")]


def at_width(run: Finished, measure: str, infinite: bool = False) -> pd.DataFrame:
    """Return the differences of a finished run at its largest width, or of its limit."""
    values = differences(run.table)[measure]
    wanted = INFINITE if infinite else run.table["width"].max()
    return values[values.index.get_level_values("width") == wanted]


def _columns(rows: pd.DataFrame, keys: list[str], name: str) -> pd.DataFrame:
    """Return one column of a table with the networks beside each other."""
    values = rows.set_index([*keys, "net"])[name].astype(float)
    return values.unstack().reindex(columns=[net.value for net in Net])
