"""What the first question of a process compiles: what it uses, in its language alone."""

import json

import pytest

from tests.helpers import python

FIRST = """
import json, sys
import regex
from uec_rag import UEC, Retriever
texts, turns, question = json.loads(sys.argv[1])
index = Retriever(UEC(["bm25"]))
index.add(texts)
compiled, compile_ = [], regex.compile
regex.compile = lambda one, *rest, **more: compiled.append(one) or compile_(one, *rest, **more)
index.search([question], history=[turns])
print(json.dumps([len(compiled), sum(map(len, compiled))]))
"""
ENGLISH = ["A guest may stay for ten nights.", "The kitchen closes at nine.", "Dogs stay outside."]
GERMAN = [
    "Ein Gast darf zehn Nächte bleiben.",
    "Die Küche schließt um neun.",
    "Hunde bleiben draußen.",
]
FRENCH = ["Un client peut rester dix nuits.", "La cuisine ferme à neuf heures.", "Pas de chiens."]
CHINESE = ["客人可以住十晚。", "厨房九点关门。", "狗可以进花园。"]
HOTELS = [f"The {name} hotel allows dogs." for name in ("Fir", "Elder", "Oak")]
GERMAN_HOTELS = [f"Das Hotel {name} erlaubt Hunde." for name in ("Fichte", "Erle", "Eiche")]


@pytest.mark.parametrize(
    ("texts", "turns", "question", "most"),
    [
        (ENGLISH, [], "How long may a guest stay in the hotel?", (6, 1700)),
        (GERMAN, [], "Wie lange darf ein Gast bleiben?", (6, 1700)),
        (FRENCH, [], "Combien de temps un client peut-il rester ?", (6, 1700)),
        (CHINESE, [], "客人可以住多久？", (6, 1700)),
        (ENGLISH, ["Kitchen hours"], "guest nights Lund", (17, 2000)),  # of no known language
        (GERMAN, ["Wann schließt die Küche?"], "Und wie lange darf ein Gast bleiben?", (7, 2800)),
        (HOTELS, [], "Which hotel does not allow dogs?", (8, 4500)),
        (GERMAN_HOTELS, [], "Welches Hotel erlaubt keine Hunde?", (8, 4500)),
    ],
)
def test_a_first_question_compiles_what_it_uses(texts, turns, question, most):
    ran = python(FIRST, json.dumps([texts, turns, question]), check=True)
    count, characters = json.loads(ran.stdout.split("\n")[-2])
    assert (count <= most[0], characters <= most[1]) == (True, True)
