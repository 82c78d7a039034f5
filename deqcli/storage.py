"""How an exact kernel is kept: as a matrix, or as an operator, and what that takes.

Nothing heavy is imported here until settings are made; see :mod:`deqcli.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from deqcli.errors import InputError
from deqcli.settings import setting
from deqcli.shared_settings import SampleSettings
from deqcli.vocabulary import Estimator, Storage

#: Samples up to which kernels are matrices unless told otherwise; one is 3.2 GB then.
MOST_DENSE = 20_000


def _default_storage(settings: StorageSettings) -> Storage:
    if settings.estimator != (Estimator.EXACT,):
        return Storage.DENSE
    law = settings.law(settings.p)
    law.check()
    return Storage.MEMORY if law.shape(settings.n)[0] > MOST_DENSE else Storage.DENSE


@dataclass(frozen=True, kw_only=True)
class StorageSettings(SampleSettings):
    """Samples, where their kernel comes from, and how it is kept."""

    estimator: tuple[Estimator, ...] = setting(
        (Estimator.MONTE_CARLO, Estimator.EXACT),
        "What to set beside the equivalent: averages over random networks, the exact kernel.",
    )
    storage: Storage = setting(
        None,
        "How the exact kernel is kept; dense: as a matrix, all of whose eigenvalues are found; "
        "memory: as an operator of two bytes a pair, whose leading eigenvalues are found and the "
        "density of all; disk: the same, read from the disk at every product (both write n² bytes "
        "to the folder of results while they run); cluster: the same, each worker of --scheduler "
        "keeping its share.",
        derive=_default_storage,
        default_text=f"dense; beyond {MOST_DENSE} samples, exact alone, memory",
    )
    save_kernels: bool = setting(False, "Write the matrices too (.npz).")

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> Self:
        """See :meth:`Settings.restored`; a record does not say that kernels are matrices."""
        return super().restored({"storage": Storage.DENSE, **values})

    @property
    def dense(self) -> bool:
        """Whether kernels are matrices."""
        return self.storage is Storage.DENSE

    def check(self) -> None:
        """See :meth:`Settings.check`."""
        super().check()
        if not self.dense and self.estimator != (Estimator.EXACT,):
            raise InputError(
                f"`storage` is {self.storage}, which keeps exact kernels; take `estimator` exact, "
                "or `storage` dense."
            )
        if not self.dense and self.save_kernels:
            raise InputError(
                f"`save_kernels` writes matrices, and `storage` {self.storage} has none; leave out "
                "one of them."
            )

    def identity(self) -> dict[str, Any]:
        """See :meth:`Settings.identity`; memory and disk give the same numbers."""
        values = super().identity()
        if values["storage"] == Storage.DISK:
            values["storage"] = Storage.MEMORY
        # What all runs had before there was a choice is not named.
        if self.dense and _default_storage(self) is Storage.DENSE:
            del values["storage"]
        return values

    def operator_bytes(self, components: int) -> int:
        """Return the bytes of an operator, with what points and assembly add to it."""
        from deqcli.operators import operator_bytes
        from deqcli.panels import panel_bytes
        from deqcli.whole_spectra import summary_bytes

        n, p = self.shape
        held = operator_bytes(n, p, self.law(self.p).n_classes, components)
        if self.storage is not Storage.MEMORY:
            held -= n * n
        return held + max(panel_bytes(n), summary_bytes(n, p))
