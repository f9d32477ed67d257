"""What a language model reads of a search: three levels, and no abstention as a fact."""

import pytest

from tests.helpers import data_of
from uec_rag.adapters.tool import tool_reply, what_to_do
from uec_rag.questions.languages import TRANSLATIONS

HITS = [("Cats purr.", {"source": "cats.md"})]


@pytest.mark.parametrize(("action", "code", "told"), data_of("tool.json"))
def test_passages_are_to_be_answered_from_read_with_care_or_left(action, code, told):
    assert told in what_to_do(action, code)
    reply = tool_reply(action, code, "a reason", [], HITS)
    assert told in reply
    assert '"Cats purr."' in reply


def test_where_it_is_uncertain_the_model_is_to_search_once_more_in_the_documents_words():
    assert "search once more, in the words that the documents would use" in what_to_do(
        "abstain", "uncertain"
    )


def test_no_language_says_of_the_documents_that_they_have_no_answer():
    """The passage may be among the hits, in other words, or not among them."""
    assert all(said["uncertain"] != said["no_answer"] for said in TRANSLATIONS.values())
    english = [TRANSLATIONS["en"][code] for code in ("uncertain", "no_answer")]
    assert all(said.startswith("Nothing found") for said in english)


def test_what_asks_nothing_is_replied_to_without_passages():
    reply = tool_reply("abstain", "no_question", "There is none.", [{"title": "Cats"}], HITS)
    assert reply.endswith(what_to_do("abstain", "no_question"))
    assert "Reply to what was said, in kind." in reply
