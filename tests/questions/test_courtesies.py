"""Thanks, greetings and closing remarks, and the words between them."""

import pytest

from uec_rag.questions.languages import is_courtesy, phrases, take_phrases, without_phrases


@pytest.mark.parametrize(
    ("text", "language", "courtesy"),
    [
        ("Great, thank you very much!", "", True),
        ("Merci beaucoup", "", True),
        ("Merci beaucoup", "en", False),
        ("vielen Dank, tschüss", "de", True),
        ("Thanks for nothing works", "", False),
        ("", "", False),
        ("!?", "", False),
        ("🎉", "", True),
        ("👏🏽👏🏽 bravissimo", "", False),
        (";-)", "", True),
        ("xD", "", True),
        ("hihihi okay", "", True),
        ("thankssss <3", "", True),
        ("merci 😊", "fr", True),
        ("谢谢🌹", "", True),
        ("\\o/ thanks", "", True),
        ("(n)", "", True),
        ("t__t", "", True),
        ("np, cheers", "", True),
        ("kk 👍", "en", True),
        ("f(y)", "", False),
        ("start_t", "", False),
        ("(m)", "", False),
        ("…", "", True),
        ("&&", "", False),
        ("2️⃣", "", False),
        ("🎉 when is it?", "", False),
        ("thanks " * 5000, "", False),
    ],
)
def test_a_text_is_a_courtesy_if_nothing_else_is_said(text, language, courtesy):
    assert is_courtesy(text, language) is courtesy


@pytest.mark.parametrize(
    ("words", "left"),
    [("2 please", "2"), ("hello the red one thanks", "the red one"), ("thanks", "")],
)
def test_courtesies_around_words_are_left_out(words, left):
    said = phrases("courtesies", "en")
    assert without_phrases(tuple(words.split()), said) == tuple(left.split())


def test_of_phrases_the_longest_is_taken_first():
    known = frozenset({("thank",), ("thank", "you")})
    assert take_phrases(("thank", "you", "all"), known) == ([("thank", "you")], ("all",))
