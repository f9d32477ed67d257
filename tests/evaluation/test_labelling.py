"""Which questions to label next."""

from tests.helpers import index_of
from uec_rag.evaluation.labelling import questions_to_label


def test_those_to_label_next_are_nearest_to_the_threshold_one_of_each_neighbourhood(full, queries):
    asked = full.search(queries)
    distance = {one.query: abs(one.decision.confidence - 0.5) for one in asked}
    chosen = questions_to_label(full, [*queries, queries[0]], 5)
    assert len(chosen) == 5
    assert len({one.ids[0] for one in chosen}) == 5
    far = [distance[one.query] for one in chosen]
    assert far == sorted(far)
    same = [f"{queries[0]} {extra}" for extra in ("", "so", "now")]
    assert len(questions_to_label(index_of(full.uec, ["one text"]), same, 5)) == 1
