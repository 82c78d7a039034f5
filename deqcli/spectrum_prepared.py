"""What the points of a spectrum share: a DEQ on its samples, and what its kernel is set beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.linalg import LinearOperator

from deqcli.equivalents import Equivalent
from deqcli.models import Model
from deqcli.operators import Rest
from deqcli.panels import rest_of
from deqcli.spectral.law import SpectralLaw
from deqcli.vocabulary import Form
from deqcli.whole_spectra import summarise

if TYPE_CHECKING:
    from deqcli.studies.spectrum import SpectrumSettings
    from deqcli.study import Arrays


@dataclass(frozen=True)
class Prepared:
    """The DEQ on its samples, and what its kernel is compared with.

    Attributes
    ----------
    closed : mapping of Form to Equivalent
        The closed-form matrices; distances are to the first.
    law : SpectralLaw or str
        The law of the last, or why there is none.
    """

    settings: SpectrumSettings
    model: Model
    closed: Mapping[Form, Equivalent]
    law: SpectralLaw | str

    @property
    def first(self) -> Equivalent:
        """The matrix that distances are to, unless said otherwise."""
        return next(iter(self.closed.values()))

    @property
    def last(self) -> Form:
        """The form that is nearest to the kernel, whose law is drawn."""
        return list(self.closed)[-1]

    @cached_property
    def rest(self) -> Rest:
        """What the own-norm equivalent leaves of the kernel."""
        settings, own = self.settings, self.closed.get(Form.OWN_NORM)
        return rest_of(self.model, settings.kernel, settings.components, own)

    def summarise(self, operator: LinearOperator, rng: np.random.Generator) -> Arrays:
        """Return what is found of a spectrum that is too large to be found whole."""
        isolated = 0 if isinstance(self.law, str) else len(self.law.above)
        weights = self.rest.equivalent.linear
        # The kernel's linear part is that of samples scaled by what depends on their norms.
        scale = weights if isinstance(weights, float) else weights[:, :1]
        return summarise(operator, scale * self.model.X, isolated, rng)
