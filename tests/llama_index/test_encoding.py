"""Texts that LlamaIndex brings twice, once to the embedding and once to the store."""

import copy
import gc
import threading
import weakref

import numpy as np
import pytest
from llama_index.core.schema import TextNode

from tests.helpers import LinearHead, bag_of_words
from uec_rag import UEC
from uec_rag.ensemble.known_vectors import encode
from uec_rag.llama_index import UECEmbedding, UECVectorStore


def same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-6)
        np.testing.assert_allclose(one.variance, other.variance, rtol=1e-4)


def test_what_was_encoded_lately_is_not_encoded_again_and_keeps_its_variance(
    counting, fitted, texts
):
    uec, encoders = counting
    encode(uec, texts[:4], "passage")
    same(
        encode(uec, [texts[2], texts[0]], "passage"), fitted.encode([texts[2], texts[0]], "passage")
    )
    assert encoders[0].texts == texts[:4]


def test_only_what_is_missing_is_encoded_each_text_once(counting, fitted, texts):
    uec, encoders = counting
    encode(uec, texts[:2], "passage")
    wanted = [texts[5], texts[1], texts[5], texts[1]]
    same(encode(uec, wanted, "passage"), fitted.encode(wanted, "passage"))
    assert encoders[0].texts == [*texts[:2], texts[5]]


def test_a_passage_is_no_query(counting, texts):
    uec, encoders = counting
    encode(uec, texts[:1], "passage")
    encode(uec, texts[:1], "query")
    assert len(encoders[0].texts) == 2


def test_fitting_again_changes_what_is_made_of_what_is_remembered(texts):
    uec = UEC([bag_of_words(12, "a")], structure="diag")
    with pytest.warns(UserWarning, match="not fitted"):
        assert not encode(uec, texts, "passage")[0].variance.any()
    uec.fit([(" ".join(text.split()[:4]), text) for text in texts])
    same(encode(uec, texts, "passage"), uec.encode(texts, "passage"))


def test_a_memory_lives_as_long_as_its_ensemble(texts):
    encoder = bag_of_words(4, "a")
    uec = UEC([encoder])
    with pytest.warns(UserWarning, match="not fitted"):
        encode(uec, texts, "query")
    place = weakref.ref(uec)
    del uec
    gc.collect()
    assert place() is None


def elsewhere(uec):
    """The same ensemble as another process has it: nothing in memory."""
    twin = copy.copy(uec)
    for encoder in twin.encoders:
        encoder._given.texts.clear()
    return twin


def embedded(uec, texts):
    vectors = UECEmbedding(uec=uec).get_text_embedding_batch(texts)
    return [
        TextNode(id_=str(i), text=text, embedding=vector)
        for i, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]


@pytest.mark.parametrize("use_async", [False, True])
async def test_vectors_of_another_process_spare_all_but_one_text(
    counting, fitted, texts, use_async
):
    uec, encoders = counting
    nodes = embedded(uec, texts)
    store = UECVectorStore(elsewhere(uec))
    await store.async_add(nodes) if use_async else store.add(nodes)
    assert [encoder.texts for encoder in encoders] == [texts[:1]] * 2
    expected = UECVectorStore(fitted)
    expected.add([TextNode(id_=node.node_id, text=node.text) for node in nodes])
    ids = [node.node_id for node in nodes]
    ours, theirs = store.retriever.vectors(ids), expected.retriever.vectors(ids)
    same([ours], [theirs])


def test_vectors_of_another_model_are_not_taken_for_ours_and_that_is_said(
    counting, fitted, texts, caplog
):
    uec, encoders = counting
    rng = np.random.default_rng(0)
    nodes = [TextNode(text=text, embedding=rng.normal(size=56).tolist()) for text in texts]
    store = UECVectorStore(elsewhere(uec))
    store.add(nodes)
    assert sorted(encoders[0].texts) == sorted(texts)
    assert f"{len(texts)} texts have vectors already and are encoded again" in caplog.text


def test_one_vector_that_is_no_ones_is_found_among_ours(counting, texts):
    uec, encoders = counting
    nodes = embedded(uec, texts)
    nodes[7].embedding = [0.1] * 56
    store = UECVectorStore(elsewhere(uec))
    store.add(nodes)
    assert encoders[0].texts == [texts[0], texts[7]]


def test_a_last_layer_of_its_own_does_not_show_in_a_vector(texts, caplog):
    uec = UEC([LinearHead()]).fit([(" ".join(text.split()[:4]), text) for text in texts])
    nodes = embedded(uec, texts)
    store = UECVectorStore(copy.copy(uec))
    store.add(nodes)
    ids = [node.node_id for node in nodes]
    ours = store.retriever.vectors(ids)
    np.testing.assert_allclose(ours.variance, uec.embed(texts).variance, rtol=1e-4)
    assert "are encoded again" in caplog.text


def test_words_need_no_vector(texts):
    uec = UEC([bag_of_words(24, "small"), "bm25"])
    uec.fit([(" ".join(text.split()[:4]), text) for text in texts])
    nodes = embedded(uec, texts)
    store = UECVectorStore(copy.copy(uec))
    store.add(nodes)
    expected = UECVectorStore(uec)
    expected.add([TextNode(id_=node.node_id, text=node.text) for node in nodes])
    ours, theirs = (s.retriever.search(texts[:3], 5) for s in (store, expected))
    assert ours.ids == theirs.ids
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-5)


@pytest.mark.parametrize("threads", [8])
def test_threads_get_what_they_asked_for(counting, fitted, texts, threads):
    uec, _ = counting
    wrong = []

    def work(seed):
        for _ in range(20):
            mine = [texts[i] for i in np.random.default_rng(seed).permutation(len(texts))[:5]]
            got = encode(uec, mine, "passage")
            if not np.allclose(got[0].mean, fitted.encode(mine, "passage")[0].mean, atol=1e-5):
                wrong.append(mine)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
