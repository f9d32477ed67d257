"""Servers as they are run: real processes, ended by signals, over one database."""

import re
import shlex
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from typer.testing import CliRunner

from tests.helpers import index_of, python, rows_of
from tests.server.conftest import STRICT, TEXTS, TOKEN, make, until
from uec_rag import UEC
from uec_rag.cli import app

UEC_RAG = [sys.executable, "-c", "from uec_rag.cli import main\nif __name__ == '__main__': main()"]
PARKING = {"question": "who may park in the yard", "k": 3}


APP = """
from uec_rag.index import Retriever
from uec_rag.server import create_app
from uec_rag.server.running import log_to_stderr

def app():
    log_to_stderr()
    return create_app(Retriever.load({index!r}), write=True, token={token!r})
"""
UVICORN = [
    sys.executable,
    *["-m", "uvicorn", "--factory", "app:app", "--no-access-log", "--workers", "4"],
]
UVICORN += ["--http", "uec_rag.server.running:Connection", "--app-dir"]


@contextmanager
def begun(command, *arguments):
    """A running server's address; it is ended as a supervisor ends it, and must end well."""
    process = subprocess.Popen(
        [*command, *map(str, arguments), "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    lines = []
    try:
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"(?:serving|running) on (http://\S+)", line):
                break
        else:
            raise AssertionError("".join(lines))
        until(lambda: answers(f"{found[1]}/healthz"))
        yield found[1], process
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=600)
    said = "".join(lines) + rest
    for hidden in ("Traceback", "leaked", TOKEN, str(arguments[0].parent)):
        assert hidden not in said
    assert process.returncode in (0, -signal.SIGTERM), said


def answers(url):
    try:
        return httpx.get(url, timeout=60)
    except httpx.TransportError:
        return None


@pytest.mark.parametrize("row", rows_of("not_served.csv"), ids=lambda row: row["command"])
def test_what_cannot_be_served_is_said_before_anything_listens(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make().save("idx")
    make().save("broken")
    file = tmp_path / "broken" / "index.db"
    file.write_bytes(file.read_bytes()[:100] + b"x" * 100_000)
    make().uec.save("model")
    result = CliRunner().invoke(app, shlex.split(row["command"]))
    assert result.exit_code == 2
    assert row["message"] in " ".join(result.output.split())
    assert "hunter2" not in result.output
    assert "Traceback" not in result.output


def test_a_port_that_is_taken_is_said(index):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(app, ["serve", str(index), "--port", port])
    assert result.exit_code != 0
    assert f"('127.0.0.1', {port}): address already in use" in result.output


def test_without_the_extra_it_says_what_to_install(index):
    code = "import sys; sys.modules['fastapi'] = None; from uec_rag.cli import main; main()"
    result = python(code, "serve", index)
    assert result.returncode == 2
    assert 'pip install "uec-rag[serve]"' in " ".join(result.stderr.split())


@pytest.mark.slow
def test_four_processes_answer_and_write_over_one_database(tmp_path):
    index_of(UEC(), [*TEXTS.values()], [*TEXTS]).save(tmp_path / "idx")
    STRICT.save(tmp_path / "idx" / "gate.json")  # decides in all of them
    (tmp_path / "app.py").write_text(APP.format(index=str(tmp_path / "idx"), token=TOKEN))
    with (
        begun(UVICORN, tmp_path) as (address, _),
        httpx.Client(base_url=address, timeout=600) as client,
        ThreadPoolExecutor(16) as pool,
    ):
        assert client.post("/ask", json=PARKING).status_code == 401
        client.headers["Authorization"] = f"Bearer {TOKEN}"

        def ask(turn):
            if turn % 8 == 0:
                body = {"question": f"zebra {turn}?", "relevant_ids": []}
                return client.post("/labels", json=body).status_code, "parking"
            found = client.post("/ask", json=PARKING)
            assert found.json()["decision"] != "answer"
            return found.status_code, found.json()["passages"][0]["id"]

        found = [*pool.map(ask, range(200))]
        assert {*found} == {(200, "parking"), (201, "parking")}
        assert len(client.get("/labels").json()) == 25
