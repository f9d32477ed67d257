"""The fit without labels, which the first search makes for an ensemble that has none."""

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.helpers import (
    LinearHead,
    Remembering,
    assert_alike,
    assert_same_bits,
    bag_of_words,
    index_of,
    passages,
)
from uec_rag import UEC, Gate, Retriever
from uec_rag.documents.generated_questions import pairs_from_passages
from uec_rag.index.learn import ENOUGH
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import Source, SourceStore

# A first sentence is a question that the rest answers.
TEXTS = [
    f"{' '.join(text.split()[2:7])}. {text} {text}" for text in dict.fromkeys(passages(ENOUGH + 16))
]
ASKED = [text.split(".")[0] for text in TEXTS[:5]]
FIRSTS, REST = zip(*[text.split(". ", 1) for text in TEXTS], strict=True)
PLAIN = r"not fitted, so .* Unless fit=False, the first search .* call Retriever\.fit_from"


def with_others_firsts(share):
    """The texts, a share of which begins with the first sentence of another."""
    wrong = round(share * len(TEXTS))
    firsts = [*(FIRSTS[1:] + FIRSTS[:1])[:wrong], *FIRSTS[wrong:]]
    return [f"{first}. {text}" for first, text in zip(firsts, REST, strict=True)]


def indexed(uec, texts=TEXTS, **options):
    index = index_of(uec, texts, **options)
    return index


def test_the_first_search_fits_a_copy_and_no_other_does(caplog):
    model = Remembering(16, "counted")
    uec = UEC([model, "bm25"])
    index = indexed(uec)
    added = len(model.texts)
    assert not index.uec.is_fitted
    with caplog.at_level(logging.WARNING, "uec_rag"):
        index.search(ASKED)
    assert index.uec.is_fitted
    assert not uec.is_fitted
    made = len(pairs_from_passages([*index.passages()]))
    assert f"{2 * made} texts are embedded by counted" in caplog.text
    assert len(model.texts) - added <= 2 * made + len(ASKED) + 1
    assert len({*model.texts[added:]}) >= len(model.texts) - added - 1  # none twice but a probe
    before = index.uec
    index.search(ASKED)
    assert index.uec is before
    assert f"on {made} questions made of the passages" in index.report


@pytest.mark.parametrize("unanswered", [0.0, 0.5])
def test_hard_questions_of_a_fit_make_it_no_less_sure_of_those_of_users(unanswered):
    asked = [" ".join(text.split()[3:8]) for text in REST[:20]]
    uec = UEC([bag_of_words(16, "small"), "bm25"])
    found = indexed(uec, with_others_firsts(unanswered)).search(asked)
    assert np.median(found.confidence) > 0.7


@pytest.mark.parametrize(
    ("encoders", "options", "texts", "said"),
    [
        ([bag_of_words(16, "small")], {"fit": False}, TEXTS, PLAIN),
        ([bag_of_words(16, "small")], {}, TEXTS[: ENOUGH - 1], PLAIN),
        (["bm25"], {}, TEXTS, PLAIN),
        ([LinearHead()], {}, TEXTS, "uec: expected a model whose last layer is the identity"),
        (
            [bag_of_words(16, "small")],
            {},
            [f"word{number}" for number in range(ENOUGH)],
            r"confidence is unreliable. passages: expected 32 or more .* got 0 among 64",
        ),
        (
            [bag_of_words(16, "small"), "bm25"],
            {},
            with_others_firsts(1.0),
            r"passages: 80 questions made of them are no nearer to what answers them than",
        ),
    ],
    ids=["turned off", "too few", "words alone", "another layer", "no questions", "wrong ones"],
)
def test_an_ensemble_stays_as_it_is_and_says_why(encoders, options, texts, said):
    index = indexed(UEC(encoders), texts, **options)
    with pytest.warns(UserWarning, match=said):
        index.search(ASKED)
    assert not index.uec.is_fitted
    assert "confidence is unreliable" in index.report


def test_other_first_searches_wait_for_the_fit():
    index = indexed(UEC([bag_of_words(16, "small"), "bm25"]))
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: index.search(ASKED), range(8))]
    for one in found:
        assert_alike(one, found[0])
        assert one.sigma2.all()


def test_what_was_made_for_the_ensemble_is_not_invalidated():
    index = indexed(UEC([bag_of_words(16, "small"), "bm25"]))
    index.gate = Gate(0.4)
    index.search(ASKED)
    assert not index.uec.is_fitted


def test_an_expected_share_of_wrong_answers_takes_a_fit():
    index = indexed(UEC([bag_of_words(16, "small"), "bm25"]))
    few = index_of(UEC([bag_of_words(16, "small"), "bm25"]), TEXTS[:9])
    for one in (index, few):
        one.gate = Gate(max_wrong=0.1)
    [decision] = index.search(ASKED[:1]).decisions
    assert (index.uec.is_fitted, decision.threshold) == (True, Gate(max_wrong=0.1).threshold)
    with pytest.raises(ValueError, match=r"gate: max_wrong=0\.1 takes the threshold of fitted"):
        few.search(ASKED)


def test_a_fit_is_written_through_and_other_copies_follow(tmp_path):
    model = bag_of_words(16, "small")
    index = indexed(UEC([model, "bm25"]))
    index.save(tmp_path / "index")
    encoders = {"small": model}
    other = Retriever.load(tmp_path / "index", encoders=encoders, read_only=True)
    other.search(ASKED)
    assert not other.uec.is_fitted
    found = index.search(ASKED)
    assert_alike(other.search(ASKED), found)
    assert_alike(Retriever.load(tmp_path / "index", encoders=encoders).search(ASKED), found)
    assert other.check() is None


def test_passages_of_elsewhere_fit_it_too():
    index = index_of(UEC([bag_of_words(16, "small"), "bm25"]), TEXTS[:9])
    index.fit_from([Passage(str(i), text) for i, text in enumerate(TEXTS)])
    assert index.uec.is_fitted
    assert index.search(ASKED).sigma2.all()
    with pytest.raises(ValueError, match=r"passages: expected 32 or more .* got \d among 3\."):
        index.fit_from([Passage(str(i), text) for i, text in enumerate(TEXTS[:3])])
    with pytest.raises(TypeError, match="passages: expected Passage objects, got str"):
        index.fit_from(TEXTS)


def test_a_fit_that_cannot_be_recorded_changes_nothing(tmp_path):
    passages, model = [Passage(str(i), text) for i, text in enumerate(TEXTS)], bag_of_words(16, "a")
    uec, source = UEC([model, "bm25"]), Source("some texts", lambda *_: passages)
    Retriever(uec, SourceStore(uec.encoders, source)).save(tmp_path / "index")
    there = {"uec": uec, "store": SourceStore(uec.encoders, source), "read_only": True}
    index = Retriever.load(tmp_path / "index", **there)
    before = index.search(ASKED)
    with pytest.raises(PermissionError, match="read_only"):
        index.fit_from(passages)
    assert_same_bits(index.search(ASKED), before)


def test_passages_that_overlap_are_no_answers_to_each_others_questions():
    sentences = [f"{' '.join(text.split()[:6])}." for text in TEXTS]
    windows = [" ".join(sentences[at : at + 3]) for at in range(0, len(sentences) - 2, 2)]
    pairs = pairs_from_passages([Passage(str(at), text) for at, text in enumerate(windows)])
    assert pairs
    for question, _ in pairs:
        assert not any(question in answer for _, answer in pairs)


def test_passages_of_one_ending_make_no_fit():
    ending = "Ask at the desk of the house if you need anything else. It is open all day."
    texts = [f"{' '.join(text.split()[7:15])}. {ending}" for text in TEXTS]
    index = indexed(UEC([bag_of_words(16, "small"), "bm25"]), texts)
    with pytest.warns(UserWarning, match="got 1 among 80"):
        index.search(ASKED)
    assert not index.uec.is_fitted
