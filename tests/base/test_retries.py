import math

import numpy as np
import pytest

from uec_rag.base import retries
from uec_rag.encoders import BlackBoxEncoder


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(retries, "_FIRST_WAIT", 0.001)


class TransportError(Exception):
    """As httpx has it: no ConnectionError of Python's."""


class ConnectTimeout(TransportError):
    pass


class StatusError(Exception):
    def __init__(self, status, headers=()):
        super().__init__(f"HTTP {status}")
        self.response = type("Response", (), {"status_code": status, "headers": dict(headers)})()


class Failing:
    """Fails as often as there are errors, then embeds."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, texts):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return np.ones((len(texts), 3))

    def embed_documents(self, texts):
        return self(texts).tolist()

    def embed_query(self, text):
        return self([text])[0].tolist()


def test_the_log_says_once_what_failed(caplog):
    error = ConnectionError("no\nanswer. Call again.")
    assert retries.retry(Failing(error, error), ["a"]).shape == (1, 3)
    assert caplog.messages == ["no answer; trying again ..."]


PASSING = [ConnectionResetError(), TimeoutError(), ConnectTimeout(), StatusError(429)]


@pytest.mark.parametrize("error", PASSING, ids=repr)
@pytest.mark.parametrize("role", ["query", "passage"])
def test_what_passes_is_tried_again(error, role, caplog):
    source = Failing(error, error)
    assert len(BlackBoxEncoder(source).encode(["a"], role)) == 1
    assert source.calls == 3
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("error", [ValueError("bad key"), StatusError(401), StatusError(400)])
def test_what_stays_wrong_is_not_tried_again(error):
    source = Failing(error)
    with pytest.raises(type(error), match=str(error)):
        BlackBoxEncoder(source).encode(["a"], "passage")
    assert source.calls == 1


@pytest.mark.parametrize(("within", "calls"), [(math.inf, 5), (60.0, 5), (0.02, 2)])
def test_what_stays_away_is_not_asked_longer_than_is_said(monkeypatch, within, calls):
    monkeypatch.setattr(retries, "_wait", lambda state: 0.025)
    source = Failing(*[ConnectionError("no route")] * 100)
    with pytest.raises(ConnectionError, match="no route"):
        retries.retry(source, ["a"], within=within)
    assert source.calls == calls
