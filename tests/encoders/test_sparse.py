import shutil

import numpy as np
import pytest

from tests.sparse_models import make_splade
from uec_rag.encoders import CachedEncoder, load_encoder
from uec_rag.encoders.sparse import LearnedSparse

WORDS = ["the", "cat", "dog", "sat", "on", "mat", "a", "query", "about", "heat", "flows", "to"]
TEXTS = ["the cat", "the dog sat on the mat", "a query about heat", "?"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("splade")


@pytest.fixture
def splade(base):
    """Factory: a SparseEncoder in memory."""
    return lambda **options: make_splade(WORDS, base / "bert", **options)


@pytest.fixture(scope="module")
def splade_folder(base):
    folder = base / "saved"
    make_splade(WORDS, base / "bert").save(str(folder))
    return folder


@pytest.fixture
def sparse_autoencoder(tiny):
    """A dense model whose vectors become features of an autoencoder."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import SparseAutoEncoder

    autoencoder = SparseAutoEncoder(input_dim=16, hidden_dim=64, k=8)
    return SparseEncoder(modules=[*tiny(normalize=False), autoencoder], device="cpu")


def dense(terms, width):
    out = np.zeros((len(terms), width), dtype=np.float32)
    out[terms.rows, terms.keys.astype(int)] = terms.weights
    return out


def test_similarities_are_the_models_own_up_to_a_factor_of_each_query(splade):
    encoder = LearnedSparse(splade())
    model, width = encoder.model, encoder.model.get_embedding_dimension()
    queries = dense(encoder.encode(TEXTS[:2], "query").terms, width)
    passages = dense(encoder.encode(TEXTS, "passage").terms, width)
    own = model.similarity(model.encode_query(TEXTS[:2]), model.encode_document(TEXTS)).numpy()
    ours = queries @ passages.T
    assert own[:, 0].all()
    np.testing.assert_allclose(ours / ours[:, :1], own / own[:, :1], rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1, rtol=1e-5)


def test_a_model_that_compares_by_cosine_has_passages_of_length_1(splade):
    encoder = LearnedSparse(splade(similarity_fn_name="cosine"))
    np.testing.assert_allclose(encoder.encode(TEXTS[:3], "passage").terms.norms, 1, rtol=1e-5)
    assert encoder.revision != LearnedSparse(splade()).revision


def test_other_comparisons_are_refused(splade):
    with pytest.raises(ValueError, match="similarity function 'euclidean'"):
        LearnedSparse(splade(similarity_fn_name="euclidean"))


def test_queries_know_their_tokens_by_name(splade):
    terms = LearnedSparse(splade()).encode(["the cat"], "query").terms
    vocabulary = splade().tokenizer.get_vocab()
    assert len(terms.labels[0]) == len(terms.keys) > 0
    assert all(vocabulary[token] == key for key, token in terms.labels[0].items())
    assert LearnedSparse(splade()).encode(["the cat"], "passage").terms.labels is None


def test_features_of_an_autoencoder_have_no_names(sparse_autoencoder):
    terms = LearnedSparse(sparse_autoencoder).encode(["the cat"], "query").terms
    assert terms.labels == [{}]
    assert 0 < len(terms.keys) <= 8


def test_a_folder_says_itself_what_it_is(splade_folder):
    given = LearnedSparse(str(splade_folder))
    for spec in (str(splade_folder), splade_folder, f"sparse:{splade_folder}", given.spec):
        encoder = load_encoder(spec)
        assert isinstance(encoder, LearnedSparse)
        assert (encoder.revision, encoder.name) == (given.revision, splade_folder.name)
    again = load_encoder(given.spec).encode(TEXTS, "query").terms
    np.testing.assert_array_equal(again.weights, given.encode(TEXTS, "query").terms.weights)


def test_an_object_is_taken_as_it_is(splade):
    encoder = load_encoder(splade(), last_layer="ffn", batch_size=2)
    assert isinstance(encoder, LearnedSparse)
    assert (encoder.dimension, encoder.batch_size) == (0, 2)


def test_of_the_hub_it_is_named_as_sparse(splade_folder, tmp_path, monkeypatch):
    """In the hub's cache folder, as it lays it out."""
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    home, commit = tmp_path / "models--someone--splade", "a" * 40
    shutil.copytree(splade_folder, home / "snapshots" / commit)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(commit)
    encoder = load_encoder(f"sparse:someone/splade@{commit}")
    assert (encoder.name, encoder.spec) == ("splade", f"sparse:someone/splade@{commit}")
    assert encoder.revision == LearnedSparse(splade_folder).revision
    with pytest.raises(ValueError, match=r"is a SparseEncoder.*write 'sparse:someone/splade'"):
        load_encoder("someone/splade")
    with pytest.raises(OSError, match="cannot load encoder 'nobody/splade'"):
        load_encoder("sparse:nobody/splade")


def test_no_texts_and_cut_off_texts(splade):
    encoder = LearnedSparse(splade())
    assert len(encoder.encode([], "query").terms) == 0
    terms = encoder.encode(["the cat " * 500, "the cat " * 1000], "passage").terms
    assert terms.lengths[0] == pytest.approx(terms.lengths[1])


def test_numbers_that_are_none_are_refused(splade):
    import torch

    model = splade()
    encoder = LearnedSparse(model)
    with torch.no_grad():
        next(p for n, p in model.named_parameters() if "bias" in n).fill_(float("nan"))
    with pytest.raises(ValueError, match="returned NaN or infinity"):
        encoder.encode(["the cat"], "passage")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda model: LearnedSparse(model, dtype="int8"), "dtype must be"),
        (lambda model: LearnedSparse(model, batch_size=0), "batch_size must be"),
        (lambda model: CachedEncoder(LearnedSparse(model), None), "makes no vectors"),
    ],
)
def test_wrong_options_are_refused(splade, make, match):
    with pytest.raises(ValueError, match=match):
        make(splade())
