import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from deqcli.data import registry
from deqcli.errors import DataError

SOURCES = list(registry.SOURCES.values())


def test_names_are_the_documented_ones():
    assert registry.names() == ("mnist", "fashion-mnist", "cifar10", "cifar10-vgg19")


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_entries_are_consistent(source):
    assert len(source.classes) == 10
    assert source.count("test") == 10_000
    for item in (*source.downloads, *source.pieces):
        assert re.fullmatch("[0-9a-f]{64}", item.sha256)
        assert item.size > 0
    assert len({piece.name for piece in source.pieces}) == len(source.pieces)
    for piece in source.pieces:
        assert piece in source.download(piece).pieces


@pytest.mark.parametrize("source", SOURCES[:3], ids=lambda source: source.name)
def test_published_files_have_mirrors_on_different_hosts(source):
    for download in source.downloads:
        hosts = {urlsplit(url).netloc for url in download.mirrors}
        assert len(hosts) == len(download.mirrors) >= 2
        assert all(url.endswith(f"/{download.filename}") for url in download.mirrors)


def test_sizes_follow_from_the_formats():
    for source in SOURCES:
        for piece in source.pieces:
            if piece.role == "images":
                assert piece.size == 16 + piece.count * source.features
            elif piece.role == "batch":
                assert piece.size == piece.count * (1 + source.features)
            elif piece.role == "features":
                assert piece.size == 128 + 2 * piece.count * source.features


def test_find_takes_a_half():
    assert registry.find("mnist")[1] == "train"
    assert registry.find("mnist:test")[1] == "test"


@pytest.mark.parametrize("name", ["cifar", "mnist:validation", "", "data.txt"])
def test_unknown_names_are_told_with_the_known_ones(name):
    with pytest.raises(DataError, match=r"mnist, fashion-mnist, cifar10, cifar10-vgg19"):
        registry.find(name)


def test_names_cost_no_numpy():
    code = "import sys, deqcli.data.registry; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
