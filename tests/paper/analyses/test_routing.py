import numpy as np
import pytest

from benchmarks.paper.analyses import routing
from benchmarks.paper.data import Collection
from benchmarks.paper.plan import LANGUAGES, Group, Plan
from benchmarks.paper.systems import NotApplicable
from benchmarks.paper.systems.lineup import Lineup
from benchmarks.paper.tasks import Retrieval
from tests.paper.bags import Bag

pytestmark = pytest.mark.slow

OWNERS = {"en": 0, "zh": 1}
GIVEN = {"en": [("a", "1")], "ru": [("b", "2")], "zh": [("c", "3")]}


def pairs(letter, count=40):
    return [(f"who is {letter}{i}?", f"{letter}{i} is a person of note") for i in range(count)]


class Half(Bag):
    """Knows words that hold its letter; all others are one to it."""

    def __init__(self, name, letter):
        super().__init__(name, 0.0)
        self.letter = letter

    def encode(self, texts, role):
        known = [" ".join(w if self.letter in w else "x" for w in t.split()) for t in texts]
        return super().encode(known, role)


def collection(letter):
    return Collection(
        f"names_{letter}",
        {f"p{i}": passage for i, (_, passage) in enumerate(pairs(letter, 60))},
        {f"q{i}": query for i, (query, _) in enumerate(pairs(letter, 30))},
        {f"q{i}": {f"p{i}": 1} for i in range(30)},
    )


@pytest.fixture(scope="module")
def result():
    languages = {f"names_{letter}": pairs(letter) for letter in "mk"}
    everything = [pair for own in languages.values() for pair in own]
    plan = Plan(
        [Retrieval(collection(letter), False) for letter in "mk"], everything, languages=languages
    )
    encoders = [Half("first", "m"), Half("second", "k")]
    group = Group(LANGUAGES, plan, Lineup(encoders, everything, lambda encoder: encoder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "_SEEDS", 2)
        return routing.run([group])


def test_each_language_has_the_member_that_knows_it(result):
    assert result["owners"] == {"names_m": "first", "names_k": "second"}


def test_every_setting_is_tried_with_every_rule(result):
    settings = {(row["fitted_on"], row["structure"], row["layer"]) for row in result["settings"]}
    assert len(settings) == len(result["settings"]) == 12
    for row in result["settings"]:
        assert list(row["ndcg10"]) == list(routing.RULES)
        assert 0 <= row["auroc"] <= 1
        for pi in row["coefficients"].values():
            np.testing.assert_allclose(np.sum(pi, axis=1), 1, atol=1e-3)


def test_a_member_is_given_its_own_languages_with_or_without_english_or_all():
    assert routing.given_to(1, "own", GIVEN, OWNERS) == [("c", "3")]
    assert routing.given_to(1, "English + own", GIVEN, OWNERS) == [("a", "1"), ("c", "3")]
    assert routing.given_to(1, "union", GIVEN, OWNERS) == [("a", "1"), ("b", "2"), ("c", "3")]
    assert len(routing.given_to(2, "own", GIVEN, OWNERS)) == 3  # one that knows none gets all


def test_the_auroc_is_one_where_each_member_is_surer_of_its_own_language():
    right = {"en": np.float32([[0, 2], [0, 3]]), "zh": np.float32([[2, 0], [1, 0]])}
    assert routing.routing_auroc(right, OWNERS) == 1
    assert routing.routing_auroc({"en": right["zh"], "zh": right["en"]}, OWNERS) == 0


def test_members_that_know_one_language_cannot_be_routed():
    plan = Plan([], [], languages={"names_m": pairs("m")})
    encoders = [Half("first", "m"), Half("second", "k")]
    with pytest.raises(NotApplicable, match="different languages"):
        routing.run([Group(LANGUAGES, plan, Lineup(encoders, [], lambda encoder: encoder))])
