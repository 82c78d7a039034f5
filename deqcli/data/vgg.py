r"""VGG-19's features of CIFAR-10: the flattened output of its 16th convolution, after ReLU.

For a 32x32 image as it is (no resizing): RGB to BGR, minus the mean colour of ImageNet, then five
blocks of 3x3 convolutions (zero padding 1) with ReLU, 2x2 max pooling between the blocks, and
:math:`2\times2\times512` values in (row, column, channel) order, rounded to float16. The weights
are those of the Caffe/Keras model, in a ``.npz`` of ``block5_conv4/kernel`` (height, width, in,
out) and ``block5_conv4/bias``.

Only this module needs torch (``pip install 'deqcli[vision]'``).
"""

from __future__ import annotations

import hashlib
import io
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli._version import __version__
from deqcli.data import images, registry
from deqcli.data.readers import read_npz
from deqcli.data.registry import Split
from deqcli.errors import DataError, InputError
from deqcli.runs.files import make_folder, write_bytes, write_json

LAYERS = tuple(
    f"block{block}_conv{layer}"
    for block, layers in enumerate((2, 2, 4, 4, 4), start=1)
    for layer in range(1, layers + 1)
)
_MEAN_BGR = (103.939, 116.779, 123.68)
_XZ_PRESET = 6

Weights = Mapping[str, NDArray[Any]]


def read_weights(path: Path) -> tuple[Weights, str]:
    """Read the kernels and biases of the 16 convolutions, with the sha256 of the file.

    Raises
    ------
    DataError
        If a layer is absent or its shape does not follow from the layer before.
    """
    keys = [f"{layer}/{kind}" for layer in LAYERS for kind in ("kernel", "bias")]
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            weights = read_npz(file, path, keys)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    channels = 3
    for layer in LAYERS:
        kernel, bias = weights[f"{layer}/kernel"], weights[f"{layer}/bias"]
        if not kernel.dtype.kind == bias.dtype.kind == "f":
            raise DataError(f"{path} has no floating-point numbers in {layer}.")
        if kernel.shape[:3] != (3, 3, channels) or kernel.shape[3:] != bias.shape:
            raise DataError(
                f"{path} has a kernel of shape {kernel.shape} and a bias of shape {bias.shape} "
                f"in {layer}; they must be (3, 3, {channels}, m) and (m,)."
            )
        channels = bias.size
    return weights, sha256


def features(pixels: NDArray[np.uint8], weights: Weights, batch: int = 256) -> NDArray[np.float16]:
    """Push images through the 16 convolutions.

    Parameters
    ----------
    pixels : ndarray of shape (n, 3072)
        CIFAR-10 images: R, G and B planes of 32x32.
    weights : mapping
        From `read_weights`.
    batch : int
        Images at a time; 256 take about 0.5 GiB.

    Returns
    -------
    ndarray of shape (n, 2048)
        In (row, column, channel) order.
    """
    torch = _torch()
    from tqdm import tqdm

    functional = torch.nn.functional
    network = [
        (
            layer,
            torch.from_numpy(weights[f"{layer}/kernel"].astype(np.float32)).permute(3, 2, 0, 1),
            torch.from_numpy(weights[f"{layer}/bias"].astype(np.float32)),
        )
        for layer in LAYERS
    ]
    mean = torch.tensor(_MEAN_BGR).view(1, 3, 1, 1)
    # 32 -> 2 pixels a side after four poolings
    result = np.empty((len(pixels), 2 * 2 * weights[f"{LAYERS[-1]}/bias"].size), np.float16)
    with torch.inference_mode(), tqdm(total=len(pixels), unit="image", disable=None) as progress:
        for start in range(0, len(pixels), batch):
            block = pixels[start : start + batch].astype(np.float32).reshape(-1, 3, 32, 32)
            x = torch.from_numpy(block).flip(1) - mean  # planes R, G, B become B, G, R
            for layer, kernel, bias in network:
                if layer.endswith("conv1") and layer != LAYERS[0]:
                    x = functional.max_pool2d(x, 2)
                x = functional.relu(functional.conv2d(x, kernel, bias, padding=1))
            rows = x.permute(0, 2, 3, 1).reshape(len(block), -1).numpy()
            result[start : start + len(block)] = rows
            progress.update(len(block))
    return result


def make(
    root: Path,
    weights: Path,
    *,
    out: Path | None = None,
    split: Split = "train",
    limit: int | None = None,
    batch: int = 256,
    force: bool = False,
) -> list[Path]:
    """Compute the features of one half of CIFAR-10 and write them as ``cifar10-vgg19`` has them.

    Writes ``features-SPLIT-f16.npy.xz``, adds ``y_SPLIT`` to ``labels.npz``, and last
    ``features-SPLIT-f16.json``, which says what they were made from; by its checksums they are
    accepted when they are loaded.

    Parameters
    ----------
    root : Path
        Data folder with CIFAR-10.
    weights : Path
        File for `read_weights`.
    out : Path, optional
        Where to write; ``cifar-10-vgg19`` in the data folder, if not given.
    split : {"train", "test"}
        Which half.
    limit : int, optional
        Only the first so many images.
    batch : int
        Images at a time.
    force : bool
        Replace features that are there.

    Returns
    -------
    list of Path
        The files written.
    """
    _torch()  # says that it is not installed before minutes of reading
    if batch < 1 or (limit is not None and limit < 1):
        raise InputError(f"`batch` ({batch}) and `limit` ({limit}) must be at least 1.")
    folder = out or root / registry.SOURCES["cifar10-vgg19"].folders[0]
    target = folder / f"features-{split}-f16.npy.xz"
    if target.exists() and not force:
        raise DataError(f"{target} exists: set `force` to replace it, or choose another `out`.")
    parameters, weights_sha256 = read_weights(weights)
    samples, checksums = images.read(registry.SOURCES["cifar10"], split, root)
    labels = _merge_labels(folder / "labels.npz", split, samples.y[:limit], force)
    values = features(samples.X[:limit], parameters, batch)

    make_folder(folder)
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=False)
    content = stream.getvalue()
    packed = lzma.compress(content, preset=_XZ_PRESET)
    write_bytes(target, packed)
    write_bytes(folder / "labels.npz", labels)
    record = {
        "schema": 1,
        "what": "VGG-19 features of CIFAR-10: 16th convolution, after ReLU, before pooling",
        "split": split,
        "samples": len(values),
        "images": checksums,
        "weights": {weights.name: weights_sha256},
        "files": {
            target.name: _checksums(packed, content),
            "labels.npz": _checksums(labels, labels),
        },
        "versions": {
            "deqcli": __version__,
            "numpy": np.__version__,
            "torch": str(_torch().__version__),
        },
    }
    write_json(target.with_name(f"features-{split}-f16.json"), record)
    return [target, folder / "labels.npz", target.with_name(f"features-{split}-f16.json")]


def _merge_labels(path: Path, split: Split, y: NDArray[np.int64], force: bool) -> bytes:
    """``labels.npz`` with this half's labels in it and the other half's kept."""
    key = f"y_{split}"
    arrays: dict[str, Any] = {}
    if path.exists():
        content = path.read_bytes()
        arrays = read_npz(io.BytesIO(content), path)
        if key in arrays and np.array_equal(arrays[key], y):
            return content  # so that a published file stays as it is
        if key in arrays and not force:
            raise DataError(
                f"{path} has other labels for {split}: set `force` to replace them, or choose "
                "another `out`."
            )
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays | {key: y.astype(np.uint8)})
    return stream.getvalue()


def _checksums(packed: bytes, content: bytes) -> dict[str, str]:
    return {
        "sha256": hashlib.sha256(packed).hexdigest(),
        "content_sha256": hashlib.sha256(content).hexdigest(),
    }


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise InputError(
            "VGG-19 features need torch, which is not installed: pip install 'deqcli[vision]'."
        ) from None
    return torch
