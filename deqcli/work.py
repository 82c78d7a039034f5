"""How many multiplications the parts of a study are, for an estimate of its time.

What is no matrix product counts as the multiplications of one that takes as long.
"""

from __future__ import annotations

from deqcli.vocabulary import Kernel


def work_of_kernel(n: int, p: int) -> float:
    """Of an exact kernel: inner products, and at each the value of an interpolated function."""
    return float(n) * n * (p + 1500)


def work_of_spectrum(n: int) -> float:
    """Of all eigenvalues of a symmetric matrix, which runs at a fraction of the usual speed."""
    return 6.0 * n**3


def work_of_networks(n: int, p: int, width: int, kernel: Kernel) -> float:
    """Of one random network on n samples: its weights, some ten iterations, a Gram matrix.

    In single precision, twice as fast; tangent kernels have a second equation.
    """
    solves = 2 if kernel.explicit is Kernel.NTK else 1
    drawn = 40.0 * width * (width + p)
    return drawn + n * width * (p + 10.0 * solves * width + solves * n) / 2
