"""Names, references back and questions, by their wording."""

import pytest

from uec_rag.confidence.wording import (
    is_incomplete,
    is_question,
    lacks_referent,
    named_words,
    refers_back,
)


@pytest.mark.parametrize(
    "question",
    [
        "How do I repay the loan?",
        "When was this library founded?",
        "Does she have children?",
        "how much does it cost",
        "What does a smart one do?",
        "What is the size of that?",
        "I need help. How do I repay the loan?",  # the first word of a sentence is no name
        "How Do They Repay The Loan",  # nor are those of a title
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
        "I need help. How do I repay Chase the loan?",
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


@pytest.mark.parametrize(
    "question",
    [
        *(
            "In what year was this?",
            "那个博物馆开放吗？",
            "and how about for free",
            "What if it does?",
        ),
        *("How do I get debug logs for it?", "How do I create one?", "Can I add another?"),
        *("How do I turn that off again?", "Which is faster?", "What’s the difference?"),
        *("Since when?", "More details", "Give me an example, please."),
    ],
)
def test_pronouns_without_a_referent_and_conditions_refer_back(question):
    assert refers_back(question)
    assert is_incomplete(question)


def test_complete_questions_do_not_refer_back():
    complete = "那么天气怎么样？", "What does the repair cost?", "Does a door need its motor?", ""
    complete += "On what day is rent due?", "In Docker, how do I mount the media?"
    complete += (
        "How do I add a user and a password for it?",
        "Can I sell a house with a lien on it?",
    )
    complete += (
        "Can I rename a branch without losing the commits on it?",
        "The build fails on Windows, how do I fix that?",
        "If a job fails twice, what happens then?",
        "Which Python version is supported by chapter one?",
        *("examples", "More memory", "If I have children, do I pay less?"),
    )
    assert not any(map(refers_back, complete))
    goes_on = ["And the repair?", "on docker?", "under Linux with systemd", "I’m on a Mac"]
    goes_on += ["we use tar.", "On Windows, please", "If I have children?", "What happens then?"]
    goes_on += ["Can I use tar instead?"]
    assert all(map(refers_back, goes_on))
    assert not any(map(is_incomplete, goes_on))


def test_questions_and_requests_are_questions_and_replies_are_not():
    assert all(map(is_question, ("is it so", "多少钱？", "Tell me more", "the price? ")))
    assert not any(map(is_question, ("2019", "The second one.", "in Ireland", "", " ")))


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("When was Rutherford High School founded?", "rutherford high school"),
        ("What does git's --no-walk mean in CI?", "--no-walk no walk ci"),
        ("How is bz2.compress called? Tell me.", "bz2.compress bz2 compress"),
        ('Who sang "what is love" first?', "love"),
        ("Getting Stock Guides", ""),
        ("How do I repay a loan?", ""),
        ("Where is Biden's house?", "biden"),
        ("", ""),
    ],
)
def test_names_numbers_identifiers_and_quotations_of_a_question(question, names):
    assert named_words(question) == {*names.split()}
