r"""Kernels of whole data sets on the workers of a Dask cluster.

The equivalent, which has the samples, is sent once to every worker, which keeps it. Each makes some
panels of the rest and keeps them; a product sends the block to all, and sums what their panels make
of it, pair by pair. Panels of a lost worker are made again by the others: Dask knows how.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.checks import Range, number, shown
from deqcli.errors import InputError, RunError, silence_range_warning
from deqcli.kernels.matrix import check_samples
from deqcli.kernels.tiles import SIDE
from deqcli.operators import KernelOperator, Panel, Rest, kernel_rest
from deqcli.panels import load_operator, panel_points
from deqcli.runs.cluster import in_use, workers_of
from deqcli.runs.parallel import pinned
from deqcli.statistics import check_labels
from deqcli.vocabulary import Kernel, Storage

if TYPE_CHECKING:
    from deqcli.activations import ActivationLike
    from deqcli.equivalents import Equivalent
    from deqcli.models import Model
    from deqcli.study import Load

Array = NDArray[np.float64]

# Shares of the panels for each thread of a worker: they are equal, and each costs a task a product.
_SHARES = 1
# Attempts at what a worker may be lost in: the block itself may be on its way to it.
_ATTEMPTS = 3
# After which it is asked whether any worker is left.
_WAIT_SECONDS = 2.0


class ShardedOperator(KernelOperator):
    """A kernel whose panels are kept by the workers of a cluster.

    Sums are in another order than in one process: products differ by rounding, about 1e-15 of the
    rest's norm times that of the vector.
    """

    def __init__(
        self,
        client: Any,
        workers: Sequence[str],
        equivalent: Equivalent,
        options: Mapping[str, Any],
        parts: Sequence[list[list[int]]],
    ) -> None:
        super().__init__(equivalent, ())
        self._client, self._workers = client, list(workers)
        self._name = f"{id(self)} {client.id}"
        self._keep(options)
        self._shards = [self._submit(_shard, self._name, part) for part in parts]
        sizes = self._gather([self._submit(_facts, shard) for shard in self._shards])
        self.rounding = float(np.sqrt(sum(rounding2 for rounding2, _ in sizes)))
        self._nbytes = int(sum(size for _, size in sizes))

    def _keep(self, options: Mapping[str, Any]) -> None:
        """Send every worker what panels are made of, to be kept outside of Dask's own memory.

        Of what is only sent Dask drops all copies but one, and cannot make it again.
        """
        sent = self._send(self.equivalent)
        kept = {
            worker: self._client.submit(
                _keep, self._name, sent, options, workers=[worker], pure=False
            )
            for worker in self._alive()
        }
        # One that is lost meanwhile has nothing to keep.
        while waiting := [kept[w] for w in self._alive() if not kept[w].done()]:
            self._wait(waiting)
        self._workers = [worker for worker, future in kept.items() if future.status == "finished"]
        if not self._workers:
            self._client.gather(list(kept.values()))

    def forget(self) -> None:
        """Let the workers drop what they keep."""
        self._shards = []
        # Those that are lost have forgotten already.
        with contextlib.suppress(RunError, OSError):
            self._client.run(_forget, self._name, workers=self._alive(), on_error="ignore")

    @property
    def nbytes(self) -> int:
        """Bytes of the rest, on all workers."""
        return self._nbytes

    def _over_panels(
        self, function: Callable[[tuple[Panel, ...], Array], Array], argument: NDArray[Any]
    ) -> Array:
        for attempt in range(_ATTEMPTS):
            try:
                sent = self._send(argument)
                sums = [self._submit(_apply, function, shard, sent) for shard in self._shards]
                while len(sums) > 1:
                    pairs = [sums[k : k + 2] for k in range(0, len(sums), 2)]
                    sums = [self._submit(np.add, *p) if len(p) == 2 else p[0] for p in pairs]
                return np.asarray(self._gather(sums)[0])
            except RunError:
                raise
            # Of many kinds, where a worker ends while something is sent to it.
            except Exception:
                if attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError

    def _alive(self) -> list[str]:
        """Return the workers that are left, of which there must be one."""
        there = self._client.nthreads()
        alive = [worker for worker in self._workers if worker in there]
        if not alive:
            raise RunError(
                "All Dask workers that kept a part of the kernel are lost; start some, and run the "
                "same again."
            )
        return alive

    def _send(self, value: Any) -> Any:
        """Send something to all workers that are left; one may be gone before that is known."""
        return self._client.scatter(
            value, self._alive(), broadcast=True, hash=False, timeout=_WAIT_SECONDS
        )

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.submit(
            function, *arguments, workers=self._workers, pure=False, retries=_ATTEMPTS
        )

    def _gather(self, futures: list[Any]) -> list[Any]:
        """Return results; Dask would wait for ever for workers that are all gone."""
        while not self._wait(futures):
            self._alive()
        return list(self._client.gather(futures))

    def _wait(self, futures: list[Any]) -> bool:
        """Wait for some seconds; tell whether all are there."""
        import distributed

        with self._client.as_current(), contextlib.suppress(TimeoutError):
            distributed.wait(futures, timeout=_WAIT_SECONDS)
        return all(future.done() for future in futures)


@contextmanager
def cluster_operator(
    X: ArrayLike,
    act: ActivationLike,
    sigma_a2: float,
    sigma_b2: float | None = None,
    *,
    scheduler: str,
    kernel: Kernel | str = Kernel.CK,
    y: ArrayLike | None = None,
    components: int = 0,
    equivalent: Equivalent | None = None,
) -> Iterator[ShardedOperator]:
    """Keep an exact kernel of a DEQ on the workers of a Dask cluster, as an operator.

    For use in a ``with`` block; at its end the workers forget it.

    Parameters
    ----------
    X, act, sigma_a2, sigma_b2, kernel, y, components
        As for :func:`deqcli.kernel_operator`.
    scheduler : str
        Address such as ``tcp://host:8786``.
    equivalent : Equivalent, optional
        The own-norm one that is taken off, with the exact diagonal; by default it is made here.

    Raises
    ------
    InputError
        For Dask not installed, a bad address, or no workers of this version.
    RunError
        If the scheduler or all workers are lost.
    """
    samples = check_samples(X, "X", least=2)
    if not isinstance(scheduler, str):
        raise InputError(f"`scheduler` is {shown(scheduler)}; give an address.")
    components = number(components, "components", int, Range(least=0))
    labels = check_labels(np.zeros(len(samples), int) if y is None else y, len(samples))
    options: dict[str, Any] = {
        "act": act, "sigma_a2": sigma_a2, "sigma_b2": sigma_b2, "kernel": kernel,
        "labels": labels, "components": components,
    }  # fmt: skip
    rest = kernel_rest(samples, **options, equivalent=equivalent)
    pairs = [numbers for _, *numbers in panel_points(len(samples)).values()]
    with workers_of(scheduler) as (client, workers):
        shares = min(len(pairs), _SHARES * sum(workers.values()))
        parts = [pairs[k::shares] for k in range(shares)]
        operator = ShardedOperator(client, list(workers), rest.equivalent, options, parts)
        try:
            yield operator
        finally:
            operator.forget()


@contextmanager
def open_operator(
    model: Model, kernel: Kernel, rest: Rest, load: Load, storage: Storage
) -> Iterator[KernelOperator]:
    """Keep the operator of a study: of its stored panels, or on the cluster that is in use."""
    if storage is not Storage.CLUSTER:
        yield load_operator(rest.equivalent, load, storage)
        return
    with (
        silence_range_warning(),
        cluster_operator(
            model.X, model.act, model.sigma_a2, model.sigma_b2, kernel=kernel,
            y=model.inputs.data.y, scheduler=in_use() or "", equivalent=rest.equivalent,
        ) as operator,
    ):  # fmt: skip
        yield operator


_kept: dict[str, Rest] = {}


def _keep(name: str, equivalent: Equivalent, options: Mapping[str, Any]) -> None:
    """Keep, on a worker, what panels are made of."""
    _kept[name] = kernel_rest(equivalent.X, **options, equivalent=equivalent)


def _forget(name: str) -> None:
    _kept.pop(name, None)


def _shard(name: str, pairs: list[list[int]]) -> tuple[Panel, ...]:
    """Make some panels, on a worker that keeps what they are made of."""
    numbers = [number for pair in pairs for number in dict.fromkeys(pair)]
    with pinned(1):
        return tuple(_kept[name].panel(number * SIDE) for number in numbers)


def _apply(
    function: Callable[[tuple[Panel, ...], Array], Array], panels: tuple[Panel, ...], block: Array
) -> Array:
    with pinned(1):
        return function(panels, block)


def _facts(panels: tuple[Panel, ...]) -> tuple[float, int]:
    return sum(panel.rounding2 for panel in panels), sum(panel.__sizeof__() for panel in panels)
