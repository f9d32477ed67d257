"""A decision model behind a server on this machine, which speaks both wire formats.

Its probabilities are shares of common words, so that it answers sensibly: a passage that has the
question's words is probable. `Server.plan` holds statuses, or seconds to wait, for its next
replies, and `Server.changed` changes a reply.
"""

import json
import re
import threading
import time
from contextlib import contextmanager
from typing import Annotated, Literal

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, JsonValue, TypeAdapter, conlist

KEY = "sk-a-secret-key"
LEAST = 0.02
MODEL = {"name": "jev-latest", "description": "Common words.", "release_date": "2026-09-15"}


class Noul(BaseModel):
    type: Literal["noul"]
    instructions: JsonValue = None
    criteria: dict[Literal["true", "false"], JsonValue] | None = None


class Choice(BaseModel):
    type: Literal["choice"]
    instructions: JsonValue
    criteria: dict[str, JsonValue] = Field(min_length=2, max_length=255)


Level = str | dict[str, JsonValue] | list[JsonValue]


class Score(BaseModel):
    type: Literal["score"]
    instructions: JsonValue
    criteria: list[str | dict[str, JsonValue] | list[JsonValue]] = Field(
        min_length=2, max_length=10
    )


Question = Annotated[Noul | Choice | Score, Field(discriminator="type")]


class SystemOneRequest(BaseModel):
    model: str
    state: str | dict[str, JsonValue] | list[JsonValue]
    questions: dict[str, Question] = Field(min_length=1)


class DecisionsRequest(BaseModel):
    model: str
    input: str | list[dict[str, JsonValue]]
    questions: conlist(dict[str, JsonValue], min_length=1)


def words(value):
    return {word.rstrip("s") for word in re.findall(r"\w+", json.dumps(value).lower())}


def text_of(written):
    """The text of an input, or of the messages that it consists of."""
    if isinstance(written, str):
        return written
    parts = [message["content"] for message in written]
    texts = [part if isinstance(part, str) else part[0]["text"] for part in parts]
    return "\n".join(texts)


def likeness(some, others):
    return len(some & others) / max(len(some), 1)


def shares(weights):
    total = sum(weights)
    return [weight / total for weight in weights]


def confidence(probabilities):
    """TypeSafe's: how far the best is above a uniform choice."""
    count = len(probabilities)
    return max(0.0, (count * max(probabilities) - 1) / (count - 1))


def answer_one(state, question):
    """The answer of one question, which depends on nothing else."""
    passages = state.get("passages", {}) if isinstance(state, dict) else {}
    asked = words(state.get("question", "") if isinstance(state, dict) else state)
    near = {name: likeness(asked, words(text)) for name, text in passages.items()}
    if question.type == "noul":
        return {"type": "noul", "noul": min(max(max(near.values(), default=0.5), LEAST), 0.98)}
    criteria = question.criteria
    if question.type == "score":
        told = shares([1 + likeness(words(level), words(state)) for level in criteria])
        return {
            "type": "score",
            "score": sum(at * share for at, share in enumerate(told)),
            "legend": {str(at): level for at, level in enumerate(criteria)},
            "probabilities": {str(at): share for at, share in enumerate(told)},
            "confidence": confidence(told),
        }
    best = max(near.values(), default=0.0)
    weights = [
        LEAST + (near[name] ** 4 if name in near else 1 - best if name == "none" else 0.1)
        for name in criteria
    ]
    told = dict(zip(criteria, shares(weights), strict=True))
    return {
        "type": "choice",
        "choice": max(told, key=told.get),
        "probabilities": told,
        "confidence": confidence([*told.values()]),
    }


class Server:
    """What the server was asked, and how its next replies are changed."""

    def __init__(self, answer=answer_one):
        self.answer = answer
        self.requests, self.keys, self.plan, self.changed = [], [], [], lambda body: body
        self.key, self.url = None, ""
        self.app = FastAPI()
        checks = [Depends(self.check)]
        self.app.post("/v1/systemone", dependencies=checks)(self.system_one)
        self.app.post("/v1/decisions", dependencies=checks)(self.decisions)
        self.app.get("/v1/models")(lambda: {"models": [MODEL]})
        self.app.exception_handler(HTTPException)(self.error)

    def check(self, request: Request):
        self.keys.append(request.headers.get("authorization"))
        if self.key is not None and self.keys[-1] != f"Bearer {self.key}":
            raise HTTPException(401, {"error_type": "authentication_error", "message": "no key"})
        planned = self.plan.pop(0) if self.plan else 200
        if isinstance(planned, float):
            time.sleep(planned)
        elif planned != 200:
            raise HTTPException(planned, {"error_type": "overloaded", "message": "later"})

    def error(self, request: Request, error: HTTPException):
        headers = {"retry-after": "0"} if error.status_code in (429, 503) else {}
        return JSONResponse({"detail": error.detail}, error.status_code, headers)

    def system_one(self, asked: SystemOneRequest):
        self.requests.append(asked)
        answers = {name: self.answer(asked.state, one) for name, one in asked.questions.items()}
        usage = {"input_tokens": len(words(asked.state)), "output_tokens": len(answers)}
        return self.changed({"model": asked.model, "answers": answers, "usage": usage})

    def decisions(self, asked: DecisionsRequest):
        self.requests.append(asked)
        state, answers = json.loads(text_of(asked.input)), []
        for one in asked.questions:
            kind = "noul" if one["type"] == "predicate" else one["type"]
            criteria = {option["value"]: None for option in one.get("choices", ())}
            question = {"type": kind, "instructions": one["instructions"]}
            question |= {"criteria": criteria} if criteria else {}
            told = self.answer(state, TypeAdapter(Question).validate_python(question))
            if kind == "noul":
                told = {"type": "predicate", "probability": told["noul"]}
            else:
                pairs = told["probabilities"].items()
                told["probabilities"] = [{"value": v, "probability": p} for v, p in pairs]
            answers.append({"name": one["name"]} | told)
        usage = {"input_tokens": len(words(state)), "output_tokens": len(answers)}
        return self.changed({"model": asked.model, "answers": answers, "usage": usage})


@contextmanager
def serving(answer=answer_one):
    """A server on a free port of this machine; `answer` answers one question about a state."""
    server = Server(answer)
    config = uvicorn.Config(server.app, host="127.0.0.1", port=0, log_config=None)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
        assert thread.is_alive(), "the server did not start"
    port = running.servers[0].sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    try:
        yield server
    finally:
        running.should_exit = True
        thread.join()
