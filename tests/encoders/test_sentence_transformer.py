import json
import shutil
import socket
import warnings
from pathlib import Path

import numpy as np
import pytest
import sentence_transformers
import torch
from sentence_transformers import SentenceTransformer

from tests.helpers import beside, data_of, rows_of, unit
from uec_rag.encoders import SentenceTransformerEncoder, load_encoder
from uec_rag.encoders.base import encode_texts
from uec_rag.encoders.sentence_transformer import OTHER_MODELS, family_prompts, prompts_of


def words(count, seed=0):
    """Texts of one to thirty words, in no order of length."""
    rng = np.random.default_rng(seed)
    return [
        " ".join(rng.choice(["the", "cat", "dog", "q"], rng.integers(1, 30))) for _ in range(count)
    ]


def test_vectors_are_those_of_the_model_whatever_the_batches(tiny):
    model, texts = tiny(normalize=False), words(300)
    expected = model.encode(texts, normalize_embeddings=True)
    encoder = SentenceTransformerEncoder(model, last_layer="ffn")
    got, at_once = encode_texts(encoder, texts, "query"), encoder.encode(texts, "query")
    np.testing.assert_allclose(got.embedding, expected, atol=1e-6)
    np.testing.assert_allclose(got.features, at_once.features, atol=1e-5)


def test_prompts_of_the_configuration_are_put_before_the_text(tiny):
    model = tiny(prompts={"query": "query: ", "document": "passage: "})
    encoder = SentenceTransformerEncoder(model)
    plain = SentenceTransformerEncoder(tiny())
    for role, prompt in (("query", "query: "), ("passage", "passage: ")):
        np.testing.assert_allclose(
            encoder.encode(["a cat"], role).embedding,
            plain.encode([f"{prompt}a cat"], "query").embedding,
            atol=1e-6,
        )


@pytest.mark.parametrize("row", rows_of("prompts_of_families.csv"), ids=lambda row: row["name"])
def test_known_families_have_their_prompts_and_other_models_none(row):
    assert {"name": row["name"], **family_prompts(row["name"])} == row


@pytest.mark.parametrize(("options", "name", "query", "passage"), data_of("prompts_of_models.json"))
def test_the_models_own_configuration_comes_before_its_family(tiny, options, name, query, passage):
    assert prompts_of(tiny(**options), name) == {"query": query, "passage": passage}


CONFIGURED = [options for options, *_ in data_of("prompts_of_models.json") if options]


@pytest.mark.parametrize("options", CONFIGURED, ids=str)
def test_vectors_are_those_of_the_librarys_own_queries_and_documents(tiny, options):
    """So that a store which the library has filled matches."""
    model, texts = tiny(**options), ["a cat", "the dog"]
    encoder = SentenceTransformerEncoder(model)
    for role, own in (("query", model.encode_query), ("passage", model.encode_document)):
        expected = unit(own(texts))
        np.testing.assert_allclose(encoder.encode(texts, role).embedding, expected, atol=1e-6)


def quantised(model):
    """The model with linear layers of eight bits, whose state has packed values and types."""
    with warnings.catch_warnings(action="ignore"):
        return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)


class Compiled(torch.nn.Module):
    """A first module whose network is compiled elsewhere, as OpenVINO's: no weights to read."""

    def __init__(self, module):
        super().__init__()
        self.__dict__["network"] = module
        self.tokenizer, self.max_seq_length = module.tokenizer, module.max_seq_length
        self.preprocess = module.preprocess

    def forward(self, features, **options):
        return self.network(features, **options)


def compiled(model):
    """The model around a first module without state."""
    return SentenceTransformer(modules=[Compiled(model[0]), *[*model][1:]], device="cpu")


@pytest.mark.parametrize("made", [quantised, compiled])
def test_a_model_without_readable_weights_has_a_revision_of_what_it_computes(tiny, texts, made):
    def other():
        model = tiny()
        with torch.no_grad():
            for weight in model[0].auto_model.encoder.parameters():
                weight.add_(0.05 * torch.randn_like(weight))
        return model

    one, same, another = (SentenceTransformerEncoder(made(m)) for m in (tiny(), tiny(), other()))
    assert one.encode(texts, "passage").embedding.shape == (len(texts), 16)
    assert one.revision == same.revision != another.revision


@pytest.mark.parametrize(
    "kind", [kind for kind in OTHER_MODELS if hasattr(sentence_transformers, kind)]
)
def test_another_kind_of_model_is_refused_with_what_it_is(kind, bert_folder, saved):
    make = getattr(sentence_transformers, kind)
    by_name = saved("other")
    config = by_name / "config_sentence_transformers.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": kind}))
    with warnings.catch_warnings(action="ignore"):
        for given in (make(str(bert_folder), device="cpu"), by_name):
            with pytest.raises(TypeError, match=f"got a {kind}, which makes "):
                load_encoder(given)


def test_the_revision_says_whether_two_encoders_answer_alike(tiny, saved, texts):
    used = tiny()
    revision = SentenceTransformerEncoder(used).revision
    used.encode(texts)
    assert SentenceTransformerEncoder(used).revision == revision
    assert SentenceTransformerEncoder(saved("anywhere")).revision == revision
    nudged = tiny()
    with torch.no_grad():
        next(nudged.parameters()).view(-1)[7] += 1e-3
    others = [
        SentenceTransformerEncoder(nudged),
        SentenceTransformerEncoder(tiny("cls")),
        SentenceTransformerEncoder(tiny(prompts={"query": "query: "})),
        SentenceTransformerEncoder(tiny(), last_layer="ffn"),
        SentenceTransformerEncoder(tiny(truncate_dim=8)),
    ]
    assert len({revision, *(other.revision for other in others)}) == 6


def test_a_model_that_returns_nan_is_refused_when_it_is_loaded(tiny):
    model = tiny()
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="returned NaN, infinity or a vector"):
        SentenceTransformerEncoder(model)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *((name, "it is not a local folder") for name in ("./no-such", "~/no/such", "a/b/c")),
        (Path("/no/such/model"), "it is not a local folder"),
        (Path(__file__).parent, "contains no model that sentence-transformers can"),
    ],
)
def test_what_cannot_be_loaded_is_named(given, message):
    with pytest.raises(OSError, match=f"cannot load encoder {str(given)!r}: .*{message}"):
        SentenceTransformerEncoder(given)


def test_code_that_comes_with_a_model_is_not_run(saved):
    folder = saved("hostile")
    (folder / "payload.py").write_text(
        f"open({str(folder / 'ran')!r}, 'w')\n"
        "from sentence_transformers.sentence_transformer.modules import Pooling as Own\n"
    )
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "payload.Own"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(OSError, match="Code shipped with a model is never run: if you trust it"):
        load_encoder(folder)
    assert not (folder / "ran").exists()


def test_a_model_of_the_hub_is_loaded_at_the_revision_that_is_asked_for(
    saved, tmp_path, monkeypatch
):
    """Two commits in the hub's cache folder, as it lays them out."""
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    home = tmp_path / "hub" / "models--someone--e5-small"
    old, new = "a" * 40, "b" * 40
    shutil.copytree(saved("old"), home / "snapshots" / old)
    shutil.copytree(saved("new", normalize=False, pooling="max"), home / "snapshots" / new)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(new)
    pinned = load_encoder(f"someone/e5-small@{old}")
    assert (pinned.name, pinned.spec) == ("e5-small", f"someone/e5-small@{old}")
    assert pinned.prompts["query"] == "query: "
    assert pinned.revision != load_encoder("someone/e5-small").revision
    assert pinned.revision == load_encoder(pinned.spec).revision


def test_an_unreachable_hub_is_a_clear_error_within_seconds(monkeypatch):
    from huggingface_hub import constants

    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    with pytest.raises(OSError, match="cannot load encoder 'owner/model': it is not"):
        SentenceTransformerEncoder("owner/model")


def forward(model, texts):
    """One padded batch in the order given, straight through the network."""
    with torch.no_grad():
        return model(model.preprocess(texts))["sentence_embedding"].double().numpy()


def change(weight, seed=0, size=1.0):
    """Add a random change to a weight; returns the change."""
    generator = torch.Generator().manual_seed(seed)
    delta = size * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    with torch.no_grad():
        weight.add_(delta)
    return delta.double().numpy()


def freeze_statistics(layer_norm, model, texts):
    """Make a LayerNorm keep the means and deviations that it has for these texts."""
    seen = []
    handle = layer_norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    forward(model, texts)
    handle.remove()
    mean = seen[0].mean(-1, keepdim=True)
    deviation = (seen[0].var(-1, correction=0, keepdim=True) + layer_norm.eps).sqrt()
    layer_norm.forward = lambda x: (x - mean) / deviation * layer_norm.weight + layer_norm.bias


@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken", "mean_sqrt_len_tokens"])
def test_ffn_features_give_the_change_of_the_embedding(tiny, texts, pooling):
    model = tiny(pooling, normalize=False)
    encoder = SentenceTransformerEncoder(model, last_layer="ffn")
    encoded = encoder.encode(texts, "passage")
    assert encoded.features.shape == (len(texts), encoder.feature_dimension) == (len(texts), 24)

    block = model[0].auto_model.encoder.layer[-1].output
    assert encoder.gain.dtype == np.float32
    np.testing.assert_array_equal(encoder.gain, block.LayerNorm.weight.detach().numpy())
    freeze_statistics(block.LayerNorm, model, texts)
    before = forward(model, texts)
    delta = change(block.dense.weight)
    after = forward(model, texts)

    length = np.linalg.norm(before, axis=1, keepdims=True)
    expected = encoder.gain * (encoded.features @ delta.T)
    np.testing.assert_allclose((after - before) / length, expected, rtol=1e-3, atol=1e-4)
    assert np.abs(expected).max() > 0.1  # a change that could be missed would prove nothing


@pytest.mark.parametrize("options", [{}, {"dense": {"out_features": 6}}, {"truncate_dim": 5}])
def test_as_projection_the_features_are_the_embedding(tiny, texts, options):
    model = tiny(**options)
    encoder = SentenceTransformerEncoder(model)
    encoded = encoder.encode(texts, "passage")
    assert encoded.features is encoded.embedding
    assert encoder.feature_dimension == encoder.dimension == len(encoder.gain)
    np.testing.assert_allclose(encoded.embedding, unit(model.encode(texts)), atol=1e-6)


@pytest.mark.parametrize("options", data_of("sentence_transformer.json"))
def test_where_the_formula_would_not_hold_the_projection_is_taken(tiny, options):
    with pytest.warns(UserWarning, match="has no accessible feed-forward layer"):
        encoder = SentenceTransformerEncoder(tiny(**options), last_layer="ffn")
    assert encoder.last_layer == "projection"


def test_the_users_own_calls_of_a_shared_model_are_left_alone(tiny, texts):
    model = tiny()
    encoder = SentenceTransformerEncoder(model, last_layer="ffn")
    widths = set()

    def own_call():
        features = model.preprocess(texts)
        with torch.no_grad():
            widths.add(model(features)["sentence_embedding"].shape[1])

    with beside(own_call):
        for _ in range(10):
            assert encoder.encode(texts, "passage").features.shape == (len(texts), 24)
    assert widths == {16}
    assert not model._forward_hooks
