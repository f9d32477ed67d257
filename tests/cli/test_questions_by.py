"""`uec-rag index --questions-by`, by a server that speaks as OpenAI's does."""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler

import pytest

from tests.documents.test_question_writer import Scripted
from tests.helpers import served
from uec_rag import Retriever

MODEL = "openai:scripted"
SECTIONS = {
    f"{number}.md": f"# Matter {number}\n\nThis is on matter {number}." for number in range(30)
}


class Service(BaseHTTPRequestHandler):
    """The chats of a model, of which the class remembers all passages that it was asked for."""

    model, fails_from, to_kill, kept = Scripted(), 999, None, None

    def __init__(self, *args, directory, **kwargs):
        super().__init__(*args, **kwargs)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        count = len(self.model.prompts)
        if count >= 2 and Service.to_kill:
            while not self.kept.exists() or not self.kept.read_bytes():
                time.sleep(0.01)  # until a reply to another call is kept
            Service.to_kill.kill()
            return
        if count >= self.fails_from:
            return self.reply(401, {"error": {"message": "no credit", "code": "401"}})
        message = {"role": "assistant", "content": self.model(request["messages"][0]["content"])}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 60, "completion_tokens": 40, "total_tokens": 100}
        about = {"id": "a", "object": "chat.completion", "created": 0, "model": "scripted"}
        self.reply(200, {**about, "choices": [choice], "usage": usage})

    def reply(self, code, content):
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def service(tmp_path, monkeypatch):
    Service.model, Service.fails_from, Service.to_kill = Scripted(), 999, None
    with served(tmp_path, Service) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        yield Service


@pytest.fixture
def folder(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in SECTIONS.items():
        (docs / name).write_text(text)
    return docs


def questions_of(index):
    return {p.id: p.metadata.get("questions") for p in Retriever.load(index).passages()}


def test_an_index_has_the_questions_that_a_model_has_written(service, folder, tmp_path, run):
    to = tmp_path / "idx"
    told = run("index", folder, "--out", to, "--questions-by", MODEL)
    assert f"{MODEL} writes questions for 30 passages, in about 4 calls and" in told.stderr
    assert "beside 30 passages of 30 (4 calls, 400 tokens)" in told.stderr
    assert all(len(lines) == 4 for lines in questions_of(to).values())
    [hit, *_] = run("ask", to, "what of Matter, way 2?", json_output=True)["passages"]
    assert "questions" not in hit["metadata"]


def test_made_again_or_updated_nothing_is_asked_for_twice(service, folder, tmp_path, run):
    to = tmp_path / "idx"
    for _ in range(2):
        run("index", folder, "--out", to, "--questions-by", MODEL)
    assert len(service.model.prompts) == 4
    (folder / "3.md").write_text("# Matter 3\n\nThis is on another matter.")
    (folder / "31.md").write_text("# Matter 31\n\nThis is new.")
    run("index", folder, "--out", to, "--update")
    assert len(service.model.prompts) == 5
    assert len(service.model.asked) == 32
    written = questions_of(to)
    assert len(written) == 31
    assert all(written.values())
    run("index", folder, "--out", to, "--update")
    assert len(service.model.prompts) == 5


def test_a_service_that_fails_leaves_an_index_and_an_update_goes_on(service, folder, tmp_path, run):
    to, service.fails_from = tmp_path / "idx", 2
    told = run("index", folder, "--out", to, "--questions-by", MODEL)
    assert "note: The model 'openai:scripted' failed" in told.stderr
    assert "secret" not in told.stderr
    before = sum(map(bool, questions_of(to).values()))
    assert 0 < before < 30
    service.fails_from = 999
    run("index", folder, "--out", to, "--update")
    assert all(questions_of(to).values())
    assert len(service.model.asked) == 30


def test_another_index_is_made_of_one_with_them(service, folder, tmp_path, run):
    run("index", folder, "--out", tmp_path / "plain")
    run("index", tmp_path / "plain", "--out", tmp_path / "idx", "--questions-by", MODEL)
    assert all(questions_of(tmp_path / "idx").values())
    assert not any(questions_of(tmp_path / "plain").values())


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_kill_loses_nothing_that_was_kept(service, folder, tmp_path, run):
    to, service.kept = tmp_path / "idx", tmp_path / ".idx.questions.jsonl"
    command = [sys.executable, "-m", "uec_rag", "index", folder, "--out", to]
    service.to_kill = subprocess.Popen([*command, "--questions-by", MODEL])
    assert service.to_kill.wait() == -signal.SIGKILL
    count = service.kept.read_bytes().count(b"\n")
    service.to_kill, service.model.asked = None, []
    run("index", folder, "--out", to, "--questions-by", MODEL)
    assert all(questions_of(to).values())
    assert len(service.model.asked) == 30 - count < 30


@pytest.mark.parametrize(
    ("name", "message"), [("nobody:nothing", "init_chat_model"), ("openai:scripted", "api_key")]
)
def test_a_model_that_cannot_be_made_is_told_in_a_line(
    name, message, folder, tmp_path, run, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    options = ("--out", tmp_path / "idx", "--questions-by", name)
    told = run("index", folder, *options, code=2)
    assert message in told.stderr
    assert not (tmp_path / "idx").exists()


def test_with_an_update_the_model_is_that_of_the_index(service, folder, tmp_path, run):
    told = run("index", folder, "--out", tmp_path, "--update", "--questions-by", MODEL, code=2)
    assert "omit" in told.stderr
    assert "--questions-by" in told.stderr
