import json
import sys

import numpy as np
import pytest
from scipy.signal import correlate2d

from deqcli.data import folder, images, registry, vgg
from deqcli.errors import DataError, InputError

REASON = "torch is not installed: pip install 'deqcli[vision]'"


def small_weights(rng, channels=3):
    """A VGG-19 with few channels: same layers, same formula."""
    weights, before = {}, 3
    for layer in vgg.LAYERS:
        # He's scale keeps the activations of size one through 16 layers
        kernel = rng.standard_normal((3, 3, before, channels)) * np.sqrt(2 / (9 * before))
        weights[f"{layer}/kernel"] = kernel.astype(np.float16)
        weights[f"{layer}/bias"] = rng.standard_normal(channels).astype(np.float32)
        before = channels
    return weights


@pytest.fixture
def weights_file(tmp_path):
    path = tmp_path / "weights.npz"
    np.savez(path, **small_weights(np.random.default_rng(8)))
    return path


def by_hand(pixels, weights):
    """The same network for one image, by scipy and loops."""
    x = pixels.reshape(3, 32, 32).astype(float)[::-1]
    x = x - np.array([103.939, 116.779, 123.68])[:, None, None]
    for layer in vgg.LAYERS:
        if layer.endswith("conv1") and layer != "block1_conv1":
            _, height, width = x.shape
            x = x.reshape(-1, height // 2, 2, width // 2, 2).max(axis=(2, 4))
        kernel, bias = (weights[f"{layer}/{kind}"].astype(float) for kind in ("kernel", "bias"))
        x = np.array(
            [
                sum(correlate2d(x[i], kernel[:, :, i, o], "same") for i in range(len(x))) + bias[o]
                for o in range(len(bias))
            ]
        ).clip(0)
    return x.transpose(1, 2, 0).ravel()


def test_there_are_sixteen_convolutions():
    assert len(vgg.LAYERS) == 16
    assert (vgg.LAYERS[0], vgg.LAYERS[-1]) == ("block1_conv1", "block5_conv4")


def test_features_agree_with_loops():
    pytest.importorskip("torch", reason=REASON)
    rng = np.random.default_rng(8)
    weights = small_weights(rng)
    pixels = rng.integers(0, 256, (5, 3072), dtype=np.uint8)
    computed = vgg.features(pixels, weights, batch=2)
    assert (computed.shape, computed.dtype) == ((5, 12), np.float16)
    expected = np.array([by_hand(image, weights) for image in pixels])
    assert np.count_nonzero(expected) > expected.size / 5
    # float16 rounds to 2^-11, and float32 arithmetic adds far less
    np.testing.assert_allclose(computed, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_first_64_test_images_agree_with_the_shared_features(real_data):
    pytest.importorskip("torch", reason=REASON)
    path = real_data / "cifar-10-vgg19" / "vgg19-conv-weights-f16.npz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not among the real data")
    weights, _ = vgg.read_weights(path)
    pixels, _ = images.read(registry.SOURCES["cifar10"], "test", real_data)
    shared, _ = images.read(registry.SOURCES["cifar10-vgg19"], "test", real_data)
    computed = vgg.features(pixels.X[:64], weights, batch=32).astype(float)
    expected = shared.X[:64].astype(float)
    # The shared ones were made with float32 weights; rounding these to float16 costs 5e-4.
    assert np.linalg.norm(computed - expected) < 1e-3 * np.linalg.norm(expected)


class TestMaking:
    @pytest.fixture(autouse=True)
    def _needs_torch(self):
        pytest.importorskip("torch", reason=REASON)

    def test_what_is_made_is_loaded(self, tiny, weights_file):
        place = tiny.root / "cifar-10-vgg19"
        for path in place.iterdir():
            path.unlink()
        written = [
            path
            for split in ("train", "test")
            for path in vgg.make(tiny.root, weights_file, split=split)
        ]
        assert {path.name for path in written} == {path.name for path in place.iterdir()}
        train, test = images.load("cifar10-vgg19", n_test=0, data_dir=tiny.root)
        pixels, _ = images.load("cifar10", data_dir=tiny.root)
        assert (train.n_samples, test.n_samples) == (50, 10)
        assert train.y.tolist() == pixels.y.tolist()
        record = json.loads((place / "features-test-f16.json").read_text())
        assert record["samples"] == 10
        assert list(record["images"]) == ["test_batch.bin"]
        assert list(record["weights"]) == ["weights.npz"]
        assert record["files"]["labels.npz"]["sha256"] == train.details["files"]["labels.npz"]
        reports = folder.verify(registry.SOURCES["cifar10-vgg19"], tiny.root)
        assert {item.verdict for item in reports} == {"made by deqcli data features"}

    def test_nothing_is_replaced_unasked(self, tiny, tmp_path, weights_file):
        out = tmp_path / "out"
        first = vgg.make(tiny.root, weights_file, out=out, split="test", limit=3)
        with pytest.raises(DataError, match="exists: set `force`"):
            vgg.make(tiny.root, weights_file, out=out, split="test")
        before = first[0].read_bytes()
        vgg.make(tiny.root, weights_file, out=out, split="test", force=True)
        assert first[0].read_bytes() != before
        with np.load(out / "labels.npz") as labels:
            assert labels["y_test"].shape == (10,)
        first[0].unlink()
        with pytest.raises(DataError, match="other labels for test"):
            vgg.make(tiny.root, weights_file, out=out, split="test", limit=3)

    def test_labels_that_agree_stay_byte_for_byte(self, tiny, tmp_path, weights_file):
        out = tmp_path / "out"
        out.mkdir()
        samples, _ = images.read(registry.SOURCES["cifar10"], "test", tiny.root)
        np.savez(out / "labels.npz", y_train=np.arange(3), y_test=samples.y.astype(np.uint8))
        before = (out / "labels.npz").read_bytes()
        vgg.make(tiny.root, weights_file, out=out, split="test")
        assert (out / "labels.npz").read_bytes() == before

    def test_bad_weights_are_told(self, tiny, weights_file):
        weights = small_weights(np.random.default_rng(0))
        weights["block3_conv2/kernel"] = weights["block3_conv2/kernel"][:, :, :2]
        np.savez(weights_file, **weights)
        with pytest.raises(DataError, match=r"kernel of shape \(3, 3, 2, 3\).*block3_conv2"):
            vgg.make(tiny.root, weights_file)
        del weights["block5_conv4/bias"]
        np.savez(weights_file, **weights)
        with pytest.raises(DataError, match="has no array block5_conv4/bias"):
            vgg.make(tiny.root, weights_file)
        with pytest.raises(DataError, match="cannot be read"):
            vgg.make(tiny.root, weights_file.with_name("none.npz"))
        with pytest.raises(InputError, match="at least 1"):
            vgg.make(tiny.root, weights_file, batch=0)


def test_without_torch_there_is_one_sentence(tiny, weights_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install 'deqcli\[vision\]'"):
        vgg.make(tiny.root, weights_file)
