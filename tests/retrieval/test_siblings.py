"""Which of several statements alike a question means: what it excludes, compares, or lacks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uec_rag import UEC, Retriever
from uec_rag.questions.languages import languages, tables
from uec_rag.retrieval.siblings import siblings

PRICES = {"bed": 420, "lamp": 60, "sofa": 640, "desk": 200, "stool": 30}
FURNITURE = [f"The {name} costs {price} euros." for name, price in PRICES.items()]
ROWS = [f"Item: {name}, Price (euros): {price}" for name, price in PRICES.items()]
TOURS = [
    f"The {name} tour takes {time}."
    for name, time in (("harbour", "90 minutes"), ("castle", "two hours"), ("river", "45 minutes"))
]
REISEN = [
    f"Die Reise nach {name} dauert {n} Minuten."
    for name, n in (("Ulm", 90), ("Hof", 45), ("Gera", 30))
]
LAMPS = [
    f"Lamp: {name}, Battery (hours): {n}" for name, n in (("Argo", 8), ("Brio", 12), ("Cleo", 30))
]
STORED = [f"Store {name} at {n} degrees." for name, n in (("milk", 4), ("wine", 12), ("fish", -2))]
LIST = ["\n".join(f"- The {name} costs €{price}" for name, price in PRICES.items())]
BRIDGES = [
    f"The {name} bridge was opened on {date}."
    for name, date in (("Alban", "3 May 1998"), ("Corran", "12 June 2004"), ("Errol", "1 May 2019"))
]
RELEASES = [
    f"Release {one} supports Java {java}." for one, java in (("5.2", 11), ("5.10", 17), ("6.0", 21))
]
PARCELS = ["Parcel A weighs 900 g.", "Parcel B weighs 1.5 kg.", "Parcel C weighs 3 kg."]
SALES = [f"Sales in {year} were {n} million." for year, n in ((2021, 2), (2022, 4), (2023, 7))]
TRAINS = [
    f"The train to {to} leaves at {at}."
    for to, at in (("Arden", "6:15"), ("Corby", "9:05"), ("Frome", "18:45"))
]
ROOMS = [f"The {name} room has a window." for name in ("Oak", "Elm", "Ash")] + [
    "The Yew room has no window."
]
HOTELS = [f"Hotel: {name}, Dogs: {dogs}, Breakfast: {food}" for name, dogs, food in (
    ("Alder", "yes", "no"), ("Beech", "yes", "yes"), ("Cedar", "no", "yes"))]  # fmt: skip
LOANS = [f"The {name} loan lasts two weeks." for name in ("laptop", "camera", "projector")]
WEEKS = (("laptop", "two"), ("camera", "three"), ("projector", "six"))
MANY_LOANS = [f"The {name} loan lasts {weeks} weeks." for name, weeks in WEEKS]
OFFICES = [f"The office in {name} opens at eight." for name in ("Lund", "Ghent", "Porto")]
MUSEUMS = [
    f"The {name} Museum is closed on {day}."
    for name, day in (("Toy", "Mondays"), ("Folk", "Tuesdays"), ("Railway", "Mondays"))
]
DEPARTMENTS = [
    f"The {name} department is closed on {day}."
    for name, day in (
        ("shoe", "Mondays"),
        ("toy", "Fridays"),
        ("book", "Mondays"),
        ("food", "Sundays"),
    )
]
ZÜGE = [
    f"Der Zug nach {to} fährt um {at} Uhr ab."
    for to, at in (("Ulm", "6:15"), ("Hof", "9:40"), ("Gera", "18:30"))
]
HÜTTEN = [
    f"Die Hütte {name} kostet {n} Euro."
    for name, n in (("Otter", 35), ("Dachs", 48), ("Luchs", 60))
]
CABANES = [
    f"La cabane {name} coûte {n} euros."
    for name, n in (("Loutre", 35), ("Lynx", 48), ("Martre", 60))
]
CABAÑAS = [
    f"La cabaña {name} cuesta {n} euros."
    for name, n in (("Nutria", 35), ("Lince", 48), ("Marta", 60))
]
小屋 = [f"{name}小屋每晚{n}欧元。" for name, n in (("水獭", 35), ("苍鹭", 48), ("猞猁", 60))]

FITS = [
    ("What costs more than 420 euros?", FURNITURE, [2]),
    ("What costs €420 or more?", FURNITURE, [0, 2]),
    ("What costs at least 420 euros?", ROWS, [0, 2]),
    ("What is cheaper than sixty euros?", FURNITURE, [4]),
    ("What is cheaper than twelve euros?", FURNITURE, []),
    ("furniture between 100 and 450 euros", FURNITURE, [0, 3]),
    ("Which item is under 50 euros?", ROWS, [4]),
    ("What does not cost more than 60 euros?", FURNITURE, [1, 4]),
    ("Which departments are not closed on Mondays?", DEPARTMENTS, [1, 3]),
    ("Welche Züge fahren nach 18 Uhr?", ZÜGE, [2]),
    ("Quelles cabanes coûtent moins d'un euro ?", CABANES, []),
    ("What costs no more than 60 euros?", FURNITURE, [1, 4]),
    ("Which tours take less than an hour?", TOURS, [2]),
    ("Welche Reise dauert länger als eine Stunde?", REISEN, [0]),
    ("Which lamp lasts more than 25 hours?", LAMPS, [2]),
    ("What is stored below zero?", STORED, [2]),
    ("What costs more than 600 euros?", LIST, [0]),
    ("What costs over 700 euros?", LIST, []),
    ("Which bridges were opened after 2003?", BRIDGES, [1, 2]),
    ("Which bridges were opened before 12 June 2004?", BRIDGES, [0]),
    ("Which bridge is older than 2000?", BRIDGES, [0]),
    ("Which Java do releases newer than release 5.2 support?", RELEASES, [1, 2]),
    ("Which parcels weigh more than 1 kg?", PARCELS, [1, 2]),
    ("Which parcel weighs less than 1000 grams?", PARCELS, [0]),
    ("In which year were sales above 5,000,000?", SALES, [2]),
    ("Which trains leave after 9 am?", TRAINS, [1, 2]),
    ("Which trains leave before 6:00 pm?", TRAINS, [0, 1]),
    ("Which item is the cheapest?", ROWS, [4]),
    ("What is the first bridge that was opened?", BRIDGES, [0]),
    ("What is the heaviest parcel?", PARCELS, [2]),
    ("In which year were sales highest?", SALES, [2]),
    ("Welche Hütte ist die teuerste?", HÜTTEN, [2]),
    ("Which room has no window?", ROOMS, [3]),
    ("Does every room have a window?", ROOMS, [3]),
    ("Which room other than the Elm room has a window?", ROOMS, [0, 2, 3]),
    ("Which hotel does not take dogs?", HOTELS, [2]),
    ("Welche Hütte kostet mehr als 40 Euro?", HÜTTEN, [1, 2]),
    ("Welche Hütte kostet höchstens 48 Euro?", HÜTTEN, [0, 1]),
    ("Quelles cabanes coûtent moins de 50 euros ?", CABANES, [0, 1]),
    ("¿Qué cabañas cuestan entre 40 y 70 euros?", CABAÑAS, [1, 2]),
    ("哪些小屋超过40欧元？", 小屋, [1, 2]),
]  # fmt: skip

RAIN = [f"The rain in {name} is {n} mm." for name, n in (("March", 50), ("June", 80), ("July", 90))]
LANGUAGES = {
    id(REISEN): "de",
    id(ZÜGE): "de",
    id(HÜTTEN): "de",
    id(CABANES): "fr",
    id(CABAÑAS): "es",
    id(小屋): "zh",
}


@pytest.mark.parametrize(("question", "texts", "fits"), FITS, ids=lambda value: str(value)[:60])
def test_what_a_question_excludes_or_compares_is_read(question, texts, fits):
    assert [*siblings(question, texts, LANGUAGES.get(id(texts), "en")).fits] == fits


@pytest.mark.parametrize(
    ("question", "texts", "lacking", "others"),
    [
        ("What were the sales in 2019?", SALES, "2019", ("2021", "2022", "2023")),
        ("Is the Glass Museum closed on Mondays?", MUSEUMS, "Glass", ("Toy", "Folk", "Railway")),
        ("What is the rain in May?", RAIN, "May", ("March", "June", "July")),
        ("When does the office in Oslo open?", OFFICES, "Oslo", ("Lund", "Ghent", "Porto")),
        ("Which Java does release 7.1 support?", RELEASES, "7.1", ("5.2", "5.10", "6.0")),
        ("Was kostet die Hütte Falke?", HÜTTEN, "Falke", ("Otter", "Dachs", "Luchs")),
    ],
)
def test_a_value_that_no_sibling_has_is_lacking(question, texts, lacking, others):
    told = siblings(question, texts, LANGUAGES.get(id(texts), "en"))
    assert (told.fits, told.lacking, tuple(value for value, _ in told.others)) == (
        (),
        lacking,
        others,
    )


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        ("What does the sofa cost?", FURNITURE),
        ("How do I get a room without a window?", ROOMS),
        ("What do I pay if the sofa does not fit?", FURNITURE),
        ("How long is the equipment loan?", LOANS),  # any of them
        ("How long does the loan last?", MANY_LOANS),  # no superlative
        ("Which of these loans should I ask for first?", MANY_LOANS),
        ("Which item lasts longest?", LOANS),
        ("Does the Oak room have no window?", ROOMS),
        ("What costs more than 420 euros?", FURNITURE[:2]),  # too few to be siblings
        ("Who does not need a permit?", ["Residents park for free.", "Visitors need a permit."]),
        ("", FURNITURE),
        ("Les cabanes coûtent combien ?", CABANES),  # a form of a word is no other value
        ("¿Las cabañas cuestan mucho?", CABAÑAS),
        ("What Does the Sofa Cost?", FURNITURE),
    ],
)
def test_other_questions_are_left_as_they_are(question, texts):
    assert siblings(question, texts, LANGUAGES.get(id(texts), "en")) is None


PIECES = ["20:19:30", "1,200.50", "v", "v1.2", "½", "²", "١٢", "3 pm", "eleven am", "$", "€5", "no"]
PIECES += [
    "more than 5",
    "between 3 and 5",
    "the",
    "hotel",
    "dogs",
    ".",
    ": ",
    " | ",
    "\n",
    "每",
    "超过5",
]
PIECES += ["12 March 2024", "2024-13-45", "1.000.000", "13th", "other than", "not"]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=9).map(" ".join)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=6), st.sampled_from(languages()))
def test_places_are_those_of_texts_whatever_is_written(question, texts, language):
    told = siblings(question, texts, language)
    assert told is None or {*told.fits, *told.family} <= {*range(len(texts))}


def test_every_language_with_operators_has_all_kinds():
    english = {*tables()["en"]["operators"]} - {"units", "scales", "versions"}
    found = [code for code in languages() if "operators" in tables()[code]]
    assert found[:5] == ["en", "de", "fr", "es", "zh"]
    assert all({*tables()[code]["operators"]} == english for code in found[1:])


@pytest.fixture(scope="module")
def uec():
    return UEC()


def test_the_fitting_sibling_is_the_first_hit_and_the_others_follow(uec):
    retriever = Retriever(uec)
    retriever.add([*ROOMS, "Breakfast is served at eight.", "Parking costs five euros a day."])
    question = "Which room has no window?"
    result = retriever.search([question], k=6).results[0]
    assert result.passages[0].text == ROOMS[3]
    assert result.decision.action == "answer"
    assert {passage.text for passage in result.passages[:4]} == {*ROOMS}


def test_a_lacking_value_is_told_in_place_of_a_question_back(uec):
    retriever = Retriever(uec)
    retriever.add([*SALES, "The company was founded in 1990.", "Breakfast is served at eight."])
    decision = retriever.search(["What were the sales in 2019?"]).results[0].decision
    assert decision.action == "abstain"
    assert decision.reason == "No passage says this of 2019; they say it of 2021, 2022 and 2023."
    assert [one.title for one in decision.suggestions] == ["2021", "2022", "2023"]
    assert 0 < decision.confidence < 0.5
    assert decision.restore(decision.findings()).lacking == decision.lacking
