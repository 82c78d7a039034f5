"""Kernels of whole data sets as points of a study: panels that are stored, and read or mapped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deqcli.errors import silence_range_warning
from deqcli.kernels.tiles import SIDE
from deqcli.operators import KernelOperator, Panel, Rest, kernel_rest
from deqcli.vocabulary import Storage

if TYPE_CHECKING:
    from deqcli.equivalents import Equivalent
    from deqcli.models import Model
    from deqcli.study import Arrays, Load
    from deqcli.vocabulary import Kernel


def panel_points(n: int) -> dict[str, tuple[Any, ...]]:
    """Return the points that make an operator of n samples.

    Panels are rows from the diagonal on. One from the top and one from the bottom make a point, so
    that all points take the same time.

    Examples
    --------
    >>> panel_points(1200)
    {'panels 0 4': ('panels', 0, 4), 'panels 1 3': ('panels', 1, 3), 'panels 2 2': ('panels', 2, 2)}
    """
    last = -(-n // SIDE) - 1
    pairs = [(k, last - k) for k in range(last // 2 + 1)]
    return {f"panels {first} {second}": ("panels", first, second) for first, second in pairs}


def rest_of(
    model: Model, kernel: Kernel, components: int = 0, equivalent: Equivalent | None = None
) -> Rest:
    """Return what the own-norm equivalent leaves of a DEQ's kernel.

    Parameters
    ----------
    equivalent : Equivalent, optional
        The own-norm one, where it is there already.
    """
    with silence_range_warning():
        return kernel_rest(
            model.X, model.act, model.sigma_a2, model.sigma_b2, kernel, model.inputs.data.y,
            components, equivalent,
        )  # fmt: skip


def make_panels(rest: Rest, first: int, second: int) -> Arrays:
    """Return what a point of :func:`panel_points` stores."""
    arrays = {}
    for number in dict.fromkeys((first, second)):
        panel = rest.panel(number * SIDE)
        # In this order and by names of even length, so that codes stay aligned in the file.
        arrays[f"codes{number:05d}"] = panel.codes
        arrays[f"scale{number:05d}"] = np.append(panel.scales, panel.rounding2)
    return arrays


def load_operator(equivalent: Equivalent, load: Load, storage: Storage) -> KernelOperator:
    """Return the operator of the stored panels, in memory or on the disk.

    Parameters
    ----------
    storage : Storage
        On the disk, codes stay there, where every product reads them.
    """
    panels = {}
    for key, (_, *numbers) in panel_points(equivalent.shape[0]).items():
        arrays = load(key, mapped=storage is Storage.DISK)
        for number in numbers:
            values, codes = arrays[f"scale{number:05d}"], arrays[f"codes{number:05d}"]
            panels[number] = Panel(number * SIDE, codes, values[:-1], float(values[-1]))
    return KernelOperator(equivalent, tuple(panels[number] for number in sorted(panels)))


def panel_bytes(n: int) -> int:
    """Return the bytes that one point takes beside what it is made of: twice, and written once."""
    return 3 * 2 * n * SIDE
