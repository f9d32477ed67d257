"""Sixty searches, frozen: what a change of the code must not change unless it means to.

Write them anew after a change that means to: `python -m tests.retrieval.test_golden`, and say in
the commit which of them changed and why.
"""

import json
import tempfile
from pathlib import Path

import pytest

from tests.helpers import VAGUE, bag_of_words, namesakes, pairs
from tests.stores.kinds import KINDS, close
from uec_rag import UEC, Retriever

FROZEN = Path(__file__).parent / "golden.json"
STORES = ("memory", "qdrant in memory")
CUTOFFS = (1, 4, 10)
NUMBERS = ("scores", "sigma2", "relevance", "probabilities")


def build_index(store):
    """Two hundred passages, and those that answer a question for one subject each."""
    known = pairs(200)
    uec = UEC([bag_of_words(64, "fine"), "bm25"]).fit(known)
    index = Retriever(uec, store)
    texts, about = namesakes()
    plain = [{"title": f"Part {n}", "source": f"{n % 40}.txt"} for n in range(len(known))]
    ids = [*(f"p{n}" for n in range(len(known))), *(f"s{n}" for n in range(len(texts)))]
    index.add([*(passage for _, passage in known), *texts], ids, [*plain, *about])
    return index


def searches():
    """The questions of each search, and its options."""
    questions = [query for query, _ in pairs(200)[:6]] + [VAGUE]
    first, second = "Home loan", "Boat loan"  # the first two readings
    return {
        "plain": (questions, {}),
        "filter": (questions, {"filter": {"source": {"$in": ["1.txt", "7.txt", "9.txt"]}}}),
        "history": (
            questions,
            {"history": [[questions[0]], [], [VAGUE], [], *[[questions[3]]] * 3]},
        ),
        "within": ([VAGUE], {"within": second}),
        "reply": (["the first"], {"history": [[VAGUE, f"Do you mean {first} or {second}?"]]}),
    }


def rounded(values):
    """Numbers as they are written, to six decimals."""
    return [round(float(value), 6) for value in values]


def found(result):
    """What is frozen of a search."""
    return [
        {
            "ids": one.ids,
            "scores": rounded(one.scores),
            "sigma2": rounded(one.sigma2),
            "relevance": rounded(one.relevance),
            "decision": one.decision.action,
            "probabilities": rounded(
                [one.decision.confidence, one.decision.in_corpus, one.decision.underspecified]
            ),
            "readings": [reading.title for reading in one.decision.readings],
        }
        for one in result
    ]


def frozen(index):
    """All searches of an index, by their names."""
    return {
        f"{name}, k={k}": found(index.search(questions, k, **options))
        for name, (questions, options) in searches().items()
        for k in CUTOFFS
    }


def write():
    """Freeze the searches as they are now."""
    every = {}
    for kind in STORES:
        with tempfile.TemporaryDirectory() as folder:
            store = KINDS[kind](Path(folder))
            every[kind] = frozen(build_index(store))
            close(store)
    FROZEN.write_text(json.dumps(every) + "\n")


@pytest.mark.parametrize("kind", STORES)
def test_searches_find_what_they_found(kind, tmp_path):
    store = KINDS[kind](tmp_path)
    now, before = frozen(build_index(store)), json.loads(FROZEN.read_text())[kind]
    close(store)
    assert now.keys() == before.keys()
    for name, results in before.items():
        for one, other in zip(now[name], results, strict=True):
            for key, expected in other.items():
                if key in NUMBERS:
                    expected = pytest.approx(expected, rel=1e-3, abs=1e-4)
                assert one[key] == expected, (name, key)


if __name__ == "__main__":
    write()
