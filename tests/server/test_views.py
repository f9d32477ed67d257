"""What becomes of a passage's markup on a page."""

import pytest

from tests.helpers import data_of
from uec_rag.server.views import markup

EVIL = "<img src=x onerror=alert(1)> [a](javascript:alert(1)) ![b](http://x.example/b.png) [c](/d)"


def elements(nodes):
    return {name for node in nodes if isinstance(node, list) for name in (node[0], *elements(node))}


def test_there_are_elements_for_structure_alone_and_no_addresses():
    found = markup(f"# A\n\n{EVIL}\n\n- `b`\n\n<script>alert(1)</script>", is_markdown=True)
    assert elements(found) == {"p", "strong", "ul", "li", "code"}
    assert "x.example" not in repr(found)


@pytest.mark.parametrize(("cut", "first"), data_of("cut_markup.json"))
def test_what_was_cut_within_a_table_or_code_is_one_still(cut, first):
    assert markup(cut, is_markdown=True)[0][0] == first


def test_a_plain_text_keeps_its_lines_and_marked_words():
    found = markup("Rest *well*\n  now\n\nResting", ["rest"], is_markdown=False)
    assert found == [["p", ["mark", "Rest"], " *well*\n  now"], ["p", ["mark", "Resting"]]]
