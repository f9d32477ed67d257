import os
import re
from functools import reduce
from operator import getitem

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from tests.cli.conftest import make_model
from tests.helpers import LinearHead, assert_close, bag_of_words, by_name, data_of, made_up
from tests.tiny_bert import save_bert
from uec_rag import UEC, FingerprintMismatch, IndexCorrupted
from uec_rag.encoders import sentence_transformer

QUERIES = ["badero fimafi", "golugo", "nepine tamano sufigo"]


def assert_same(one, other):
    assert one.names == other.names
    assert one.fingerprint == other.fingerprint
    assert one.report == other.report
    assert one.fitted.rule == other.fitted.rule
    assert one.fitted.options == other.fitted.options
    for role in ("query", "passage"):
        z, again = one.embed(QUERIES, role), other.embed(QUERIES, role)
        for name in ("mean", "variance", "coefficients"):
            assert_close(getattr(z, name), getattr(again, name), name)


@pytest.fixture
def saved(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.mark.parametrize("structure", ["kron", "diag"])
@pytest.mark.parametrize("options", data_of("options_of_fits.json"), ids=str)
def test_a_fitted_ensemble_comes_back_bit_for_bit(tmp_path, fit_pairs, structure, options):
    encoders = [bag_of_words(12, "a"), bag_of_words(12, "b", seed=1), LinearHead(12)]
    uec = UEC(encoders, structure=structure, **options).fit(fit_pairs[:80])
    uec.save(tmp_path / "saved")
    assert_same(UEC.load(tmp_path / "saved", encoders=by_name(uec)), uec)


def test_one_file_of_safetensors_is_written(saved):
    assert [file.name for file in saved.iterdir()] == ["uec.safetensors"]
    assert {*load_file(saved / "uec.safetensors")} == {
        f"{position}.{name}" for position in range(3) for name in ("covariance", "profile")
    }


def test_an_ensemble_that_is_not_fitted_is_saved_too(encoders, tmp_path):
    uec = UEC(encoders)
    uec.save(tmp_path / "saved")
    loaded = UEC.load(tmp_path / "saved", encoders=by_name(uec))
    assert not loaded.is_fitted
    assert_same(loaded, uec)


@pytest.fixture
def model_folder(tmp_path):
    return make_model(tmp_path / "model", seed=0, width=8)


def test_encoders_with_a_place_on_disk_come_back_by_themselves(model_folder, tmp_path, fit_pairs):
    uec = UEC([str(model_folder)]).fit(fit_pairs)
    uec.save(tmp_path / "saved")
    assert_same(UEC.load(tmp_path / "saved"), uec)


def test_weights_that_changed_on_disk_are_refused(model_folder, tmp_path, fit_pairs):
    UEC([str(model_folder)]).fit(fit_pairs).save(tmp_path / "saved")
    weights = next(model_folder.rglob("*.safetensors"))
    save_file({name: 2 * array for name, array in load_file(weights).items()}, weights)
    with pytest.raises(FingerprintMismatch, match="encoders: 'model' is not the model that was sa"):
        UEC.load(tmp_path / "saved")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"truncate_dim": 4}, "truncate_dim=4 (now None)"),
        ({"prompts": {"query": "Q "}}, "prompts={'query': 'Q ', 'passage': ''} (now "),
        ({"model_kwargs": {"dtype": "float16"}}, "dtype=torch.float16 (now torch.float32)"),
    ],
    ids=lambda option: next(iter(option)) if isinstance(option, dict) else "",
)
def test_options_that_a_name_does_not_tell_are_named(tmp_path, options, said):
    bert = save_bert(tmp_path / "bert", ["a"], hidden_size=8, intermediate_size=8)
    modules = [Transformer(str(bert)), Pooling(8)]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "model"))
    model = SentenceTransformer(str(tmp_path / "model"), device="cpu", **options)
    uec = UEC([model])
    uec.save(tmp_path / "saved")
    with pytest.raises(FingerprintMismatch, match=re.escape(said)) as error:
        UEC.load(tmp_path / "saved")
    assert "pass the model with these options, as in encoders={'model': " in str(error.value)
    assert UEC.load(tmp_path / "saved", encoders=by_name(uec)).names == ["model"]


def test_a_black_box_must_be_given_again(fitted, saved):
    message = "encoders: ['fine', 'coarse', 'head'] cannot be loaded by name"
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        UEC.load(saved)
    assert "UEC.load(path, encoders={'fine': ...})" in str(error.value)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([LinearHead()], TypeError, "expected a mapping of names to encoders"),
        ({"other": bag_of_words(4, "other")}, ValueError, "got ['other']"),
        ({"head": LinearHead(seed=1)}, FingerprintMismatch, "encoders: 'head' is not the model"),
        (
            {"fine": bag_of_words(8, "fine")},
            FingerprintMismatch,
            "makes other vectors than the model that was saved",
        ),
    ],
)
def test_encoders_that_were_not_saved_are_refused(fitted, saved, given, error, message):
    encoders = by_name(fitted) | given if isinstance(given, dict) else given
    with pytest.raises(error, match=re.escape(message)):
        UEC.load(saved, encoders=encoders)


def test_what_is_not_a_saved_ensemble_is_not_loaded(tmp_path):
    with pytest.raises(FileNotFoundError, match="path: no saved UEC ensemble at"):
        UEC.load(tmp_path / "nowhere")


def test_a_damaged_file_is_noticed(fitted, saved):
    file = saved / "uec.safetensors"
    whole = file.read_bytes()
    unknown = whole.replace(b'"F32"', b'"I32"', 1), whole.replace(b'"F32"', b'"F8_E8M0"', 1)
    digit = whole.replace(b'\\"beta\\": 1.0', b'\\"beta\\": 2.0')
    assert digit != whole
    cut = (b"", whole[:-1], whole + b"x", whole[:-1] + b"x", b"\xff" * 99)
    for content in (*cut, digit, *unknown):
        file.write_bytes(content)
        with pytest.raises(IndexCorrupted, match=r"uec\.safetensors' has unexpected content"):
            UEC.load(saved, encoders=by_name(fitted))


def test_a_save_that_is_killed_leaves_the_one_before(fitted, saved, encoders, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    other = UEC(encoders, coefficients="uniform")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            other.save(saved)
    assert_same(UEC.load(saved, encoders=by_name(fitted)), fitted)


@pytest.mark.parametrize(
    ("inside", "name", "value"),
    [
        ((), "encoders", [{"name": "fine"}]),
        ((), "encoders", [{"name": 1, "spec": None, "revision": "", "dimension": 8}]),
        ((), "rule", {"name": "mine"}),
        *((("options",), "beta", value) for value in ("high", -1.0, 1e300)),
        (("report",), "encoders", {}),
        ((), "confidence_model", []),
        (("confidence_model",), "temperature", 10**400),
        (("confidence_model", "relevance"), "location", [np.nan, 0.0]),
        (("report", "encoders", "fine"), "intercept", "high"),
    ],
)
def test_files_that_were_made_up_are_said_to_be_corrupted(
    fitted, saved, tmp_path, inside, name, value
):
    with made_up(saved) as state:
        part = reduce(getitem, inside, state)
        assert name in part
        part[name] = value
    with pytest.raises(IndexCorrupted):
        UEC.load(tmp_path / "made up", encoders=by_name(fitted))


def test_saving_again_replaces_and_takes_the_place_of_no_other_file(saved, encoders):
    other = UEC(encoders, coefficients="uniform")
    other.save(saved)
    assert not UEC.load(saved, encoders=by_name(other)).is_fitted
    with pytest.raises(FileExistsError):
        other.save(saved / "uec.safetensors")


# A saved folder may come from a stranger: what it names is not fetched unasked.


@pytest.fixture
def naming(tmp_path):
    """Make a saved ensemble that names what it is told to."""

    def make(spec):
        UEC([bag_of_words(8, "model")]).save(tmp_path / "saved")
        with made_up(tmp_path / "saved", "naming") as state:
            state["encoders"][0]["spec"] = spec
        return tmp_path / "naming"

    return make


@pytest.fixture
def asked(monkeypatch):
    """Where the hub is asked, and with what; it has no model."""
    calls = []

    class Loader:
        def __init__(self, name, **options):
            calls.append((name, options["revision"], options["local_files_only"]))
            raise OSError("no such model")

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", Loader)
    monkeypatch.setattr(sentence_transformer, "hub_is_reachable", lambda: True)
    return calls


def test_a_model_of_the_hub_is_only_looked_for_on_this_machine(naming, asked):
    with pytest.raises(ValueError, match=r"names 'stranger/model', which is not on this machine"):
        UEC.load(naming("stranger/model"))
    assert asked == []  # a loader looks for it on the hub, whatever it is told


def test_it_is_fetched_for_those_who_say_so(naming, asked):
    with pytest.raises(OSError, match="no such model"):
        UEC.load(naming("stranger/model@abc"), trust=True)
    assert asked == [("stranger/model", "abc", False)]


@pytest.mark.parametrize("trust", [True, False])
def test_a_model_inside_a_saved_folder_is_never_loaded(naming, asked, tmp_path, trust):
    path = naming(str(tmp_path / "naming" / "model"))
    (path / "model").mkdir()
    (path / "model" / "modules.json").write_text("[]")
    with pytest.raises(IndexCorrupted, match="lies inside the saved folder"):
        UEC.load(path, trust=trust)
    (tmp_path / "link").symlink_to(path / "model")
    with pytest.raises(IndexCorrupted, match="lies inside the saved folder"):
        UEC.load(naming(str(tmp_path / "link")), trust=trust)
    assert asked == []
