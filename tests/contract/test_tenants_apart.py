"""A tenant is told nothing of another one, whatever the store, the filter, the call and the order.

Of two tenants, each has passages that differ in all words of a kind, ids, titles and sources; some
texts both have. Calls with random filters of one of them, in turns and in threads, may show nothing
of the other: not in texts, ids, metadata, reasons, options, spellings or numbers.
"""

import functools
import itertools
import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from tests.contract.test_over_filters import LANGCHAIN, LLAMA_INDEX, Member, over_filled
from tests.helpers import index_of, pairs
from tests.stores.kinds import KINDS
from tests.survival.scale import times
from uec_rag import UEC, Retriever, UnknownReading, langchain, llama_index
from uec_rag.adapters.tool import answer_record, count_by_source, report_of
from uec_rag.gates import Gate
from uec_rag.llama_index.nodes import passage_filter
from uec_rag.retrieval.diversity import Diversity

NAMES = {
    "a": ["amber", "aspen", "acorn", "agate", "almond", "apricot"],
    "b": ["birch", "bronze", "badger", "barley", "basil", "bamboo"],
}
THINGS = ["camera", "desk", "laptop", "projector", "ladder", "bicycle"]
OTHER = {"a": "b", "b": "a"}
COMMON = ["The library opens at nine.", "Who repairs a door is paid by the owner of the door."]
QUESTIONS = [
    *("repay it", "How do I repay it?", "When does the library open?", "Who repairs the door?"),
    *(f"How long can the {thing} be borrowed?" for thing in THINGS),
    *("Which desk is it, and how much does it cost?", "thanks!", "What is the capital of France?"),
]


def passages_of(letter):
    """The texts, ids and metadata of a tenant."""
    texts = [
        text
        for number, name in enumerate(NAMES[letter])
        for text in (
            f"How to repay: you repay it in monthly instalments, {number + 5} in all, at {name}s.",
            f"The {THINGS[number]} of the {name}s can be borrowed for {number + 2} days.",
        )
    ]
    ids = [f"{letter * 8}-0000-0000-0000-{at:012}" for at in range(len(texts) + len(COMMON))]
    metadatas = [
        {
            "t": letter,
            "team": f"team {letter}",
            "n": at + 100 * (letter == "b"),
            "title": f"{NAMES[letter][at // 2 % 6].title()} loan",
            "source": f"{NAMES[letter][at // 2 % 6]}/guide.md",
        }
        for at in range(len(ids))
    ]
    return [*texts, *COMMON], ids, metadatas


def fields():
    columns = zip(*map(passages_of, "ab"), strict=True)
    return [[*itertools.chain.from_iterable(column)] for column in columns]


def of_theirs(name, folder, uec):
    """An index over a store of LangChain or LlamaIndex."""
    return over_filled(name, folder, *fields(), uec).index


def saved(folder, uec):
    index = index_of(uec, *fields())
    index.save(folder / "saved")
    return Retriever.load(folder / "saved", uec, read_only=True)


def of_ours(kind, folder, uec):
    index = index_of(uec, *fields(), store=KINDS[kind](folder))
    return index


SLOW = "LanceDB", "LanceDBVectorStore", "PGVector", "PGVectorStore", "qdrant in a folder"
STORES = {
    **{kind: functools.partial(of_ours, kind) for kind in KINDS},
    "saved": saved,
    **{
        kind: functools.partial(of_theirs, kind)
        for kind in (*LANGCHAIN, *LLAMA_INDEX)
        if kind not in ("Qdrant with whole ids", "FAISS with an IVF index")
    },
}
EVERY = [pytest.param(k, marks=pytest.mark.slow) if k in SLOW else k for k in STORES]


class OfTeam:
    """A function of a passage as a short-lived object."""

    def __init__(self, letter):
        self.letter = letter

    def __call__(self, passage):
        return passage.metadata["t"] == self.letter


def theirs(key, value, operator):
    one = MetadataFilter(key=key, value=value, operator=FilterOperator[operator])
    return MetadataFilters(filters=[one])


def filters_of_llama_index(letter, rng):
    """A random filter of LlamaIndex that selects the passages of one tenant."""
    return rng.choice(
        [
            theirs("t", letter, "EQ"),
            theirs("t", letter, "TEXT_MATCH"),
            theirs("t", letter.upper(), "TEXT_MATCH_INSENSITIVE"),
            theirs("t", letter, "IN"),
            theirs("t", [letter], "IN"),
            theirs("t", [OTHER[letter]], "NIN"),
            theirs("t", OTHER[letter], "NE"),
            theirs("team", f"team {letter}", "TEXT_MATCH"),
            theirs("n", 100, "LT" if letter == "a" else "GTE"),
        ]
    )


def filter_of(letter, rng):
    """A random filter that selects the passages of one tenant."""
    other, is_first = OTHER[letter], letter == "a"
    chosen = rng.choice(
        [
            {"t": letter},
            {"t": {"$in": [letter, "c"]}},
            {"t": {"$nin": [other]}},
            {"t": {"$not": {"$eq": other}}},
            {"$not": {"team": f"team {other}"}},
            {"team": {"$contains": f"m {letter}"}},
            {"n": {"$lt": 100}} if is_first else {"n": {"$gte": 100}},
            {"$id": passages_of(letter)[1]},
            lambda passage: passage.metadata["t"] == letter,
            OfTeam(letter),
            {"$and": [lambda passage: passage.metadata["t"] == letter]},
            {"$not": functools.partial(lambda wrong, p: p.metadata["t"] == wrong, other)},
            passage_filter(filters_of_llama_index(letter, rng)),
        ]
    )
    if rng.random() < 0.5:
        return chosen
    always, never = (
        rng.choice([{"n": {"$gte": -1}}, lambda _: True]),
        rng.choice([{"n": "none"}, OfTeam("c")]),
    )
    joined = [chosen, always]
    rng.shuffle(joined)
    ways = [{"$and": joined}, {"$or": [chosen, never]}, {"$not": {"$not": chosen}}]
    return rng.choice(ways)


def question_of(letter, rng):
    """A random question: a common one, about one's own, or with a word of the other mistyped."""
    if rng.random() < 0.5:
        return rng.choice(QUESTIONS)
    name, is_other = rng.choice([*NAMES["a"], *NAMES["b"]]), rng.random() < 0.5
    name = rng.choice(NAMES[OTHER[letter] if is_other else letter])
    at = rng.randrange(1, len(name) - 1)
    if is_other:
        name = name[:at] + name[at + 1 :]
    return rng.choice([f"How do I repay the {name} loan?", f"When do the {name}s open?"])


def words_of(letter):
    """What nobody else may be told of a tenant."""
    return [*NAMES[letter], f"team {letter}", letter * 8, f'"t": "{letter}"']


def shown_in(told, letter):
    said = json.dumps(told, default=repr).casefold()
    return [word for word in words_of(OTHER[letter]) if word in said]


def in_index(index, letter, rng):
    question, k = question_of(letter, rng), rng.randint(1, 9)
    options = rng.choice([{}, {}, {"history": [["repay it"]]}, {"diversity": Diversity(9, 0.5)}])
    one = filter_of(letter, rng)
    given = rng.choice(
        [{"tenant": one}, {"filter": one}, {"tenant": one, "filter": filter_of(letter, rng)}]
    )
    chosen = rng.choice(
        [None] * 6 + [*passages_of(OTHER[letter])[1][:2], "Birch loan", "the first"]
    )
    options |= given | ({} if chosen is None else {"within": chosen})
    search = functools.partial(Gate(0.6).search, index) if rng.random() < 0.3 else index.search
    try:
        [result] = search([question], k, **options)
    except UnknownReading as error:
        return str(error).replace(str(chosen), "")
    size = result.decision.size
    assert size <= len(passages_of(letter)[1]), size
    # None where the store has ids of its own, and the filter other ones.
    metadata = [result.metadata(rank) for rank in range(len(result.hits))]
    return answer_record(result) | {"question": ""}, repr(result.decision), metadata


def in_langchain(index, letter, rng):
    question, one = question_of(letter, rng), filter_of(letter, rng)
    store = langchain.UECVectorStore(index)
    retriever = langchain.UECRetriever(vectorstore=store, details=rng.random() < 0.5)
    if rng.random() < 0.5:
        found = retriever.invoke(question, tenant=one)
    else:
        gate = langchain.UECGate(retriever=retriever.model_copy(update={"tenant": one}))
        state = gate.invoke(question)
        found = state["documents"]
        assert not shown_in({**state, "question": "", "documents": []}, letter)
    return [(d.id, d.page_content, {**d.metadata}) for d in found]


def in_llama_index(index, letter, rng):
    one = filters_of_llama_index(letter, rng)
    given = rng.choice(["tenant", "filters"])
    retriever = llama_index.UECRetriever(index, details=rng.random() < 0.5, **{given: one})
    found = retriever.retrieve(question_of(letter, rng))
    return [(node.node_id, node.text, {**node.metadata}) for node in found]


def in_view(index, letter, rng):
    """What an agent is told."""
    view = index.of_tenant(filter_of(letter, rng))
    return (
        answer_record(view.search([question_of(letter, rng)])[0]) | {"question": ""},
        [passage.text for passage in view.get(passages_of(OTHER[letter])[1])],
        count_by_source(view),
        report_of(view),
    )


WAYS = [in_index] * 4 + [in_langchain, in_llama_index, in_view]


def call(index, seed):
    """One random call of one tenant; what it was shown of the other one."""
    rng = random.Random(seed)
    letter = rng.choice("ab")
    way = rng.choice(WAYS)
    told = way(index, letter, rng)
    return [(seed, way.__name__, letter, word) for word in shown_in(told, letter)]


@pytest.fixture(scope="module")
def uec():
    """An ensemble of the embedding that the stores have, and of words; not to be changed."""
    return UEC([Member(), "bm25"]).fit(pairs(120))


@pytest.mark.filterwarnings("ignore::uec_rag.base.errors.UECWarning")
@pytest.mark.parametrize("kind", EVERY)
def test_nothing_of_another_tenant_is_shown_in_turns_or_in_threads(kind, uec, tmp_path):
    index, count = STORES[kind](tmp_path, uec), times(20, 530)
    shown = [one for seed in range(count) for one in call(index, seed)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            seeds = range(count, 2 * count)
            for row in pool.map(functools.partial(call, index), seeds):
                shown += row
    finally:
        sys.setswitchinterval(interval)
    assert not shown
