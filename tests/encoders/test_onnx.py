"""Real graphs of tiny models, exported and run."""

import shutil
import sys

import numpy as np
import pytest

from uec_rag import UEC
from uec_rag.encoders import CachedEncoder, SentenceTransformerEncoder, load_encoder
from uec_rag.encoders.artifacts import cache_folder
from uec_rag.encoders.onnx import ExportedEncoder

pytestmark = pytest.mark.filterwarnings("ignore:This UEC is not fitted")


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UEC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """A model with prompts and a closing layer of its own."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    prompts = {"query": "query: ", "document": "passage: "}
    tiny(dense={"out_features": 6}, prompts=prompts).save(str(folder))
    return folder


@pytest.fixture(scope="module")
def plain(folder):
    return load_encoder(folder)


@pytest.fixture(scope="module")
def graph(folder):
    return load_encoder(folder, backend="onnx")


@pytest.fixture(scope="module")
def int8(folder):
    return load_encoder(folder, backend="onnx-int8")


@pytest.mark.parametrize("role", ["query", "passage"])
def test_a_graph_gives_torchs_vectors_and_features(plain, graph, texts, role):
    expected, got = plain.encode(texts, role), graph.encode(texts, role)
    np.testing.assert_allclose(got.embedding, expected.embedding, atol=1e-6)
    np.testing.assert_allclose(got.features, expected.features, atol=1e-5)
    assert got.features.shape == (len(texts), 16)
    assert graph.encode([], role).features.shape == (0, 16)


@pytest.mark.slow
def test_so_it_does_for_the_ffn_layer(saved, texts):
    folder = saved("ffn", truncate_dim=8)
    plain = load_encoder(folder, last_layer="ffn")
    graph = load_encoder(folder, last_layer="ffn", backend="onnx")
    assert graph.revision == plain.revision
    np.testing.assert_array_equal(graph.gain, plain.gain)
    expected, got = plain.encode(texts, "passage"), graph.encode(texts, "passage")
    np.testing.assert_allclose(got.embedding, expected.embedding, atol=1e-6)
    np.testing.assert_allclose(got.features, expected.features, atol=1e-5)


def test_in_float32_an_index_may_go_from_one_backend_to_the_other_in_int8_not(plain, graph, int8):
    assert graph.revision == plain.revision
    assert int8.revision != plain.revision
    fingerprints = [UEC([encoder]).fingerprint for encoder in (plain, graph, int8)]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_int8_is_near(plain, int8, texts):
    expected, got = plain.encode(texts, "query"), int8.encode(texts, "query")
    assert ((expected.embedding * got.embedding).sum(axis=1) > 0.98).all()
    assert not np.array_equal(expected.embedding, got.embedding)
    np.testing.assert_allclose(got.features, expected.features, atol=0.3)


@pytest.mark.parametrize("kind", ["graph", "int8"])
def test_a_text_has_one_vector_whatever_is_encoded_with_it(request, kind, texts):
    encoder = request.getfixturevalue(kind)
    together = encoder.encode(texts, "passage").embedding
    alone = np.concatenate([encoder.encode([text], "passage").embedding for text in texts])
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("backend", ["onnx", "onnx-int8"])
def test_a_saved_ensemble_remembers_the_backend(folder, texts, tmp_path, backend):
    uec = UEC([folder], backend=backend)
    assert uec.encoders[0].spec == f"{backend}:{folder}"
    uec.save(tmp_path / "uec")
    loaded = UEC.load(tmp_path / "uec")
    assert isinstance(loaded.encoders[0], ExportedEncoder)
    expected = uec.embed(texts).mean
    np.testing.assert_array_equal(loaded.embed(texts).mean, expected)


def test_an_ensemble_saved_with_int8_is_not_loaded_with_floats(folder, tmp_path):
    UEC([f"onnx-int8:{folder}"]).save(tmp_path / "uec")
    with pytest.raises(ValueError, match="not the model that was saved"):
        UEC.load(tmp_path / "uec", encoders={"tiny": folder})


def test_a_graph_is_exported_once_and_then_needs_no_exporter(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert load_encoder(f"onnx:{folder}").dimension == 6


def damaged(folder, rewrite):
    """Change the graph of a model in the cache; its path."""
    load_encoder(folder, backend="onnx")
    cached = next((cache_folder() / "graphs").glob(f"{load_encoder(folder).revision[:32]}/"))
    rewrite(cached)
    return cached


@pytest.mark.slow
def test_a_graph_that_was_changed_is_not_loaded_but_made_anew(saved, caplog):
    folder = saved("changed")
    weights = damaged(folder, lambda graph: (graph / "model.onnx").write_bytes(b"no graph"))
    graph, plain = load_encoder(folder, backend="onnx"), load_encoder(folder)
    np.testing.assert_allclose(
        graph.encode(["a cat"], "query").embedding,
        plain.encode(["a cat"], "query").embedding,
        atol=1e-6,
    )
    assert f"{weights} is damaged or was changed" in caplog.text


def test_a_graph_of_another_model_is_refused_whatever_its_hashes_say(graph, tiny, tmp_path):
    import torch

    model = tiny(dense={"out_features": 6})
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight))
    model.save(str(tmp_path / "model"))
    revision, graphs = load_encoder(tmp_path / "model").revision, cache_folder() / "graphs"
    shutil.copytree(graphs / graph.revision[:32], graphs / revision[:32])
    with pytest.raises(ValueError, match=r"gives other vectors than the model .* made anew"):
        load_encoder(tmp_path / "model", backend="onnx")


def test_without_an_exporter_the_error_says_what_to_install(saved, monkeypatch):
    folder = saved("new", pooling="max")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r'needs onnxscript; .* "uec-rag\[models\]"'):
        load_encoder(folder, backend="onnx")


def test_a_cache_around_it_keeps_the_kinds_apart(plain, int8, texts, tmp_path):
    caches = [CachedEncoder(encoder, tmp_path) for encoder in (plain, int8)]
    first, second = (cache.encode(texts, "query").embedding for cache in caches)
    assert not np.array_equal(first, second)


async def test_awaiting_gives_the_same_vectors(graph, texts):
    awaited = await graph.aencode(texts, "passage")
    np.testing.assert_array_equal(awaited.embedding, graph.encode(texts, "passage").embedding)


def test_progress_is_shown_only_when_asked_for(graph, texts, capfd):
    graph.encode(texts, "passage")
    assert "Texts" not in capfd.readouterr().err
    graph.encode(texts, "passage", show_progress=True)
    assert "Texts" in capfd.readouterr().err


def test_black_boxes_and_models_in_memory_stay_as_they_are(tiny, texts):
    def remote(texts):
        return np.eye(len(texts), 3) + 1

    model = SentenceTransformerEncoder(tiny())
    uec = UEC([remote, model, tiny()], backend="onnx")
    assert uec.names == ["remote", model.name, uec.names[2]]
    assert isinstance(uec.encoders[2], SentenceTransformerEncoder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "tensorrt"}, "backend must be one of .* got 'tensorrt'"),
        ({"backend": "onnx", "device": "cuda"}, "runs on the CPU, got device='cuda'"),
        ({"backend": "onnx", "dtype": "bfloat16"}, "a precision of its own, got dtype='bfloat16'"),
    ],
)
def test_what_a_backend_cannot_do_is_refused(folder, options, message):
    with pytest.raises(ValueError, match=message):
        load_encoder(folder, **options)


def test_a_model_that_is_no_transformer_is_refused(tiny, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = tiny().tokenizer.backend_tokenizer
    static = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)])
    static.save(str(tmp_path / "static"))
    with pytest.raises(ValueError, match="no transformer whose graph could be exported"):
        load_encoder(tmp_path / "static", backend="onnx")


def test_a_pooling_without_the_prompt_is_refused(tiny, tmp_path):
    model = tiny(prompts={"query": "query: "})
    model.set_pooling_include_prompt(False)
    model.save(str(tmp_path / "instructed"))
    with pytest.raises(ValueError, match="leaves its prompt out of the pooling"):
        load_encoder(tmp_path / "instructed", backend="onnx")
