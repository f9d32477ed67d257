"""The fit that comes with the package: for the encoders it was made of, and for no others."""

import os
import warnings
from dataclasses import replace

import pytest

from tests.helpers import index_of, pairs, python
from uec_rag import UEC
from uec_rag.encoders import Lexical
from uec_rag.encoders.lexical import RULES
from uec_rag.encoders.packages import PRESETS
from uec_rag.ensemble.convolution import Rule
from uec_rag.ensemble.ensemble_file import SHIPPED_FITS, read_fit, shipped_fit
from uec_rag.ensemble.fitted import FitOptions, Fitted

TEXTS = [
    "Refunds are paid within 14 days of the return reaching our warehouse.",
    "A lost password is reset from the sign-in page; the link is valid for one hour.",
    "Gift cards are valid for three years and cannot be exchanged for cash.",
]


SHIPPED = {preset: read_fit(SHIPPED_FITS / preset) for preset in PRESETS}


@pytest.fixture(params=PRESETS)
def preset(request):
    return request.param


@pytest.fixture
def known(preset):
    return SHIPPED[preset][0].encoders


@pytest.fixture
def unfitted(known):
    return Fitted(tuple(encoder.name for encoder in known), FitOptions(), Rule("adaptive"))


def test_the_encoders_that_were_fitted_take_it_up(preset, known, unfitted):
    fitted, saved = shipped_fit(known, unfitted), SHIPPED[preset][1]
    assert len(fitted.posteriors) == len(PRESETS[preset])
    assert fitted.rule.evidence == saved.rule.evidence
    profile = fitted.confidence_model.profile  # which is measured apart
    assert len(profile) == 30
    assert [*profile] == sorted(profile, reverse=True)
    assert replace(fitted.confidence_model, profile=()) == saved.confidence_model
    assert all(slope > 0 for slope in fitted.slopes)
    assert fitted.training_profile == saved.training_profile
    assert fitted.training_profile.crosses_scripts == (preset == "multilingual")


@pytest.mark.parametrize(
    ("preset", "pairs"),
    [("english", "3,696"), ("static", "3,696"), ("multilingual", "2,000")],
    indirect=["preset"],
)
def test_its_report_says_what_it_was_fitted_on(preset, known, unfitted, pairs):
    report = shipped_fit(known, unfitted).report
    assert f"as it comes with uec-rag, fitted on {pairs} pairs (TyDi QA" in str(report)
    assert "fitting 0.0 s" not in str(report)


def test_words_with_other_stems_take_it_up(known, unfitted):
    changed = [replace(one, revision=one.revision[:RULES] + "0" * 32) for one in known[-1:]]
    with warnings.catch_warnings(action="error"):
        assert shipped_fit([*known[:-1], *changed], unfitted) is not None


def test_an_encoder_of_another_revision_leaves_it_unfitted_and_says_so(known, unfitted):
    changed = [known[0], replace(known[1], revision="another"), *known[2:]]
    with pytest.warns(UserWarning, match=f"other revisions of .*{known[1].name}"):
        assert shipped_fit(changed, unfitted) is None


@pytest.mark.parametrize("other", [{"structure": "diag"}, {"scaled": False}])
def test_who_wants_another_fit_or_has_other_encoders_waits_for_it(known, unfitted, other):
    with warnings.catch_warnings(action="error"):
        assert shipped_fit(known, replace(unfitted, options=FitOptions(**other))) is None
        assert shipped_fit(known[:1], unfitted) is None


def test_a_rule_that_was_chosen_stays(known, unfitted):
    fitted = shipped_fit(known, replace(unfitted, rule=Rule("uniform")))
    assert fitted.rule == Rule("uniform")


def test_words_are_split_as_they_were_when_it_was_fitted(known):
    entry = next(entry for entry in known if entry.name == "bm25")
    assert entry.is_like(Lexical()), "run benchmarks/quality/shipped_fit.py"


@pytest.fixture(scope="module")
def uec():
    return UEC()


@pytest.mark.slow
def test_the_multilingual_preset_answers_questions_in_another_language():
    index = index_of(UEC("multilingual"), TEXTS, ["refunds", "password", "gifts"])
    found = index.search(["Wann bekomme ich mein Geld zurück?", "密码忘了怎么办?"], k=1)
    assert [one.ids for one in found] == [["refunds"], ["password"]]
    assert [one.decision.unfamiliar for one in found] == ["", ""]


def test_the_preset_of_token_vectors_needs_no_network_and_no_cache(tmp_path):
    nowhere = "http://127.0.0.1:9"
    own = {"HF_ENDPOINT": nowhere, "PIP_INDEX_URL": nowhere, "UEC_CACHE": str(tmp_path / "cache")}
    code = (
        "from uec_rag import UEC, Retriever; index = Retriever(UEC('static'))\n"
        "index.add(['Refunds take 14 days.', 'Gift cards last three years.'], ['r', 'g'])\n"
        "print(index.search(['How long does a refund take?'], k=1)[0].ids, index.uec.report.source)"
    )
    done = python(code, env=os.environ | own)
    assert done.stdout.startswith("['r'] as it comes with uec-rag"), done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_the_embedded_ensemble_is_fitted_as_it_comes(uec):
    assert uec.is_fitted
    assert uec.names == ["snowflake-arctic-embed-s", "bm25"]
    assert [encoder.spec for encoder in uec.encoders] == ["pypi:bot-brain", "bm25"]
    assert uec.embed(TEXTS).trace.min() > 0
    assert not UEC(PRESETS["english"]).is_fitted


@pytest.mark.slow
def test_a_fit_on_pairs_replaces_it():
    uec = UEC().fit(pairs(40))
    assert "as it comes" not in str(uec.report)
