"""Questions that refer to something they do not name."""

import pytest

from uec_rag.confidence.referents import lacks_referent, named_words


@pytest.mark.parametrize(
    "question",
    [
        "How do I repay the loan?",
        "When was this library founded?",
        "Does she have children?",
        "how much does it cost",
        "What does a smart one do?",
        "What is the size of that?",
    ],
)
def test_a_description_or_pronoun_without_a_name_lacks_its_referent(question):
    assert lacks_referent(question)


@pytest.mark.parametrize(
    "question",
    [
        "When was the Goodrich House built?",  # a name
        "What does the --daemon option do?",  # an option
        "What does the `join` call return?",  # an identifier
        "What is the capital of a country?",  # a complement
        "Is it safe to eat snow?",  # a dummy subject
        "Who was the first to cross a desert?",  # what is unique by its description
        "How do green plants get their energy from light?",  # what it refers to comes before
        "How many people live in Lagos in this century?",
        "Wie hoch ist der Turm?",  # another language
        "这里能玩多久",
        "",
    ],
)
def test_what_is_named_complete_or_in_another_language_does_not(question):
    assert not lacks_referent(question)


def test_capitals_in_a_title_are_no_names():
    assert lacks_referent("How Do They Repay The Loan")
    assert lacks_referent("Can I repay the loan?")


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (
            "When was Rutherford Technology High School established?",
            "rutherford technology high school",
        ),
        ("What does git's --no-walk mean in CI?", "no walk ci"),
        ("How is bz2.compress called? Tell me.", "bz2 compress"),
        ('Who sang "what is love" first?', "love"),
        ("Getting Stock Guides", ""),
        ("How do I repay a loan?", ""),
        ("Where is Biden's house?", "biden"),
        ("", ""),
    ],
)
def test_names_numbers_identifiers_and_quotations_of_a_question(question, names):
    assert named_words(question) == {*names.split()}
