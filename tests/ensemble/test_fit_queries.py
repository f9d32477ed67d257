import unicodedata

import numpy as np
import pytest

from tests.helpers import bag_of_words, pairs
from uec_rag import UEC
from uec_rag.ensemble.fit import Questions, to_pseudo_language

TEXTS = Questions(
    ["Who came late to the party?", "Какие ошибки 42?"],
    ["He came late.", "Nobody CAME to the party.", "Ошибки были, 42."],
    [[0, 1], [2]],
)


def words(texts):
    return {word for text in texts for word in text.casefold().strip("?.").split()}


@pytest.mark.parametrize("script", ["Latin", "Cyrillic", "Arabic"])
def test_words_change_and_stay_told_from_one_another(script):
    strange = to_pseudo_language(TEXTS, script, 1.0, seed=3)
    asked, held = [*TEXTS.queries, *TEXTS.corpus], [*strange.queries, *strange.corpus]
    assert len(words(held)) == len(words(asked))
    assert words(held) & words(asked) == {"42"}
    for query, places in zip(strange.queries, strange.relevant, strict=True):
        assert all(words([query]) & words([strange.corpus[place]]) for place in places)
    letters = {unicodedata.name(letter).split()[0] for letter in "".join(held) if letter.isalpha()}
    assert letters == {script.upper()}


def test_words_become_two_ideographs_without_spaces():
    strange = to_pseudo_language(TEXTS, "ideographs", 1.0, seed=3)
    assert not any(" " in text for text in [*strange.queries, *strange.corpus])
    came = next(text for text in strange.corpus if len(text) == 2 * 3 + 1)  # "He came late."
    assert came[2:4] in next(query for query in strange.queries if "42" not in query)


def test_a_share_of_the_words_stays_as_it_is():
    plain, half = (to_pseudo_language(TEXTS, "Latin", share, seed=3) for share in (0.0, 0.5))
    assert sorted(plain.corpus) == sorted(TEXTS.corpus)
    assert 0 < len(words(half.corpus) & words(TEXTS.corpus)) < len(words(TEXTS.corpus))


def test_a_member_that_is_lost_counts_less_beside_words():
    fitted = pairs(200)
    known = {word for text in (*map(" ".join, fitted),) for word in text.split()}

    def english(texts):
        """Knows the words it was fitted on; any other text is like any other."""
        embed = bag_of_words(24, "english")
        kept = [" ".join(w for w in text.split() if w in known) or "nothing" for text in texts]
        return embed(kept) + 3 * embed(["nothing"])

    uec = UEC([english, "bm25"]).fit(fitted)
    weights = uec.fitted.rule.evidence
    assert np.abs(weights.weights).max() > 0.05
