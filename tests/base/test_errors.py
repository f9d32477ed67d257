"""The errors of this package have one root, and stay what Python's own kinds are."""

import builtins
import importlib
import pickle
import pkgutil
import re

import pytest

import uec_rag
from uec_rag import Retriever, UECError
from uec_rag.base import errors

TREE = re.findall(r"^[├└]── (\w+), also an? (\w+) ", errors.__doc__, re.MULTILINE)


def below(kind):
    return {kind, *(each for child in kind.__subclasses__() for each in below(child))}


@pytest.mark.parametrize(("name", "kind"), TREE)
def test_an_error_of_the_tree_is_also_one_of_pythons_kinds(name, kind):
    error = getattr(errors, name)
    assert issubclass(error, UECError)
    assert issubclass(error, getattr(builtins, kind))


def test_the_tree_names_every_error_of_the_package():
    for module in pkgutil.walk_packages(uec_rag.__path__, "uec_rag."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    ours = {each for each in below(Exception) if each.__module__.startswith("uec_rag.")}
    ours -= below(Warning)
    assert ours == below(UECError)
    public = {each.__name__ for each in ours if UECError in each.__bases__}
    assert public == {name for name, _ in TREE}


def test_the_root_catches_what_a_folder_and_a_reply_raise(tmp_path):
    (tmp_path / "index.db").write_bytes(b"no database")
    with pytest.raises(UECError, match=r"index\.db"):
        Retriever.load(tmp_path)
    with pytest.raises(ValueError, match=r"index\.db"):
        Retriever.load(tmp_path)


def test_an_error_survives_pickling():
    failed = pickle.loads(pickle.dumps(errors.EncoderFailed("down", "e5")))
    assert (str(failed), failed.encoder) == ("down", "e5")
