import gzip
import io
import lzma
import tarfile
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deqcli.data import readers
from deqcli.errors import DataError, InputError
from deqcli.runs import memory

PATH = Path("some-file")
GZ, XZ = Path("some-file.gz"), Path("some-file.xz")


@given(st.lists(st.integers(0, 255)))
def test_idx_labels_round_trip(values):
    content = bytes([0, 0, 8, 1]) + len(values).to_bytes(4, "big") + bytes(values)
    assert readers.read_idx(content, PATH, 1).tolist() == values


def test_idx_images_round_trip(idx_bytes):
    X = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(readers.read_idx(idx_bytes(X), PATH, 3, 2), X)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda data: data[:-1], "truncated"),
        (lambda data: data[:10], "truncated: it ends within its idx header"),
        (lambda data: data[:2], "truncated: it ends within its idx header"),
        (lambda data: b"", "truncated: it ends within its idx header"),
        (lambda data: data + b"\0", "trailing bytes"),
        (lambda data: b"\0\0\x08\x01" + data[4:], "magic number is 2049, not 2051"),
        (lambda data: b"PK\x03\x04" + data[4:], "not an idx file of images"),
        (lambda data: data[:4] + b"\0\0\0\x05" + data[8:], "promises 5 samples .* must be 2"),
        (lambda data: data[:8] + b"\xff" * 8 + data[16:], "truncated: it promises 2x4294967295x"),
    ],
)
def test_hostile_idx_is_told_with_its_name(idx_bytes, damage, complaint):
    content = damage(idx_bytes(np.zeros((2, 3, 4))))
    with pytest.raises(DataError, match=f"some-file.*{complaint}"):
        readers.read_idx(content, PATH, 3, 2)


@pytest.mark.parametrize(
    ("content", "count", "complaint"),
    [
        (b"", 1, "truncated"),
        (bytes(3072), 1, "truncated"),
        (bytes(3074), 1, "trailing bytes"),
        (bytes(3073), 2, r"truncated: it must hold 2 records \(6146 bytes\) but has 3073"),
        (bytes(2 * 3073 + 1), 2, "trailing bytes"),
        (bytes(3 * 3073), 2, "trailing bytes"),
    ],
)
def test_hostile_cifar_is_told(content, count, complaint):
    with pytest.raises(DataError, match=f"some-file.*{complaint}"):
        readers.read_cifar(content, PATH, count)


def test_labels_out_of_range_are_located():
    with pytest.raises(DataError, match=r"some-file has the label 10 at sample 1; .* 0 to 9"):
        readers.check_labels(np.array([3, 10, 11], np.uint8), 10, PATH)
    with pytest.raises(DataError, match="the label -1 at sample 0"):
        readers.check_labels(np.array([-1]), 10, PATH)


@pytest.mark.parametrize(("path", "pack"), [(GZ, gzip.compress), (XZ, lzma.compress)])
class TestUnpacking:
    data = bytes(range(256)) * 40

    def test_round_trip(self, path, pack):
        assert readers.unpack(pack(self.data), path, len(self.data)) == self.data

    @pytest.mark.parametrize("keep", [0, 1, 5, 40, -1, -5])
    def test_truncated(self, path, pack, keep):
        with pytest.raises(DataError, match=f"{path} is truncated"):
            readers.unpack(pack(self.data)[:keep], path, len(self.data))

    def test_damaged(self, path, pack):
        packed = bytearray(pack(self.data))
        packed[len(packed) // 2] ^= 0x55
        with pytest.raises(DataError, match=rf"{path} is (damaged|truncated)"):
            readers.unpack(bytes(packed), path, len(self.data))

    def test_not_packed_at_all(self, path, pack):
        with pytest.raises(DataError, match=f"{path} is damaged"):
            readers.unpack(b"<html>not found</html>" * 9, path, 1000)

    def test_trailing(self, path, pack):
        with pytest.raises(DataError, match="trailing bytes"):
            readers.unpack(pack(self.data) + b"xx", path, len(self.data))

    def test_a_bomb_stops_at_the_limit(self, path, pack):
        assert len(readers.unpack(pack(bytes(10**7)), path, 100)) == 101


def make_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def test_tar_members_are_found_by_base_name(tmp_path):
    path = tmp_path / "a.tar.gz"
    make_tar(path, {"folder/one.bin": b"1", "../../two.bin": b"22", "three.bin": b"333"})
    members = readers.unpack_tar(path, {"one.bin", "two.bin"}, 10)
    assert members == {"one.bin": b"1", "two.bin": b"22"}
    assert [file.name for file in tmp_path.iterdir()] == ["a.tar.gz"]


def test_hostile_tars_are_told(tmp_path):
    path = tmp_path / "a.tar.gz"
    make_tar(path, {"one.bin": bytes(range(256)) * 999})
    with pytest.raises(DataError, match=r"a\.tar\.gz does not hold two\.bin"):
        readers.unpack_tar(path, {"one.bin", "two.bin"}, 10**6)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataError, match=r"a\.tar\.gz is damaged"):
        readers.unpack_tar(path, {"one.bin", "two.bin"}, 10**6)
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"a\.tar\.gz is damaged"):
        readers.unpack_tar(path, {"one.bin"}, 10**6)


def npy(values: np.ndarray, **options: bool) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values, **options)
    return stream.getvalue()


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_round_trip(order):
    values = np.asarray(np.arange(6.0).reshape(2, 3), dtype=np.float16, order=order)
    np.testing.assert_array_equal(readers.read_npy(npy(values), PATH), values)


def test_hostile_npy_is_told():
    content = npy(np.zeros((2, 3)))
    for damaged, complaint in (
        (content[:-1], "truncated"),
        (content + b"x", "trailing"),
        (content[:30], "not a .npy file"),
        (b"junk" * 30, "not a .npy file"),
        (npy(np.array([{}], object), allow_pickle=True), "never unpickled"),
        (b"\x93NUMPY\x02\0" + (2**32 - 1).to_bytes(4, "little"), r"version is \(2, 0\)"),
    ):
        with pytest.raises(DataError, match=f"some-file.*{complaint}"):
            readers.read_npy(damaged, PATH)


def npy_header(description: str) -> bytes:
    return b"\x93NUMPY\x01\0" + len(description).to_bytes(2, "little") + description.encode()


@pytest.mark.parametrize(
    ("descr", "shape", "complaint"),
    [
        ("'<f8'", "(-1, -1)", "shape"),
        ("'<f8'", "(99999999999, 99999999999)", "truncated: it promises 99999999999x"),
        ("'<f8'", "(2, 0.5)", "not a .npy file"),
        ("'<f8'", "(" * 999, "not a .npy file"),
        ("'<U0'", "(1,)", "not numbers"),
        ("'V8'", "(1,)", "not numbers"),
        ("[('a', 'O')]", "(1,)", "never unpickled"),
        ("'{1:'", "(1,)", "not a .npy file"),
        ("(((1,),),)", "(1,)", "not a .npy file"),
    ],
)
def test_lying_npy_headers_are_told(descr, shape, complaint):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"
    content = npy_header(header) + bytes(8)
    with pytest.raises(DataError, match=f"some-file.*{complaint}"):
        readers.read_npy(content, PATH)
    with pytest.raises(DataError, match=f"some-file:a.*{complaint}"):
        read_npz(npz_of(content), ["a"])
    with pytest.raises(DataError, match=f"some-file:a.*{complaint}"):
        readers.read_npz_headers(io.BytesIO(npz_of(content)), PATH, ["a"])


def npz_of(content: bytes, packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packing) as archive:
        archive.writestr("a.npy", content)
    return stream.getvalue()


def read_npz(content: bytes, keys: list[str]) -> dict[str, np.ndarray]:
    return readers.read_npz(io.BytesIO(content), PATH, keys)


def test_npz_round_trip(tmp_path):
    arrays = {
        "numbers": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "text": np.array(["a", "bc"]),
        "bytes": np.array([b"a", b"bc"]),
        "none": np.zeros((0, 3)),
        "scalar": np.array(3, ">i2"),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        values = read_npz((tmp_path / "a.npz").read_bytes(), list(arrays))
        for key, array in arrays.items():
            np.testing.assert_array_equal(values[key], array)
            assert values[key].dtype == array.dtype


def test_an_npz_that_does_not_fit_is_refused_before_it_is_unpacked(monkeypatch):
    content = npz_of(npy(np.zeros(10**6)))
    assert len(content) < 10_000
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    with pytest.raises(InputError, match=r"some-file: 16 MB of memory needed and 1 MB available"):
        read_npz(content, ["a"])
    with pytest.raises(InputError, match=r"some-file: 16 MB .* give a smaller file"):
        readers.read_npz_headers(io.BytesIO(content), PATH, ["a"])


@pytest.mark.parametrize("count", [20, 10**6])
def test_no_more_is_unpacked_than_the_directory_of_an_npz_states(count):
    length = 128 + 8 * 20
    content = npz_of(npy(np.zeros(count)) + bytes(10**7))
    place = content.index(b"PK\x01\x02") + 24  # the unpacked size in the directory
    lying = content[:place] + length.to_bytes(4, "little") + content[place + 4 :]
    tracemalloc.start()
    with pytest.raises(DataError, match="some-file"):
        read_npz(lying, ["a"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packings_without_a_limit_are_refused(packing):
    with pytest.raises(DataError, match="packed in a way that numpy never writes"):
        read_npz(npz_of(npy(np.zeros(3)), packing), ["a"])


def test_a_damaged_npz_is_a_data_error_whatever_the_damage():
    rng = np.random.default_rng(0)
    content = npz_of(npy(np.arange(20.0)))
    for _ in range(500):
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        with suppress(InputError):
            read_npz(bytes(damaged), ["a"])


def test_hostile_npz_is_told():
    stream = io.BytesIO()
    np.savez(stream, a=np.zeros(3), b=np.array([{}], object))
    content = stream.getvalue()
    assert read_npz(content, ["a"])["a"].tolist() == [0, 0, 0]
    for data, keys, complaint in (
        (content, ["a", "c"], "has no array c; it has a, b"),
        (content, ["b"], "never unpickled"),
        (content[:-30], ["a"], "not a readable .npz"),
        (b"", ["a"], "not a readable .npz"),
        (b"PK\x03\x04junk", ["a"], "not a readable .npz"),
        (b"\x80\x04junk", ["a"], "not a readable .npz"),
        (npy(np.zeros(3)), ["a"], "not a readable .npz"),
    ):
        with pytest.raises(DataError, match=f"some-file.*{complaint}"):
            read_npz(data, keys)
