import json

import pytest
from llama_index.core import schema
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock

from uec_rag.llama_index import UECRetriever
from uec_rag.llama_index.nodes import hits, node_of, passages_of, turns
from uec_rag.questions.replies import Reading, clarifying_question
from uec_rag.stores import Passage


def stored(node):
    """The node as it comes out of an index that was saved."""
    passage = passages_of([node])[0]
    return node_of(
        type(passage)(passage.id, passage.text, json.loads(json.dumps(passage.metadata)))
    )


def test_how_an_index_keeps_track_of_its_files_is_not_shown_to_a_model():
    known = {"source": "a.md", "title": "Cats", "file_sha256": "ab", "file_passages": 1}
    node = node_of(Passage("a.md#0", "Cats purr.", known))
    for mode in (schema.MetadataMode.LLM, schema.MetadataMode.EMBED):
        assert node.get_content(mode) == "source: a.md\ntitle: Cats\n\nCats purr."
    assert node.metadata["file_sha256"] == "ab"


def test_what_is_embedded_is_the_text_with_the_metadata_that_is_not_excluded():
    node = schema.TextNode(
        text="Cats purr.",
        metadata={"title": "Cats", "page": 3},
        excluded_embed_metadata_keys=["page"],
    )
    assert passages_of([node])[0].text == "title: Cats\n\nCats purr."


@pytest.mark.parametrize(
    "node",
    [
        schema.IndexNode(text="a", index_id="elsewhere"),
        schema.ImageNode(text="a", image_url="https://example.org/a.png"),
        schema.Node(text_resource=schema.MediaResource(text="a")),
    ],
)
def test_a_node_of_any_kind_comes_out_as_it_went_in_but_for_its_embedding(nodes, node):
    for one in (nodes[3], node):
        assert stored(one) == one
    embedded = nodes[0].model_copy(update={"embedding": [0.25] * 56})
    assert "0.25" not in json.dumps(passages_of([embedded])[0].metadata)


def test_a_document_and_a_passage_without_a_node_come_out_as_text_nodes():
    document = stored(schema.Document(text="Cats purr.", id_="cats", metadata={"page": 3}))
    for node in (document, node_of(Passage("cats", "Cats purr.", {"page": 3}))):
        assert type(node) is schema.TextNode
        assert (node.node_id, node.text, node.metadata) == ("cats", "Cats purr.", {"page": 3})


def test_two_searches_find_one_node_whatever_its_scores(fitted, texts):
    node = schema.TextNode(
        id_="a", text=texts[0], metadata={"page": 3}, excluded_embed_metadata_keys=["page"]
    )
    index = UECRetriever.from_nodes([node], fitted).index
    first, second = (hits(index.search([q], 1))[0] for q in (texts[0], texts[1]))
    assert first.score > second.score
    assert first.node.hash == second.node.hash == node.hash


def test_a_hit_shows_an_llm_and_an_embedding_model_what_the_node_shows(fitted, nodes):
    retriever = UECRetriever.from_nodes(nodes, fitted).index
    result = retriever.search([nodes[5].text], 3)
    for rank, hit in enumerate(hits(result, details=True)):
        node = nodes[int(hit.node_id[1:])]
        for mode in (schema.MetadataMode.LLM, schema.MetadataMode.EMBED, schema.MetadataMode.NONE):
            assert hit.node.get_content(mode) == node.get_content(mode)
        assert hit.metadata == {**node.metadata, **result[0].metadata(rank, details=True)}


ASKED = "Who repairs the door opener?"
HISTORY = [
    ChatMessage("Be brief.", role="system"),
    ChatMessage(ASKED),
    ChatMessage("The caretaker.", role="assistant"),
]
SENTENCE = clarifying_question([Reading(label, (label,), 0.5) for label in ("git add", "rsync")])


def test_turns_are_the_users_and_the_answers_that_asked_back():
    picture = ChatMessage(blocks=[TextBlock(text="this?"), ImageBlock(image=b"AAAA")])
    assert turns([*HISTORY, "two", picture]) == [ASKED, "two", "this?"]
    assert turns([ChatMessage("one"), ChatMessage(SENTENCE, role="assistant")]) == ["one", SENTENCE]
    assert turns(None) == []
