import gc
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import bag_of_words
from uec_rag import UEC
from uec_rag.llama_index import handover as module
from uec_rag.llama_index.handover import Handover, handover


def same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-6)
        np.testing.assert_allclose(one.variance, other.variance, rtol=1e-4)


def test_what_was_left_is_not_encoded_again_and_keeps_its_variance(counting, fitted, texts):
    uec, encoders = counting
    place = Handover()
    place.leave(uec, texts[:4], "passage", uec.encode(texts[:4], "passage"))
    taken = place.encode(uec, [texts[2], texts[0]], "passage")
    same(taken, fitted.encode([texts[2], texts[0]], "passage"))
    assert encoders[0].texts == texts[:4]
    assert len(place) == 2


def test_only_what_is_missing_is_encoded_each_text_once(counting, fitted, texts):
    uec, encoders = counting
    place = Handover()
    place.leave(uec, texts[:2], "passage", uec.encode(texts[:2], "passage"))
    wanted = [texts[5], texts[1], texts[5], texts[1]]
    same(place.encode(uec, wanted, "passage"), fitted.encode(wanted, "passage"))
    assert encoders[0].texts == [*texts[:2], texts[5]]


async def test_asynchronously_it_is_the_same(counting, fitted, texts):
    uec, encoders = counting
    place = Handover()
    place.leave(uec, texts[:2], "query", uec.encode(texts[:2], "query"))
    same(
        await place.aencode(uec, texts[1:3], "query"),
        fitted.encode(texts[1:3], "query"),
    )
    assert encoders[0].texts == texts[:3]


def test_a_passage_is_no_query(counting, texts):
    uec, encoders = counting
    place = Handover()
    place.leave(uec, texts[:1], "passage", uec.encode(texts[:1], "passage"))
    place.encode(uec, texts[:1], "query")
    assert len(encoders[0].texts) == 2


def test_a_diagonal_posterior_comes_through_whole(texts):
    uec = UEC([bag_of_words(12, "a")], structure="diag")
    uec.fit([(" ".join(text.split()[:4]), text) for text in texts])
    place = Handover()
    place.leave(uec, texts[:3], "passage", uec.encode(texts[:3], "passage"))
    same(place.encode(uec, texts[:3], "passage"), uec.encode(texts[:3], "passage"))


def test_fitting_again_outdates_what_was_left(counting, texts):
    uec, encoders = counting
    place = Handover()
    place.leave(uec, texts[:1], "passage", uec.encode(texts[:1], "passage"))
    uec.fitted = replace(uec.fitted, posteriors=(*uec.posteriors,))
    place.encode(uec, texts[:1], "passage")
    assert len(encoders[0].texts) == 2


def test_the_oldest_go_where_room_is_short(counting, texts, monkeypatch):
    uec, encoders = counting
    parts = uec.encode(texts[:4], "passage")
    monkeypatch.setattr(module, "_ROOM", 2 * sum(p.dimension + p.scales.shape[1] for p in parts))
    place = Handover()
    place.leave(uec, texts[:4], "passage", parts)
    assert len(place) == 2
    encoders[0].texts.clear()
    place.encode(uec, texts[:4], "passage")
    assert encoders[0].texts == texts[:2]


def test_there_is_one_per_ensemble_as_long_as_it_lives():
    first, second = UEC([bag_of_words(4, "a")]), UEC([bag_of_words(4, "a")])
    assert handover(first) is handover(first)
    assert handover(first) is not handover(second)
    place = weakref.ref(handover(first))
    del first
    gc.collect()
    assert place() is None


@pytest.mark.parametrize("threads", [8])
def test_threads_get_what_they_asked_for(counting, fitted, texts, threads):
    uec, _ = counting
    place, wrong = Handover(), []

    def work(seed):
        for _ in range(20):
            mine = [texts[i] for i in np.random.default_rng(seed).permutation(len(texts))[:5]]
            place.leave(uec, mine, "passage", uec.encode(mine, "passage"))
            got = place.encode(uec, mine, "passage")
            if not np.allclose(got[0].mean, fitted.encode(mine, "passage")[0].mean, atol=1e-5):
                wrong.append(mine)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
