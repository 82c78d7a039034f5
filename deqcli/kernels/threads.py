"""Work on parts of a matrix by as many threads as BLAS has."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas
from threadpoolctl import ThreadpoolController

Array = NDArray[np.float64]
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


@functools.cache
def _controller() -> ThreadpoolController:
    """Look for libraries once: that takes as long as a small kernel."""
    return ThreadpoolController()


def in_threads(function: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
    """Return the function of each item; threads share the work, and each has a BLAS of one.

    There are as many as BLAS may use now, so that one setting rules both.

    Examples
    --------
    >>> in_threads(abs, [-2, 3])
    [2, 3]
    """
    threads = max((int(pool["num_threads"]) for pool in _controller().info()), default=1)
    if min(threads, len(items)) == 1:
        return [function(item) for item in items]
    with _controller().limit(limits=1), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


@functools.cache
def _dgemm() -> Any:
    """Return the BLAS that scipy offers to compiled code, by its address.

    ``scipy.linalg.blas`` keeps the interpreter while it multiplies, so that threads would take
    turns; a call by address does not. Numpy's products do not add to what is there.
    """
    capsule, api = cython_blas.__pyx_capi__["dgemm"], ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    address = pointer(("PyCapsule_GetPointer", api))(capsule, name(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address)


@functools.cache
def _size(value: int) -> Any:
    # Of 64 bits, whose lower half is what a BLAS with integers of 32 bits reads.
    return ctypes.byref(ctypes.c_int64(value))


_FACTORS = {factor: ctypes.byref(ctypes.c_double(factor)) for factor in (0.0, 1.0)}


def add_product(left: Array, right: Array, out: Array, keep: bool) -> None:
    """Add ``left @ right.T`` to ``out``, and let other threads run meanwhile.

    Parameters
    ----------
    left, right : ndarray of shape (n, k), (q, k)
    out : ndarray of shape (n, q)
        Rows one after the other, as those of all.
    keep : bool
        Whether it is added to what is there, or put in its place.

    Examples
    --------
    >>> out = np.ones((2, 1))
    >>> add_product(np.array([[1.0], [2.0]]), np.array([[3.0]]), out, keep=True)
    >>> out.tolist()
    [[4.0], [7.0]]
    """
    (n, k), q = left.shape, len(right)
    if (
        out.shape != (n, q)
        or right.shape[1] != k
        or not left.dtype == right.dtype == out.dtype == float
    ):
        raise ValueError("shapes or types do not fit")
    if not k:
        out *= float(keep)
        return
    # Fortran sees transposes, so that it makes out.T = right @ left.T. What is not contiguous is
    # refused here.
    a, b, c = (ctypes.byref(ctypes.c_double.from_buffer(part.data)) for part in (right, left, out))
    one, inner, across = _FACTORS[1.0], _size(k), _size(q)
    _dgemm()(
        b"T", b"N", across, _size(n), inner, one, a, inner, b, inner, _FACTORS[keep], c, across
    )  # fmt: skip
