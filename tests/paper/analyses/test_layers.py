import pytest

from benchmarks.paper.analyses import layers as module
from benchmarks.paper.analyses.layers import layers
from uec_rag.encoders import SentenceTransformerEncoder

PAIRS = [(f"the {a} {b}", f"{b} {a} cat") for a in "abcdefgh" for b in "ijklmnop"]
PROXY = [(f"dog {a}", f"the {a} dog {b}") for a in "abcdefgh" for b in "qrstu"]


@pytest.fixture(scope="module")
def rows(bert):
    encoder = SentenceTransformerEncoder(bert(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_RESAMPLES", 4)
        return layers(encoder, encoder, PAIRS, PROXY)


def test_each_size_of_the_data_has_one_row_for_each_number_of_layers(rows):
    assert [(row["layers"], row["fraction"], row["draws"]) for row in rows] == [
        (count, fraction, draws)
        for count in (1, 2, 4, 6)
        for fraction, draws in ((1.0, 1), (0.5, 3), (0.1, 3), (0.01, 3), (0.0, 1))
    ]


def test_every_figure_has_a_standard_error(rows):
    for row in rows:
        for name in ("ece", "ece_deterministic", "nll_gain", "error_auroc"):
            assert row[f"{name}_se"] > 0 or row[name] == 0
        assert 0 <= row["accuracy"] <= 1
        assert row["logit_variance"] >= 0


def test_what_is_deterministic_is_the_same_for_all(rows):
    assert len({row["ece_deterministic"] for row in rows}) == 1
