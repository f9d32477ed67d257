"""What a search adds to the metadata of a hit, and what others' metadata become in JSON."""

import json
import math
from datetime import date

import numpy as np
import pytest

from uec_rag.retrieval.results import HitMetadata, as_json, own_copy, own_metadata
from uec_rag.stores import Passage


class Model:
    def model_dump(self):
        return {"pages": np.arange(2)}


@pytest.mark.parametrize(
    ("value", "converted"),
    [
        ({1: (2.5, True, None)}, {"1": [2.5, True, None]}),
        ([math.inf, math.nan, 2**70], [None, None, str(2**70)]),
        (np.array([[1, 2]]), [[1, 2]]),
        (Model(), {"pages": [0, 1]}),
        (date(2024, 3, 1), "2024-03-01"),
    ],
)
def test_any_value_becomes_one_of_json(value, converted):
    assert as_json(value) == converted
    assert json.loads(json.dumps(converted)) == converted


def test_what_holds_itself_ends_in_its_text():
    circle = []
    circle.append(circle)
    assert json.dumps(as_json(circle))


def test_hits_are_equal_whatever_a_search_added():
    one, other = ({"page": 1, "uec_score": score} for score in (0.8, 0.6))
    assert HitMetadata(one) == HitMetadata(other)
    assert HitMetadata(one) != HitMetadata({"page": 2})
    assert own_metadata(one) == {"page": 1}


def test_a_copy_shares_nothing_and_has_no_findings():
    passage = Passage("a", "A.", {"tags": ["x"], "uec_score": 1.0})
    copied = own_copy(passage)
    copied.metadata["tags"].append("y")
    assert passage.metadata == {"tags": ["x"], "uec_score": 1.0}
    assert copied.metadata == {"tags": ["x", "y"]}
