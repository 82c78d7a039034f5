"""Where samples come from: a mixture, the sphere, a data set or a file, behind one interface.

A :class:`Law` is cheap to make and checks what it was told; samples are drawn or read only when
:meth:`Law.load` is called.
"""

from __future__ import annotations

import abc
import functools
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deqcli.checks import one_line
from deqcli.data import files, folder, images, registry
from deqcli.data.dataset import Dataset, Scaling, fit_transform, pick_classes
from deqcli.data.mixture import GaussianMixture, check_dimension, sphere, toeplitz
from deqcli.errors import InputError
from deqcli.statistics import MixtureStatistics, estimate_statistics
from deqcli.vocabulary import DRAWN, suggestion

Streams = Callable[..., np.random.Generator]
"""From further names to the random stream that belongs to them."""

#: No class of a registered data set has more samples than this, in units of an even share.
_LARGEST_SHARE = 1.2
#: Matrices of shape (p, p) that checking and factorising a full covariance takes.
_COVARIANCES = 4
Halves = tuple[Dataset, Dataset]
"""Training and test samples."""


@dataclass(frozen=True)
class Inputs:
    """Samples and what is known of their law.

    Attributes
    ----------
    data : Dataset
    statistics : MixtureStatistics or None
        Exact for a mixture, estimated per class for real data. None on the unit sphere, whose
        theory needs none and has activations that are not centred (HLD).
    mixture : GaussianMixture or None
        Where the samples were drawn from one.
    """

    data: Dataset
    statistics: MixtureStatistics | None
    mixture: GaussianMixture | None = None


class Law(abc.ABC):
    """Where samples come from."""

    @abc.abstractmethod
    def check(self) -> None:
        """Raise :class:`InputError` if no samples can come of it; reads no data."""

    def identity(self) -> dict[str, Any]:
        """Return what tells its content apart from another one of the same name."""
        return {}

    @abc.abstractmethod
    def shape(self, n: int | None) -> tuple[int, int]:
        """Return how many samples :meth:`load` would give, and their dimension."""

    @abc.abstractmethod
    def loading(self, n: int | None, test_size: int | None = None) -> int:
        """Return the bytes that :meth:`load` takes at most, or with a test size the halves."""

    @abc.abstractmethod
    def load(self, streams: Streams, n: int | None) -> Inputs:
        """Draw or read ``n`` samples; None for all there are."""

    @abc.abstractmethod
    def load_halves(self, streams: Streams, n: int | None, test_size: int) -> Halves:
        """Return ``n`` training samples (None: all) and test samples (0: all there are)."""

    def scaling(self, streams: Streams, n: int | None) -> Scaling | None:
        """Return the map that brought the samples of :meth:`load` to their scale, if one did."""
        return None

    def missing(self, halves: bool) -> str:
        """Say which files are missing, for the training half or both; empty if none is."""
        return ""

    @property
    @abc.abstractmethod
    def class_names(self) -> tuple[str, ...]:
        """The classes of the samples."""

    @property
    def n_classes(self) -> int:
        """How many classes there are to tell apart."""
        return len(self.class_names)


@dataclass(frozen=True)
class Drawn(Law):
    """A law from which any number of samples of any dimension can be drawn."""

    p: int
    classes: tuple[str, ...] | None

    @abc.abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Dataset:
        """Draw n samples."""

    def shape(self, n: int | None) -> tuple[int, int]:
        return n or 0, self.p

    def loading(self, n: int | None, test_size: int | None = None) -> int:
        """See :meth:`Law.loading`."""
        train = n or 0
        test = 0 if test_size is None else test_size or train
        # Samples exist three times: as noise, by class and as a whole; or beside their means and
        # the differences from them.
        return 8 * self.p * max(3 * train, train + 3 * test)

    def load_halves(self, streams: Streams, n: int | None, test_size: int) -> Halves:
        """See :meth:`Law.load_halves`; the two have streams of their own."""
        train = self.draw(n or 0, streams("train"))
        return train, self.draw(test_size or n or 0, streams("test"))


@dataclass(frozen=True)
class Mixture(Drawn):
    """The papers' Gaussian mixture, continued to any number of classes."""

    mean_norm: float
    covariance: str

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(str(number + 1) for number in range(self.n_classes))

    @property
    def n_classes(self) -> int:
        return int(self.classes[0]) if self.classes else 2

    def check(self) -> None:
        if self.classes and not (
            len(self.classes) == 1 and re.fullmatch("[1-9][0-9]{0,4}", self.classes[0])
        ):
            raise InputError(
                f"`classes` is {one_line(','.join(self.classes))}; a mixture takes the number of "
                "its classes."
            )
        self._correlation()
        check_dimension(self.p, self.n_classes)

    def _correlation(self) -> float | None:
        """Return R of ``toeplitz:R``, None where covariances are multiples of the identity."""
        name, _, value = self.covariance.partition(":")
        if name in ("papers", "identity") and not value:
            return None
        try:
            correlation = float(value)
        except ValueError:
            correlation = np.nan
        if name != "toeplitz" or not abs(correlation) < 1:
            raise InputError(
                f"`covariance` is {self.covariance!r}; choose papers, identity or toeplitz:R with "
                "|R| < 1."
            )
        return correlation

    @functools.cached_property
    def mixture(self) -> GaussianMixture:
        """The mixture itself."""
        spread = 0.0 if self.covariance == "identity" else 8.0
        plain = GaussianMixture.papers(self.p, self.n_classes, self.mean_norm, spread)
        correlation = self._correlation()
        if correlation is None:
            return plain
        return GaussianMixture(plain.means, plain.covariances, toeplitz(self.p, correlation))

    def loading(self, n: int | None, test_size: int | None = None) -> int:
        means = 16 * self.n_classes * self.p
        matrices = 0 if self._correlation() is None else 8 * _COVARIANCES * self.p**2
        return super().loading(n, test_size) + means + matrices

    def draw(self, n: int, rng: np.random.Generator) -> Dataset:
        return self.mixture.sample(n, rng)

    def load(self, streams: Streams, n: int | None) -> Inputs:
        data = self.draw(n or 0, streams())
        return Inputs(data, self.mixture.statistics(np.bincount(data.y)), self.mixture)


@dataclass(frozen=True)
class Sphere(Drawn):
    """Points drawn uniformly from the unit sphere (HLD), without classes."""

    class_names = ("all",)

    def check(self) -> None:
        if self.classes:
            raise InputError(
                f"`classes` is {one_line(','.join(self.classes))}; points on the sphere have no "
                "classes."
            )

    def draw(self, n: int, rng: np.random.Generator) -> Dataset:
        return sphere(n, self.p, rng)

    def load(self, streams: Streams, n: int | None) -> Inputs:
        return Inputs(self.draw(n or 0, streams()), None)


@dataclass(frozen=True)
class RealData(Law):
    """A registered data set, or a person's own file."""

    name: str
    classes: tuple[str, ...] | None
    select: str
    preprocess: str
    data_dir: str | None

    @property
    def own_file(self) -> bool:
        """Whether it is a person's own file."""
        return Path(self.name).suffix.lower() in files.SUFFIXES

    def check(self) -> None:
        if self.own_file:
            if not os.path.isfile(self.name):  # noqa: PTH113  Path.is_file raises on long names
                raise InputError(f"`data` is {self.name}; there is no such file.")
        elif self.name.partition(":")[0] not in registry.names():
            known = (*DRAWN, *registry.names(), "a .npz or .csv file")
            raise InputError(f"`data` is {self.name!r}; {suggestion(self.name, known)}")
        else:
            pick_classes(registry.find(self.name)[0].classes, self.classes)

    def identity(self) -> dict[str, Any]:
        if not self.own_file:
            return {}
        from deqcli.runs.files import sha256

        return {"sha256": sha256(Path(self.name))}

    @property
    def class_names(self) -> tuple[str, ...]:
        if self.classes:
            return self.classes
        if self.own_file:
            return files.outline(Path(self.name)).classes
        return registry.find(self.name)[0].classes

    def shape(self, n: int | None) -> tuple[int, int]:
        """See :meth:`Law.shape`; an upper bound where some classes of a data set are taken."""
        if self.own_file:
            samples = files.outline(Path(self.name))
            picked = pick_classes(samples.classes, self.classes)
            return n or int(np.isin(samples.y, picked).sum()), samples.shape[1]
        source, split = registry.find(self.name)
        share = len(self.class_names) / len(source.classes)
        most = min(1.0, _LARGEST_SHARE * share) * source.count(split)
        return n or math.ceil(most), source.features

    def loading(self, n: int | None, test_size: int | None = None) -> int:
        """See :meth:`Law.loading`."""
        train, p = self.shape(n)
        halves = test_size is not None
        if self.own_file:
            samples = files.outline(Path(self.name))
            reading, rest = samples.reading, samples.shape[0] - train
        else:
            source, split = registry.find(self.name)
            # Stored values are there packed and unpacked.
            reading = 2 * sum(piece.size for piece in source.needed(split))
            rest = source.count("test")
        test = (test_size or rest) if halves else 0
        # Samples are there scaled and beside their squares.
        needed = 8 * p * (2 * train + test)
        if not halves:
            # Statistics split them by class, and form covariances if they have the smaller size.
            covariances = self.n_classes * p if train > self.n_classes * p else 0
            needed += 8 * p * (train + covariances)
        return reading + needed

    def load(self, streams: Streams, n: int | None) -> Inputs:
        data, _ = images.load(self.name, n=n, rng=streams(), **self._choices)
        return Inputs(data, estimate_statistics(data.X, data.y))

    def whole(self, streams: Streams) -> Dataset:
        """Return all samples of the chosen classes."""
        return images.load(self.name, n=None, rng=streams(), **self._choices)[0]

    def whole_bytes(self) -> int:
        """Return the bytes that :meth:`whole` and its covariance's decomposition take at most."""
        rows, p = self.shape(None)
        # Few samples are kept beside their products, many beside their covariance.
        products = 32 * min(rows, p) ** 2 + (8 * p * rows if rows < p else 0)
        # Samples are scaled part by part: of so many, their squares are not there all at once.
        return self.loading(None, 1) - 6 * p * rows + products

    def scaling(self, streams: Streams, n: int | None) -> Scaling | None:
        """See :meth:`Law.scaling`."""
        if self.preprocess != "centred":
            return None
        raw = replace(self, preprocess="raw").load(streams, n)
        return fit_transform(raw.data.X, self.preprocess)[0]

    def load_halves(self, streams: Streams, n: int | None, test_size: int) -> Halves:
        """See :meth:`Law.load_halves`; a file without a test half loses a part of it."""
        train, test = images.load(self.name, n=n, n_test=test_size, rng=streams(), **self._choices)
        assert test is not None
        return train, test

    @property
    def _choices(self) -> dict[str, Any]:
        names = ("classes", "select", "preprocess", "data_dir")
        return {name: getattr(self, name) for name in names}

    def missing(self, halves: bool) -> str:
        if self.own_file:
            return ""
        source, split = registry.find(self.name)
        wanted: set[registry.Split] = {split, "test"} if halves else {split}
        try:
            for half in sorted(wanted):
                folder.locate(source, half, folder.data_dir(self.data_dir))
        except InputError as error:
            return str(error)
        return ""
