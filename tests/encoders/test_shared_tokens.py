import numpy as np
import pytest

from uec_rag import UEC
from uec_rag.encoders import SentenceTransformerEncoder
from uec_rag.encoders.shared_tokens import shared_tokens, tokenisation_of

pytestmark = pytest.mark.filterwarnings("ignore:This UEC is not fitted")


@pytest.fixture
def counted(tiny):
    """Factory: an encoder, and the lists of texts that its tokenizer was given."""

    def build(**options):
        encoder = SentenceTransformerEncoder(tiny(), **options)
        preprocess, calls = encoder.model.preprocess, []

        def counting(texts, **kwargs):
            calls.append(texts)
            return preprocess(texts, **kwargs)

        encoder.model.preprocess = counting
        return encoder, calls

    return build


def test_an_ensemble_tokenises_once_for_all_models_of_one_tokenizer(counted, texts):
    (one, first), (two, second) = counted(), counted()
    expected = one.encode(texts, "passage").embedding
    first.clear()
    for part in UEC([one, two]).encode(texts, "passage"):
        np.testing.assert_array_equal(part.mean, expected)
    assert (len(first), len(second)) == (1, 0)


async def test_tokens_may_be_shared_asynchronously(counted, texts):
    (one, _), (two, _) = counted(), counted()
    expected = one.encode(texts, "query").embedding
    for part in await UEC([one, two]).aencode(texts, "query"):
        np.testing.assert_array_equal(part.mean, expected)


def test_tokens_of_another_prompt_are_not_shared(counted, texts):
    (one, first), (two, second) = counted(), counted(passage_prompt="passage: ")
    expected = two.encode(texts, "passage").embedding
    second.clear()
    parts = UEC([one, two]).encode(texts, "passage")
    assert (len(first), len(second)) == (1, 1)
    np.testing.assert_array_equal(parts[1].mean, expected)


def test_only_what_changes_tokens_tells_two_models_apart(tiny):
    plain = tokenisation_of(tiny())
    assert tokenisation_of(tiny("cls", normalize=False)) == plain
    shorter, left = tiny(), tiny()
    shorter.max_seq_length = 8
    left.tokenizer.padding_side = "left"
    assert len({plain, tokenisation_of(shorter), tokenisation_of(left)}) == 3


def test_nothing_is_kept_beyond_the_bound_or_afterwards(counted, texts, monkeypatch):
    encoder, calls = counted()
    with shared_tokens():
        encoder.encode(texts, "query")
        encoder.encode(texts, "query")
    assert len(calls) == 1
    encoder.encode(texts, "query")
    assert len(calls) == 2
    monkeypatch.setattr("uec_rag.encoders.shared_tokens._AT_MOST", 0)
    with shared_tokens():
        encoder.encode(texts, "query")
        encoder.encode(texts, "query")
    assert len(calls) == 4
