"""What is kept of the vectors of questions beside a text tells how near a question is to each."""

import pickle

import numpy as np
import pytest

from tests.helpers import bag_of_words
from tests.stores.kinds import KINDS, every_search
from uec_rag import UEC, Retriever
from uec_rag.ensemble.sketches import encode_with_questions, read
from uec_rag.stores.passage import Passage

TEXTS = ["Dogs stay outside.", "Bins are emptied on Monday.", "The lift is out of order."]
BESIDE = [["may my puppy come in?", "where do pets go?"], [], ["why does it not move?"]]
WORDS = [bag_of_words(96, "one"), bag_of_words(64, "two")]
METADATAS = [{"questions": lines} if lines else {} for lines in BESIDE]


def encoded(uec, encoder, texts, role="passage"):
    return uec.encoders[encoder].encode(texts, role).embedding


@pytest.mark.parametrize("encoders", [WORDS[:1], WORDS, [WORDS[0], "bm25"]])
def test_the_cosines_of_text_and_questions_are_known_to_hundredths(encoders):
    uec = UEC(encoders)
    parts, sketches = encode_with_questions(uec, TEXTS, BESIDE, TEXTS)
    assert sketches[1] == b""
    dense = [at for at, part in enumerate(parts) if not part.terms]
    vectors = [encoded(uec, at, ["does my puppy move out?"], "query")[0] for at in dense]
    pairs = zip(dense, vectors, strict=True)
    cosines = np.stack([parts[at].embedding @ vector for at, vector in pairs])
    likenesses = read(sketches, vectors, cosines)
    assert likenesses[1] is None
    for row in (0, 2):
        for place, (at, vector) in enumerate(zip(dense, vectors, strict=True)):
            text = encoded(uec, at, [TEXTS[row]])[0] @ vector
            assert likenesses[row].text[place] == pytest.approx(text, abs=0.06)
        of_each = [encoded(uec, at, BESIDE[row]) @ v for at, v in zip(dense, vectors, strict=True)]
        assert likenesses[row].questions == pytest.approx(np.mean(of_each, axis=0), abs=0.06)


def test_a_sketch_of_other_encoders_or_a_damaged_one_says_nothing():
    _, sketches = encode_with_questions(UEC(WORDS[:1]), TEXTS, BESIDE, TEXTS)
    vector = encoded(UEC(WORDS[1:]), 0, ["puppy"], "query")[0]
    damaged = [sketches[0], sketches[2][:-1], b"x"]
    assert read(damaged, [vector], np.zeros((1, 3), np.float32)) == [None] * 3


def test_a_text_without_questions_is_encoded_as_without_those_of_others():
    uec = UEC(["bm25", WORDS[0]])
    alone = uec.encodings(TEXTS[1:2], "passage")
    parts, _ = encode_with_questions(uec, TEXTS, BESIDE, TEXTS)
    assert np.array_equal(parts[1].embedding[1], alone[1].embedding[0])


def sketches_of(index):
    return [passage.sketch for passage in index.get(["a", "b", "c"])]


@every_search
def test_they_stay_with_the_passage_in_every_store(kind, tmp_path):
    index = Retriever(UEC(WORDS[:1]), KINDS[kind](tmp_path))
    index.add(TEXTS, ["a", "b", "c"], METADATAS)
    before = sketches_of(index)
    assert [bool(sketch) for sketch in before] == [True, False, True]
    index.add([TEXTS[0]], ["d"], [METADATAS[0]])  # which the index has
    assert index.get(["d"])[0].sketch == before[0]
    index.delete(["b"])
    index.store.compact()
    assert sketches_of(index) == [before[0], before[2]]
    view = index.store.snapshot({"$id": ["a"]})
    assert view.get(["a"])[0].sketch == before[0]
    index.add([TEXTS[0]], ["a"])  # without questions
    assert sketches_of(index)[0] == b""


def test_they_are_saved_loaded_pickled_and_copied(tmp_path):
    index = Retriever(UEC(WORDS[:1]))
    index.add(TEXTS, ["a", "b", "c"], METADATAS)
    before = sketches_of(index)
    index.save(tmp_path / "index")
    again = Retriever.load(tmp_path / "index", encoders={"one": WORDS[0]})
    assert sketches_of(again) == before
    pickled = pickle.loads(pickle.dumps(index.store))
    assert [passage.sketch for passage in pickled.get(["a", "b", "c"])] == before


def test_a_service_gets_texts_and_questions_in_one_call():
    calls = []

    class Service:
        def embed_documents(self, texts):
            calls.append(list(texts))
            return WORDS[0](texts).tolist()

        def embed_query(self, text):
            return self.embed_documents([text])[0]

    index = Retriever(UEC([Service()]))
    index.add(TEXTS, ["a", "b", "c"], METADATAS)
    whole = [call for call in calls if TEXTS[0] in call]
    assert [sorted(call) for call in whole] == [sorted([*TEXTS, *BESIDE[0], *BESIDE[2]])]
    calls.clear()
    index.add(TEXTS, ["a", "b", "c"], METADATAS)
    assert calls == []


def test_a_passage_is_compared_without_them():
    assert Passage("a", "b", {}, b"c") == Passage("a", "b")
