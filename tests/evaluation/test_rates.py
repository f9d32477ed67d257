"""Rates without labels: of questions made of passages, as they are, left out and changed."""

import math

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC, Gate
from uec_rag.evaluation.rates import estimate_rates

WARDS = ["Cardiology", "Maternity", "Surgery", "Neurology", "Oncology", "Urology"]
TEXTS = [f"Visiting hours on Ward {n} ({name}) begin at 2 pm." for n, name in enumerate(WARDS, 1)]
TEXTS += ["The cafeteria sells soup, bread and cake.", "Parking costs 2 euros an hour."]
SOURCES = ["wards.md"] * len(WARDS) + ["house.md"] * 2


@pytest.fixture(scope="module")
def hospital():
    """Statements alike, in two files, over words alone."""
    return index_of(UEC(["bm25"]), TEXTS, metadatas=[{"source": one} for one in SOURCES])


def count(share):
    return round(share["share"] * share["of"])


def test_questions_are_asked_as_they_are_left_out_and_changed(hospital):
    rates = estimate_rates(hospital)
    facts, known = rates["facts"], rates["as_they_are"]
    assert (facts["passages"], facts["questions"], facts["files"]) == (8, 8, 2)
    assert known["questions"] == rates["left_out"]["questions"] == 8
    assert rates["changed"]["questions"] == 7  # the cafeteria's has neither number nor name
    assert count(known["answered_rightly"]) >= 7
    for way in ("left_out", "changed"):
        told = rates[way]
        assert told["answered_rightly"]["share"] == 0
        names = ("answered_wrongly", "asked_back", "handed_over", "refused")
        assert sum(told[name]["share"] for name in names) == pytest.approx(1)
    still = rates["still_answered"]
    wrong = [count(rates[way]["answered_wrongly"]) for way in ("left_out", "changed")]
    assert (still["of"], count(still)) == (15, sum(wrong))
    assert 0 <= still["low"] <= still["share"] <= still["high"] <= 1
    assert len(rates["mistakes"]) == sum(wrong)


def test_each_file_has_rates_of_its_own(hospital):
    files = estimate_rates(hospital)["files"]
    assert {file: told["as_they_are"]["questions"] for file, told in files.items()} == {
        "house.md": 2,
        "wards.md": 6,
    }
    assert files["house.md"]["changed"]["questions"] == 1
    assert files["wards.md"]["still_answered"]["of"] == 12


def test_a_copy_is_left_out_with_its_passage():
    texts = ["Our shop in Ulm opens at nine.", "Our shop in Ulm opens at nine.", "Cats purr."]
    rates = estimate_rates(index_of(UEC(["bm25"]), texts))
    assert count(rates["as_they_are"]["answered_rightly"]) == rates["as_they_are"]["questions"]
    assert rates["left_out"]["answered_wrongly"]["share"] == 0


def test_what_a_passage_of_the_same_small_section_says_is_left_out_too():
    about = {"source": "a.md", "title": "Changing the toner"}
    texts = ["Open the flap and pull the lever that is green, then take the drum out of it."]
    texts += ["Put a toner that is new in place of the old toner, changing nothing else in it."]
    metadatas = [about, about, {"source": "b.md", "title": "Bread"}]
    rates = estimate_rates(index_of(UEC(["bm25"]), [*texts, "It rises."], metadatas=metadatas))
    assert not [one for one in rates["mistakes"] if one["way"] == "left_out"]


@pytest.mark.parametrize("limit", [0.1, 0.2, 0.5])
def test_the_threshold_holds_the_rate(hospital, limit):
    told = estimate_rates(hospital, max_wrong=limit)
    held = told["threshold"]
    assert held["max_wrong"] == limit
    assert held["still_answered"]["share"] <= limit
    view = hospital.with_gate(Gate(held["threshold"]))
    again = estimate_rates(view)
    assert again["facts"]["threshold"] == held["threshold"]
    assert again["still_answered"] == held["still_answered"]
    assert again["as_they_are"]["answered_rightly"] == held["answered_rightly"]


def test_the_gate_of_the_index_decides(hospital):
    rates = estimate_rates(hospital.with_gate(Gate(1.0)))
    assert rates["as_they_are"]["answered_rightly"]["share"] == 0
    assert not rates["mistakes"]


def test_a_tenant_has_rates_of_its_own(hospital):
    rates = estimate_rates(hospital, tenant={"source": "house.md"})
    assert [*rates["files"]] == ["house.md"]
    assert rates["facts"]["questions"] == 2


def test_no_more_questions_are_made_than_asked_for(hospital):
    assert estimate_rates(hospital, most=3)["facts"]["questions"] == 3


def test_the_index_is_not_changed(hospital):
    gate, size = hospital.gate, len(hospital)
    estimate_rates(hospital)
    assert (hospital.gate, len(hospital)) == (gate, size)


@pytest.mark.parametrize("share", [0, 1, -0.1, math.nan])
def test_a_limit_that_is_no_share_is_refused(hospital, share):
    with pytest.raises(ValueError, match="max_wrong"):
        estimate_rates(hospital, max_wrong=share)


def test_passages_without_a_question_are_refused():
    with pytest.raises(ValueError, match="of which a question can be made"):
        estimate_rates(index_of(UEC(["bm25"]), ["ab", "12"]))
    with pytest.raises(ValueError, match="of which a question can be made"):
        estimate_rates(index_of(UEC(["bm25"]), []))


@pytest.mark.parametrize(("text", "others"), data_of("rates.json"))
def test_a_number_of_any_script_and_shape_is_changed(text, others):
    rates = estimate_rates(index_of(UEC(["bm25"]), [text, *others]))
    assert rates["changed"]["questions"] == 1


def test_a_name_is_changed_to_one_that_no_passage_says_so_of():
    texts = ["You can rent a tent from Maria at weekends.", "You can rent a boat from Jonas today."]
    rates = estimate_rates(index_of(UEC(["bm25"]), texts))
    assert rates["changed"]["questions"] == 2
