"""Wheels of weights, built out of the files of the models' own publishers."""

import json
import re
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file

from benchmarks import weights
from uec_rag.encoders.packages import PACKAGED, package_folder
from uec_rag.encoders.small_models import BLOCK, arrange_weights

RNG = np.random.default_rng(7)


def numbers(blocks):
    """The numbers that blocks of four bits stand for, as the format says."""
    nibbles = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1)
    return (nibbles.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[:, None]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
def test_four_bits_are_near_the_numbers_and_stay_if_rounded_again(scale):
    matrix = (RNG.standard_normal((6, 2 * BLOCK)) * scale).astype(np.float32)
    matrix[1] = 0
    blocks = weights.quantise(matrix)
    rows = matrix.reshape(-1, BLOCK)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    assert (np.abs(numbers(blocks) - rows) <= largest / 7.9).all()
    assert (weights.quantise(numbers(blocks)) == blocks).all()


def bert(width=64, inner=96, layers=2, words=5):
    """The arrays of a small BERT by the names of the hub, and its configuration."""
    shapes = {"word_embeddings": (words, width), "position_embeddings": (9, width)}
    shapes |= {"token_type_embeddings": (2, width)}
    arrays = {f"embeddings.{name}.weight": shape for name, shape in shapes.items()}
    layer = {
        **{f"attention.self.{name}": (width, width) for name in ("query", "key", "value")},
        "attention.output.dense": (width, width),
        "intermediate.dense": (inner, width),
        "output.dense": (width, inner),
    }
    for number in range(layers):
        for name, shape in layer.items():
            arrays[f"encoder.layer.{number}.{name}.weight"] = shape
            arrays[f"encoder.layer.{number}.{name}.bias"] = shape[:1]
        for name in ("attention.output", "output"):
            for part in ("weight", "bias"):
                arrays[f"encoder.layer.{number}.{name}.LayerNorm.{part}"] = (width,)
    arrays |= {f"embeddings.LayerNorm.{part}": (width,) for part in ("weight", "bias")}
    config = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": 4}
    config |= {"intermediate_size": inner, "max_position_embeddings": 9, "layer_norm_eps": 1e-12}
    made = {key: RNG.standard_normal(shape).astype(np.float32) for key, shape in arrays.items()}
    return made, config


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_a_model_of_the_hub_is_arranged_as_the_graph_expects(tmp_path, prefix):
    arrays, config = bert()
    save_file(
        {f"{prefix}{name}": one for name, one in arrays.items()}, tmp_path / "model.safetensors"
    )
    vocabulary = [["<unk>", 0.0], ["▁a", -3.25]]
    model = {"model": {"type": "Unigram", "unk_id": 0, "vocab": vocabulary}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_text(json.dumps(model))
    file = weights.in_four_bits(tmp_path)
    assert (file.width, file.layers, file.heads, file.inner, file.positions) == (64, 2, 4, 96, 9)
    assert file.pieces == [("<unk>", 0.0), ("▁a", -3.25)]
    arranged = arrange_weights(file)
    assert arranged["1.fo"].shape == (64, 3, 16)
    np.testing.assert_array_equal(
        arranged["0.q.bias"], arrays["encoder.layer.0.attention.self.query.bias"]
    )
    types = arrays["embeddings.token_type_embeddings.weight"]
    positions = arrays["embeddings.position_embeddings.weight"]
    np.testing.assert_allclose(arranged["position"], positions + types[0])


@pytest.fixture
def published(tmp_path):
    """The default's files as its publisher has them."""
    folder, package = tmp_path / "published", weights.PACKAGES["bot-brain"]
    for name, file in package.files.items():
        content = (package_folder(package) / name).read_bytes()
        to = folder / file.published
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content.replace(b"\r\n", b"\n") if file.newline else content)
    (folder / "README.md").write_text("# The model card\n")
    return folder


@pytest.mark.slow
def test_the_wheel_of_the_default_has_the_pinned_files_and_the_licence_and_no_code(
    published, tmp_path
):
    first, second = (
        weights.build("arctic-embed-s", published, tmp_path / name) for name in ("one", "two")
    )
    assert first.read_bytes() == second.read_bytes()
    weights.try_wheel(first, "arctic-embed-s")
    with zipfile.ZipFile(first) as archive:
        told = archive.read(next(one for one in archive.namelist() if one.endswith("/METADATA")))
    assert b"License-Expression: Apache-2.0" in told
    assert b"# The model card" in told


def test_other_files_than_the_pinned_ones_are_refused(published, tmp_path):
    (published / "tokenizer.json").write_text("{}")
    with pytest.raises(SystemExit, match="expected files with the hashes"):
        weights.build("arctic-embed-s", published, tmp_path)


@pytest.mark.parametrize("model", PACKAGED)
def test_a_source_is_pinned_by_its_commit_and_is_where_packages_come_from(model):
    source, package = weights.SOURCES[model], weights.PACKAGES[PACKAGED[model]]
    assert re.fullmatch("[0-9a-f]{40}", source.commit)
    assert package.repository in ("", source.repository)
    assert package.commit in ("", source.commit)
    assert source.licence.split("-")[0] in source.text or "MIT" in source.text
