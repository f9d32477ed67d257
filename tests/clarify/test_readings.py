"""What a question may mean, in words to choose among."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clarify.outlines import below_headings, labels_of, outline, probability
from tests.helpers import data_of
from uec_rag.clarify.readings import closest_sections, readings, says_which
from uec_rag.clarify.titles import labels_of as labels_of_texts
from uec_rag.confidence.decision import CLARIFY_FROM
from uec_rag.questions.replies import LONGEST_LABEL, MOST_READINGS, shorten

ROWS = data_of("readings.json")


def labels(*given, **options):
    return labels_of(outline(*given, **options))


@pytest.mark.parametrize(("titles", "sources", "places"), data_of("places_of_hits.json"))
def test_hits_of_one_title_in_one_document_are_at_one_place(titles, sources, places):
    found = closest_sections(outline(titles, sources=sources).split(), len(titles))
    assert [[f"p{row}" for row in rows] for rows in places] == [[*one.ids] for one in found]


@pytest.mark.parametrize(("titles", "sources", "documents", "expected"), data_of("labels.json"))
def test_a_reading_is_called_by_its_place_and_by_the_section_of_nearly_all_of_its_mass(
    titles, sources, documents, expected
):
    assert labels(titles, sources=sources, documents=documents) == expected


@pytest.mark.parametrize(("source", "name"), data_of("private_paths.json"))
def test_a_private_path_is_no_name(source, name):
    found = outline([source], sources=[source]).split()
    assert [one.title for one in closest_sections(found)] == [name]
    assert labels([source, "Fees"], sources=[source, "b.md"]) == [name, "Fees"]


LONG = "The loan of a machine is agreed upon with the team that owns it and no other. " * 3


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            ["The loan for a home runs 30 years.", "The loan for a car runs 5.", f"Anna: {LONG}"],
            [
                "“The loan for a home runs 30 years.”",
                "“The loan for a car runs 5.”",
                "“Anna: The loan of a machine is agreed upon with the…”",
            ],
        ),
        (
            [f"The fee in {of} is 4.50 euros." for of in ("May", "June")],
            ["fee in May", "fee in June"],
        ),
        (
            [f"Plan: Basic, Year: {year}, Price: {year - 2017}" for year in (2022, 2023)],
            ["Year: 2022", "Year: 2023"],
        ),
        (
            [f"Plan: {plan}, Year: {year}" for plan in ("Basic", "Pro") for year in (2023, 2024)],
            ["Basic, Year: 2023", "Basic, Year: 2024", "Pro, Year: 2023", "Pro, Year: 2024"],
        ),
        (
            [
                "Ivo Falk works in the bakery in Gent. His fee is 12.",
                "Ivo Falk works in sales at Ystad. His fee is 31.",
            ],
            ["bakery in Gent", "sales at Ystad"],
        ),
        (
            ["The loan takes 15 minutes at the desk.", "The loan takes 40 minutes by mail."],
            ["desk", "mail"],
        ),
        (
            ["The holidays 2025 are from 20 October.", "The holidays 2026 are from 12 October."],
            ["holidays 2025", "holidays 2026"],
        ),
        (
            ["Mr. Tobias Lenz teaches physics.", "Ms. Clara Lenz teaches French."],
            ["Mr. Tobias Lenz", "Ms. Clara Lenz"],
        ),
        (
            ["The Brevo 200 holds 1.2 litres.", "The Brevo 300 Pro holds 1.8 litres."],
            ["Brevo 200", "Brevo 300 Pro"],
        ),
        (
            ["Inside the city a taxi costs 2 euros.", "Outside the city a taxi costs 3 euros."],
            ["Inside the city", "Outside the city"],
        ),
        (["Error E01: The tank is empty.", "Error E02: It is full."], ["Error E01", "Error E02"]),
        (
            ["It lasts two days.", "It lasts 3 days."],
            ["“It lasts two days.”", "“It lasts 3 days.”"],
        ),
        (
            [f"See the new iron bridge gate {n} there." for n in (4, 7)],
            ["bridge gate 4", "bridge gate 7"],
        ),
        (["Dogs wait outside", "Dogs wait inside"], ["“Dogs wait outside”", "“Dogs wait inside”"]),
    ],
)
def test_without_titles_a_reading_is_called_by_the_words_that_tell_it_from_all_others(
    texts, expected
):
    assert labels([""] * len(texts), texts=texts, idf={"loan": 1.0, "fee": 1.0}) == expected


FEE = {"fee": 2.0, "pay": 2.0, "Elkins": 2.0}


@pytest.mark.parametrize(
    ("titles", "sources", "documents", "logits", "expected"), ROWS["names of readings"]
)
def test_readings_are_called_in_words_of_the_question_and_a_document_is_one(
    titles, sources, documents, logits, expected
):
    found = outline(titles, None, logits, FEE, sources, documents)
    assert [[one.title, [*one.ids]] for one in readings(found.split())] == expected


def test_a_reading_that_has_less_than_half_of_the_question_that_another_has_is_none():
    words = [("fee", "pay", "Elkins"), ("fee", "pay"), ("pay",)]
    assert labels(["Keys", "Chairs", "Doors"], words, [0, 1, 2], FEE) == ["Chairs", "Keys"]


@pytest.mark.parametrize("idf", [{}, {"lamp": 2.0}])
def test_of_many_that_are_equally_likely_none_is_a_reading(idf):
    assert readings(outline([""] * 120, idf=idf).split()) == []


def test_of_readings_with_one_title_one_is_offered():
    same = "Fees of all the rooms that are let by the day and by the week in"
    titles, sources = [f"{same} Ystad", f"{same} Lund", "Keys"], ["a.md", "b.md", "c.md"]
    found = outline(titles, None, [2, 1.9, 1.8], {}, sources)
    some = readings(found.split())
    assert [one.ids for one in some] == [("p0", "p1"), ("p2",)]


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
    found = outline(titles, None, logits, {}, sources, documents, texts=[LONG] * len(hits))
    assert 0 <= probability(question, found) <= 1
    some = readings(found.split())
    assert 1 <= len(some) <= MOST_READINGS
    assert len({one.title for one in some}) == len(some)
    assert all(0 < len(one.title) <= LONGEST_LABEL + len(" (30)") for one in some)
    assert sum(one.probability for one in some) <= 1 + 1e-6
    ids = [id_ for one in some for id_ in one.ids]
    assert len(ids) == len({*ids})
    best = [max(found.mass[found.ids.index(id_)] for id_ in one.ids) for one in some]
    assert best == sorted(best, reverse=True)


def test_a_long_passage_with_nearly_all_of_the_mass_is_what_is_meant():
    titles, texts = ["git add", "rsync"], [LONG, f"{LONG} Not."]
    assert not says_which(outline(titles, None, [2.0, 0.0], texts=texts).split())
    assert says_which(outline(titles, None, [2.5, 0.0], texts=[LONG * 2] * 2).split())


@pytest.mark.parametrize(
    ("words", "idf", "says"),
    [
        ([("tram",), ("ferry",)], {"tram": 4.0, "ferry": 4.0, "dearer": 3.0}, True),
        ([("Elkins", "founded"), ("Elkins",)], {"Elkins": 4.0, "founded": 2.0}, False),
    ],
)
def test_a_question_says_which_statements_it_means_if_each_alone_has_a_word_of_it(words, idf, says):
    texts = ["The tram is fast.", "A ferry sails by."]
    assert says_which(outline(["", ""], words, idf=idf, texts=texts).split()) == says


@pytest.mark.parametrize("documents", [None, ["A", "b"]])
def test_names_of_files_give_way_to_words_of_the_passages(documents):
    files, texts = ["a.md", "b.md"], ["The loan of a lamp.", "The loan of a tent."]
    assert labels(files, sources=files, documents=documents, texts=texts) == ["lamp", "tent"]


def test_long_passages_without_titles_and_short_ones_of_one_are_apart_in_one_file():
    fees = [f"The fee in {month} is {number} euros." for number, month in ((4, "May"), (5, "June"))]
    told = labels(["Fees"] * 2, sources=["a.md"] * 2, texts=fees)
    assert told == ["fee in May", "fee in June"]
    found = outline(["", ""], sources=["a.md"] * 2, texts=[LONG * 2, f"{LONG * 2} No."])
    assert [one.ids for one in readings(found.split())] == [("p0",), ("p1",)]


def test_below_a_folder_a_heading_of_nearly_all_of_its_mass_names_a_reading():
    headings = [("A", "Upgrade", "Pumps"), ("A", "Upgrade", "Valves")]
    headings += [("C", "Roles", "Keys"), ("D", "Tools", "Doors")]
    files = [f"docs/{file}.md" for file in ("restic/a", "restic/a", "caddy/c", "caddy/d")]
    texts = ["restic waits.", "restic goes on.", "caddy waits.", "caddy goes on."]
    found = below_headings(headings, texts, {"waits": 3.0}, files)
    assert labels_of(found) == ["restic: Upgrade", "caddy"]


def test_long_passages_are_told_by_headings_within_them_else_by_files_else_by_metadata():
    def told(texts, files=("", ""), metadatas=()):
        return labels_of_texts(texts, [], files=files, metadatas=metadatas)

    whole = LONG * 3
    assert told([f"{whole}\n# {of}\n{whole}" for of in ("Ovens", "Kilns")]) == ["Ovens", "Kilns"]
    assert told([whole, whole + "No."], ("ovens", "kilns")) == ["ovens", "kilns"]
    values = [{"hash": f"0{at}1199", "area": area} for at, area in enumerate(("North", "South"))]
    assert told([whole, whole + "No."], ("file1", "file2"), values) == ["North", "South"]


def test_the_closest_sections_are_all_places_in_the_order_of_the_hits():
    found = outline(["Fees", "Returns", "Fees"], None, [9, 0, 0], sources=["a.md"] * 3)
    assert [(one.title, one.ids) for one in closest_sections(found.split())] == [
        ("Fees", ("p0", "p2")),
        ("Returns", ("p1",)),
    ]


PRODUCTS = ("restic", "caddy")


def of_products(question="How do I install it?", logits=(1, 0, 0.5, 0), folders=PRODUCTS, **words):
    """Passages of two products, by their sources alone, that say the names of their folders."""
    names = [folders[i % 2] for i in range(4)]
    sources = [f"docs/{name}/{file}.md" for name, file in zip(names, "abcd", strict=True)]
    told = [words.get("said", name) for name in names]
    texts = [f"To install {name}, download it, and run {name}." for name in told]
    idf = {"How": 0.5, "install": 2.0} | {word: 4.0 for word in names if word in question}
    return outline(sources, [("install",)] * 4, logits, idf, sources, texts=texts)


def test_folders_whose_passages_say_their_names_are_the_readings():
    found = of_products()
    assert probability("How do I install it?", found) >= CLARIFY_FROM
    assert [(one.title, one.ids) for one in readings(found.split())] == [
        ("restic", ("p0", "p2")),
        ("caddy", ("p1", "p3")),
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"folders": ("userguide", "reference"), "said": "celery"},  # sections of one product
        {"said": "restic and caddy"},  # passages that compare the two
        {"logits": (19, 0, 19, 0)},  # only one has an answer
    ],
)
def test_no_folder_is_offered_if_the_passages_do_not_say_it_or_one_alone_answers(options):
    assert says_which(of_products(**options).split())


@pytest.mark.parametrize(("label", "most", "shown"), ROWS["titles"])
def test_a_title_is_never_cut_inside_a_word(label, most, shown):
    assert shorten(label, most) == shown
    assert len(shown) <= most
