"""The figure of a training run: losses and their envelope, test, norm, and the linearised path."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from deqcli.figures.style import PAGE, Figure, broken, log_ticks, styled

_LINE: dict[str, Any] = {"lw": 0.9}


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw the four panels, one colour a width: means over trials, and their range as a band.

    Parameters
    ----------
    table : DataFrame
        Columns width, trial, step, status, train_loss, envelope, test_loss, test_error, norm,
        peak, peak_flow, slope, slope_flow, window, bound, data, n, method, init, injection,
        gamma0, as ``deqcli flow``
        writes them.
    """
    figure = Figure(figsize=(PAGE, 4.3), layout="constrained")
    grid = figure.subplots(2, 2)
    widths = sorted(set(table["width"]))
    shades = mpl.colormaps["viridis"](np.linspace(0.85, 0.0, len(widths)))
    colors = dict(zip(widths, shades, strict=True))
    for width, rows in table.groupby("width"):
        color = colors[width]
        good = rows[rows["status"] == "ok"]
        if not good.empty:
            _draw_training(grid[0, 0], good, color)
            _draw_test(grid[0, 1], good, color)
        _draw_norm(grid[1, 0], rows, color)
    _draw_peaks(grid[1, 1], table, colors)
    _finish(grid, table)
    first = table.iloc[0]
    title = (
        f"{first['data']}, n = {first['n']}, {first['init']} A, {first['injection']} injection, "
        f"$\\gamma_0$ = {first['gamma0']:g}, "
        f"{'gradient descent' if first['method'] == 'gd' else 'gradient flow'}"
    )
    if (trials := table["trial"].nunique()) > 1:
        title += f"; mean and range of {trials} trials"
    handles = [Line2D([], [], color=colors[width], label=f"width {width}") for width in widths]
    figure.legend(
        handles=handles, loc="outside upper center", title=broken(title, PAGE - 0.1),
        title_fontsize=7.5, ncols=min(len(widths), 8),
    )  # fmt: skip
    return figure


def _over_trials(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return mean, min and max over trials by step, as far as all trials that were measured go.

    Beyond that the mean would jump with the trials that are left.
    """
    measured = rows.dropna(subset=column)
    values = measured.groupby("step")[column].agg(["count", "mean", "min", "max"])
    return values[values["count"] == measured["trial"].nunique()]


def _draw_mean(axes: Axes, rows: pd.DataFrame, column: str, color: Any) -> None:
    values = _over_trials(rows, column)
    axes.plot(values.index, values["mean"], color=color, **_LINE)
    axes.fill_between(values.index, values["min"], values["max"], color=color, alpha=0.18, lw=0)


def _draw_training(axes: Axes, rows: pd.DataFrame, color: Any) -> None:
    _draw_mean(axes, rows, "train_loss", color)
    envelope = _over_trials(rows, "envelope")["mean"]
    axes.plot(envelope.index, envelope, color=color, ls="--", lw=0.7)


def _draw_test(axes: Axes, rows: pd.DataFrame, color: Any) -> None:
    _draw_mean(axes, rows, "test_loss", color)
    # A logarithm has no zero: no mark where no test sample of any trial is wrong.
    errors = _over_trials(rows, "test_error")["mean"]
    errors = errors[errors > 0]
    axes.plot(errors.index, errors, color=color, ls=":", lw=0.9)
    bounds = rows.drop_duplicates("trial")["bound"]
    bound = float(bounds[np.isfinite(bounds)].mean())
    if np.isfinite(bound):
        axes.plot([rows["step"].min(), rows["step"].max()], [bound] * 2, color=color, ls="--",
                  lw=0.7)  # fmt: skip


def _draw_norm(axes: Axes, rows: pd.DataFrame, color: Any) -> None:
    _draw_mean(axes, rows, "norm", color)
    # A norm that was not measured has no mark.
    lost = rows[rows["status"] != "ok"].dropna(subset="norm")
    if not lost.empty:
        axes.plot(lost["step"], lost["norm"], "x", color=color, mew=1.1, ms=5)


def _draw_peaks(axes: Axes, table: pd.DataFrame, colors: dict[Any, Any]) -> None:
    path = "descent" if table["method"].iloc[0] == "gd" else "flow"
    styles = {"_flow": ("o", "-", r"to $\hat u(t)$"), "": ("s", ":", f"to linearised {path}")}
    for suffix, (marker, line, name) in styles.items():
        runs = table[table[f"peak{suffix}"] > 0].drop_duplicates(["width", "trial"])
        means = runs.groupby("width")[f"peak{suffix}"].mean()
        for width, peak in zip(runs["width"], runs[f"peak{suffix}"], strict=True):
            axes.plot([width], [peak], marker, color=colors[width], ms=3.5, mfc="none")
        fitted = float(table[f"slope{suffix}"].iloc[0])
        if len(means) < 2 or not np.isfinite(fitted):
            continue
        sizes = means.index.to_numpy(dtype=float)
        centre = np.exp(np.log(sizes).mean())
        height = np.exp(np.log(means.to_numpy()).mean())
        axes.plot(
            sizes, height * (sizes / centre) ** fitted, color="0.3", lw=0.8, ls=line,
            marker=marker, mfc="none", ms=0, label=f"{name}, slope {fitted:.2f}",
        )  # fmt: skip
        if suffix:
            guide = float(means.iloc[0]) * (sizes / sizes[0]) ** -0.25
            axes.plot(sizes, guide, "k--", lw=0.8, label="promised $m^{-1/4}$")
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="best")
    axes.set_xscale("log", base=2)
    log_ticks(axes)
    axes.set_xticks(sorted(colors), [str(width) for width in sorted(colors)])
    axes.minorticks_off()


def _finish(grid: Any, table: pd.DataFrame) -> None:
    """Name the axes, and say once what each kind of line is."""
    last = max(int(table["step"].max()), 1)
    for axes in (grid[0, 0], grid[0, 1], grid[1, 0]):
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(0, last)
        ticks = [0, *(10**k for k in range(10) if 10**k <= last)]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("step")
    for axes in grid[0]:
        axes.set_yscale("log")
    grid[0, 0].set_ylabel("training loss")
    grid[0, 1].set_ylabel("test loss, error")
    grid[1, 0].set_ylabel(r"$\|\gamma A(k)\|$")
    grid[1, 1].set_ylabel("distance to the linearised path")
    grid[1, 1].set_xlabel("width m")
    window = float(table["window"].iloc[0])
    if np.isfinite(window):
        grid[1, 1].set_title(
            f"largest over the time all surviving runs share, t ≤ {window:.3g}", fontsize=7
        )
    if table["norm"].max() > 0.8:
        grid[1, 0].axhline(1.0, color="0.5", lw=0.7, ls="--", zorder=0)
    ends = _envelope_ends(table)
    _explain(grid[0, 0], ("-", "loss"), ("--", rf"$e^{{-\lambda_0 t}}\,$loss(0){ends}"))
    _explain(grid[0, 1], ("-", "loss"), (":", "0-1 error"), ("--", "leading term of the bound"))


def _envelope_ends(table: pd.DataFrame) -> str:
    """Say what part of the start the envelope is where runs end; little is promised near 1."""
    # A run that stopped early says nothing of the end.
    whole = table.assign(ok=table["status"] == "ok").groupby(["width", "trial"])["ok"]
    runs = table[whole.transform("all")].groupby(["width", "trial"])["envelope"]
    ends = (runs.last() / runs.first()).dropna()
    if ends.empty:
        return ""
    low, high = (f"{value:.2g}" for value in (ends.min(), ends.max()))
    return f",\nends at {low if low == high else f'{low} to {high}'} of it"


def _explain(axes: Axes, *styles: tuple[str, str]) -> None:
    handles = [Line2D([], [], color="0.3", ls=style, lw=0.9, label=name) for style, name in styles]
    axes.legend(handles=handles, loc="best")
