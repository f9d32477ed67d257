"""A look into an index."""

import numpy as np
import pytest

from tests.helpers import unit
from uec_rag import UEC, Retriever
from uec_rag.evaluation.inspection import (
    describe_languages,
    disagreement,
    inspect,
    neighbours,
    search_by_each_member,
)


@pytest.fixture(scope="module")
def index(fitted, texts):
    """An index of passages that questions can be made of."""
    retriever = Retriever(fitted)
    pairs = zip(texts[::2], texts[1::2], strict=False)
    made = [f"{one.capitalize()}. {other.capitalize()}." for one, other in pairs]
    retriever.add(made, [f"p{i}" for i in range(len(made))])
    return retriever


def test_passages_of_the_highest_variance_come_first(index):
    told = []
    seen = inspect(index, progress=lambda *state: told.append(state))
    values = [variance for _, variance in seen.variances]
    assert len(values) == len(index)
    assert values == sorted(values, reverse=True)
    passage, variance = seen.variances[0]
    assert index.vectors([passage.id]).trace[0] == pytest.approx(variance)
    assert [what for what, done, _ in told if not done] == ["Reading variances", "Asking questions"]


def test_questions_are_tried_and_what_comes_up_for_others_is_counted(index):
    asked = "what comes up for me"
    seen = inspect(index, [asked, asked], listed=3)
    assert [one.question for one in seen.probes].count(asked) == 1
    first = seen.probes[0]
    result = index.search([asked], 10)
    assert first.sigma**2 == pytest.approx(result.sigma2[0, 0])
    assert first.firsts.keys() == set(index.uec.names)
    assert all(0 <= one.disagreement <= 1 for one in seen.probes)
    times = [count for _, count in seen.hubs]
    assert len(times) == 3
    assert times == sorted(times, reverse=True)
    assert times[0] > seen.fair == 10 * len(seen.probes) / len(index)


def test_neighbours_are_those_of_each_encoder_without_the_passage_itself(index):
    near = neighbours(index, "p0", 4)
    assert [*near] == ["", *index.uec.names]
    for found in near.values():
        assert len(found) == 4
        assert "p0" not in [passage.id for passage in found]
    with pytest.raises(KeyError, match="'nobody' is not in the index"):
        neighbours(index, "nobody")


def test_in_what_passages_are_written_is_told_beside_what_the_fit_knew(index):
    found = describe_languages(index)
    assert found["languages"] == found["fitted_on"] == ("Latin letters",)
    assert found["strange"] is None


@pytest.fixture(scope="module")
def parts(full, queries):
    return full.uec.encode(queries, "query")


def ids(ranking):
    return [[passage.id for passage in row] for row in ranking]


def test_a_member_alone_orders_by_its_own_cosine_whatever_the_variance(full, queries, parts, texts):
    found, stored = (
        search_by_each_member(full, queries, parts, 5),
        full.uec.encode(texts, "passage"),
    )
    assert [*found] == full.uec.names
    for ranking, asked, own in zip(found.values(), parts, stored, strict=True):
        order = np.argsort(-(unit(asked.mean) @ unit(own.mean).T), axis=1, kind="stable")
        assert ids(ranking) == [[f"p{i}" for i in row] for row in order[:, :5]]


def test_one_encoder_has_no_others(queries):
    words = Retriever(UEC(["bm25"], coefficients="uniform"))
    with pytest.warns(UserWarning, match="not fitted"):
        words.add(["ba de", "fi go"])
    asked = words.uec.encode(queries, "query")
    assert search_by_each_member(words, queries, asked, 1) == {}


def test_members_disagree_by_the_share_of_hits_that_they_do_not_share(full):
    a, b, c, d = full.get(["p0", "p1", "p2", "p3"])
    rankings = {"one": [[a, b], [a, b], []], "two": [[b, a], [b, c], []]}
    assert disagreement(rankings) == pytest.approx([0, 2 / 3, 1])
    assert disagreement({"one": [[a]], "two": [[b, c, d]]}) == [1]
