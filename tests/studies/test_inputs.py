from __future__ import annotations

import numpy as np
import pytest

from deqcli.errors import InputError
from deqcli.studies import inputs


def resolve(**changes):
    settings = {
        "data": "gmm", "n": None, "p": None, "classes": None, "mean_norm": 8.0,
        "covariance": "papers", "select": "random", "preprocess": "centred",
    }  # fmt: skip
    return inputs.resolve(**{**settings, **changes})


def test_defaults_are_the_papers():
    assert resolve() == {
        "data": "gmm", "n": 800, "p": 1000, "classes": 2, "mean_norm": 8.0, "covariance": "papers",
    }  # fmt: skip


def test_samples_follow_the_seed_and_the_names_only():
    spec = {**resolve(n=20, p=30), "seed": 3}
    first, again = inputs.load(spec, "spectrum"), inputs.load(spec, "spectrum")
    other = inputs.load(spec, "error-vs-n")
    np.testing.assert_array_equal(first.data.X, again.data.X)
    assert not np.array_equal(first.data.X, other.data.X)


def test_toeplitz_mixture_has_its_statistics():
    spec = {**resolve(n=40, p=60, covariance="toeplitz:0.5", mean_norm=0.0), "seed": 0}
    statistics = inputs.load(spec).statistics
    assert statistics is not None
    lags = np.abs(np.subtract.outer(np.arange(60), np.arange(60)))
    assert statistics.T[0, 0] == pytest.approx(np.sum(0.25**lags) / 60)


def test_identity_mixture_has_no_covariance_contrast():
    statistics = inputs.load({**resolve(n=40, p=60, covariance="identity"), "seed": 0}).statistics
    assert statistics is not None
    np.testing.assert_allclose(statistics.t, 0, atol=1e-12)


def test_sphere_is_used_uncentred():
    loaded = inputs.load({**resolve(data="sphere", n=30, p=40), "seed": 0})
    model = inputs.model(loaded, "nrelu", 0.2, 0.8)
    assert model.act.shift == 0
    assert model.scalars is None
    assert model.equivalent("preactivation_ck").factor.shape == (30, 1)


def test_a_changed_file_changes_the_spec(tmp_path):
    path = tmp_path / "a.npz"
    rng = np.random.default_rng(0)
    np.savez(path, X=rng.standard_normal((6, 3)), y=np.repeat([0, 1], 3))
    first = resolve(data=str(path))
    np.savez(path, X=rng.standard_normal((6, 3)), y=np.repeat([0, 1], 3))
    assert first["sha256"] != resolve(data=str(path))["sha256"]


def test_all_samples_of_unequal_classes(tmp_path):
    path = tmp_path / "a.npz"
    X = np.random.default_rng(0).standard_normal((9, 3))
    np.savez(path, X=X, y=np.repeat(["a", "b"], [6, 3]))
    spec = resolve(data=str(path), preprocess="raw")
    assert inputs.size(spec) == 9
    loaded = inputs.load({**spec, "seed": 0})
    np.testing.assert_array_equal(np.sort(loaded.data.X, axis=0), np.sort(X, axis=0))


@pytest.mark.parametrize("changes", [{"p": 5}, {"covariance": "round"}, {"classes": "0"}])
def test_bad_settings(changes):
    with pytest.raises(InputError):
        resolve(**changes)
