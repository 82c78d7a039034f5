"""The interface that the README and users rely on; a change here is a change for them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, eigsh

import deqcli
from deqcli.errors import ActivationError


def test_the_promised_calls():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 30)) / np.sqrt(30), np.repeat([0, 1], 20)
    act = deqcli.activation("lrelu:slope=0.3")
    act = act.centred(sigma_a2=0.2, sigma_b2=0.8, tau0=1.0)
    assert act.shift > 0
    assert act.shifted(0.25).shift == 0.25
    k = deqcli.implicit_kernels(X, act, sigma_a2=0.2, sigma_b2=0.8)
    for matrix in (k.ck, k.preactivation_ck, k.ntk, k.preactivation_ntk):
        assert matrix.shape == (40, 40)
        assert matrix.dtype == np.float64
    e = deqcli.explicit_kernels(X, [act, deqcli.activation("tanh")])
    assert e.ck.shape == e.ntk.shape == (40, 40)
    s = deqcli.implicit_scalars(act, sigma_a2=0.2, sigma_b2=0.8, tau0=1.0)
    columns = [
        "activation",
        "sigma_a2",
        "sigma_b2",
        "tau0",
        "tau",
        "shift",
        "m1",
        "m2",
        "s",
        "r",
        "gamma2",
        "alpha1",
        "alpha2",
        "alpha3",
        "alpha4",
        "ell1",
        "ell2",
        "ell3",
        "beta1",
        "beta2",
        "beta3",
        "kappa2",
    ]
    assert all(hasattr(s, name) for name in columns)
    assert s.shift == pytest.approx(act.shift, rel=1e-12)
    q = deqcli.explicit_scalars([act, act], tau0=1.0)
    names = ["alpha1", "alpha2", "alpha3", "alpha4", "tau2", "beta1", "beta2", "beta3", "kappa2"]
    assert all(hasattr(q, name) for name in names)
    for kernel in ("ck", "preactivation_ck", "ntk", deqcli.Kernel.PREACTIVATION_NTK):
        M = deqcli.equivalent(X, y, s, kernel=kernel)
        assert isinstance(M, LinearOperator)
        np.testing.assert_allclose(M.eigenvalues(), np.linalg.eigvalsh(M.dense()), atol=1e-12)
        top = eigsh(M, k=1, return_eigenvectors=False)[0]
        assert top == pytest.approx(M.eigenvalues()[-1])
    twin = deqcli.match("relu", 0.2)
    assert all(isinstance(a, deqcli.Activation) for a in twin.acts)


def test_a_study_is_a_call():
    result = deqcli.run("spectrum", n=30, p=40, estimator="exact", kernel="ntk", jobs=1)
    assert (result.status, result.exit_code, result.paths) == ("done", 0, ())
    assert list(result.findings["distances"]) == ["exact"]
    assert sorted(set(result.table["source"])) == ["equivalent", "exact", "law", "own-norm"]
    assert result.settings.kernel is deqcli.Kernel.NTK
    assert result.figure().axes


def test_unknown_activation_lists_close_names():
    with pytest.raises(ActivationError, match="did you mean tanh"):
        deqcli.activation("tahn")


def test_everything_public_is_there_and_documented():
    for name in deqcli.__all__:
        assert getattr(deqcli, name).__doc__, name
    assert set(dir(deqcli)) == set(deqcli.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = deqcli.nonsense
