"""Over a store, nothing that a tenant is given depends on what others keep there.

A has 60 passages, B a thousand, with words that A has and words that A asks for. Each question is
asked with and without B's: decisions, reasons, hits and all numbers are equal.
"""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

import pytest

from tests.contract.test_over_filters import over_filled
from tests.helpers import bag_of_words, index_of, pairs, passages
from tests.stores.kinds import KINDS
from tests.survival.scale import times
from uec_rag import UEC
from uec_rag.adapters.tool import answer_record

A, B = {"customer": "a"}, {"customer": "b"}
WORDS = sorted({word for text in passages(90) for word in text.split()})
RARE = ["sabbatical", "quarantine", "relocation", "bereavement"]
OWN = [
    *(
        f"Annual leave: {words} is granted for {days} days."
        for days, words in enumerate(passages(40))
    ),
    *(
        f"The {a} of the {b} is repaired by {c}."
        for a, b, c in zip(WORDS, WORDS[9:], WORDS[17:20] * 9, strict=False)
    ),
][:60]
THEIRS = [
    f"Annual leave of {RARE[at % 4]} {WORDS[at % 200]} {WORDS[(7 * at) % 200]} number {at}."
    for at in range(1000)
]


@cache
def uec():
    """An ensemble; not to be changed."""
    return UEC([bag_of_words(16, "small"), "bm25"]).fit(pairs(120))


def questions(count, rng):
    """Questions of A: about A's passages, B's words, and prefixes of them."""
    for _ in range(count):
        word = rng.choice([*RARE, *WORDS])
        yield rng.choice(
            [
                f"How long is annual leave of {word}?",
                f"annual leave {word[: rng.randint(1, len(word))]}",
                f"Who repairs the {rng.choice(WORDS)}?",
                f"{word} {rng.choice(RARE)[: rng.randint(2, 9)]}",
                " ".join(rng.sample(OWN[rng.randrange(60)].split(), 4)),
                f"{rng.choice(RARE)}s",
            ]
        )


def is_alike(index, one, two):
    """Whether A is told the same: to the last bit, but in ours, whose sums have another order."""
    if isinstance(one, float) and isinstance(two, float):
        return one == two if index.store.is_elsewhere else abs(one - two) < 2e-6
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(is_alike(index, one[k], two[k]) for k in one)
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        pairs = zip(one, two, strict=False)
        return len(one) == len(two) and all(is_alike(index, *pair) for pair in pairs)
    return bool(one == two)


def told(index, question, seed):
    """All that A is told of a question."""
    rng = random.Random(seed)
    options = rng.choice([{}, {}, {"filter": {"n": {"$lt": 30}}}, {"history": [["annual leave"]]}])
    result = index.search([question], rng.randint(1, 9), tenant=A, **options)
    [row] = result
    hits = [row.metadata(rank, details=True) for rank in range(len(row.hits))]
    return answer_record(row), row.decision.metadata(), hits


def filled(name, folder, *, others):
    texts = [*OWN, *(THEIRS if others else ())]
    ids = [f"00000000-0000-0000-0000-{at:012}" for at in range(len(texts))]
    metadatas = [A | {"n": at} if at < len(OWN) else B | {"n": at} for at in range(len(texts))]
    folder.mkdir()
    if name in KINDS:
        return index_of(uec(), texts, ids, metadatas, store=KINDS[name](folder))
    return over_filled(name, folder, texts, ids, metadatas, uec()).index


STORES = ["InMemory", "FAISS", "Chroma", "Qdrant", "SimpleVectorStore", "memory", "qdrant's engine"]


@pytest.mark.parametrize("name", STORES)
def test_what_others_keep_changes_no_number(name, tmp_path):
    count, rng = times(24, 750), random.Random(1)
    asked = [*enumerate(questions(count, rng))]
    alone = filled(name, tmp_path / "alone", others=False)
    expected = [told(alone, question, seed) for seed, question in asked]
    both = filled(name, tmp_path / "both", others=True)
    differing = [
        question
        for (seed, question), before in zip(asked, expected, strict=True)
        if not is_alike(both, told(both, question, seed), before)
    ]
    assert not differing
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:  # while B asks, too
            others = pool.map(partial(_ask_as_b, both), asked)
            rows = [*pool.map(lambda one: told(both, one[1], one[0]), asked)]
            assert all(others)
    finally:
        sys.setswitchinterval(interval)
    for (_, question), row, before in zip(asked, rows, expected, strict=True):
        assert is_alike(both, row, before), question


def _ask_as_b(index, asked):
    return bool(index.search([asked[1]], tenant=B))
