"""Members that raise, or return NaN, among others that answer."""

import numpy as np
import pytest

from tests.helpers import bag_of_words, index_of, pairs
from uec_rag import UEC, Retriever
from uec_rag.encoders import Lexical


class Moody:
    """A member that can be told to fail."""

    __name__ = "moody"

    def __init__(self):
        self.embed = bag_of_words(16, "moody", seed=1)
        self.fails = lambda text: False
        self.away = None

    def __call__(self, texts):
        if self.away is not None:
            raise self.away
        vectors = np.array(self.embed(texts), dtype=np.float32)
        vectors[[self.fails(text) for text in texts]] = np.nan
        return vectors


@pytest.fixture(scope="module")
def fitted():
    moody = Moody()
    return UEC([bag_of_words(64, "steady"), moody]).fit(pairs(200)).fitted


@pytest.fixture(params=["evidence", "trace", "shared"])
def ensemble(request, fitted):
    """An ensemble that drops, and its moody member."""
    moody, space = Moody(), "shared" if request.param == "shared" else "direct"
    if request.param == "evidence":
        uec = UEC([bag_of_words(64, "steady"), moody], on_error="drop")
        uec.fitted = fitted
    else:
        steady = bag_of_words(16, "steady")
        uec = UEC([steady, moody], space=space, coefficients="trace", on_error="drop")
        uec.fit(pairs(200))
    return uec, moody


@pytest.fixture
def passages(texts):
    return list(dict.fromkeys(texts))[:60]


def test_by_default_a_members_error_is_the_ensembles(fitted):
    moody = Moody()
    uec = UEC([bag_of_words(64, "steady"), moody])
    uec.fitted, moody.away = fitted, KeyError("no such model")
    with pytest.raises(KeyError, match="no such model"):
        uec.embed(["a"], "query")
    with pytest.raises(ValueError, match="on_error: expected one of"):
        UEC([moody], on_error="ignore")


def test_a_member_that_raises_does_not_count_in_that_query(ensemble, passages, queries, caplog):
    uec, moody = ensemble
    retriever = index_of(uec, passages)
    whole = retriever.search(queries, 5)
    moody.away = RuntimeError("no key")
    found = retriever.search(queries, 5)
    np.testing.assert_array_equal(found.coefficients, [[1, 0]] * len(queries))
    assert found[0].metadata(0, details=True)["uec_coefficients"] == {"steady": 1.0, "moody": 0.0}
    assert np.isfinite(found.scores).all()
    assert np.isfinite(found.confidence).all()
    assert f"'moody' is left out for {len(queries)} of {len(queries)} texts" in caplog.text
    assert "RuntimeError: no key" in caplog.text
    moody.away = None
    np.testing.assert_array_equal(retriever.search(queries, 5).scores, whole.scores)


async def test_awaiting_is_the_same(ensemble, passages, queries):
    uec, moody = ensemble
    retriever = Retriever(uec)
    retriever.add(passages)
    moody.away = ValueError("refused")
    found = await retriever.asearch(queries, 5)
    np.testing.assert_array_equal(found.scores, retriever.search(queries, 5).scores)
    np.testing.assert_array_equal(found.coefficients[:, 1], 0)


def test_a_row_of_nan_costs_that_text_alone(ensemble, queries, caplog):
    uec, moody = ensemble
    whole = uec.embed(queries, "query")
    moody.fails = lambda text: text == queries[3]
    part = uec.embed(queries, "query")
    others = np.arange(len(queries)) != 3
    np.testing.assert_allclose(part.mean[others], whole.mean[others], atol=1e-6)
    np.testing.assert_allclose(part.coefficients[others], whole.coefficients[others], atol=1e-6)
    np.testing.assert_array_equal(part.coefficients[3], [1, 0])
    assert f"'moody' is left out for 1 of {len(queries)} texts" in caplog.text


async def test_awaited_a_row_of_nan_costs_that_text_alone_too(ensemble, queries):
    uec, moody = ensemble
    moody.fails = lambda text: text == queries[3]
    found, same = await uec.aembed(queries, "query"), uec.embed(queries, "query")
    np.testing.assert_array_equal(found.mean, same.mean)
    np.testing.assert_array_equal(found.coefficients[3], [1, 0])
    moody.fails = lambda text: True
    none = await uec.aembed(queries, "query")
    np.testing.assert_array_equal(none.coefficients, [[1, 0]] * len(queries))


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
def test_words_that_fail_are_an_error_since_no_zeros_stand_for_them():
    def tokenizer(text):
        raise RuntimeError("no such language")

    words = Lexical(tokenizer=tokenizer)
    uec = UEC([bag_of_words(8, "steady"), words], coefficients="uniform", on_error="drop")
    with pytest.raises(RuntimeError, match="no such language"):
        Retriever(uec).add(["a text"])


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
def test_texts_that_no_member_has_a_vector_for_are_named():
    moody, other = Moody(), Moody()
    moody.fails = other.fails = lambda text: text == "b"
    both = UEC([moody, other], coefficients="uniform", on_error="drop")
    with pytest.raises(ValueError, match="no encoder returned vectors for 1 of 2 texts, first for"):
        both.embed(["a", "b"])


def test_passages_stored_without_a_member_say_so(ensemble, passages):
    uec, moody = ensemble
    complete, retriever = Retriever(uec), Retriever(uec)
    complete.add(passages, [str(i) for i in range(len(passages))])
    moody.fails = lambda text: text == passages[2]
    metadatas = [{"place": i} for i in range(len(passages))]
    retriever.add(passages, [str(i) for i in range(len(passages))], metadatas)
    kept = retriever.get(["2", "3"])
    assert kept[0].metadata == {"place": 2, "uec_missing": ["moody"]}
    assert kept[1].metadata == {"place": 3}
    assert uec.embed([passages[2], passages[3]]).coefficients[0, 1] == 0
    others = [str(i) for i in range(len(passages)) if i != 2]
    np.testing.assert_allclose(
        retriever.vectors(others).mean, complete.vectors(others).mean, atol=1e-6
    )
    moody.fails = lambda text: False
    retriever.add([passages[2]], ["2"], [{"place": 2}])
    assert retriever.get(["2"])[0].metadata == {"place": 2}


def test_where_no_member_answers_there_is_nothing_to_drop(ensemble):
    moody = ensemble[1]
    moody.away = RuntimeError("first")
    alone = UEC([moody], on_error="drop")
    with pytest.raises(RuntimeError, match="first"), pytest.warns(UserWarning, match="not fitted"):
        alone.embed(["a"], "query")


def test_a_member_that_never_answered_and_was_not_fitted_cannot_be_dropped():
    moody = Moody()
    moody.away = RuntimeError("not yet")
    uec = UEC([bag_of_words(8, "steady"), moody], on_error="drop")
    unfitted = pytest.warns(UserWarning, match="not fitted")
    with pytest.raises(RuntimeError, match="not yet"), unfitted:
        uec.embed(["a"], "query")
