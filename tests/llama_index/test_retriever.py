import pytest
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import IndexNode, QueryBundle, TextNode

from tests.helpers import data_of
from uec_rag import UEC
from uec_rag.llama_index import UECQueryEngine, UECRetriever, UECVectorStore, retriever_tool


@pytest.mark.slow
def test_documents_are_split_and_blank_ones_left_out(fitted, texts):
    documents = [
        Document(text=f"{texts[0]}. {texts[1]}.", id_="two"),
        Document(text=" ", id_="none", metadata={"file_path": "scan.pdf"}),
        Document(text=texts[2], id_="one", metadata={"page": 3}),
    ]
    parser = SentenceSplitter(chunk_size=50, chunk_overlap=0)
    with pytest.warns(UserWarning, match=r"1 without text are left out: 'scan\.pdf'"):
        retriever = UECRetriever.from_documents(documents, fitted, node_parser=parser)
    store = UECVectorStore(fitted)
    with pytest.warns(UserWarning, match="left out"):
        assert store.add([TextNode(text=" ", id_="none", metadata={"page": 3})]) == ["none"]
    assert len(store.get_nodes()) == 0
    found = retriever.retrieve(texts[1])
    assert found[0].node.ref_doc_id == "two"
    assert {hit.node.ref_doc_id for hit in found} == {"one", "two"}
    assert len(retriever.index) > 2
    assert UECRetriever.from_documents(documents[2:], fitted).retrieve("a")[0].metadata["page"] == 3


def test_several_texts_for_one_question_are_searched_as_one(retriever, texts):
    bundle = QueryBundle("lumane", custom_embedding_strs=[texts[7], texts[11]])
    found = retriever.retrieve(bundle)
    assert {hit.node_id for hit in found[:2]} == {"n7", "n11"}
    assert found == retriever.retrieve(f"{texts[7]}\n{texts[11]}")


def test_no_hits_or_filters_of_others_are_refused_before_anything_is_embedded(counting, texts):
    uec, encoders = counting
    with pytest.raises(ValueError, match="k: expected an integer >= 1, got 0"):
        UECRetriever.from_texts(texts, uec, similarity_top_k=0)
    with pytest.raises(TypeError, match="expected LlamaIndex MetadataFilters, got dict"):
        UECRetriever.from_texts(texts, uec, filters={"lang": "de"})
    assert encoders[0].texts == []


MADE = UECRetriever.from_documents


def over_one():
    return VectorStoreIndex([TextNode(text="a")], embed_model=MockEmbedding(8))


REFUSED = {
    r"\[0\]: expected a Document or node of llama_index\.core\.schema, got str;": (
        lambda uec: MADE("ab", uec)
    ),
    r"documents\[1\]: .* got str;": lambda uec: MADE([Document(text="a"), "b"], uec),
    r"a list of Documents, got one; pass \[document\]": lambda uec: MADE(Document(text="a"), uec),
    r"expected a uec_rag\.Retriever, got UEC; for a saved": UECRetriever,
    "k: expected similarity_top_k": lambda uec: UECRetriever.from_texts(["a"], uec, k=3),
    "retriever: expected a retriever of LlamaIndex, got str": lambda uec: retriever_tool("index"),
    "of LlamaIndex, got UEC": lambda uec: UECQueryEngine.from_args(uec, MockLLM()),
    r"streamin: expected no such argument, got True; did you mean 'streaming'": (
        lambda uec: UECQueryEngine.from_args(UECRetriever.from_texts(["a"], uec), streamin=True)
    ),
    r"embed_model: expected no such argument, got UEC.*; known are .* embedding,": (
        lambda uec: UECRetriever.over(over_one(), uec, embed_model=uec)
    ),
    r"filter: .* got \{'a': 1\}; did you mean 'filters'": (
        lambda uec: UECRetriever.over(over_one(), uec, filter={"a": 1})
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_it_cannot_be_made_of_or_asked_is_refused(fitted, message):
    with pytest.raises(TypeError, match=message):
        REFUSED[message](fitted)


@pytest.mark.parametrize(
    "delete",
    [
        lambda index, node: index.delete_ref_doc(node.ref_doc_id),
        lambda index, node: index.delete_nodes([node.node_id]),
        lambda index, node: index.docstore.add_documents([TextNode(text=f"{node.text} Twice.")]),
    ],
    ids=["by its document", "by its id", "but of another index"],
)
@pytest.mark.parametrize("made_before", [True, False])
def test_what_an_index_does_not_have_is_not_found_in_its_docstore(texts, delete, made_before):
    index = VectorStoreIndex.from_documents(
        [Document(text=text, id_=f"d{at}") for at, text in enumerate(texts)],
        embed_model=MockEmbedding(8),
    )
    over = [UECRetriever.over(index, fit=False)] if made_before else []
    [node] = [node for node in index.docstore.docs.values() if node.text == texts[3]]
    assert all(retriever.retrieve(texts[3])[0].text == node.text for retriever in over)
    delete(index, node)
    here = {index.docstore.docs[id_].text for id_ in index.vector_store.data.embedding_dict}
    for retriever in (*over, UECRetriever.over(index, fit=False)):
        assert {hit.text for hit in retriever.retrieve(texts[3])} <= here


PRINTERS = [
    "The printer in the north wing takes black toner of the old kind.",
    "The printer in the library needs toner from the store room.",
    "The printer beside the lab has toner for colour pages.",
]
WRITTEN = data_of("retriever.json")


@pytest.mark.parametrize("metadata", WRITTEN, ids=str)
@pytest.mark.parametrize("asked", ["printer toner", "Where is the toner of the printer?", "toner"])
def test_readings_are_of_a_nodes_own_text_and_not_of_what_a_framework_writes(metadata, asked):
    nodes = [
        TextNode(text=text, metadata={key: form.format(at, at) for key, form in metadata.items()})
        for at, text in enumerate(PRINTERS)
    ]
    found = UECRetriever.from_nodes(nodes, UEC(["bm25"])).index.search([asked])
    words = {word.strip(".…").casefold() for text in PRINTERS for word in text.split()}
    of_files = {f"printers{at}" for at in range(3)} | {"printers0.txt", "printers1.txt"}
    for reading in found.decisions[0].readings:
        told = {word.strip(".…“”").casefold() for word in reading.title.split()}
        assert told <= words | of_files | {"printers2.txt"}


def test_metadata_still_tell_nodes_apart_that_say_the_same():
    nodes = [
        TextNode(text="The office opens at nine.", metadata={"city": city})
        for city in ("Lund", "Oslo")
    ]
    index = UECRetriever.from_nodes(nodes, UEC(["bm25"])).index
    [found] = index.search(["When does the office open?"])
    assert {"Lund", "Oslo"} <= {reading.title for reading in found.decision.readings}


async def test_what_stands_in_the_place_of_an_index_node_has_its_decision():
    whole = TextNode(text="Skis are lent for a week. Boots cost ten euros.", id_="whole")
    texts = ["Skis are lent for a week.", "The ferry leaves at nine.", "The chapel is old."]
    nodes = [IndexNode(text=text, index_id=f"n{at}") for at, text in enumerate(texts)]
    nodes[0].index_id = "skis"
    retriever = UECRetriever.from_nodes(nodes, UEC(["bm25"]), object_map={"skis": whole})
    question = "How long are skis lent?"
    for hits in (retriever.retrieve(question), await retriever.aretrieve(question)):
        assert hits[0].node.node_id == "whole"
        assert hits[0].node.get_content() == whole.text
        assert hits[0].metadata["uec_decision"] == hits[1].metadata["uec_decision"] == "answer"
        assert len({hit.node.node_id for hit in hits}) == len(hits) == 3
    assert not whole.metadata
