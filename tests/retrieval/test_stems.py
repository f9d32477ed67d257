"""An index whose words were counted by another stemmer is never searched as it is."""

import pytest
import Stemmer

from tests.helpers import bag_of_words, by_name, data_of, index_of
from uec_rag import UEC, FingerprintMismatch, Retriever
from uec_rag.encoders import lexical

TEXTS = data_of("stems.json")
QUESTIONS = ["How long do I stir the paste?", "What are the intervals?", "evening university"]


class Older:
    """The stemmer as of PyStemmer 2.2.0.3, by the words of which it has other stems."""

    STEMS = {  # noqa: RUF012
        "paste": "past",
        "university": "univers",
        "evening": "even",
        "intervals": "interv",
        "interval": "interv",
    }

    def __init__(self, language, size):
        self.newer = NEWER(language, size)

    def stemWord(self, word):
        return self.STEMS.get(word) or self.newer.stemWord(word)


NEWER = Stemmer.Stemmer


@pytest.fixture
def older(monkeypatch):
    """Switch to the older stemmer, and back."""

    def switch(stemmer):
        monkeypatch.setattr(Stemmer, "Stemmer", stemmer)
        for cached in (lexical._keys_of, lexical._labels_of, lexical._stems_of, lexical._revision):
            cached.cache_clear()
        lexical._of_thread.__dict__.clear()

    switch(Older)
    yield switch
    switch(NEWER)


@pytest.fixture(params=[False, True], ids=["words alone", "beside a model"])
def models(request):
    return [bag_of_words(8, "bag"), "bm25"] if request.param else ["bm25"]


@pytest.fixture
def saved(older, models, tmp_path):
    index_of(UEC(models), TEXTS).save(tmp_path / "index")
    older(NEWER)
    return tmp_path / "index"


def test_an_index_of_other_stems_says_so_and_how_it_is_made_again(saved, models):
    uec = UEC(models)
    for given in ({"encoders": by_name(uec)}, {"uec": uec}, {"uec": uec, "read_only": True}):
        with pytest.raises(FingerprintMismatch, match=r"other stems, .* make the index again"):
            Retriever.load(saved, **given)
    index_of(uec, TEXTS).save(saved)
    assert Retriever.load(saved, uec).search(QUESTIONS).confidence[0] > 0


def test_who_has_the_older_stemmer_does_not_search_what_was_counted_again(saved, models, older):
    known = by_name(UEC(models))
    older(Older)
    before = Retriever.load(saved, encoders=known)
    older(NEWER)
    index_of(UEC(models), TEXTS).save(saved)
    older(Older)
    with pytest.raises(FingerprintMismatch, match=r"with other stems, by another PyStemmer"):
        before.search(QUESTIONS)
