"""A look into an index."""

import pytest

from uec_rag import Retriever
from uec_rag.evaluation.inspection import inspect, neighbours, writing


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
    found = writing(index)
    assert found.languages == found.fitted_on == ("Latin letters",)
    assert found.strange is None
