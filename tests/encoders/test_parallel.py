"""Two real processes on a tiny model."""

import multiprocessing

import numpy as np
import pytest

from uec_rag import UEC
from uec_rag.encoders import load_encoder
from uec_rag.encoders.parallel import ParallelEncoder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny(dense={"out_features": 6}, prompts={"query": "query: "}).save(str(folder))
    return folder


@pytest.fixture(scope="module")
def parallel(folder):
    return load_encoder(folder, device=["cpu", "cpu"])


@pytest.fixture(autouse=True)
def chunk(monkeypatch):
    """Ten texts at a time."""
    monkeypatch.setattr("uec_rag.encoders.parallel._CHUNK", 10)


def texts(count):
    known = ["the", "cat", "dog"]
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(known, rng.integers(1, 20))) for _ in range(count)]


@pytest.mark.parametrize("role", ["query", "passage"])
def test_processes_give_the_vectors_and_features_of_one(folder, parallel, role):
    one = load_encoder(folder)
    assert (parallel.revision, parallel.spec, parallel.name) == (one.revision, one.spec, one.name)
    expected, got = one.encode(texts(55), role), parallel.encode(texts(55), role)
    np.testing.assert_allclose(got.embedding, expected.embedding, atol=1e-6)
    np.testing.assert_allclose(got.features, expected.features, atol=1e-5)


async def test_awaiting_gives_the_same(parallel):
    awaited = await parallel.aencode(texts(30), "passage")
    expected = parallel.encode(texts(30), "passage")
    np.testing.assert_allclose(awaited.embedding, expected.embedding, atol=1e-6)


def test_a_query_starts_no_process(folder):
    encoder = load_encoder(folder, device=["cpu", "cpu"])
    before = len(multiprocessing.active_children())
    assert encoder.encode(texts(3), "query").embedding.shape == (3, 6)
    assert encoder.encode([], "query").features.shape == (0, 16)
    assert len(multiprocessing.active_children()) == before


def test_an_ensemble_takes_several_devices(folder):
    (encoder,) = UEC([folder], device=["cpu", "cpu"]).encoders
    assert isinstance(encoder, ParallelEncoder)
    assert encoder.devices == ("cpu", "cpu")
    assert UEC([folder], device=["cpu"]).fingerprint == UEC([encoder]).fingerprint


@pytest.mark.parametrize("devices", [[], [0, 1]])
def test_devices_that_are_none_are_refused(folder, devices):
    with pytest.raises(ValueError, match="device: expected a name or a list of names"):
        load_encoder(folder, device=devices)


def test_a_backend_that_uses_all_cores_takes_no_several_devices(folder):
    with pytest.raises(ValueError, match="runs on the CPU"):
        load_encoder(folder, device=["cuda:0", "cuda:1"], backend="onnx")


def test_a_process_that_ends_is_an_error(parallel):
    parallel.encode(texts(20), "passage")
    for process in parallel._pool._processes.values():
        process.kill()
    with pytest.raises(RuntimeError, match="ended before its work"):
        parallel.encode(texts(20), "passage")
