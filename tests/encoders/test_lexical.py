import numpy as np
import pytest

from tests.helpers import data_of, rows_of
from uec_rag.encoders import Lexical, lexical

ROWS = data_of("lexical.json")


def shared(one, other):
    return {t for t in lexical.terms_of(one) if not t.startswith("~")} & set(
        lexical.terms_of(other)
    )


@pytest.mark.parametrize("row", rows_of("forms_of_words.csv"), ids=lambda row: row["one"])
def test_forms_of_a_word_share_a_term(row):
    assert shared(row["one"], row["other"])


def test_an_identifier_gives_itself_and_its_parts():
    assert {"parse", "arg", "parse_arg"} & set(lexical.terms_of("parse_args")) >= {"arg"}
    assert {"httpserver", "http", "server"} <= set(lexical.terms_of("HTTPServer"))


def test_a_text_of_another_language_gives_runs_of_letters():
    german = lexical.terms_of("Was ist der Grund für die Verlustvorträge?")
    assert {"~lust", "~verl"} <= set(german)
    assert "~lust" not in lexical.terms_of("What is the reason for Verlustvortrag?")
    assert "~ündi" in lexical.terms_of("a Kündigung")  # an accent is enough for the word itself


def test_marks_belong_to_their_letters():
    assert lexical.written_words("हिन्दी naïve_case, os.path") == [
        "हिन्दी",
        "naïve_case",
        "os",
        "path",
    ]


@pytest.mark.parametrize("row", rows_of("options_in_texts.csv"), ids=lambda row: row["text"])
def test_options_of_commands_are_words_with_their_dashes(row):
    options = {*row["options"].split()}
    assert {term for term in lexical.terms_of(row["text"]) if term.startswith("-")} == options
    assert options <= {*lexical.words_by_key(lexical.written_words(row["text"])).values()}


@pytest.mark.parametrize(
    ("text", "identifiers"),
    [
        ("What does bz2.compress do?", {"~bz2.compress"}),
        ("HTTP/3, see os.path.join(a, b).", {"~http/3", "~os.path.join"}),
        ("怎么用os.path函数", {"~os.path"}),
        ("max_length of v1, at the end. Next: 34", set()),
    ],
)
def test_an_identifier_is_a_term_beside_its_words(text, identifiers):
    terms = lexical.terms_of(text)
    assert {term for term in terms if not {".", "/"}.isdisjoint(term)} == identifiers
    words = lexical.terms_of(text.replace(".", " ").replace("/", " "))
    assert [term for term in terms if term not in identifiers] == words


@pytest.mark.parametrize(("text", "words"), ROWS["numbers with dots"])
def test_a_number_with_dots_is_one_word_in_digits_of_any_script(text, words):
    assert lexical.written_words(text) == words


def test_parts_of_words_and_identifiers_weigh_less():
    keys = [lexical.term_key("network"), lexical.term_key("~netw"), lexical.term_key("~a.b")]
    weights = lexical.weights_of(np.array(keys, dtype=np.uint64), np.zeros(3, dtype=bool))
    assert weights.tolist() == [1.0, 0.25, 0.5]


def weights_in_query(query):
    terms = Lexical().encode([query], "query").terms
    weights = dict(zip(terms.keys.tolist(), terms.weights.tolist(), strict=True))
    return {word: weights[key] for key, word in terms.labels[0].items()}


def test_function_words_of_a_query_weigh_less_in_its_language():
    small = dict.fromkeys(["How", "do", "I", "it"], 0.25)
    assert weights_in_query("How do I install it?") == small | {"install": 1.0}
    # "des" is a function word in German and French only.
    assert weights_in_query("Where is the des?")["des"] == 1.0
    german = weights_in_query("Wie wird der Bau des Turms bezahlt?")
    assert {word for word, weight in german.items() if weight == 1} == {"Bau", "Turms", "bezahlt"}
    assert weights_in_query("to be or not to be")["be"] == 0.5  # twice


def test_a_text_without_words_has_no_terms_and_words_that_say_little_are_terms():
    texts = ["?!", "...", "\N{GRINNING FACE}", "of the and", "the"]
    assert Lexical().encode(texts, "passage").terms.lengths.tolist() == [0, 0, 0, 3, 1]


def test_a_long_text_is_read_to_its_end():
    terms = Lexical().encode(["filler words " * 200_000 + "needle"], "passage").terms
    assert lexical.term_key("needl") in terms.keys
    assert terms.weights.max() == 200_000


def test_a_query_is_read_up_to_a_length_that_no_question_has():
    words = [f"word{i}x" for i in range(150_000)]
    terms = Lexical().encode([" ".join(words)], "query").terms
    named = {*terms.labels[0].values()}
    assert {words[0], words[4000]} <= named
    assert words[6000] not in named


@pytest.mark.slow
def test_data_in_a_text_is_one_term():
    blob = "QWxhZGRpbjpvcGVu" * 600_000
    assert len(lexical.keys_of(f"{blob} needle {blob}")) == 4
    assert lexical.terms_of(blob[:200]) == [blob[:200].lower()]
    assert lexical.terms_of("北京大学的学生" * 50)[:2] == ["北京", "京大"]


def test_queries_carry_readable_words_and_weights():
    terms = Lexical().encode(["Networks, networks"], "query").terms
    assert terms.labels == [{lexical.term_key("network"): "networks"}]
    assert sorted(terms.weights.tolist()) == [0.5, 2.0]
    assert Lexical().encode(["Networks"], "passage").terms.labels is None


@pytest.mark.parametrize(("word", "same"), ROWS["Hindi and Hebrew"])
def test_words_of_hindi_and_hebrew_are_one_term_however_they_are_written(word, same):
    assert lexical.terms_of(word) == lexical.terms_of(same)
    assert lexical.keys_of(word).tolist() == lexical.keys_of(same).tolist()
