r"""Statistics of a table of trained networks: last epochs, and differences between pairs.

Networks of one trial share samples, their order and weights: their differences have less noise
than the networks themselves.
"""

from __future__ import annotations

import pandas as pd

from deqcli.quantities import standard_error
from deqcli.vocabulary import Net

#: What the status of an epoch begins with after which training was cut short.
STOPPED = "stopped"


def last_epochs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the last epoch of every training that was not cut short."""
    trained = table[table["net"].isin(list(Net))]
    last = trained.loc[trained.groupby(["dataset", "net", "width", "trial"])["epoch"].idxmax()]
    return last[~last["status"].str.startswith(STOPPED)]


def accuracies(table: pd.DataFrame) -> pd.DataFrame:
    """Return final test accuracies: a row a data set, width and trial, a column a network."""
    last = last_epochs(table).set_index(["dataset", "width", "trial", "net"])["test_accuracy"]
    return last.unstack().reindex(columns=[net.value for net in Net])


def gaps(table: pd.DataFrame) -> pd.DataFrame:
    r"""Return the gaps of test accuracy DEQ - matched and DEQ - plain at every width.

    The standard error is that of the mean of the pairs' differences, :math:`s/\sqrt k`; one pair
    has none.

    Returns
    -------
    DataFrame
        Columns dataset, net, width, mean, standard_error (None for one pair), trials.

    Examples
    --------
    >>> rows = [("a", net, 32, trial, 1, accuracy, "done") for net, trial, accuracy in
    ...         [("deq", 0, 0.9), ("deq", 1, 0.8), ("plain", 0, 0.7), ("plain", 1, 0.8)]]
    >>> names = ["dataset", "net", "width", "trial", "epoch", "test_accuracy", "status"]
    >>> gaps(pd.DataFrame(rows, columns=names)).round(6).to_dict("records")[0]["mean"]
    0.1
    """
    final = accuracies(table)
    rows = []
    for net in (Net.MATCHED, Net.PLAIN):
        differences = (final[Net.DEQ] - final[net]).dropna()
        for key, pairs in differences.groupby(["dataset", "width"], sort=False):
            error = standard_error(pairs.tolist())
            rows.append((key[0], net.value, key[1], float(pairs.mean()), error, pairs.size))
    names = ["dataset", "net", "width", "mean", "standard_error", "trials"]
    return pd.DataFrame(rows, columns=names).astype({"standard_error": object})
