"""Calls with whatever arguments: answered, or refused with a documented exception; no half ways."""

import datetime
import functools
import inspect
import os
import random
import traceback
import warnings

import numpy as np

from tests.helpers import passages
from tests.survival.in_a_child import FORKED, run_all
from tests.survival.scale import report, times
from uec_rag import UEC, Gaussian, Retriever
from uec_rag.confidence.risk import risk_threshold
from uec_rag.ensemble.fitted import FitOptions
from uec_rag.gates.gate import Gate
from uec_rag.stores.local import LocalStore
from uec_rag.stores.passage import Passage

pytestmark = FORKED

DOCUMENTED = (TypeError, ValueError, KeyError)
TEXTS = passages(6, seed=3)


def endless():
    value = {}
    value["again"] = value
    return value


class Odd:
    """An object whose comparison, truth and length fail."""

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    __hash__ = None

    def __len__(self):
        raise RuntimeError("no length")


PLAIN = [
    *(None, True, 0, -1, 1, 3, 10, 2**63, 10**400, 0.5, -0.0, 1e308, 1e-320),
    *(float("nan"), float("inf"), 1j, "", " ", "word", "badero fimafi", "p0", "\ud800", "\0"),
    *(b"bytes", [], (), {}, set(), [""], ["a", "a"], ["p0", "p1"], [None], ["x", 1], [[]]),
    *([b"x"], {"version": 1}, {"$gt": 1}, {"a": {"$in": 3}}, {"$or": []}, {1: 2}, {"a": {1, 2}}),
    *(datetime.date(2026, 1, 1), range(3), object(), int, len, Odd(), endless()),
    *(np.float32(1), np.int64(3), np.zeros(0), np.zeros((2, 3)), np.full((1, 90), np.nan)),
    *(np.full((1, 90), 1e30, "f4"), np.ones(90), np.array(["a"]), np.array([{}], dtype=object)),
    *(TEXTS, TEXTS[:2], "x" * 10_000, lambda passage: passage.id > "p", lambda: 1),
    *(Passage("a", "b"), [Passage("a", "b")], Gaussian([[1.0]], [[0.0]])),
]


def _argument(rng):
    value = rng.choice(PLAIN)
    if rng.random() < 0.2:
        value = [rng.choice(PLAIN) for _ in range(rng.randrange(4))]
    if rng.random() < 0.05:
        value = iter([value])
    return value


OPTIONS = ("space", "structure", "coefficients", "temperature", "beta", "seed")
LABELS = ("queries", "relevant_ids", "max_wrong", "max_risk", "certainty", "k", "filter")


# Of each method: its arguments, some of which are right.
def _methods(index):
    store, uec = index.store, index.uec
    return {
        "add": (index.add, ("texts", "ids", "metadatas")),
        "delete": (index.delete, ("ids",)),
        "get": (index.get, ("ids",)),
        "vectors": (index.vectors, ("ids",)),
        "search": (index.search, ("queries", "k", "filter", "history", "within", "diversity")),
        "search_vector": (index.search_vector, ("embedding", "k", "filter")),
        "with_weights": (index.with_weights, ("coefficients",)),
        "snapshot": (index.store.snapshot, ("filter",)),
        "calibrate": (index.calibrate, ("queries", "relevant_ids", "unanswerable_rate", "k")),
        "store.add": (store.add, ("passages", "encodings")),
        "store.delete": (store.delete, ("ids",)),
        "embed": (uec.embed, ("texts", "role")),
        "Gaussian": (Gaussian, ("mean", "variance")),
        "Retriever": (Retriever, ("uec", "store", "language")),
        "UEC": (functools.partial(UEC, uec.encoders), OPTIONS),
        "Gate.from_labels": (functools.partial(Gate.from_labels, index), LABELS),
        "risk_threshold": (risk_threshold, ("confidence", "correct", "risk", "delta")),
        "LocalStore": (LocalStore, ("path", "read_only")),
        "save": (index.save, ("path",)),
        "load": (Retriever.load, ("path", "uec")),
    }


PATHS = {"save", "load", "LocalStore"}
WRITES = {"add", "delete", "calibrate", "store.add", "store.delete"}


def _right(uec):
    return {
        "texts": TEXTS[:2],
        "queries": ["badero"],
        "ids": ["p0", "p9"],
        "metadatas": [{}, {"a": 1}],
        "k": 3,
        "role": "query",
        "beta": 1.0,
        "relevant_ids": [["p0"]],
        "mean": [[1.0, 0.0]],
        "variance": [[0.1, 0.1]],
        "filter": {"n": {"$gt": 1}},
        "passages": [Passage("new", "badero")],
        "gaussians": uec.embed(["badero"]),
        "embedding": uec.embed(["badero"]).mean[0].tolist(),
        "path": "saved",
        "uec": uec,
        "confidence": [0.1, 0.5, 0.9],
        "correct": [False, True, True],
        "risk": 0.1,
        "max_wrong": 0.1,
        "coefficients": dict.fromkeys(uec.names, 1.0),
        "history": [["and the golugo?"]],
    }


def test_every_method_has_the_parameters_it_is_called_with(fitted):
    for name, (method, parameters) in _methods(Retriever(fitted)).items():
        there = inspect.signature(method).parameters
        assert {*parameters} <= {*there, *FitOptions.__annotations__}, name


def test_calls_are_answered_or_refused_as_documented(fitted, tmp_path):
    calls = times(2500, 100_000)

    def experiment(seed):
        os.chdir(tmp_path)
        rng = random.Random(seed)
        index = Retriever(fitted)
        index.add(TEXTS, ids=[f"p{i}" for i in range(6)], metadatas=[{"n": i} for i in range(6)])
        methods, right = _methods(index), _right(fitted)
        for call in range(50):
            name = rng.choice(list(methods))
            method, parameters = methods[name]
            arguments = {}
            for parameter in parameters:
                if parameter in right and rng.random() < 0.7:
                    arguments[parameter] = right[parameter]
                elif rng.random() < 0.8:
                    arguments[parameter] = _argument(rng)
            if name in PATHS and isinstance(arguments.get("path"), int):
                continue  # a file descriptor's number, or one too large for any
            before, refused = [passage.id for passage in index.passages()], False
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    method(**arguments)
            except DOCUMENTED:
                refused = not hasattr(arguments.get("texts"), "__next__")
            except Exception as error:
                if isinstance(error, OSError) and name in PATHS:
                    continue  # no such folder, a name too long: the system's own words
                if traceback.extract_tb(error.__traceback__)[-1].filename == __file__:
                    continue  # the caller's own
                said = f"{type(error).__name__}: {error!s:.100}"
                raise AssertionError(f"{name}({arguments!r:.200}) {said}") from error
            # Nothing is half done, and it works as before.
            assert not refused or [passage.id for passage in index.passages()] == before
            assert len(index) == len(list(index.passages()))
            # What only reads is followed by a look now and then: it is most of the work.
            if len(index) and (name in WRITES or not call % 10):
                assert len(index.search(["badero"], k=2).ids[0]) == min(2, len(index))

    seeds = list(range(calls // 50))
    wrong = run_all(experiment, seeds, 50)
    lines = "\n".join(f"seed {seed}: {trace[-500:]}" for seed, trace in wrong[:40])
    assert not wrong, f"{len(wrong)} of {len(seeds)} went wrong\n{lines}"
    report(f"{calls:,} calls with odd arguments: no undocumented exception, nothing half added")
