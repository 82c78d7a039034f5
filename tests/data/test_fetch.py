"""Fetching, against a server on the loopback interface; nothing reaches out."""

import gzip
import socket
import threading
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from deqcli.data import fetch, images, registry
from deqcli.errors import DataError, RunError


class Mirror:
    """A server whose answers a test can spoil."""

    def __init__(self):
        self.files = {}
        self.requests = []  # paths
        self.endless = None  # "announced" by a Content-Length, or "unannounced"
        self.sent = 0  # bytes after the file
        self.cut = None  # bytes after which the connection drops
        self.status = None
        self.redirect = False
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                mirror.answer(self)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def answer(self, handler):
        self.requests.append(handler.path)
        if self.redirect and "moved" not in handler.path:
            handler.send_response(302)
            handler.send_header("Location", f"/moved{handler.path}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        data = self.files.get(handler.path.rsplit("/")[-1])
        if data is None or self.status:
            handler.send_error(self.status or 404)
            return
        handler.send_response(200)
        if self.endless == "announced":
            handler.send_header("Content-Length", str(10**12))
        elif not self.endless:
            handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[: self.cut])
        with suppress(ConnectionError):
            while self.endless:
                self.sent += handler.wfile.write(bytes(1 << 16))

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def mirrors(monkeypatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    pair = Mirror(), Mirror()
    yield pair
    for mirror in pair:
        mirror.close()


@pytest.fixture
def source(tiny, mirrors):
    """Tiny MNIST as the two mirrors serve it; the folder is empty."""
    entry = registry.SOURCES["mnist"]
    downloads = []
    for item in entry.downloads:
        path = tiny.root / "mnist" / item.filename
        for mirror in mirrors:
            mirror.files[item.filename] = path.read_bytes()
        path.unlink()
        urls = tuple(mirror.url + item.filename for mirror in mirrors)
        downloads.append(replace(item, mirrors=urls))
    entry = replace(entry, downloads=tuple(downloads))
    registry.SOURCES["mnist"] = entry  # the fixture tiny puts the real one back
    return entry


def names(tiny):
    return sorted(path.name for path in (tiny.root / "mnist").iterdir())


def expected(source):
    return sorted(item.filename for item in source.downloads)


def test_a_fetched_folder_loads_and_is_not_fetched_again(tiny, source, mirrors):
    with pytest.raises(DataError, match="deqcli data fetch mnist"):
        images.load("mnist", data_dir=tiny.root)
    paths = fetch.fetch(source, tiny.root)
    assert [path.name for path in paths] == [item.filename for item in source.downloads]
    assert names(tiny) == expected(source)  # nothing else is left
    train, test = images.load("mnist", n_test=0, data_dir=tiny.root)
    assert (train.n_samples, test.n_samples) == (60, 20)
    assert (len(mirrors[0].requests), len(mirrors[1].requests)) == (4, 0)
    assert fetch.fetch(source, tiny.root) == paths
    assert len(mirrors[0].requests) == 4


def test_files_that_are_there_in_any_packing_are_not_fetched(tiny, source, mirrors):
    name = "train-images-idx3-ubyte"
    plain = tiny.write("mnist", name, tiny.contents[name])
    assert plain in fetch.fetch(source, tiny.root)
    assert len(mirrors[0].requests) == 3


def test_a_damaged_file_is_replaced(tiny, source, mirrors):
    name = source.downloads[0].filename
    tiny.write("mnist", name, gzip.compress(b"something else"))
    fetch.fetch(source, tiny.root)
    assert (tiny.root / "mnist" / name).read_bytes() == mirrors[0].files[name]


def test_a_damaged_copy_in_another_packing_is_told(tiny, source):
    plain = tiny.write("mnist", "train-images-idx3-ubyte", b"something else")
    with pytest.raises(DataError, match=f"{plain} has the wrong checksum"):
        fetch.fetch(source, tiny.root)


def test_a_wrong_checksum_leaves_nothing_and_the_next_mirror_helps(tiny, source, mirrors):
    name = source.downloads[0].filename
    good = mirrors[0].files[name]
    for mirror in mirrors:
        mirror.files[name] = bytes(len(good))
    with pytest.raises(DataError, match=r"wrong checksum.*wrong checksum"):
        fetch.fetch(source, tiny.root)
    assert names(tiny) == []
    mirrors[1].files[name] = good
    fetch.fetch(source, tiny.root)
    assert names(tiny) == expected(source)


def test_a_page_instead_of_the_file_is_not_taken(tiny, source, mirrors):
    name = source.downloads[0].filename
    mirrors[0].files[name] = b"<html>please log in</html>"
    fetch.fetch(source, tiny.root)
    assert names(tiny) == expected(source)
    mirrors[1].files[name] = b"<html>please log in</html>"
    (tiny.root / "mnist" / name).unlink()
    with pytest.raises(DataError, match="wrong checksum"):
        fetch.fetch(source, tiny.root)


@pytest.mark.parametrize("trouble", ["dead", 404, 500])
def test_the_second_mirror_takes_over(tiny, source, mirrors, trouble):
    if trouble == "dead":
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            dead = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        source = replace(
            source,
            downloads=tuple(
                replace(item, mirrors=(dead + item.filename, item.mirrors[1]))
                for item in source.downloads
            ),
        )
    else:
        mirrors[0].status = trouble
    fetch.fetch(source, tiny.root)
    assert names(tiny) == expected(source)
    assert len(mirrors[1].requests) == 4


def test_redirects_are_followed(tiny, source, mirrors):
    mirrors[0].redirect = True
    fetch.fetch(source, tiny.root)
    assert names(tiny) == expected(source)
    name = source.downloads[0].filename
    assert mirrors[0].requests[:2] == [f"/{name}", f"/moved/{name}"]


@pytest.mark.parametrize("kind", ["announced", "unannounced"])
def test_an_endless_answer_is_stopped_at_the_registered_size(tiny, source, mirrors, kind):
    mirrors[0].endless = kind
    fetch.fetch(source, tiny.root)
    assert names(tiny) == expected(source)
    assert len(mirrors[1].requests) == 4
    assert mirrors[0].sent < 4 * 20e6  # what the buffers of four connections hold
    mirrors[1].endless = kind
    (tiny.root / "mnist" / source.downloads[0].filename).unlink()
    size = source.downloads[0].size
    with pytest.raises(DataError, match=f"it sends more than {size} bytes.*more than {size}"):
        fetch.fetch(source, tiny.root)
    assert names(tiny) == expected(source)[:2] + expected(source)[3:]


def test_a_cut_connection_leaves_nothing_and_the_next_mirror_helps(tiny, source, mirrors):
    for mirror in mirrors:
        mirror.cut = 20
    with pytest.raises(DataError, match="the connection ended early"):
        fetch.fetch(source, tiny.root)
    assert names(tiny) == []
    mirrors[1].cut = None
    fetch.fetch(source, tiny.root)
    assert names(tiny) == expected(source)


def test_others_may_read_what_is_fetched(tiny, source):
    assert {path.stat().st_mode & 0o777 for path in fetch.fetch(source, tiny.root)} == {0o644}


def test_a_symbolic_link_in_the_place_of_a_file_is_replaced(tiny, source, tmp_path):
    target = tmp_path / "precious"
    target.write_text("precious")
    (tiny.root / "mnist" / source.downloads[0].filename).symlink_to(target)
    fetch.fetch(source, tiny.root)
    assert not (tiny.root / "mnist" / source.downloads[0].filename).is_symlink()
    assert target.read_text() == "precious"


def test_offline_is_one_sentence_with_everything_one_needs(tiny, source, mirrors, monkeypatch):
    def refuse(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(DataError) as caught:
        fetch.fetch(source, tiny.root)
    item = source.downloads[0]
    text = str(caught.value)
    for word in (
        item.filename,
        item.sha256,
        str(tiny.root / "mnist" / item.filename),
        "DEQCLI_DATA_DIR",
        "no connection",
    ):
        assert word in text
    assert "\n" not in text
    assert text.count(". ") == 0


def test_what_nobody_publishes_is_not_looked_for(tiny):
    (tiny.root / "cifar-10-vgg19" / "labels.npz").unlink()
    with pytest.raises(DataError, match=r"not published: labels\.npz .*deqcli data features"):
        fetch.fetch(registry.SOURCES["cifar10-vgg19"], tiny.root)


def test_a_folder_that_takes_no_files_is_told(tiny, source):
    blocker = tiny.root / "file"
    blocker.write_text("in the way")
    with pytest.raises(RunError, match=r"Cannot write .*`data_dir` or DEQCLI_DATA_DIR"):
        fetch.fetch(source, blocker)
