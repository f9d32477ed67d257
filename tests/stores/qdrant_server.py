"""Qdrant's HTTP interface over its local mode: a server that tests can hurt."""

import json
import re
import threading
import uuid
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models

VERSION = "1.20.0"


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Api:
    """What is asked, by method and path; called by one thread at a time."""

    def __init__(self):
        self._client, self.version = QdrantClient(":memory:"), VERSION

    def of(self, method, path, body):
        for known, pattern, answer in self._ROUTES:
            found = re.fullmatch(pattern, path)
            if known == method and found:
                name = found[1]
                making = answer in (Api.exists, Api.create)
                if not making and not self._client.collection_exists(name):
                    raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
                return answer(self, name, body)
        raise Refused(404, "")

    def exists(self, name, body):
        return {"exists": self._client.collection_exists(name)}

    def create(self, name, body):
        if self._client.collection_exists(name):
            raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
        asked = models.CreateCollection(**body)
        return self._client.create_collection(
            name,
            vectors_config=asked.vectors or {},
            sparse_vectors_config=asked.sparse_vectors,
            metadata=asked.metadata,
        )

    def told(self, name, body):
        return self._client.get_collection(name)

    def drop(self, name, body):
        return self._client.delete_collection(name)

    def index(self, name, body):
        return models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED)

    def upsert(self, name, body):
        points = models.PointsList(**body).points
        for point in points:
            for part, params in self._client.get_collection(name).config.params.vectors.items():
                if part in point.vector and len(point.vector[part]) != params.size:
                    raise Refused(400, f"Wrong input: Vector dimension error: expected {params}")
        return self._client.upsert(name, points)

    def retrieve(self, name, body):
        asked = models.PointRequest(**body)
        return self._client.retrieve(name, asked.ids, asked.with_payload, asked.with_vector)

    def delete(self, name, body):
        return self._client.delete(name, models.PointIdsList(**body))

    def count(self, name, body):
        return self._client.count(name, models.CountRequest(**body).filter)

    def scroll(self, name, body):
        asked = models.ScrollRequest(**body)
        points, offset = self._client.scroll(
            name,
            asked.filter,
            asked.limit,
            offset=asked.offset,
            with_payload=asked.with_payload,
            with_vectors=asked.with_vector,
        )
        return {"points": points, "next_page_offset": offset}

    def facet(self, name, body):
        asked = models.FacetRequest(**body)
        return self._client.facet(name, asked.key, asked.filter, asked.limit, exact=True)

    def query(self, name, body):
        return self._client.query_batch_points(name, models.QueryRequestBatch(**body).searches)

    _ROUTES = (
        ("GET", "/collections/([^/]+)/exists", exists),
        ("PUT", "/collections/([^/]+)", create),
        ("GET", "/collections/([^/]+)", told),
        ("DELETE", "/collections/([^/]+)", drop),
        ("PUT", "/collections/([^/]+)/index", index),
        ("PUT", "/collections/([^/]+)/points", upsert),
        ("POST", "/collections/([^/]+)/points", retrieve),
        ("POST", "/collections/([^/]+)/points/delete", delete),
        ("POST", "/collections/([^/]+)/points/count", count),
        ("POST", "/collections/([^/]+)/points/scroll", scroll),
        ("POST", "/collections/([^/]+)/points/query/batch", query),
        ("POST", "/collections/([^/]+)/facet", facet),
    )


class Server(ThreadingHTTPServer):
    """A server on a port of its own.

    Attributes
    ----------
    url : str
    before : callable
        Told the method and the path of each request; what it raises is the answer. ConnectionError
        hangs up.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.socket.settimeout(1.0)  # one who asked may be gone before it is accepted
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.api, self.lock = Api(), threading.Lock()
        self.before = lambda method, path: None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self):
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # the line was cut
            self.close_connection = True
            return
        path, status = self.path.partition("?")[0], 200
        try:
            self.server.before(self.command, path)
            if path == "/":
                told = {"title": "qdrant", "version": self.server.api.version}
            else:
                with self.server.lock:
                    found = self.server.api.of(self.command, path, json.loads(body or b"{}"))
                    told = {"result": _plain(found), "status": "ok", "time": 0.0}
        except Refused as error:
            status, told = error.status, {"status": {"error": str(error)}, "time": 0.0}
        except ConnectionError:
            self.close_connection = True
            self.connection.close()
            return
        data = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        with suppress(BrokenPipeError):  # who asked did not wait for it
            self.end_headers()
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, *given):
        """It is quiet."""


def _plain(found):
    """As JSON."""
    return TypeAdapter(type(found)).dump_python(found, mode="json", serialize_as_any=True)


@contextmanager
def running():
    """A server as long as a block lasts."""
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        # It hung once on a busy machine: an end that does not come is not to be everybody's.
        ending = threading.Thread(target=server.shutdown, daemon=True)
        ending.start()
        ending.join(timeout=10)


@cache
def server_url():
    """Where one is that ends with this process."""
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server.url


def new_place():
    """The address of a collection that is not there yet."""
    return f"qdrant{server_url().removeprefix('http')}/test{uuid.uuid4().hex[:8]}"
