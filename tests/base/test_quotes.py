"""Where quotations stand in passages."""

from types import SimpleNamespace

import pytest

from tests.helpers import data_of
from uec_rag import quoted
from uec_rag.stores.passage import Passage

TEXT = "Fees\n\nA copy costs\n\u201cfive\u201d euros, unless it\u2019s a version. "
TEXT += "\u8d39\u7528\n\u4e94\u5143\u3002"


@pytest.mark.parametrize(("text", "found"), data_of("quotes.json"))
def test_a_quotation_is_found_white_space_and_quotation_marks_apart(text, found):
    for passage in (TEXT, Passage("a", TEXT), SimpleNamespace(page_content=TEXT)):
        place = quoted(text, passage)
        assert (None if place is None else TEXT[slice(*place)]) == found


@pytest.mark.parametrize(("text", "passage", "name"), [(None, "a", "text"), ("a", 5, "passage")])
def test_what_is_no_text_is_named(text, passage, name):
    with pytest.raises(TypeError, match=f"{name}: expected a string"):
        quoted(text, passage)
