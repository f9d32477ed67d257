"""What a question may mean, and whether it says which."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import data_of
from uec_rag.base.text import About
from uec_rag.confidence.languages import function_words
from uec_rag.confidence.readings import (
    ASK,
    FEATURES,
    LONGEST_LABEL,
    MOST_READINGS,
    Candidates,
    ambiguity,
    closest_sections,
    features,
    readings,
    shipped_underspecified,
    underspecified,
)

IDF = {"when": 0.5, "Elkins": 4.0, "founded": 2.0, "Arkansas": 5.0}
PLACES = ("Elkins, West Virginia", "Elkins, Arkansas")
SAID = ("Elkins", "founded")
QUESTION = "When was Elkins founded?"


def candidates(titles, words=None, logits=None, idf=IDF, sources=None, documents=None, **options):
    count, keys = len(titles), ("title", "source", "document_title")
    said = zip(titles, sources or [""] * count, documents or [""] * count, strict=True)
    texts = [f"{title} was founded in {1800 + i}." for i, title in enumerate(titles)]
    texts = options.pop("texts", texts)
    metadatas = [dict(zip(keys, one, strict=True)) for one in said]
    return Candidates(
        [f"p{i}" for i in range(count)],
        texts,
        [About.from_passage(*one) for one in zip(metadatas, texts, strict=True)],
        np.zeros(count, "f4") if logits is None else np.array(logits, "f4"),
        [frozenset(row) for row in words or [()] * count],
        idf,
        **{"size": 1000} | options,
    )


def named(question, found):
    return dict(zip(FEATURES, features(question, found).tolist(), strict=True))


def probability(question, found, confidence=0.5):
    row = features(question, found)
    return float(underspecified(row[None], np.array([confidence]))[0])


def labels_of(found):
    return [one.title for one in readings(found)]


def labels(*given, **options):
    return labels_of(candidates(*given, **options))


@pytest.mark.parametrize(("titles", "sources", "subjects"), data_of("subjects_of_hits.json"))
def test_hits_of_one_title_and_sections_and_namesakes_of_one_file_are_one_subject(
    titles, sources, subjects
):
    assert candidates(titles, sources=sources).subject.tolist() == subjects


def test_without_metadata_like_vectors_are_one_subject():
    vectors = np.array([[1, 0], [0, 1], [2, 0.1]])
    found = candidates(["", "", ""], vectors=vectors, texts=["Old", "River", "Mill"])
    assert found.subject.tolist() == [0, 1, 0]
    # But not if they say the same with other numbers.
    assert candidates(["", "", ""], vectors=vectors).subject.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("titles", "sources", "documents", "expected"), data_of("labels.json"))
def test_a_label_is_a_title_or_what_tells_it_from_others(titles, sources, documents, expected):
    assert labels(titles, sources=sources, documents=documents) == expected


LONG = "The loan of a machine is agreed upon with the team that owns it and no other. " * 3


def test_without_titles_a_label_is_how_a_text_begins_or_its_first_word_that_others_lack():
    short = ["The loan for a home runs 30 years.", "The loan for a car runs 5.", f"Anna: {LONG}"]
    told = labels([""] * 3, texts=short, idf={"loan": 1.0})
    assert told == ["home", "car", "Anna: The loan of a machine is agreed upon with the team…"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "OPTIONS", "Usage", "usage", "General " * 20, "page 1"]),
            st.sampled_from(["", "a.md", "x/a.md", "y/a.md", "a/index.md", "deep/" * 40 + "a.md"]),
            st.sampled_from(["", "Flour", "Rye"]),
            st.floats(-50, 50),
        ),
        min_size=1,
        max_size=30,
    ),
    st.text(max_size=40),
)
def test_whatever_is_found_labels_never_repeat_and_probabilities_are_some(hits, question):
    hits.sort(key=lambda hit: -hit[3])
    titles, sources, documents, logits = map(list, zip(*hits, strict=True))
    found = candidates(titles, None, logits, {}, sources, documents, texts=[LONG] * len(hits))
    assert 0 <= probability(question, found) <= 1
    some = readings(found)
    assert 1 <= len(some) <= MOST_READINGS
    assert len({one.title for one in some}) == len(some)
    assert all(0 < len(one.title) <= LONGEST_LABEL + len(" (30)") for one in some)
    assert sum(one.probability for one in some) <= 1 + 1e-6
    ids = [id_ for one in some for id_ in one.ids]
    assert len(ids) == len({*ids})
    assert [one.probability for one in some] == sorted(
        (one.probability for one in some), reverse=True
    )


def test_a_reading_above_nine_tenths_is_the_only_one():
    assert labels(["git add", "rsync"], None, [2.0, 0.0]) == ["git add", "rsync"]
    assert labels(["git add", "rsync"], None, [2.5, 0.0]) == ["git add"]


def test_nothing_is_offered_for_a_word_that_no_passage_of_the_corpus_has():
    two, seen = ["git add", "rsync"], [("option",)] * 2
    unseen = float(np.log1p(2 * 1000 + 1))
    asked = {"the": unseen, "option": 1.0, "hyperdrive": unseen - 1}  # in one passage, far away
    assert labels(two, seen, idf=asked) == two
    assert labels(two, seen, idf=asked | {"hyperdrive": unseen}) == ["git add"]


def test_where_only_the_names_of_files_are_known_there_is_nothing_to_choose():
    files = ["a.md", "b.md"]
    assert labels(files, sources=files) == ["a"]
    assert labels(["a.md", "Fees"], sources=files) == ["a", "Fees"]


def test_a_file_is_named_by_a_heading_in_its_text_that_has_a_word_of_the_question():
    texts = [
        "./pay\n\n## The fee\nFEE = 1\n\n## Books\n\nTen.\n\n## Late fees\n\nNone.",
        "# pay the fee\nfee = 3",  # comments in code
        "Ten.\n\n## Members\n\nAll.",
    ]
    files = ["a/loans.md", "b/loans.md", "Prices"]
    sources = ["a/loans.md", "b/loans.md", "prices.md"]
    told = labels(files, sources=sources, texts=texts, idf={"fee": 3.0})
    assert told == ["Late fees", "b/loans", "Prices"]


def test_a_table_of_contents_is_no_closest_section_beside_others():
    contents, fees = "1 Fees\n2 Returns", "A fee is due."
    titles = ["Contents", "Fees", "Returns"]
    found = candidates(titles, texts=[contents, fees, "We take it back."])
    assert [one.title for one in closest_sections(found)] == ["Fees", "Returns"]
    only = candidates(titles[:1], texts=[contents])
    assert [one.title for one in closest_sections(only)] == ["Contents"]


def test_a_subject_that_has_all_the_question_says_is_a_rival_and_one_that_lacks_a_word_is_not():
    rival = named(QUESTION, candidates(PLACES, [SAID, SAID]))
    apart = candidates(PLACES[::-1], [(*SAID, "Arkansas"), SAID])
    assert rival["rivals"] == pytest.approx(np.log(2))
    assert named("When was Elkins, Arkansas founded?", apart)["rivals"] < 0.1
    one = named(QUESTION, candidates([PLACES[0]] * 3, [SAID] * 3))
    assert one["rivals"] == 0
    assert one["others"] < -9


def test_a_name_in_the_titles_of_several_subjects_is_shared_however_much_is_said():
    idf = {"Elkins": 9.0, "founded": 2.0, "who": 1.0, "when": 1.0, "where": 1.0, "why": 1.0}
    several = candidates(PLACES, [SAID, SAID], [9, 1], idf)
    untitled = candidates(["", *PLACES], [SAID] * 3, [9, 5, 5], idf)
    one = candidates([PLACES[0], "Dunville"], [SAID, ("founded",)], [9, 1], idf)
    question = "Who founded Elkins when, where and why?"
    assert named(question, several)["namesakes"] == named(question, untitled)["namesakes"] > 0.9
    assert named(question, one)["namesakes"] == 0
    assert probability(question, several) > ASK > 0.3 > probability(question, one)
    less = candidates(PLACES[::-1], [("Elkins", "Arkansas"), SAID], idf=dict.fromkeys(IDF, 5.0))
    assert named("Elkins, Arkansas", less)["namesakes"] == 0


def test_an_option_alone_is_shared_by_the_subjects_that_have_it():
    held = [("-n",), ("-n", "tar"), (), ("-n",)]
    found = candidates(["add", "tar", "log", "add"], held, idf={"What": 1.0, "-n": 3.0, "n": 3.0})
    assert named("What -n", found)["namesakes"] == pytest.approx(1 / 3)
    said = candidates(["add", "tar", "log", "add"], held, idf={"-n": 3.0, "n": 3.0, "tar": 4.0})
    assert named("-n of tar", said)["namesakes"] < 0.1


@pytest.mark.parametrize(
    ("titles", "sources", "logits", "is_named"), data_of("named_subjects.json")
)
def test_a_question_that_says_a_title_or_the_name_of_a_file_names_its_subject(
    titles, sources, logits, is_named
):
    idf = {"when": 0.5, "Elkins": 4.0, "founded": 2.0}
    found = candidates(titles, [SAID] * 2, logits, idf, sources)
    assert named(QUESTION, found)["named"] == is_named
    assert (probability(QUESTION, found) == 0) == is_named


def test_concepts_and_the_topic_are_named_by_several_titles_and_pronouns_by_none():
    both = candidates(["Move"] * 2, [{"move"}] * 2, idf={"move": 3.0}, sources=["a.md", "b.md"])
    one = candidates(["Move"] * 2, [{"move"}] * 2, idf={"move": 3.0}, sources=["move.md", "b.md"])
    questions = ("What is a move?", "What does move do?", "How do I move it?")
    assert [named(question, both)["named"] for question in questions] == [1, 0, 0]
    assert [named(question, one)["named"] for question in questions] == [1, 1, 0]

    def topic(idf):
        found = candidates(["Founders", "Elkins today"], [{"Elkins"}] * 2, idf={"Elkins": idf})
        return named("What is Elkins?", found)["named"]

    assert (topic(1.5), topic(2.5)) == (1, 0)


def test_a_question_is_brief_if_it_has_few_words_besides_function_words_and_options_count_once():
    def brief(*words):
        found = candidates(PLACES, [words] * 2, idf=dict.fromkeys(words, 1.0))
        return named("What does it do?", found)["brief"]

    assert brief("when", "founded") > brief("when", "founded", "Elkins")
    assert brief("how", "can", "I", "repay") == brief("repay")
    assert brief("n", "-n") == brief("n")


def test_how_brief_a_question_is_does_not_depend_on_its_language():
    def brief(language, *words):
        known = function_words(language)
        found = candidates(PLACES, [words] * 2, idf=dict.fromkeys(words, 1.0), function_words=known)
        return named("", found)["brief"]

    english = brief("en", "How", "do", "I", "delete", "the", "old", "files")
    assert brief("de", "Wie", "lösche", "ich", "die", "alten", "Dateien") == english
    assert brief("ru", "Как", "мне", "удалить", "старые", "файлы") == english
    pairs = ("如何", "何删", "删除", "除旧", "旧的", "的文", "文件", "件吗")
    assert brief("zh", *pairs) == pytest.approx(english)


def test_little_is_enough_if_the_hits_surely_answer_but_not_a_name_that_several_share():
    vague = candidates(["Home loan", "Car loan"], [("loan",)] * 2, idf={"loan": 1.0, "repay": 1.0})
    before = [probability("loan repay", vague, confidence=value) for value in (0.7, 0.85, 1.0)]
    assert before[:2] == pytest.approx(before[:1] * 2)
    assert before[2] < before[1]
    assert before[2] == pytest.approx(named("loan repay", vague)["namesakes"])
    lacking = [probability("repay the loan?", vague, confidence=value) for value in (0.7, 1.0)]
    assert lacking[0] == lacking[1] > before[0]


def test_every_feature_is_evidence_for_a_clarifying_question():
    assert all(weight > 0 for weight in shipped_underspecified().weights)
    assert len(shipped_underspecified().weights) == len(FEATURES[:-2])


PRODUCTS = ("restic", "caddy")


def of_products(question="How do I install it?", logits=(1, 0, 0.5, 0), folders=PRODUCTS, **words):
    """Passages of two products, by their sources alone, that say the names of their folders."""
    names = [folders[i % 2] for i in range(4)]
    sources = [f"docs/{name}/{file}.md" for name, file in zip(names, "abcd", strict=True)]
    told = [words.get("said", name) for name in names]
    texts = [f"To install {name}, download it, and run {name}." for name in told]
    idf = {"How": 0.5, "install": 2.0} | {word: 4.0 for word in names if word in question}
    return candidates(sources, [("install",)] * 4, logits, idf, sources, texts=texts)


def test_several_products_that_answer_are_the_readings_of_a_question_that_names_none():
    found = of_products()
    assert labels_of(found) == ["a"]  # nothing but the names of files is known of them
    unsaid, products = ambiguity("How do I install it?", found, 0.6)
    assert unsaid >= ASK
    assert [(one.title, one.ids) for one in readings(products)] == [
        ("restic: a", ("p0", "p2")),
        ("caddy: b", ("p1", "p3")),
    ]


def test_a_product_that_most_hits_are_of_is_not_therefore_meant():
    _, products = ambiguity("How do I install it?", of_products(logits=(4, 0, 3, 0)), 0.6)
    assert 0.9 < products.mass.max() < 0.99
    assert len(readings(products)) == 2


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("How do I install restic?", {"question": "restic"}),  # which names one
        ("How do I install it?", {"folders": ("userguide", "reference"), "said": "celery"}),
        ("How do I install it?", {"said": "restic and caddy"}),  # so they compare the two
        ("How do I install it?", {"logits": (19, 0, 19, 0)}),  # only one has an answer
    ],
)
def test_no_product_is_asked_for_if_it_is_said_or_the_folders_name_none(question, options):
    found = of_products(**options)
    _, of = ambiguity(question, found, 0.6)
    assert of is found


def test_pages_of_several_products_are_named_by_product_if_their_titles_do_not():
    titles = ["Installation — restic 0.14.0 documentation", "Setup — Borg 1.2 documentation"]
    sources = ["restic.html", "borg.html"]
    assert labels(titles, sources=sources) == ["restic: Installation", "Borg: Setup"]
    titles = ["Install restic — restic 0.14.0 documentation", titles[1]]
    assert labels(titles, sources=sources) == ["Install restic", "Borg: Setup"]


def test_the_subject_of_the_first_hit_is_among_the_readings():
    titles = ["lockf", *(f"open {number}" for number in range(5))]
    found = candidates(titles, [("open",)] * 6, [1, 1, 0.9, 0.8, 0.7, 0.6], {"open": 3.0})
    assert labels_of(found) == ["open 0", "open 1", "open 2", "lockf"]


def test_a_first_hit_whose_title_says_nothing_has_the_place_of_its_probability():
    titles = ["Next steps", "Backup files", "Backup server"]
    texts = ["Store it elsewhere.", "Backup of files.", "Backup of a server."]
    words = [("backup",)] * 3
    found = candidates(titles, words, [3.6, 1.2, 1.0], {"backup": 3.0}, texts=texts)
    assert labels_of(found) == ["Next steps", "Backup files"]


def test_what_says_nothing_of_the_question_first_is_no_reading_beside_two_that_do():
    titles, texts = ["open", "lockf", "gzip.open"], ["Opens it.", "Locks a region.", "Opens it."]
    found = candidates(titles, [("open",)] * 3, [1, 0.9, 0.8], {"open": 3.0}, texts=texts)
    assert labels_of(found) == ["open", "gzip.open"]
    found = candidates(
        ["open", "lockf", "openpty"],
        [("open",)] * 3,
        [1, 0.9, 0.8],
        {"open": 3.0},
        texts=["Opens it.", "Locks a region.", "Means to open a terminal."],
    )
    assert labels_of(found) == ["open", "openpty"]
    found = candidates(titles[:2], [("open",)] * 2, [1, 0.9], {"open": 3.0}, texts=texts[:2])
    assert labels_of(found) == ["open", "lockf"]


def test_a_title_that_says_half_of_a_question_is_hardly_what_it_names():
    asked = {"what": 0.5, "name": 2.15, "variable": 2.3}
    found = candidates(["Variables", "Posts"], [("name", "variable")] * 2, [1, 0], asked)
    assert 0 < named("What is the name variable?", found)["named"] < 0.2
    found = candidates(["Variables", "Posts"], [("variable",)] * 2, [1, 0], {"variable": 2.3})
    assert named("How do I set a variable?", found)["named"] == 1
