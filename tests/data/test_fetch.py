"""Fetching, against a server on the loopback interface; nothing reaches out."""

import gzip
import socket
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from deqcli.data import fetch, images, registry
from deqcli.errors import DataError, RunConflictError
from deqcli.runs.lock import hold


class Mirror:
    """A server whose answers a test can spoil."""

    def __init__(self):
        self.files = {}
        self.requests = []  # (path, Range header)
        self.ranges = True
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
        asked = handler.headers.get("Range")
        self.requests.append((handler.path, asked))
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
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        handler.wfile.write(data[start:][: self.cut])

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
    assert names(tiny) == expected(source)  # no parts, no locks
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
    with pytest.raises(DataError, match="offers another file, of 26 bytes"):
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


def test_redirects_are_followed_without_losing_what_is_there(tiny, source, mirrors):
    mirrors[0].redirect = True
    item = source.downloads[0]
    tiny.write("mnist", f"{item.filename}.part", mirrors[0].files[item.filename][:10])
    fetch.fetch(source, tiny.root)
    assert names(tiny) == expected(source)
    assert mirrors[0].requests[:2] == [
        (f"/{item.filename}", "bytes=10-"),
        (f"/moved/{item.filename}", "bytes=10-"),
    ]


class TestInterrupted:
    @pytest.fixture
    def item(self, source, monkeypatch):
        monkeypatch.setattr(fetch, "_CHUNK", 4)  # so that little is lost of tiny files
        return source.downloads[0]

    def test_the_next_mirror_continues(self, tiny, source, mirrors, item):
        mirrors[0].cut = 20
        fetch.fetch(source, tiny.root)
        assert names(tiny) == expected(source)
        assert mirrors[1].requests[0] == (f"/{item.filename}", "bytes=20-")

    def test_the_next_run_continues(self, tiny, source, mirrors, item):
        for mirror in mirrors:
            mirror.cut = 20
        with pytest.raises(DataError, match="the connection ended early"):
            fetch.fetch(source, tiny.root)
        assert names(tiny) == [f"{item.filename}.part"]
        assert (tiny.root / "mnist" / f"{item.filename}.part").stat().st_size == 40
        for mirror in mirrors:
            mirror.cut = None
        mirrors[0].requests.clear()
        fetch.fetch(source, tiny.root)
        assert names(tiny) == expected(source)
        assert mirrors[0].requests[0] == (f"/{item.filename}", "bytes=40-")

    def test_a_server_without_ranges_restarts(self, tiny, source, mirrors, item):
        mirrors[0].ranges = False
        tiny.write("mnist", f"{item.filename}.part", b"0123456789")
        fetch.fetch(source, tiny.root)
        assert names(tiny) == expected(source)
        assert len(mirrors[0].requests) == 4

    def test_a_wrong_beginning_restarts(self, tiny, source, mirrors, item):
        tiny.write("mnist", f"{item.filename}.part", b"0123456789")
        fetch.fetch(source, tiny.root)
        assert names(tiny) == expected(source)
        assert [asked for _, asked in mirrors[0].requests[:2]] == ["bytes=10-", None]

    @pytest.mark.parametrize("longer", [0, 1])
    def test_a_whole_or_overlong_beginning(self, tiny, source, mirrors, item, longer):
        data = mirrors[0].files[item.filename] + b"x" * longer
        tiny.write("mnist", f"{item.filename}.part", data)
        fetch.fetch(source, tiny.root)
        assert names(tiny) == expected(source)
        assert len(mirrors[0].requests) == 3 + longer

    def test_an_error_page_does_not_spoil_what_is_there(self, tiny, source, mirrors, item):
        for mirror in mirrors:
            mirror.status = 503
        part = tiny.write("mnist", f"{item.filename}.part", b"0123456789")
        with pytest.raises(DataError, match="503 Service Unavailable"):
            fetch.fetch(source, tiny.root)
        assert part.read_bytes() == b"0123456789"


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


def test_two_fetches_of_one_file_do_not_mix(tiny, source):
    lock = tiny.root / "mnist" / f"{source.downloads[0].filename}.lock"
    with hold(lock), pytest.raises(RunConflictError, match="Another process"):
        fetch.fetch(source, tiny.root)


def test_a_folder_that_takes_no_files_is_told(tiny, source):
    blocker = tiny.root / "file"
    blocker.write_text("in the way")
    with pytest.raises(DataError, match=r"cannot take files .*--data-dir or DEQCLI_DATA_DIR"):
        fetch.fetch(source, blocker)
