"""Where samples come from, by the settings that name it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from deqcli.data import images, registry
from deqcli.errors import InputError
from deqcli.models import deq_model
from deqcli.runs.seeds import stream
from deqcli.shared_settings import SampleSettings
from deqcli.vocabulary import Kernel


def load(settings, *names):
    return settings.law(settings.p).load(partial(stream, settings.seed, *names), settings.n)


@pytest.fixture
def own_file(tmp_path):
    """Nine samples of two classes of different size."""
    path = tmp_path / "a.npz"
    X = np.random.default_rng(0).standard_normal((9, 3))
    np.savez(path, X=X, y=np.repeat(["a", "b"], [6, 3]))
    return path


def test_defaults_are_the_papers():
    settings = SampleSettings()
    assert settings.identity() == {
        "seed": 0, "data": "gmm", "n": 800, "p": 1000, "mean_norm": 8.0, "covariance": "papers",
    }  # fmt: skip
    assert settings.law(1000).class_names == ("1", "2")
    assert settings.shape == (800, 1000)


def test_samples_follow_the_seed_and_the_names_only():
    settings = SampleSettings(n=20, p=30, seed=3)
    first, again = load(settings, "spectrum").data.X, load(settings, "spectrum").data.X
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first, load(settings, "error-vs-n").data.X).any()


@pytest.mark.parametrize("data", ["gmm", "sphere"])
def test_halves_are_drawn_apart(data):
    law = SampleSettings(data=data, n=20, p=30).law(30)
    train, test = law.load_halves(partial(stream, 0), 20, 12)
    assert (train.X.shape, test.X.shape) == ((20, 30), (12, 30))
    assert not np.isclose(train.X[:12], test.X).any()
    assert law.load_halves(partial(stream, 0), 20, 0)[1].n_samples == 20


def test_toeplitz_mixture_has_its_statistics():
    statistics = load(SampleSettings(n=40, p=60, covariance="toeplitz:0.5", mean_norm=0)).statistics
    assert statistics is not None
    lags = np.abs(np.subtract.outer(np.arange(60), np.arange(60)))
    assert statistics.T[0, 0] == pytest.approx(np.sum(0.25**lags) / 60)


def test_identity_mixture_has_no_covariance_contrast():
    statistics = load(SampleSettings(n=40, p=60, covariance="identity")).statistics
    assert statistics is not None
    np.testing.assert_allclose(statistics.t, 0, atol=1e-12)


def test_sphere_is_used_uncentred():
    model = deq_model(load(SampleSettings(data="sphere", n=30, p=40)), "nrelu", 0.2, 0.8)
    assert model.act.shift == 0
    assert model.scalars is None
    assert model.equivalent(Kernel.PREACTIVATION_CK).factor.shape == (30, 1)


def test_a_changed_file_changes_the_inputs(own_file):
    settings = SampleSettings(data=str(own_file))
    before = settings.inputs()
    np.savez(own_file, X=np.ones((9, 3)), y=np.repeat(["a", "b"], [6, 3]))
    assert settings.inputs() != before
    assert set(before) == {"sha256"}


def test_a_file_counts_by_its_name_and_content_not_its_folder(own_file, tmp_path):
    (tmp_path / "moved").mkdir()
    moved = tmp_path / "moved" / own_file.name
    moved.write_bytes(own_file.read_bytes())
    here, there = SampleSettings(data=str(own_file)), SampleSettings(data=str(moved))
    assert here.identity() == there.identity()
    assert here.inputs() == there.inputs()


def test_all_samples_of_unequal_classes(own_file):
    settings = SampleSettings(data=str(own_file), preprocess="raw")
    assert settings.shape == (9, 3)
    assert settings.law().class_names == ("a", "b")
    with np.load(own_file) as stored:
        expected = np.sort(stored["X"], axis=0)
    np.testing.assert_array_equal(np.sort(load(settings).data.X, axis=0), expected)


def test_memory_is_that_of_the_classes_taken(own_file):
    """Of two digits of MNIST there are 13 thousand at most, and not 60."""
    assert SampleSettings(data="mnist", classes="1,7").shape == (14_400, 784)
    assert SampleSettings(data="mnist").shape == (60_000, 784)
    assert SampleSettings(data="mnist:test").shape == (10_000, 784)
    assert SampleSettings(data=str(own_file), classes="b").shape == (3, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_no_class_has_much_more_than_its_share(real_data, name):
    for split in ("train", "test"):
        samples, _ = images.read(registry.find(name)[0], split, real_data)
        counts = np.bincount(samples.y)
        assert counts.max() <= 1.2 * counts.mean()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"p": 5}, "`p` is 5, too small for 2 classes; give 9 or more"),
        ({"covariance": "round"}, "`covariance` is 'round'; choose papers, identity or toeplitz:R"),
        ({"covariance": "toeplitz:1"}, r"toeplitz:R with \|R\| < 1"),
        ({"covariance": "papers:2"}, "`covariance`"),
        ({"classes": "0"}, "`classes` is 0; a mixture takes the number of its classes"),
        ({"classes": "1,2"}, "`classes` is 1,2; a mixture takes the number"),
        ({"classes": "two"}, "`classes` is two"),
        (
            {"data": "sphere", "classes": "2"},
            "`classes` is 2; points on the sphere have no classes",
        ),
        ({"data": "minst"}, "`data` is 'minst'; did you mean mnist?"),
        ({"data": "nope"}, "choose from gmm, sphere, mnist, .* a .npz or .csv file"),
        ({"data": "absent.npz"}, "`data` is absent.npz; there is no such file"),
        ({"data": "mnist", "classes": "0,11"}, "no class '11'; `classes` may be 0, 1"),
        ({"data": "mnist", "p": 784}, "`p` is 784; the data 'mnist' has its own dimension"),
    ],
)
def test_bad_settings(changes, words):
    with pytest.raises(InputError, match=words):
        SampleSettings(**changes)
