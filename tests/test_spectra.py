"""Operator norms and eigenvalues."""

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

from deqcli.equivalents import eigenvalues, operator_distance, operator_norm


def symmetric(n, seed=0):
    M = np.random.default_rng(seed).standard_normal((n, n))
    return (M + M.T) / 2


@pytest.mark.parametrize("n", [3, 199, 260])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_norm_is_the_largest_absolute_eigenvalue(n, sign, tol):
    M = symmetric(n) + sign * 30 * np.ones((n, n)) / n
    exact = np.abs(np.linalg.eigvalsh(M)).max()
    assert operator_norm(M) == pytest.approx(exact, rel=tol("routes"))
    assert operator_norm(aslinearoperator(M)) == pytest.approx(exact, rel=tol("routes"))
    assert operator_norm(M) == operator_norm(M)


@pytest.mark.parametrize("n", [50, 300])
def test_distances(n, tol):
    A, B = symmetric(n, 1), symmetric(n, 2)
    exact = np.linalg.norm(A - B, 2)
    assert operator_distance(A, B) == pytest.approx(exact, rel=tol("routes"))
    assert operator_distance(aslinearoperator(A), B) == pytest.approx(exact, rel=tol("routes"))
    assert operator_distance(A, A) == 0.0
    assert operator_norm(np.zeros((n, n))) == 0.0


def test_close_norms_of_both_signs_are_resolved(tol):
    n = 300
    basis = np.linalg.qr(symmetric(n))[0]
    values = np.linspace(-1, 1, n)
    values[0] = -1.0001
    assert operator_norm((basis * values) @ basis.T) == pytest.approx(1.0001, rel=1e-9)


def test_eigenvalues_ascend(tol):
    M = symmetric(40)
    np.testing.assert_allclose(eigenvalues(M), np.linalg.eigvalsh(M), atol=tol("quadrature"))
