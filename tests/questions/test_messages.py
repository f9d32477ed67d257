"""What people write: which part of a message asks."""

from __future__ import annotations

import pytest

from tests.helpers import data_of
from uec_rag.questions.messages import asking_part


@pytest.mark.parametrize(("message", "part"), data_of("told.json"))
def test_who_tells_of_a_trouble_asks_and_who_recites_does_not(message, part):
    asked, _ = asking_part(message)
    assert asked == (message if part == "*" else part)
