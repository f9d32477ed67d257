import json
import shutil
import socket
import warnings

import numpy as np
import pytest

from uec_rag.encoders import SentenceTransformerEncoder, load_encoder


def test_vectors_are_those_of_the_model_whatever_the_batches(tiny, texts):
    model = tiny(normalize=False)
    expected = model.encode(texts, normalize_embeddings=True)
    for batch_size in (1, 2, 32):
        encoder = SentenceTransformerEncoder(model, batch_size=batch_size)
        got = encoder.encode(texts, "query").embedding
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_prompts_of_the_configuration_are_put_before_the_text(tiny):
    model = tiny(prompts={"query": "query: ", "document": "passage: "})
    encoder = SentenceTransformerEncoder(model)
    plain = SentenceTransformerEncoder(tiny(), query_prompt="", passage_prompt="")
    for role, prompt in (("query", "query: "), ("passage", "passage: ")):
        np.testing.assert_allclose(
            encoder.encode(["a cat"], role).embedding,
            plain.encode([f"{prompt}a cat"], "query").embedding,
            atol=1e-6,
        )


def test_prompts_given_by_the_caller_win_and_make_it_impossible_to_rebuild_by_name(saved):
    folder = saved("e5-small-tiny")
    assert SentenceTransformerEncoder(folder).prompts == {
        "query": "query: ",
        "passage": "passage: ",
    }
    encoder = SentenceTransformerEncoder(folder, query_prompt="ask ", passage_prompt="")
    assert encoder.prompts == {"query": "ask ", "passage": ""}
    assert encoder.spec is None


def test_the_revision_says_whether_two_encoders_answer_alike(tiny, saved):
    import torch

    revision = SentenceTransformerEncoder(tiny()).revision
    assert SentenceTransformerEncoder(saved("anywhere")).revision == revision
    assert SentenceTransformerEncoder(tiny(), batch_size=1).revision == revision
    nudged = tiny()
    with torch.no_grad():
        next(nudged.parameters()).view(-1)[7] += 1e-3
    others = [
        SentenceTransformerEncoder(nudged),
        SentenceTransformerEncoder(tiny("cls")),
        SentenceTransformerEncoder(tiny(), query_prompt="query: "),
        SentenceTransformerEncoder(tiny(), last_layer="ffn"),
        SentenceTransformerEncoder(tiny(truncate_dim=8)),
    ]
    assert len({revision, *(other.revision for other in others)}) == 6


def test_using_a_model_does_not_change_its_revision(tiny, texts):
    model = tiny()
    before = SentenceTransformerEncoder(model).revision
    model.encode(texts)
    assert SentenceTransformerEncoder(model).revision == before


def test_half_precision_keeps_revision_and_nearly_the_vectors(saved, texts):
    folder = saved("half")
    full = SentenceTransformerEncoder(folder)
    half = SentenceTransformerEncoder(folder, dtype="bfloat16")
    assert next(half.model.parameters()).dtype.itemsize == 2
    assert half.revision == full.revision
    vectors = half.encode(texts, "passage").embedding
    assert vectors.dtype == np.float32
    similarity = (vectors * full.encode(texts, "passage").embedding).sum(axis=1)
    assert (similarity > 0.99).all()


def test_a_model_in_memory_keeps_its_precision(tiny):
    import torch

    model = tiny().to(torch.float64)
    encoder = SentenceTransformerEncoder(model)
    assert next(encoder.model.parameters()).dtype == torch.float64
    assert encoder.encode(["a cat"], "query").embedding.dtype == np.float32


def test_loading_a_folder_prints_nothing(saved, capfd):
    folder = saved("silent")
    capfd.readouterr()
    with warnings.catch_warnings(action="error"):
        SentenceTransformerEncoder(folder)
    assert capfd.readouterr() == ("", "")


def test_a_model_that_returns_nan_is_refused_when_it_is_loaded(tiny):
    import torch

    model = tiny()
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="returned NaN or infinity"):
        SentenceTransformerEncoder(model, name="broken")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last_layer": "head"}, "last_layer must be 'projection' or 'ffn', got 'head'"),
        ({"dtype": "int8"}, "dtype must be .* got 'int8'"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
    ],
)
def test_settings_are_checked_before_anything_is_loaded(options, message):
    with pytest.raises(ValueError, match=message):
        SentenceTransformerEncoder("owner/not-looked-up", **options)


@pytest.mark.parametrize("given", ["./no-such", "~/no/such", "/no/such/model", "a/b/c"])
def test_a_folder_that_is_not_there_is_a_clear_error(given):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        SentenceTransformerEncoder(given)


def test_a_folder_without_a_model_is_a_clear_error(tmp_path):
    with pytest.raises(OSError, match="holds no model that sentence-transformers can load"):
        SentenceTransformerEncoder(tmp_path)


def test_code_that_comes_with_a_model_is_not_run(saved):
    folder = saved("hostile")
    (folder / "payload.py").write_text(
        f"open({str(folder / 'ran')!r}, 'w')\n"
        "from sentence_transformers.sentence_transformer.modules import Pooling as Own\n"
    )
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "payload.Own"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(OSError, match="Here no model's code is run: if you trust it"):
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
    pinned = load_encoder(f"hf:someone/e5-small@{old}")
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
