"""What plainer searches of the same index find."""

import numpy as np
import pytest

from uec_rag import UEC, Retriever
from uec_rag.evaluation.alternatives import disagreement, members_alone, plain_cosine


@pytest.fixture(scope="module")
def parts(full, queries):
    return full.uec.encode(queries, "query")


def ids(ranking):
    return [[passage.id for passage in row] for row in ranking]


def by_cosine(full, vectors, texts):
    """Ids of the passages by the cosine of their vectors with those of queries."""
    own, asked = (
        np.concatenate([v / np.linalg.norm(v, axis=1, keepdims=True) for v in means], axis=1)
        for means in (vectors, texts)
    )
    names = [passage.id for passage in full.passages()]
    return [[names[i] for i in np.argsort(-row, kind="stable")[:5]] for row in asked @ own.T]


def means(full, texts, role, members):
    encoded = full.uec.encode(texts, role)
    return [encoded[member].mean for member in members]


def test_a_member_alone_orders_by_its_own_cosine_whatever_the_variance(full, queries, parts, texts):
    found = members_alone(full, queries, parts, 5)
    assert [*found] == full.uec.names
    for member, ranking in enumerate(found.values()):
        stored = means(full, texts, "passage", [member])
        assert ids(ranking) == by_cosine(full, stored, [parts[member].mean])


def test_the_plain_cosine_is_the_mean_of_the_members_cosines(full, queries, parts, texts):
    every = range(len(parts))
    expected = by_cosine(full, means(full, texts, "passage", every), [p.mean for p in parts])
    assert ids(plain_cosine(full, queries, parts, 5)) == expected


def test_words_alone_have_no_cosine_and_one_encoder_has_no_others(queries):
    words = Retriever(UEC(["bm25"], coefficients="uniform"))
    with pytest.warns(UserWarning, match="not fitted"):
        words.add(["ba de", "fi go"])
    asked = words.uec.encode(queries, "query")
    assert plain_cosine(words, queries, asked, 1) is None
    assert members_alone(words, queries, asked, 1) == {}


def test_members_disagree_by_the_share_of_hits_that_they_do_not_share(full):
    a, b, c, d = full.get(["p0", "p1", "p2", "p3"])
    rankings = {"one": [[a, b], [a, b], []], "two": [[b, a], [b, c], []]}
    assert disagreement(rankings) == pytest.approx([0, 2 / 3, 1])
    assert disagreement({"one": [[a]], "two": [[b, c, d]]}) == [1]
