import gzip
import hashlib
import io
import json
import lzma
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from deqcli.data import folder, images, registry
from deqcli.errors import DataError

IMAGES = "train-images-idx3-ubyte"


def test_the_folder_is_the_given_one_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("DEQCLI_DATA_DIR", "~/from-variable")
    assert folder.data_dir("given") == Path("given")
    assert folder.data_dir() == Path.home() / "from-variable"
    monkeypatch.setenv("DEQCLI_DATA_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder.data_dir().name == "deqcli"


def test_missing_files_are_told_with_everything_one_needs(tiny):
    source = registry.SOURCES["mnist"]
    path = tiny.root / "mnist" / f"{IMAGES}.gz"
    path.unlink()
    with pytest.raises(DataError) as caught:
        folder.locate(source, "train", tiny.root)
    for word in (
        path.name,
        source.downloads[0].sha256,
        str(path.parent),
        "DEQCLI_DATA_DIR",
        "`data_dir`",
        "`deqcli data fetch mnist`",
        "mnist:test",
    ):
        assert word in str(caught.value)
    assert "labels" not in str(caught.value)


def test_missing_cifar_batches_are_named_and_the_test_half_offered(tiny):
    for index in range(1, 6):
        (tiny.root / "cifar-10" / f"data_batch_{index}.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_1\.bin.*data_batch_5\.bin.*cifar10:test"):
        images.load("cifar10", data_dir=tiny.root)
    train, test = images.load("cifar10:test", data_dir=tiny.root)
    assert (train.n_samples, test) == (10, None)


def test_derived_files_are_to_be_made_not_fetched(tiny):
    (tiny.root / "cifar-10-vgg19" / "features-train-f16.npy").unlink()
    with pytest.raises(DataError, match="deqcli data features cifar10 --weights"):
        images.load("cifar10-vgg19", data_dir=tiny.root)


@pytest.mark.parametrize(
    ("suffix", "pack", "verdict"),
    [
        ("", bytes, "content as published"),
        (".gz", lambda data: gzip.compress(data, mtime=0), "as published"),
        (".gz", lambda data: gzip.compress(data, 1, mtime=7), "content as published"),
        (".xz", lzma.compress, "content as published"),
    ],
)
def test_any_packing_of_the_content_is_accepted(tiny, suffix, pack, verdict):
    (tiny.root / "mnist" / f"{IMAGES}.gz").unlink()
    path = tiny.write("mnist", IMAGES + suffix, pack(tiny.contents[IMAGES]))
    report = folder.verify(registry.SOURCES["mnist"], tiny.root)[0]
    assert (report.path, report.ok, report.verdict) == (path, True, verdict)
    train, _ = images.load("mnist", data_dir=tiny.root)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert train.details["files"][path.name] == digest


def test_the_layout_of_torchvision_is_accepted(tiny):
    (tiny.root / "MNIST").mkdir()
    (tiny.root / "mnist").rename(tiny.root / "MNIST" / "raw")
    assert all(item.ok for item in folder.verify(registry.SOURCES["mnist"], tiny.root))


@pytest.mark.parametrize("packing", [".xz", "tar"])
def test_cifar_is_read_from_xz_and_from_the_archive(tiny, packing):
    plain, _ = images.load("cifar10", data_dir=tiny.root, preprocess="raw")
    place = tiny.root / "cifar-10"
    with tarfile.open(place / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for path in sorted(place.glob("*.bin")):
            data = path.read_bytes()
            path.unlink()
            if packing == ".xz":
                path.with_suffix(".bin.xz").write_bytes(lzma.compress(data))
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{path.name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    packed, _ = images.load("cifar10", data_dir=tiny.root, preprocess="raw")
    assert (packed.X == plain.X).all()
    assert (packed.y == plain.y).all()
    assert len(packed.details["files"]) == (5 if packing == ".xz" else 1)
    assert all(item.ok for item in folder.verify(registry.SOURCES["cifar10"], tiny.root))


def test_a_wrong_checksum_is_told_with_the_file_and_the_remedy(tiny):
    content = bytearray(tiny.contents[IMAGES])
    content[-1] ^= 1
    path = tiny.write("mnist", f"{IMAGES}.gz", gzip.compress(bytes(content)))
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(DataError, match=rf"{path} has the wrong checksum.*{digest}.*data fetch"):
        images.load("mnist", data_dir=tiny.root)
    reports = folder.verify(registry.SOURCES["mnist"], tiny.root)
    assert [item.ok for item in reports] == [False, True, True, True]


def test_what_is_wrong_is_said_before_a_checksum(tiny):
    labels = tiny.root / "mnist" / "train-labels-idx1-ubyte.gz"
    good = tiny.contents["train-labels-idx1-ubyte"]
    for content, complaint in (
        (good[:-1] + b"\x0a", "label 10 at sample 59"),
        (good[:-1], "truncated"),
        (good + b"\0", "trailing"),
    ):
        labels.write_bytes(gzip.compress(content))
        with pytest.raises(DataError, match=f"{labels.name}.*{complaint}"):
            images.load("mnist", data_dir=tiny.root)
    labels.write_bytes(gzip.compress(good)[:-9])
    with pytest.raises(DataError, match=f"{labels.name} is truncated"):
        images.load("mnist", data_dir=tiny.root)
    assert "truncated" in folder.verify(registry.SOURCES["mnist"], tiny.root)[1].verdict


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_far_too_large_is_not_read(tiny, suffix):
    (tiny.root / "mnist" / f"{IMAGES}.gz").unlink()
    path = tiny.write("mnist", f"{IMAGES}{suffix}", b"")
    with path.open("wb") as file:
        file.truncate(10**12)  # a sparse file takes no room
    with pytest.raises(DataError, match=rf"{path} has 1000000000000 bytes, too many for the 736"):
        images.load("mnist", data_dir=tiny.root)


def test_a_cifar_label_out_of_range_names_its_batch(tiny):
    path = tiny.root / "cifar-10" / "data_batch_3.bin"
    path.write_bytes(b"\x0b" + path.read_bytes()[1:])
    with pytest.raises(DataError, match=r"data_batch_3\.bin has the label 11 at sample 0"):
        images.load("cifar10", data_dir=tiny.root)


def test_a_record_vouches_for_features_made_here(tiny):
    path = tiny.root / "cifar-10-vgg19" / "features-train-f16.npy"
    content = path.read_bytes()[:-1] + b"\0"
    path.write_bytes(content)
    record = path.with_name("features-train-f16.json")
    for text in ("{", "[]", '{"files": 3}', '{"files": {"a": {}}}'):
        record.write_text(text)
        with pytest.raises(DataError, match="wrong checksum"):
            images.load("cifar10-vgg19", data_dir=tiny.root)
    stated = {"content_sha256": hashlib.sha256(content).hexdigest()}
    record.write_text(json.dumps({"files": {path.name: stated}}))
    train, _ = images.load("cifar10-vgg19", data_dir=tiny.root)
    assert train.X.shape == (50, 12)
    assert folder.verify(registry.SOURCES["cifar10-vgg19"], tiny.root)[0].verdict.startswith("made")


def test_a_known_repacking_is_named(tiny):
    source = registry.SOURCES["mnist"]
    packed = gzip.compress(tiny.contents[IMAGES], 1, mtime=7)
    tiny.write("mnist", f"{IMAGES}.gz", packed)
    known = {hashlib.sha256(packed).hexdigest(): "somebody"}
    first = replace(source.downloads[0], repacked=known)
    source = replace(source, downloads=(first, *source.downloads[1:]))
    assert folder.verify(source, tiny.root)[0].verdict == "content as published, packed by somebody"


def test_headers_stripped_as_debian_does_are_accepted(real_data, tmp_path):
    source = registry.SOURCES["fashion-mnist"]
    (tmp_path / "fashion-mnist").mkdir()
    for piece in source.needed("test"):
        packed = (real_data / "fashion-mnist" / f"{piece.name}.gz").read_bytes()
        # Neither name nor time in the header.
        stripped = gzip.compress(gzip.decompress(packed), mtime=0)
        assert stripped[3:8] == bytes(5)
        assert stripped != packed
        (tmp_path / "fashion-mnist" / f"{piece.name}.gz").write_bytes(stripped)
    verdicts = [item.verdict for item in folder.verify(source, tmp_path) if item.ok]
    assert verdicts == ["content as published"] * 2
