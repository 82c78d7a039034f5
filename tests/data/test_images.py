import json
import socket

import numpy as np
import pytest

from deqcli.data import images, registry
from deqcli.errors import DataError, InputError


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """Loading never opens a connection."""

    def refuse(*args, **kwargs):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def rng():
    return np.random.default_rng(3)


def test_rows_come_class_by_class_in_file_order(tiny):
    train, test = images.load(
        "mnist", classes=(8, 6), n=7, select="first", preprocess="raw", data_dir=tiny.root
    )
    X, y = tiny.arrays["X_train"].reshape(60, -1), tiny.arrays["y_train"]
    rows = [*np.flatnonzero(y == 8)[:4], *np.flatnonzero(y == 6)[:3]]
    np.testing.assert_array_equal(train.X, X[rows])
    assert train.y.tolist() == [0] * 4 + [1] * 3
    assert (train.classes, train.n_classes, test) == (("8", "6"), 2, None)


def test_details_are_json_and_say_what_was_done(tiny):
    train, test = images.load(
        "mnist", classes=(6, 8), n=6, n_test=2, select="first", data_dir=tiny.root
    )
    source = registry.SOURCES["mnist"]
    details = json.loads(json.dumps(train.details))
    assert details.pop("scale") > 0
    assert details.pop("mean_norm") > 0
    assert details == {
        "split": "train",
        "files": {item.filename: item.sha256 for item in source.downloads[:2]},
        "select": "first",
        "classes": ["6", "8"],
        "counts": [3, 3],
        "preprocess": "centred",
    }
    assert test.details["files"] == {item.filename: item.sha256 for item in source.downloads[2:]}
    assert (test.details["split"], test.details["counts"]) == ("test", [1, 1])
    assert test.details["scale"] == train.details["scale"]


def test_train_and_test_are_apart_and_share_the_statistics_of_train(tiny):
    train, test = images.load("mnist", n_test=0, data_dir=tiny.root)
    raw_train, raw_test = images.load("mnist", n_test=0, preprocess="raw", data_dir=tiny.root)
    assert (train.n_samples, test.n_samples) == (60, 20)
    mean = raw_train.X.mean(axis=0)
    scale = np.sqrt(np.mean(np.sum((raw_train.X - mean) ** 2, axis=1)))
    np.testing.assert_allclose(train.X, (raw_train.X - mean) / scale)
    np.testing.assert_allclose(test.X, (raw_test.X - mean) / scale)
    assert train.details["select"] == test.details["select"] == "all"


def test_random_selection_is_keyed_nested_and_leaves_the_test_set_alone(tiny):
    def load(n, generator, preprocess="raw"):
        return images.load(
            "mnist", n=n, n_test=10, rng=generator, preprocess=preprocess, data_dir=tiny.root
        )

    def rows(data):
        return {tuple(row) for row in data.X}

    small, test = load(20, rng())
    again, _ = load(20, rng())
    large, test_of_large = load(40, rng())
    every, test_of_all = load(None, rng())
    np.testing.assert_array_equal(small.X, again.X)
    assert rows(small) < rows(large) < rows(every)
    np.testing.assert_array_equal(test.X, test_of_large.X)
    np.testing.assert_array_equal(test.X, test_of_all.X)
    other, _ = load(20, np.random.default_rng(4))
    assert rows(other) != rows(small)
    assert small.details["counts"] == [2] * 10


def test_random_selection_needs_a_generator(tiny):
    for sizes in ({"n": 20}, {"n_test": 10}):
        with pytest.raises(InputError, match="rng"):
            images.load("mnist", data_dir=tiny.root, **sizes)


def test_selections_that_cannot_be_made_are_told(tiny):
    def load(name="mnist", **options):
        images.load(name, select="first", data_dir=tiny.root, **options)

    with pytest.raises(DataError, match=r"`n` is 14, more samples .*7 of class 6 \(6 there\)"):
        load(classes=(6, 8), n=14)
    with pytest.raises(DataError, match="`test_size` is 30, more"):
        load(n_test=30)
    with pytest.raises(InputError, match="no class '11'"):
        load(classes=(11,))
    with pytest.raises(InputError, match="leave out ':test'"):
        load("mnist:test", n_test=5)
    with pytest.raises(InputError, match="take one of centred"):
        load(preprocess="white")
    with pytest.raises(DataError, match="no data set 'minst'"):
        load("minst")


def test_the_variable_leads_to_the_folder(tiny, monkeypatch):
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(tiny.root))
    train, _ = images.load("cifar10-vgg19", classes=("cat", "dog"))
    assert train.X.shape == (10, 12)
    assert train.classes == ("cat", "dog")


def test_features_and_labels_must_match(tiny):
    place = tiny.root / "cifar-10-vgg19" / "labels.npz"
    np.savez(place, y_train=np.zeros(49, np.uint8), y_test=np.zeros(10, np.uint8))
    with pytest.raises(DataError, match=r"labels\.npz has 49 labels for the 50 samples"):
        images.load("cifar10-vgg19", data_dir=tiny.root)
    for labels in (["cat"] * 50, np.zeros((50, 2), int), np.zeros(50)):
        np.savez(place, y_train=labels)
        with pytest.raises(DataError, match=r"labels\.npz has labels of type"):
            images.load("cifar10-vgg19", data_dir=tiny.root)


class TestOwnFile:
    @pytest.fixture
    def own(self, tmp_path):
        path = tmp_path / "own.npz"
        np.savez(path, X=np.arange(40.0).reshape(20, 2), y=["a", "b"] * 10)
        return path

    def load(self, path, **options):
        return images.load(path, preprocess="raw", select="first", **options)

    def test_whole(self, own):
        train, test = self.load(str(own))
        assert (train.n_samples, train.classes, test) == (20, ("a", "b"), None)
        assert (train.name, list(train.details["files"])) == (str(own), ["own.npz"])

    def test_the_last_of_each_class_are_split_off(self, own):
        train, test = self.load(own, n_test=4)
        assert train.X[:, 0].tolist() == [*range(0, 32, 4), *range(2, 34, 4)]
        assert test.X[:, 0].tolist() == [32, 36, 34, 38]
        smaller, same = self.load(own, n=6, n_test=4)
        assert smaller.X[:, 0].tolist() == [0, 4, 8, 2, 6, 10]
        np.testing.assert_array_equal(same.X, test.X)

    def test_zero_means_all_that_is_left(self, own):
        train, test = self.load(own, n=6, n_test=0)
        assert (train.n_samples, test.n_samples) == (6, 14)
        with pytest.raises(InputError, match="no test half of its own: `n` or `test_size`"):
            self.load(own, n_test=0)

    def test_halves_never_meet(self, own):
        train, test = images.load(own, n=10, n_test=10, rng=rng(), preprocess="raw")
        assert sorted([*train.X[:, 0], *test.X[:, 0]]) == list(range(0, 40, 2))

    def test_nothing_left_is_told(self, own):
        with pytest.raises(DataError, match="without a sample"):
            self.load(own, n_test=20)
        with pytest.raises(DataError, match=r"`n` is 12, more .*6 of class a \(5 there\)"):
            self.load(own, n=12, n_test=10)


class TestRealData:
    def test_mnist_six_against_eight(self, real_data):
        train, _ = images.load("mnist", classes=(6, 8), n=6000, select="first", data_dir=real_data)
        assert train.X.shape == (6000, 784)
        assert train.details["counts"] == [3000, 3000]
        np.testing.assert_allclose(train.X.mean(axis=0), 0, atol=1e-13)
        assert np.mean(np.sum(train.X**2, axis=1)) == pytest.approx(1, rel=1e-13)
        # By exact integer sums over the bytes of the file, apart from numpy and this code.
        assert train.details["scale"] == pytest.approx(1802.688474293434, rel=1e-12)

    @pytest.mark.parametrize(
        ("name", "mean", "deviation", "counts"),
        [
            # Published: means and deviations of pixels/255, samples a class.
            (
                *("mnist", 0.13066, 0.30811),
                [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
            ),
            ("fashion-mnist", 0.28604, 0.35302, [6000] * 10),
        ],
    )
    def test_published_statistics(self, real_data, name, mean, deviation, counts):
        samples, _ = images.read(registry.SOURCES[name], "train", real_data)
        assert np.bincount(samples.y).tolist() == counts
        assert samples.X.dtype == np.uint8
        assert samples.X.mean() / 255 == pytest.approx(mean, abs=5e-6)
        # Over all samples: MNIST alternates two kinds of writers, so every tenth is no fair sample.
        assert samples.X.std() / 255 == pytest.approx(deviation, abs=5e-6)

    def test_cifar_test_half_and_its_features_have_the_same_labels(self, real_data):
        pixels, _ = images.read(registry.SOURCES["cifar10"], "test", real_data)
        features, _ = images.read(registry.SOURCES["cifar10-vgg19"], "test", real_data)
        np.testing.assert_array_equal(pixels.y, features.y)
        assert (pixels.X.shape, features.X.shape) == ((10_000, 3072), (10_000, 2048))
        assert features.X.dtype == np.float16
        # About 10 % of the entries are said to be non-zero, the largest 348.
        assert np.count_nonzero(features.X[::20]) / features.X[::20].size == pytest.approx(
            0.1, abs=0.02
        )
