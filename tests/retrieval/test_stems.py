"""An index whose words were counted by another stemmer is never searched as it is."""

import shutil

import pytest
import Stemmer

from tests.helpers import bag_of_words, by_name, data_of, index_of
from uec_rag import UEC, FingerprintMismatch, Retriever
from uec_rag.base.errors import UECWarning
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


def test_words_are_counted_again_once_and_said_to_be(saved, models):
    uec = UEC(models)
    new, known = index_of(uec, TEXTS), by_name(uec)
    for given in ({"encoders": known}, {"uec": uec}):
        copy = shutil.copytree(saved, saved.with_name("copy"), dirs_exist_ok=True)
        with pytest.warns(UECWarning, match="counted with other stems, .* counted again, once"):
            loaded = Retriever.load(copy, **given)
        found, expected = loaded.search(QUESTIONS, k=2), new.search(QUESTIONS, k=2)
        assert found.ids == expected.ids
        assert found.confidence == pytest.approx(expected.confidence)
        again = Retriever.load(copy, encoders=known, read_only=True)
        assert again.search(QUESTIONS, k=2).ids == expected.ids
        shutil.rmtree(copy)


def test_what_cannot_be_counted_again_is_refused(saved, models):
    known = by_name(UEC(models))
    with pytest.raises(FingerprintMismatch, match="open it once to write, which counts them again"):
        Retriever.load(saved, encoders=known, read_only=True)


def test_who_has_the_older_stemmer_does_not_search_what_was_counted_again(saved, models, older):
    known = by_name(UEC(models))
    older(Older)
    before = Retriever.load(saved, encoders=known)
    older(NEWER)
    with pytest.warns(UECWarning, match="counted again"):
        Retriever.load(saved, encoders=known)
    older(Older)
    with pytest.raises(FingerprintMismatch, match=r"with other stems .* load it again"):
        before.search(QUESTIONS)
