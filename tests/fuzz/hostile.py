"""Values that a careless or hostile caller may give, and what no answer may hold."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

Random = np.random.Generator

#: How many cases of each kind, and the first; ``.ci/run fuzz`` asks for 10 000.
CASES = int(os.environ.get("DEQCLI_FUZZ_CASES", "25"))
FIRST = int(os.environ.get("DEQCLI_FUZZ_FIRST", "0"))
#: Cases of one test, so that two processes share them and a failure is quick to repeat.
BATCH = 50


def batches() -> list[range]:
    """Return the numbers of all cases, in parts."""
    last = FIRST + CASES
    return [range(start, min(start + BATCH, last)) for start in range(FIRST, last, BATCH)]


def generator(kind: str, case: int) -> Random:
    """Return the random stream of one case; nothing else decides what it does."""
    return np.random.default_rng([case, *kind.encode()])


def pick(rng: Random, values: Any) -> Any:
    """Return one of several values, whatever their types."""
    return values[int(rng.integers(len(values)))]


FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.1, 0.2, 0.24, 0.9, 1.5, 2, -3, 1e-6, 1e-12, 1e-50, 1e-51, 1e-160,
    1e-320, 5e-324, 1e6, 1e20, 1e50, 1e51, 1e160, 1e200, 1.7e308, math.nan, math.inf, -math.inf,
    np.float32(0.3), np.float16(0.1), np.int8(1), np.nextafter(1, 0), 10**400,
)  # fmt: skip
#: No number that is only a lot of work: a person may want that.
INTEGERS = (0, 1, 2, 3, 5, 8, 17, -1, -(2**63), 2**63, 10**30, np.int8(4), np.uint64(6))
TEXTS = (
    "", " ", "nan", "inf", "-1", "0", "1e400", "0x10", "abc", "tanh", "é", "\u202e", "\udce9",
    "a" * 3000, "../../x", "None", "1,2", "1,,1", ",", "=", ":", "--n", "-", "`n`", "%s", "{0}",
    "\n", "a\0b",
)  # fmt: skip
ACTIVATIONS = (
    "tanh", "relu", "swish", "abs", "erf", "cos", "identity", "lrelu:slope=0.3", "htanh:a=1,c=2",
    "elu", "gelu", "softplus", "htanh:a=0,c=1", "cubic:a3=0,a2=0,a1=0", "maxlin:a=0,b=0",
    "quadratic", "cubic", "hermite:scale=2,c3=1", "htanh:a=1e200,c=1", "htanh:a=1,c=1e-300",
    "htanh:a=1e50,c=1e-50", "maxlin:a=1e-50,b=0", "lrelu:slope=-1", "lrelu:slope=nan",
    "elu:alpha=1e30", "hermite:c8=1", "hermite:c9=1", "tanh:a=1", "os:getcwd", "sys:exit",
    "math:sqrt", "numpy:tanh", "numpy:sum", "a:b", "tahn", "htanh:", "htanh:a", "htanh:a=", ":",
    "antigravity_:x", "tests:x", "quadratic:a2=0,a1=0.5", "hermite:scale=1e-50,c8=1e50",
)  # fmt: skip


def anything(rng: Random) -> Any:
    """Return a value of any type."""
    return pick(
        rng,
        (
            pick(rng, FLOATS), pick(rng, INTEGERS), pick(rng, TEXTS), None, True, False, (), [],
            {}, {"a": 1}, {1, 2}, b"x", 1j, object(), Fraction(1, 3), np.array(0.1),
            np.array([0.1]), np.array([]), [1, 2], ["tanh"], ["tanh", 3], [None], range(3),
            np.nan, int, len, pick(rng, ACTIVATIONS), np.bool_(True), np.datetime64("2020-01-01"),
            pd.NA, 10**5000,
        ),
    )  # fmt: skip


def hostile(rng: Random, good: Any, chance: float = 0.15) -> Any:
    """Return a good value, a number that may be anything, or anything at all."""
    roll = rng.random()
    if roll < chance and isinstance(good, float | int):
        return pick(rng, FLOATS)
    return anything(rng) if roll < 1.5 * chance else good


def matrix(rng: Random, rows: int, columns: int) -> Any:
    """Return samples, as often as not with something wrong about them."""
    X = rng.standard_normal((rows, columns)) / math.sqrt(columns)
    kind = int(rng.integers(24))
    if kind == 0:
        X[tuple(rng.integers((rows, columns)))] = pick(rng, FLOATS[:-1])
    elif kind == 1:
        X = X * pick(rng, (0.0, 1e-160, 1e-320, 1e-20, 1e20, 1e50, 1e99, 1e160))
    elif kind == 2:
        X = np.asfortranarray(X)
    elif kind == 3:
        X = np.repeat(X, 2, axis=1)[:, ::2]
    elif kind == 4:
        X = X[::-1]
    elif kind == 5:
        X.flags.writeable = False
    elif kind == 6:
        X = X.astype(
            pick(rng, ("f4", "f2", "i8", "u1", "?", "c16", "O", "U8", "M8[s]", "g", ">f8"))
        )
    elif kind == 7:
        X = pick(rng, (X[:0], X[:1], X[:, :0], X[0], X[None], X[0, 0], np.zeros((0, 0))))
    elif kind == 8:
        X[1:] = X[0]
    elif kind == 9:
        X[0] = 0
    elif kind == 10:
        X = pick(rng, (X.tolist(), pd.DataFrame(X), np.ma.masked_array(X, X > 1), [[1, 2], [3]]))
    elif kind == 11:
        X = anything(rng)
    return X


def labels(rng: Random, rows: int) -> Any:
    """Return labels, as often as not with something wrong about them."""
    y = np.arange(rows) % 2
    kind = int(rng.integers(14))
    if kind == 0:
        y = y.astype(pick(rng, ("f8", "f4", "U2", "O", "S2", "?", "c16", "M8[s]", "i1")))
    elif kind == 1:
        with np.errstate(all="ignore"):
            y = y.astype(float) * pick(rng, FLOATS[:-1])
    elif kind == 2:
        y = pick(rng, (y[:-1], y[:, None], y[:0], y[0], np.arange(rows), y * 0))
    elif kind == 3:
        y = np.array([pick(rng, (0, "a", None, 1.5)) for _ in range(rows)], dtype=object)
    elif kind == 4:
        y = anything(rng)
    elif kind == 5:
        y = y.tolist()
    return y


def no_sentence(error: Exception) -> list[str]:
    """Say so if the text of an error is not one line."""
    return [] if str(error) and "\n" not in str(error) else [f"no sentence: {error!r}"]


def seen(value: Any) -> str:
    """Return what a value looks like, whatever it is."""
    try:
        return repr(value)
    except ValueError:
        return "a number of more than 4300 digits"


def frozen(value: Any) -> Any:
    """Return what tells later whether a value was changed."""
    if isinstance(value, np.ndarray):
        return np.asarray(value).tobytes(), value.dtype, value.shape, value.flags.writeable
    return seen(value)


def not_finite(value: Any, where: str = "") -> Iterator[str]:
    """Yield the places in an answer that hold NaN or infinity."""
    if isinstance(value, float | np.floating):
        # An activation without a finite Lipschitz constant says so.
        if not math.isfinite(value) and not where.endswith(".lipschitz"):
            yield f"{where} = {value}"
    elif isinstance(value, np.ndarray):
        if value.dtype.kind in "fc" and not np.isfinite(value).all():
            yield f"{where} has entries that are not finite"
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from not_finite(getattr(value, field.name), f"{where}.{field.name}")
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from not_finite(entry, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for place, entry in enumerate(value):
            yield from not_finite(entry, f"{where}[{place}]")
    elif isinstance(value, pd.DataFrame):
        for name in value.select_dtypes("number"):
            column = value[name].to_numpy(dtype=float)
            # An empty cell is one that does not apply; infinity is a number that was computed.
            if np.isinf(column).any():
                yield f"{where}: the column {name} has infinities"
