import pickle

import numpy as np
import pytest

from tests.cross_encoders import WORDS, folder_of
from uec_rag.encoders import load_encoder
from uec_rag.encoders.verifier import CrossEncoderVerifier, FunctionVerifier, load_verifier

QUERIES = [WORDS[0], f"{WORDS[3]} {WORDS[4]}"]
PASSAGES = [[" ".join(WORDS[:8]), WORDS[9], f"{WORDS[5]} {WORDS[0]}"], [WORDS[3]]]
PAIRS = [(q, p) for q, own in zip(QUERIES, PASSAGES, strict=True) for p in own]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("models") / "tiny-cross-encoder")


@pytest.fixture(scope="module")
def verifier(folder):
    return load_verifier(str(folder))


def lengths(query, passages):
    return [len(passage) - len(query) for passage in passages]


def test_a_callable_is_called_once_per_query_and_named_by_its_name():
    calls = []

    def counting(query, passages):
        calls.append((query, list(passages)))
        return lengths(query, passages)

    verifier = load_verifier(counting)
    scored = verifier.score(QUERIES, PASSAGES)
    assert (verifier.name, verifier.revision, verifier.spec) == ("counting", "", None)
    assert calls == list(zip(QUERIES, PASSAGES, strict=True))
    assert scored.tolist() == [len(p) - len(q) for q, p in PAIRS]


def test_no_queries_have_no_scores(verifier):
    for one in (verifier, load_verifier(lengths)):
        assert one.score([], []).shape == (0,)


@pytest.mark.parametrize(
    ("returned", "error", "says"),
    [
        ([1.0], ValueError, r"shape \(1,\) for 3 passages"),
        ([1.0, float("nan"), 2.0], ValueError, "NaN or infinity for 1 of 3"),
        (["good", "bad", "bad"], TypeError, "expected one number per passage"),
        (None, TypeError, "returned NoneType"),
    ],
)
def test_what_is_no_number_per_passage_is_refused(returned, error, says):
    with pytest.raises(error, match=says):
        load_verifier(lambda query, passages: returned).score(QUERIES[:1], PASSAGES[:1])


def test_a_folder_becomes_a_verifier_with_name_spec_and_revision(folder, verifier):
    assert isinstance(verifier, CrossEncoderVerifier)
    assert (verifier.name, verifier.spec) == ("tiny-cross-encoder", str(folder))
    assert len(verifier.revision) == 64
    assert load_verifier(folder).revision == verifier.revision


def test_a_model_in_memory_has_no_name_that_brings_it_back(verifier):
    given = load_verifier(verifier.model)
    assert given.revision == verifier.revision
    assert given.spec is None


def test_scores_are_the_logits_of_predict_in_the_order_of_the_pairs(folder, verifier):
    import torch

    expected = verifier.model.predict(PAIRS, activation_fn=torch.nn.Identity())
    assert len(set(expected.tolist())) == 4
    for batch_size in (1, 2, 32):
        scored = load_verifier(folder, batch_size=batch_size).score(QUERIES, PASSAGES)
        np.testing.assert_allclose(scored, expected, atol=1e-5)


def test_all_queries_are_one_call_of_predict(verifier, monkeypatch):
    calls = []
    predict = verifier.model.predict
    monkeypatch.setattr(
        verifier.model, "predict", lambda pairs, **kw: calls.append(pairs) or predict(pairs, **kw)
    )
    verifier.score(QUERIES, PASSAGES)
    assert calls == [PAIRS]


def test_the_revision_says_whether_two_models_score_alike(tmp_path, verifier):
    import torch

    other = load_verifier(folder_of(tmp_path / "other")).model
    with torch.no_grad():
        other.model.classifier.weight.add_(1e-3)
    assert load_verifier(other).revision != verifier.revision


def test_it_goes_to_another_process_by_its_name(verifier):
    back = pickle.loads(pickle.dumps(verifier))
    assert back.revision == verifier.revision
    with pytest.raises(TypeError, match="cannot be loaded by name"):
        pickle.dumps(load_verifier(verifier.model))


def test_a_classifier_of_pairs_into_several_classes_is_refused(tmp_path):
    with pytest.raises(ValueError, match="gives 3 scores per pair"):
        load_verifier(folder_of(tmp_path / "nli", labels=3))


def test_what_is_no_verifier_is_refused(verifier, tmp_path):
    assert load_verifier(verifier) is verifier
    for wrong in (3, FunctionVerifier):
        with pytest.raises(TypeError, match="verifier: expected a hub name"):
            load_verifier(wrong)
    with pytest.raises(ValueError, match="must not be empty"):
        load_verifier(" ")
    with pytest.raises(FileNotFoundError):
        load_verifier(tmp_path / "nothing")


def test_a_cross_encoder_is_no_encoder_and_the_error_says_where_it_belongs(verifier):
    with pytest.raises(TypeError, match="verifier="):
        load_encoder(verifier.model)
