"""A saved folder may come from a stranger: what it names is not fetched unasked."""

import pytest

from tests.helpers import bag_of_words, resaved
from uec_rag import UEC, IndexCorrupted
from uec_rag.base.environment import TRUSTED
from uec_rag.base.saved.files import read_json, write_json
from uec_rag.encoders import hub
from uec_rag.ensemble.save import KIND

pytestmark = pytest.mark.filterwarnings("ignore:This UEC is not fitted")


@pytest.fixture
def naming(tmp_path):
    """Make a saved ensemble that names what it is told to."""

    def make(spec):
        UEC([bag_of_words(8, "model")]).save(tmp_path / "saved")
        with resaved(tmp_path / "saved", KIND, "naming") as folder:
            state = read_json(folder / "uec.json")
            state["encoders"][0]["spec"] = spec
            write_json(folder / "uec.json", state)
        return tmp_path / "naming"

    return make


@pytest.fixture
def asked(monkeypatch):
    """Where the hub is asked, and with what; it has no model."""
    calls = []

    def loader(name, **options):
        calls.append((name, options["revision"], options["local_files_only"]))
        raise OSError("no such model")

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", loader)
    monkeypatch.setattr(hub, "_hub_is_reachable", lambda: True)
    return calls


@pytest.mark.parametrize("spec", ["stranger/model", "hf:stranger/model"])
def test_a_model_of_the_hub_is_only_looked_for_on_this_machine(naming, asked, spec):
    with pytest.raises(ValueError, match=r"names 'stranger/model', which is not on this machine"):
        UEC.load(naming(spec))
    assert asked == []  # a loader looks for it on the hub, whatever it is told


def test_it_is_fetched_for_those_who_say_so(naming, asked):
    with pytest.raises(OSError, match="no such model"):
        UEC.load(naming("stranger/model@abc"), trust=True)
    assert asked == [("stranger/model", "abc", False)]


@pytest.mark.parametrize("listed", ["friend/*, stranger/model", "stranger/*"])
def test_it_is_fetched_where_the_user_lists_it(naming, asked, monkeypatch, listed):
    monkeypatch.setenv(TRUSTED, listed)
    with pytest.raises(OSError, match="no such model"):
        UEC.load(naming("stranger/model@abc"))
    assert asked == [("stranger/model", "abc", False)]


def test_a_list_of_others_does_not_help(naming, asked, monkeypatch):
    monkeypatch.setenv(TRUSTED, "friend/*")
    with pytest.raises(ValueError, match="not on this machine"):
        UEC.load(naming("stranger/model"))


def test_what_is_given_is_not_looked_for(naming, asked):
    assert UEC.load(naming("stranger/model"), encoders={"model": bag_of_words(8, "model")})
    assert asked == []


def test_an_embedded_model_is_of_known_content_and_loaded(naming):
    with pytest.raises(ValueError, match="unknown encoder 'pypi:stranger'"):
        UEC.load(naming("pypi:stranger"))


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
