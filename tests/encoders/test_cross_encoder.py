"""A cross-encoder as an advisor."""

import copy

import pytest

from tests.tiny_bert import save_bert
from uec_rag import Gate
from uec_rag.encoders.cross_encoder import cross_encoder_advisor

WORDS = ["ba", "de", "fi", "go", "lu", "ma"]
TEXTS = [["ba de", "fi go"], ["lu ma"], ["de fi ba"], ["go go"], ["ma de"], ["fi lu"]]
QUESTIONS = ["ba", "lu", "de", "go", "ma", "fi"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 32, "max_position_embeddings": 24, "initializer_range": 0.5}


@pytest.fixture(scope="module")
def advisor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cross")
    save_bert(folder, WORDS, "BertForSequenceClassification", num_labels=1, **SIZES)
    return cross_encoder_advisor(folder)


def test_it_answers_if_its_best_score_reaches_the_threshold(advisor):
    for question, texts in zip(QUESTIONS, TEXTS, strict=True):
        scores = advisor.scores(question, texts)
        assert len(scores) == len(texts)
        assert advisor(question, texts) == (scores.max() >= advisor.threshold)
    assert not advisor("ba", [])


def test_with_labels_the_threshold_separates_right_hits_from_wrong_ones(advisor):
    best = [advisor.scores(*pair).max() for pair in zip(QUESTIONS, TEXTS, strict=True)]
    right = [score >= sorted(best)[3] for score in best]
    fitted = advisor.fit(QUESTIONS, TEXTS, right)
    assert [fitted(*pair) for pair in zip(QUESTIONS, TEXTS, strict=True)] == right
    with pytest.raises(ValueError, match="hits that answer and hits that do not"):
        advisor.fit(QUESTIONS, TEXTS, [True] * 6)
    with pytest.raises(ValueError, match="as many of each, got 6, 6 and 1"):
        advisor.fit(QUESTIONS, TEXTS, [True])


def test_a_model_that_is_not_there_is_said_at_once(tmp_path, advisor):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        cross_encoder_advisor(tmp_path / "v1@home")
    with pytest.raises(TypeError, match="a folder or a CrossEncoder, got CrossEncoderAdvisor"):
        cross_encoder_advisor(advisor)


def test_a_folder_may_have_any_name(advisor, tmp_path):
    advisor.model.save(str(tmp_path / "v1@home"))
    again = cross_encoder_advisor(tmp_path / "v1@home")
    assert again.scores("ba", TEXTS[0]) == pytest.approx(advisor.scores("ba", TEXTS[0]))


def test_a_gate_takes_it(advisor, full, queries):
    gate = Gate(advisor=advisor, doubt=(0.0, 1.0))
    gate.search(full, queries[:3])
    assert (gate.usage.asked, gate.usage.failed) == (3, 0)
    assert copy.deepcopy(gate).advisor is advisor


def test_a_classifier_of_pairs_is_refused(tmp_path):
    save_bert(tmp_path, WORDS, "BertForSequenceClassification", num_labels=3, **SIZES)
    with pytest.raises(ValueError, match="one score per pair, as for re-ranking, got one with 3"):
        cross_encoder_advisor(tmp_path)
