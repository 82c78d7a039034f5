"""What every source of data returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import DataError


@dataclass(frozen=True)
class Dataset:
    """Labelled samples, as a file holds them or ready for a kernel.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Samples in rows: float64, or as stored (``uint8`` pixels, ``float16`` features) before
        preprocessing, so that memory stays small.
    y : ndarray of shape (n,)
        Class indices 0 ... K-1, integers.
    name : str
        What the user called it.
    classes : tuple of str
        The K original labels, in the order of the indices.
    details : mapping
        What provenance records: preprocessing, selection, checksums of the files read.

    Examples
    --------
    >>> data = Dataset(np.zeros((4, 2)), np.array([0, 0, 1, 1]), "toy")
    >>> data.n_samples, data.n_classes
    (4, 2)
    """

    X: NDArray[Any]
    y: NDArray[np.int64]
    name: str
    classes: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1]:
            raise DataError(
                f"{self.name}: X must be (samples, features) and y one label a sample, "
                f"not {self.X.shape} and {self.y.shape}."
            )

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(self.y.max()) + 1 if self.y.size else 0
