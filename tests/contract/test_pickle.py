"""What is pickled does the same in another process, or says which part cannot go there."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from io import BytesIO
from multiprocessing import get_context

import cloudpickle
import joblib
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.vectorstores import InMemoryVectorStore

from tests.helpers import bag_of_words, noise
from uec_rag import UEC, Gate, Retriever, langchain, llama_index
from uec_rag.stores.qdrant import QdrantStore

TEXTS = ["Cats purr when they are content.", "Dogs bark at strangers.", "Birds sing at dawn."]
Q = "Why do cats purr?"


def agreed(question, texts):
    """An advisor that another process can import."""
    return True


def index_in_memory(folder):
    index = Retriever(UEC([noise, "bm25"]), language="de")
    index.add([*TEXTS, "gone"], ids=["cats", "dogs", "birds", "gone"], metadatas=[{"n": 1}] * 4)
    index.delete(["gone"])
    index.gate = Gate(0.3)
    return index


def index_in_a_folder(folder):
    index_in_memory(folder).save(folder / "index")
    Gate(0.3).save(folder / "index/gate.json")
    Retriever.load(folder / "index", encoders={"noise": noise}).label(Q, ["cats"])
    return Retriever.load(folder / "index", encoders={"noise": noise}, read_only=True)


INDEXES = {
    "in memory": index_in_memory,
    "in a folder": index_in_a_folder,
    "a view": lambda folder: index_in_a_folder(folder).with_gate(Gate(0.3)),
    "other weights": lambda folder: index_in_memory(folder).with_weights({"noise": 0, "bm25": 1}),
}


def of_documents(found):
    return [(hit.id, hit.metadata["uec_decision"], hit.metadata["uec_reason"]) for hit in found]


def of_nodes(found):
    return [
        (hit.node_id, hit.metadata["uec_decision"], hit.metadata["uec_reason"]) for hit in found
    ]


def gate_of_langchain(index):
    gate = Gate(0.3, advisor=langchain.chat_advisor(FakeListChatModel(responses=["yes"])))
    return langchain.UECGate(retriever=langchain.UECVectorStore(index).as_retriever(), gate=gate)


# What is pickled, and what it is asked.
WHOLE = {
    "Retriever": (lambda index: index, lambda x: x.search([Q], filter={"n": 1})[0]),
    "UEC": (lambda index: index.uec.with_cache(), lambda x: x.embed([Q]).mean.tolist()),
    "store": (lambda index: index.store, lambda x: [*x.passages()]),
    "passages": (lambda index: index.passages({"n": 1}), list),
    "LangChain's store": (langchain.UECVectorStore, lambda x: x.similarity_search(Q)),
    "LangChain's retriever": (
        lambda index: langchain.UECVectorStore(index).as_retriever(),
        lambda x: of_documents(x.invoke(Q)),
    ),
    "LangChain's gate": (gate_of_langchain, lambda x: of_documents(x.invoke(Q)["documents"])),
    "LlamaIndex's store": (llama_index.UECVectorStore, lambda x: x.get_nodes()),
    "LlamaIndex's retriever": (llama_index.UECRetriever, lambda x: of_nodes(x.retrieve(Q))),
    "LlamaIndex's postprocessor": (
        lambda index: llama_index.UECGatePostprocessor(gate=Gate(0.2, advisor=agreed)),
        lambda x: (x.gate, x.gate.advisor(Q, TEXTS)),
    ),
    "LlamaIndex's embedding": (
        lambda index: llama_index.UECEmbedding(index.uec),
        lambda x: x.get_query_embedding(Q),
    ),
}


def told(kind, made):
    """What an object tells, as text."""
    result = WHOLE[kind][1](made)
    if kind == "Retriever":
        result = result.ids, result.decision.action, result.decision.reason, made.labels
    return repr(result)


def told_elsewhere(pickled):
    return {kind: told(kind, pickle.loads(content)) for kind, content in pickled.items()}


@pytest.mark.slow
@pytest.mark.parametrize("make", INDEXES.values(), ids=INDEXES)
def test_it_does_the_same_in_a_process_that_starts_anew(make, tmp_path):
    index = make(tmp_path)
    whole = {kind: make_it(index) for kind, (make_it, _) in WHOLE.items()}
    expected = {kind: told(kind, made) for kind, made in whole.items()}
    pickled = {kind: pickle.dumps(made, protocol=2) for kind, made in whole.items()}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(told_elsewhere, pickled).result() == expected
    index.close()


@pytest.mark.parametrize("make", INDEXES.values(), ids=INDEXES)
def test_joblib_and_cloudpickle_take_it_and_a_copy_shares_the_passages(make, tmp_path):
    index = make(tmp_path)
    joblib.dump(index, kept := BytesIO())
    kept.seek(0)
    for back in (joblib.load(kept), cloudpickle.loads(cloudpickle.dumps(index))):
        assert told("Retriever", back) == told("Retriever", index)
        assert back.folder in (None, index.folder)
    assert copy.copy(index).store is copy.deepcopy(index).store is index.store


def test_in_memory_it_is_a_copy_and_of_a_folder_it_is_the_same_index(tmp_path):
    for make, is_same in ((index_in_memory, False), (index_in_a_folder, True)):
        index = make(tmp_path)
        if is_same:
            index = Retriever.load(index.folder, index.uec)
        back = pickle.loads(pickle.dumps(index))
        back.add(["Fish swim."], ids=["fish"])
        assert [passage.id for passage in index.get(["fish"])] == (["fish"] if is_same else [])
        back.delete(["cats"])
        assert back.search(["Do fish swim?"], 1).ids == [["fish"]]
        assert len(back) == 3


def test_an_index_whose_folder_is_not_there_is_not_made_anew(tmp_path):
    index = Retriever.load(index_in_a_folder(tmp_path).folder, encoders={"noise": noise})
    pickled = pickle.dumps(index)
    index.folder.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="no saved index at"):
        pickle.loads(pickled)
    assert not index.folder.exists()


def over_a_store(_):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    return langchain.UECRetriever.over(store)


def in_an_engine(_):
    return Retriever(UEC([noise]), QdrantStore(location=":memory:"))


unnamed = bag_of_words(8, "a")
LOAD = r"Retriever\.load\(path, store=\.\.\.\)"
CANNOT = {
    "engine": (in_an_engine, rf"store: QdrantStore does not pickle: .*{LOAD}"),
    "another's store": (over_a_store, rf"store: SourceStore does not pickle: .*{LOAD}"),
    "function": (lambda _: UEC([unnamed]), r"encoder: what 'a' embeds with .*encoders={'a': "),
    "embedding": (
        lambda _: llama_index.UECEmbedding(UEC([unnamed])),
        "encoder: what 'a' embeds with does not pickle",
    ),
    "advisor": (lambda _: Gate(advisor=lambda *_: True), "advisor: .*load it .*advisor="),
    "gate's advisor": (
        lambda _: llama_index.UECGatePostprocessor(gate=Gate(advisor=lambda *_: True)),
        "advisor: it does not pickle",
    ),
}


@pytest.mark.parametrize(("make", "message"), CANNOT.values(), ids=CANNOT)
def test_what_cannot_go_says_so_and_stays_as_it_is(make, message):
    made = make(None)
    with pytest.raises(TypeError, match=message):
        pickle.dumps(made)
    assert type(copy.deepcopy(made)) is type(made)
    if "store" not in message:
        back = cloudpickle.loads(cloudpickle.dumps(made))
        assert vars(back).keys() == vars(made).keys()
