import re

import numpy as np

from tests.helpers import bag_of_words, pairs
from uec_rag import UEC
from uec_rag.ensemble.fit import Language, Questions, to_pseudo_language

TEXTS = Questions(
    ["Who came late to the party?", "Какие ошибки 42?"],
    ["He came late.", "Nobody CAME to the party.", "Ошибки были, 42."],
    [[0, 1], [2]],
)


def words(texts):
    return {word for text in texts for word in text.casefold().strip("?.").split()}


def test_words_stay_told_from_one_another():
    strange = to_pseudo_language(TEXTS, Language(1.0), seed=3)
    asked, held = [*TEXTS.queries, *TEXTS.corpus], [*strange.queries, *strange.corpus]
    assert len(words(held)) == len(words(asked))
    for row, places in enumerate(strange.relevant):
        query = words([strange.queries[row]])
        assert all(query & words([strange.corpus[place]]) for place in places)


def test_letters_change_and_nothing_else():
    strange = to_pseudo_language(TEXTS, Language(1.0), seed=3)
    assert not words(strange.corpus) & {"party", "nobody", "ошибки"}
    assert sum("42" in text for text in strange.corpus) == 1
    assert any(any(c.isupper() for c in text) for text in strange.corpus)
    other = to_pseudo_language(TEXTS, Language(1.0, "абвгдежзийклмнопрстуфхцчшщ"), seed=3)
    assert not re.search("[A-Za-z]", " ".join([*other.queries, *other.corpus]))
    pairs_ = to_pseudo_language(TEXTS, Language(1.0, spaces=False), seed=3)
    assert not any(" " in text for text in [*pairs_.queries, *pairs_.corpus])
    came = next(text for text in pairs_.corpus if len(text) == 2 * 3 + 1)  # "He came late."
    assert came[2:4] in next(query for query in pairs_.queries if "42" not in query)


def test_a_share_of_the_words_stays_as_it_is():
    assert sorted(to_pseudo_language(TEXTS, Language(0.0), seed=3).corpus) == sorted(TEXTS.corpus)
    half = words(to_pseudo_language(TEXTS, Language(0.5), seed=3).corpus) & words(TEXTS.corpus)
    assert 0 < len(half) < len(words(TEXTS.corpus))


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
