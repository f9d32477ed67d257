"""What a question may mean, and whether it says which."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uec_rag.confidence.readings import (
    ASK,
    FEATURES,
    Candidates,
    document_of,
    features,
    readings,
    shipped_underspecified,
    source_of,
    subject_of,
    underspecified,
)

IDF = {"when": 0.5, "Elkins": 4.0, "founded": 2.0, "Arkansas": 5.0}
PLACES = ("Elkins, West Virginia", "Elkins, Arkansas")


def candidates(titles, words, logits=None, idf=IDF, texts=None, vectors=None):
    count = len(titles)
    return Candidates(
        ids=[f"p{i}" for i in range(count)],
        texts=texts or [f"{title} was founded in {1800 + i}." for i, title in enumerate(titles)],
        titles=titles,
        sources=[""] * count,
        documents=[""] * count,
        logits=np.zeros(count, "f4") if logits is None else np.array(logits, "f4"),
        words=[frozenset(row) for row in words],
        idf=idf,
        size=1000,
        vectors=vectors,
    )


def named(question, found):
    return dict(zip(FEATURES, features(question, found).tolist(), strict=True))


def probability(question, found, in_corpus=1.0, confidence=0.5):
    row = features(question, found)
    return float(underspecified(row[None], np.array([in_corpus]), np.array([confidence]))[0])


def test_hits_of_one_title_are_one_subject():
    found = candidates(["git add", "git log", "git add"], [()] * 3)
    assert found.subject.tolist() == [0, 1, 0]


def test_one_heading_in_two_files_is_of_two_subjects_called_by_their_files():
    plain = candidates(["OPTIONS"] * 3, [()] * 3)
    found = replace(plain, sources=["tag.html", "notes.html", "tag.html"])
    assert found.subject.tolist() == [0, 1, 0]
    labels = [one.label for one in readings(found)]
    assert labels == ["tag", "notes"]


def test_a_section_in_capitals_is_named_with_its_file():
    found = candidates(["OPTIONS", "SEE ALSO", "Locks"], [()] * 3)
    sourced = replace(found, sources=["tag.html", "notes.html", "locks.html"])
    labels = [one.label for one in readings(sourced)]
    assert labels == ["tag: OPTIONS", "notes: SEE ALSO", "Locks"]
    assert readings(found)[0].label == "OPTIONS"


def test_sections_that_other_sources_have_too_are_of_their_source():
    titles = ["COMMANDS", "OPTIONS", "Usage", "Usage", "Locks"]
    sources = ["tag.html", "tag.html", "tag.html", "notes.html", "tag.html"]
    found = replace(candidates(titles, [()] * 5), sources=sources)
    assert found.subject.tolist() == [0, 0, 0, 1, 2]
    labels = [one.label for one in readings(found)]
    assert labels == ["tag", "notes: Usage", "tag: Locks"]


def test_a_title_that_says_nothing_of_the_question_is_named_with_its_file():
    titles = ["Recap", "Elkins today", "Fees", "Recap"]
    sources = ["towns/founding.md", "towns/elkins.md", "fees.md", "towns/index.md"]
    found = replace(candidates(titles, [()] * 4), sources=sources)
    labels = [one.label for one in readings(found)]
    assert labels == ["founding: Recap", "Elkins today", "Fees", "towns: Recap"]
    one = replace(candidates(["Recap", "Notes"], [()] * 2), sources=["guide.md"] * 2)
    assert [reading.label for reading in readings(one)] == ["Recap", "Notes"]


def test_hits_in_a_file_that_is_named_like_the_question_are_one_subject():
    titles = ["Recap", "Usage", "Elkins", "Places"]
    sources = ["towns/founding_a_town.md", "towns/founding_a_town.md", "places.md", "places.md"]
    found = replace(candidates(titles, [()] * 4), sources=sources)
    assert found.subject.tolist() == [0, 0, 1, 2]
    index = replace(found, sources=["founded/index.md", "founded/index.md", "", ""])
    assert index.subject.tolist() == [0, 0, 1, 2]


def test_labels_stay_different_however_long_the_paths_are():
    folder = "/home/alice/projects/support/data/documentation/docs/plugins"
    names = ["group.md", "tags.md", "old/tags.md", "/tags.md"]
    sources = [f"{folder}/{name}" for name in names]
    found = replace(candidates(["General"] * 4, [()] * 4), sources=sources)
    labels = [one.label for one in readings(found)]
    assert labels[:3] == ["group", "plugins/tags", "old/tags"]
    assert len({*labels}) == 4
    long = candidates([f"{'General ' * 20}{number}" for number in range(4)], [()] * 4)
    assert len({one.label for one in readings(long)}) == 4


def test_the_heading_of_a_node_is_below_the_lines_of_its_metadata():
    known = {"file_path": "loans.md", "header_path": "/Loans/"}
    text = "file_path: loans.md\nheader_path: /Loans/\n\n### Fees\n\nNone: so it is."
    assert subject_of(known, text) == "Fees"
    assert subject_of({"file_path": "loans.md"}, text) == "loans.md"


def test_headings_of_markdown_are_read_without_markup():
    heading, plain = "[`OCR=<lang>`](#OCR) of **all** ~~old~~ jobs", "OCR=<lang> of all old jobs"
    assert subject_of({"source": "a.md"}, f"## {heading} {{#anchor}}") == plain
    assert subject_of({"Header 2": heading}) == document_of({"Header 1": heading}) == plain


def test_a_section_that_other_documents_have_too_is_called_by_its_own():
    titles, sources = ["Tone", "Cost", "Tone", "Cost"], ["a.md", "a.md", "b.md", "c.md"]
    found = replace(candidates(titles, [()] * 4), sources=sources)
    assert [one.label for one in readings(found)] == ["a", "b: Tone", "c: Cost"]


@pytest.mark.parametrize("key", ["source", "file_path", "file_name", "url"])
def test_the_source_is_what_either_framework_calls_it(key):
    assert source_of({key: "docs/loans.md", "page": 3}) == "docs/loans.md"
    assert subject_of({key: "docs/loans.md"}) == "docs/loans.md"


def test_a_page_is_named_with_its_file_and_a_file_without_its_folder():
    found = candidates(["page 1", "docs/loans.md", "docs/fees.md", "old/fees.md"], [()] * 4)
    sourced = replace(found, sources=["plan.pdf", *found.titles[1:]])
    labels = [one.label for one in readings(sourced)]
    assert labels == ["plan: page 1", "loans", "docs/fees", "old/fees"]


@pytest.mark.parametrize(
    ("metadata", "subject"),
    [
        ({"source": "loans.md", "Header 1": "Loans", "Header 2": "Laptop"}, "Laptop"),
        ({"source": "loans.html", "h1": "Loans"}, "Loans"),
        ({"source": "loans.md", "title": "Laptop", "Header 1": "Loans"}, "Laptop"),
        ({"source": "loans.md", "header 9": "", "Header 1": ""}, "loans.md"),
        ({}, ""),
    ],
)
def test_the_subject_is_the_title_or_the_deepest_heading_before_the_file(metadata, subject):
    assert subject_of(metadata) == subject


@pytest.mark.parametrize(("text", "subject"), [("\n## Fees \n", "Fees"), ("#1\n# x", "a.md")])
def test_a_heading_that_begins_the_text_is_its_subject_before_the_file(text, subject):
    of_llama_index = {"file_path": "a.md", "header_path": "/Loans/"}
    assert subject_of(of_llama_index, text) == subject
    assert subject_of({"title": "Laptop"}, text) == "Laptop"
    assert [document_of(of_llama_index), document_of({"header_path": "/"})] == ["Loans", ""]


@pytest.mark.parametrize(
    ("titles", "labels"),
    [
        (["7.5. Virtual packages", "3. Binary packages"], ["Virtual packages", "Binary packages"]),
        (["3.1. Overview", "7.2. Overview"], ["3.1. Overview", "7.2. Overview"]),
        (["3 Idiots", "A.2 Idiots"], ["3 Idiots", "Idiots"]),
        (["Directories:", "Files:"], ["Directories", "Files"]),
    ],
)
def test_a_label_has_no_section_number_unless_it_tells_headings_apart(titles, labels):
    found = candidates(titles, [()] * len(titles))
    assert [one.label for one in readings(found)] == labels


def test_without_metadata_like_vectors_are_one_subject():
    vectors = np.array([[1, 0], [0, 1], [2, 0.1]])
    found = candidates(["", "", ""], [()] * 3, vectors=vectors)
    assert found.subject.tolist() == [0, 1, 0]


def test_without_metadata_and_vectors_every_hit_is_its_own_subject():
    assert candidates(["", ""], [(), ()]).subject.tolist() == [0, 1]


def test_a_subject_that_has_all_the_question_says_is_a_rival_and_one_that_lacks_a_word_is_not():
    both = [("Elkins", "founded"), ("Elkins", "founded")]
    rival = named("When was Elkins founded?", candidates(PLACES, both))
    one = [("Elkins", "founded", "Arkansas"), ("Elkins", "founded")]
    apart = named("When was Elkins, Arkansas founded?", candidates(PLACES[::-1], one))
    assert rival["rivals"] == pytest.approx(np.log(2))
    assert apart["rivals"] < 0.1


def test_a_name_in_the_titles_of_several_subjects_is_asked_back_about_however_much_is_said():
    idf = {"Elkins": 9.0, "founded": 2.0, "who": 1.0, "when": 1.0, "where": 1.0, "why": 1.0}
    said = ("Elkins", "founded")
    several = candidates(PLACES, [said, said], [9, 1], idf)
    one = candidates([PLACES[0], "Dunville"], [said, ("founded",)], [9, 1], idf)
    question = "Who founded Elkins when, where and why?"
    assert named(question, several)["namesakes"] > 0.9
    assert named(question, one)["namesakes"] == 0
    assert probability(question, several) > ASK > 0.3 > probability(question, one)


def test_an_option_alone_is_shared_by_the_subjects_that_have_it():
    held = [("-n",), ("-n", "tar"), (), ("-n",)]
    found = candidates(["add", "tar", "log", "add"], held, idf={"What": 1.0, "-n": 3.0, "n": 3.0})
    assert named("What -n", found)["namesakes"] == pytest.approx(1 / 3)
    said = replace(found, idf={"-n": 3.0, "n": 3.0, "tar": 4.0})
    assert named("-n of tar", said)["namesakes"] < 0.1
    assert named("-n", replace(found, words=[("n",)] * 4))["namesakes"] == 0


def test_namesakes_are_told_by_their_titles_if_the_best_hit_has_none():
    said = ("Elkins", "founded")
    found = candidates(["", *PLACES], [said] * 3, [9, 5, 5])
    titled = candidates(PLACES, [said] * 2)
    question = "When was Elkins founded?"
    assert named(question, found)["namesakes"] == named(question, titled)["namesakes"] > 0.3


def test_a_title_is_a_name_that_longer_ones_elsewhere_share_in_any_inflection():
    titles = ["Uninstalling on Windows", "Uninstalling", "How to uninstall on a Mac"]
    idf, question = {"uninstall": 3.0, "Elkins": 1.0}, "How do I uninstall Elkins?"
    several = candidates(titles, [(*idf,)] * 3, [1, 0.5, 0], idf)
    of_three = replace(several, sources=["a.md", "b.md", "c.md"])
    assert named(question, of_three)["namesakes"] == pytest.approx(0.9)
    assert probability(question, of_three) > ASK
    likelier = replace(of_three, logits=np.array([0, 3, 0]))
    for found in (likelier, replace(several, sources=["a.md", "b.md", "a.md"])):
        assert (named(question, found)["namesakes"], named(question, found)["named"]) == (0, 1)


def test_a_name_is_no_namesake_of_what_has_less_of_it():
    idf = {"Elkins": 5.0, "Arkansas": 5.0}
    found = candidates(PLACES[::-1], [(*idf,), ("Elkins",)], idf=idf)
    assert named("Elkins, Arkansas", found)["namesakes"] == 0


@pytest.mark.parametrize(
    ("titles", "sources", "is_named"),
    [
        (["Elkins", "Elkins, Arkansas"], ["", ""], 1),
        (["The founding of Elkins", "Elkins, Arkansas"], ["", ""], 1),
        (["Elkins, Arkansas", "Arkansas"], ["", ""], 0),
        (["Founded", "Elkins, Arkansas"], ["", ""], 0),  # says less than half of the question
        (["Elkins", "Elkins"], ["a.md", "b.md"], 0),
        (["Recap", "Elkins, Arkansas"], ["towns/elkins.md", "b.md"], 1),
        (["Recap", "Elkins, Arkansas"], ["towns/elkins/index.md", "b.md"], 1),
    ],
)
def test_a_question_that_says_a_title_or_the_name_of_a_file_names_its_subject(
    titles, sources, is_named
):
    question, idf = "When was Elkins founded?", {"when": 0.5, "Elkins": 4.0, "founded": 2.0}
    said = [("Elkins", "founded")] * 2
    found = replace(candidates(titles, said, [1, 0], idf), sources=sources)
    assert named(question, found)["named"] == is_named
    assert (probability(question, found) == 0) == is_named


def test_a_title_that_hardly_any_of_the_posterior_is_on_is_not_what_a_question_names():
    found = candidates(["Dunville", "Elkins"], [("Elkins",)] * 2, [5, 0], {"Elkins": 4.0})
    assert named("When was Elkins founded?", found)["named"] == 0


def test_passages_on_one_subject_are_no_rivals():
    words = [("Elkins", "founded")] * 3
    found = named("When was Elkins founded?", candidates([PLACES[0]] * 3, words))
    assert found["rivals"] == 0
    assert found["others"] < -9


def test_a_question_is_brief_if_it_has_few_words_besides_function_words_and_options_count_once():
    def brief(*words):
        found = candidates(PLACES, [words] * 2, idf=dict.fromkeys(words, 1.0))
        return named("What does it do?", found)["brief"]

    assert brief("when", "founded") > brief("when", "founded", "Elkins")
    assert brief("how", "can", "I", "repay") == brief("repay")
    assert brief("n", "-n") == brief("n")


def test_a_corpus_of_another_size_changes_nothing_if_words_are_as_rare_in_it():
    def of(size):
        rare = {"loan": np.log(size) / 2, "repay": np.log(size)}
        found = candidates(PLACES, [("loan",), ("loan", "repay")], idf=rare)
        return features("repay loan", replace(found, size=size))

    np.testing.assert_allclose(of(10**4), of(10**8), atol=0.06)


def test_a_vague_question_is_more_probably_underspecified_than_a_precise_one():
    vague = candidates(
        ["Home loan", "Car loan", "Student loan"], [("loan",)] * 3, idf={"repay": 3.0, "loan": 1.0}
    )
    precise = candidates(
        PLACES[::-1], [("Elkins", "founded", "Arkansas"), ("founded",)], logits=[9, 2]
    )
    assert probability("How do I repay the loan?", vague) > ASK
    assert probability("When was Elkins, Arkansas founded?", precise) < 0.2


def test_nothing_is_asked_back_about_readings_that_the_corpus_does_not_answer():
    vague = candidates(["Home loan", "Car loan"], [("loan",)] * 2, idf={"loan": 1.0})
    assert probability("the loan?", vague, 0.02) < 0.2 * probability("the loan?", vague, 0.5)


def test_little_is_enough_if_the_hits_surely_answer_but_not_a_name_that_several_share():
    vague = candidates(["Home loan", "Car loan"], [("loan",)] * 2, idf={"loan": 1.0, "repay": 1.0})
    before = [probability("loan repay", vague, confidence=value) for value in (0.7, 0.85, 1.0)]
    assert before[0] > before[1] > before[2]
    assert before[2] == pytest.approx(named("loan repay", vague)["namesakes"])
    lacking = [probability("repay the loan?", vague, confidence=value) for value in (0.7, 1.0)]
    assert lacking[0] == lacking[1] > before[0]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(-50, 50)), min_size=1, max_size=30),
    st.text(max_size=40),
    st.floats(0, 1),
)
def test_whatever_is_found_there_is_a_probability(hits, question, in_corpus):
    hits.sort(key=lambda hit: -hit[1])
    found = candidates([t for t, _ in hits], [()] * len(hits), [s for _, s in hits], idf={})
    assert 0 <= probability(question, found, in_corpus) <= 1
    given_readings = readings(found)
    assert sum(one.probability for one in given_readings) <= 1 + 1e-6
    ids = [id_ for one in given_readings for id_ in one.ids]
    assert len(ids) == len({*ids})


def test_every_feature_is_evidence_for_asking_back():
    assert all(weight > 0 for weight in shipped_underspecified().weights)
    assert len(shipped_underspecified().weights) == len(FEATURES[:-2])


def test_readings_are_the_likeliest_first_with_their_passages_and_titles():
    found = candidates(["git add", "rsync", "git add"], [()] * 3, [2.0, 1.9, 1.8])
    first, second = readings(found)
    assert (first.label, first.ids) == ("git add", ("p0", "p2"))
    assert second.label == "rsync"
    assert first.probability > second.probability
    assert first.probability + second.probability == pytest.approx(1)


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["The loan for a home runs 30 years.", "The loan for a car runs 5."], ["home", "car"]),
        (["Founded in Paris, Ubi sold loans.", "In a New-Age shop."], ["Founded", "New-Age shop"]),
        (["A loan (see b) of A. x", "of a loan"], ["see", "p1"]),
    ],
)
def test_readings_without_titles_are_called_by_the_first_words_that_the_others_lack(texts, labels):
    found = candidates(["", ""], [("loan",)] * 2, texts=texts, idf={"loan": 1.0})
    assert [one.label for one in readings(found)] == labels


LONG = "The loan of a machine is agreed upon with the team that owns it and no other. " * 3


def test_the_only_reading_without_a_title_is_called_by_its_text():
    texts = ["All about fees.", "The loan for a car."]
    found = candidates(["Fees", ""], [()] * 2, texts=texts)
    assert [one.label for one in readings(found)] == ["Fees", "loan"]


def test_long_passages_without_titles_are_called_by_how_they_begin_if_that_tells_them_apart():
    texts = [f"Anna: {LONG}", LONG, LONG + "Printers first."]
    found = candidates([""] * 3, [("loan",)] * 3, texts=texts, idf={"loan": 1.0})
    labels = [one.label for one in readings(found)]
    assert labels[0] == "Anna: The loan of a machine is agreed upon with the team…"
    assert labels[2] == "Printers first"


def test_a_section_is_named_with_the_title_of_its_document_and_the_file_if_others_have_it():
    sources = ["rye.md", "oats.md", "wheat.md"]
    found = replace(candidates(["Recap"] * 3, [()] * 3), sources=sources)
    titled = replace(found, documents=["Rye bread", "Flour", "Flour"])
    labels = [one.label for one in readings(titled)]
    assert labels == ["Rye bread", "Flour (oats)", "Flour (wheat)"]
    ground = replace(titled, sources=["rye.md", "oats/flour.md", "wheat/flour.md"])
    assert [one.label for one in readings(ground)][1:] == ["oats/flour", "wheat/flour"]
    assert document_of({"document_title": "Rye bread", "title": "Recap"}) == "Rye bread"
    assert document_of({"Header 1": "Rye bread", "Header 2": "Recap"}) == "Rye bread"


def test_if_one_section_is_named_with_its_document_others_with_a_titled_document_are_too():
    titles = ["Install it", "By an installer", "Install it", "Elkins on Solaris"]
    found = replace(candidates(titles, [()] * 4), sources=["m.md", "w.md", "s.md", "o.md"])
    towns = [f"Elkins on {system}" for system in ("Mars", "Windows", "Saturn", "Solaris")]
    labels = [one.label for one in readings(replace(found, documents=towns))]
    both = [f"{town}: {title}" for town, title in zip(towns, titles, strict=True)]
    assert labels == [*both[:3], "Elkins on Solaris"]


def test_a_title_of_one_word_is_named_with_its_document():
    sourced = replace(candidates(["Founded", "Elkins today"], [()] * 2), sources=["a.md", "b.md"])
    assert [one.label for one in readings(sourced)] == ["a: Founded", "Elkins today"]


@pytest.mark.parametrize("question", ["What is Elkins?", "tell me about Elkins", "Why use Elkins?"])
def test_a_question_what_the_topic_of_the_documents_is_is_not_asked_back_about(question):
    common = candidates(["Founders", "Elkins today"], [{"Elkins"}] * 2, idf={"Elkins": 1.5})
    assert named(question, common)["named"] == 1
    assert named("Who founded Elkins?", common)["named"] == 0
    # A word of a few passages may be a name that they share.
    assert named(question, replace(common, idf={"Elkins": 2.5}))["named"] == 0
    assert named(question, replace(common, size=50))["named"] == 0


def test_concepts_are_named_even_by_several_titles_and_pronouns_by_none():
    found = candidates(["Move", "Move"], [{"move"}] * 2, idf={"move": 3.0})
    both = replace(found, sources=["chess.md", "towns.md"])
    one = replace(both, sources=["move.md", "towns.md"])
    questions = ("What is a move?", "What does move do?", "How do I move it?")
    assert [named(question, both)["named"] for question in questions] == [1, 0, 0]
    assert [named(question, one)["named"] for question in questions] == [1, 1, 0]
    two = replace(both, sources=["games/move.md", "towns/move.md"])
    assert [named(question, two)["named"] for question in questions] == [1, 0, 0]
    behind = features("What is a move?", both, ["Who wrote Hamlet?"])
    assert behind[FEATURES.index("named")]


@pytest.mark.parametrize("other", ["A free loan ?", "a Free Loan", "A free  loan:"])
def test_neither_capitals_nor_a_question_mark_tell_titles_apart(other):
    found = candidates(["A free loan", other], [{"loan"}] * 2, idf={"loan": 3.0})
    found = replace(found, sources=["bonn.md", "rome.md"])
    assert [one.label for one in readings(found)] == ["bonn", "rome"]
    assert not named("How do I get a free loan?", found)["named"]
