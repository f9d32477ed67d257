"""Misspelt words of a question are replaced by words of the corpus, and nothing else is."""

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace

from tests.helpers import bag_of_words, data_of, index_of, rows_of
from uec_rag import UEC, Retriever
from uec_rag.encoders import load_encoder
from uec_rag.retrieval.spelling import correct_spelling, correct_text

TEXTS = [
    "A virtual package is one that other packages provide.",
    "Refunds are paid within fourteen days.",
    "The shell reads what a user types.",
]


@pytest.fixture(scope="module")
def model():
    """An encoder whose tokenizer knows the words of the passages and one more."""
    letters = [f"{mark}{chr(97 + i)}" for i in range(26) for mark in ("", "##")]
    words = {word for text in TEXTS for word in text.lower().removesuffix(".").split()}
    tokens = {token: i for i, token in enumerate(["[UNK]", "sell", *sorted(words), *letters])}
    encoder = load_encoder(bag_of_words(16, "a"))
    encoder.tokenizer = Tokenizer(WordPiece(tokens, unk_token="[UNK]"))
    encoder.tokenizer.pre_tokenizer = Whitespace()
    return encoder


def corrected(retriever, questions):
    """The questions as a search reads them."""
    return correct_spelling(questions, retriever.uec.encoders, retriever.store)


@pytest.fixture
def retriever(model):
    return index_of(UEC([model, "bm25"]), TEXTS)


@pytest.mark.parametrize("row", rows_of("spelling.csv"), ids=lambda row: row["text"])
def test_a_word_that_no_passage_has_becomes_the_one_that_is_a_letter_away(retriever, row):
    assert corrected(retriever, [row["text"]]) == [row["expected"]]


def test_what_is_too_long_to_be_typed_stays(retriever):
    assert corrected(retriever, ["waht" + " " * 4096]) == ["waht" + " " * 4096]


def test_a_search_reads_the_corrected_question_and_says_so(retriever):
    [found] = retriever.search(["virtul pacakge"], k=1)
    assert found.query == "virtul pacakge"
    assert found.passages[0].text == TEXTS[0]
    note = "it was read as 'virtual package'"
    assert found.decision.unfamiliar == note
    assert found.decision.reason.endswith(f" Note: {note}.")
    assert found.decide(0.99).reason.endswith(f" Note: {note}.")


def holding(counts):
    """Return what counts the passages with each of some words; 9 for short words."""
    return lambda words: np.array([counts.get(word, 9 * (len(word) < 4)) for word in words])


def test_of_several_words_the_one_that_most_passages_have_is_taken():
    held = {"form": 2, "from": 5}
    assert correct_text("frmo six", holding(held), held.__contains__) == "from six"


def test_a_string_that_only_has_the_stem_of_a_word_replaces_nothing():
    stems, known = {"probation": 1, "probator": 1, "probatory": 1}, {"probation"}.__contains__
    assert correct_text("six probaton", holding(stems), known) == "six probation"


@pytest.mark.parametrize(("question", "read"), data_of("words_that_are_no_tokens.json"))
def test_a_word_that_is_no_token_replaces_others_if_passages_enough_have_it(question, read):
    stems = {"sitemap": 1, "netlify": 5, "drupal": 4, "kubernetes": 6, "kubernets": 6}
    assert correct_text(question, holding(stems), {"sitemap"}.__contains__) == read


def test_a_word_is_known_as_long_as_a_passage_has_it(retriever, tmp_path):
    retriever.save(tmp_path / "index")
    saved = Retriever.load(tmp_path / "index", retriever.uec)
    assert corrected(saved, ["paid refudns"]) == ["paid refunds"]
    saved.delete([passage.id for passage in saved.passages() if "Refunds" in passage.text])
    assert corrected(saved, ["paid refudns"]) == ["paid refudns"]


def test_without_words_or_a_tokenizer_nothing_is_replaced(model):
    for members in ([model], ["bm25"]):
        retriever = index_of(UEC(members), TEXTS)
        assert corrected(retriever, ["virtul package"]) == ["virtul package"]
