"""Real data where there are some, and tiny generated ones everywhere."""

import gzip
import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from deqcli.data import registry
from deqcli.data.registry import Download, Piece


def idx_bytes(values: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


@pytest.fixture(name="idx_bytes")
def _idx_bytes() -> Callable[[np.ndarray], bytes]:
    return idx_bytes


@dataclass
class Tiny:
    """A data folder of tiny data sets that go by the registered names."""

    root: Path
    arrays: dict[str, np.ndarray]
    contents: dict[str, bytes]

    def write(self, name: str, file: str, data: bytes) -> Path:
        path = self.root / registry.SOURCES[name].folders[0] / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


@pytest.fixture(name="tiny")
def _tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tiny:
    """Tiny MNIST (.gz), CIFAR-10 (plain) and VGG-19 features, with a registry to match."""
    monkeypatch.delenv("DEQCLI_DATA_DIR", raising=False)
    rng = np.random.default_rng(5)
    tiny = Tiny(tmp_path / "data", {}, {})
    for half, stem, count in (("train", "train", 60), ("test", "t10k", 20)):
        X = rng.integers(0, 256, (count, 4, 3))
        y = np.arange(count) % 10
        tiny.arrays |= {f"X_{half}": X, f"y_{half}": y}
        tiny.contents[f"{stem}-images-idx3-ubyte"] = idx_bytes(X)
        tiny.contents[f"{stem}-labels-idx1-ubyte"] = idx_bytes(y)
    for index, name in enumerate([f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]):
        records = rng.integers(0, 256, (10, 3073), dtype=np.uint8)
        records[:, 0] = (np.arange(10) + index) % 10
        tiny.contents[name] = records.tobytes()
    for half, count in (("train", 50), ("test", 10)):
        stream = io.BytesIO()
        np.save(stream, rng.standard_normal((count, 12)).astype(np.float16))
        tiny.contents[f"features-{half}-f16.npy"] = stream.getvalue()
    stream = io.BytesIO()
    np.savez(stream, y_train=np.arange(50) % 10, y_test=np.arange(10))
    tiny.contents["labels.npz"] = stream.getvalue()
    for name in registry.names():
        monkeypatch.setitem(registry.SOURCES, name, _shrunk(registry.SOURCES[name], tiny))
    return tiny


def _shrunk(source: registry.Source, tiny: Tiny) -> registry.Source:
    downloads = []
    for download in source.downloads:
        pieces = []
        for piece in download.pieces:
            if piece.name in tiny.contents:
                content = tiny.contents[piece.name]
                count = {"train": 60, "test": 20}[piece.split] if "idx" in piece.name else 10
                pieces.append(_piece(piece, content, count))
                if source.name == "mnist":
                    packed = gzip.compress(content, mtime=0)
                    tiny.write(source.name, download.filename, packed)
                    download = _download(download, packed)
                elif source.name != "fashion-mnist":
                    tiny.write(source.name, piece.name, content)
        downloads.append(replace(download, pieces=tuple(pieces)))
    return replace(source, downloads=tuple(downloads))


def _piece(piece: Piece, content: bytes, count: int) -> Piece:
    digest = hashlib.sha256(content).hexdigest()
    return replace(piece, size=len(content), sha256=digest, count=count)


def _download(download: Download, packed: bytes) -> Download:
    return replace(download, size=len(packed), sha256=hashlib.sha256(packed).hexdigest())
