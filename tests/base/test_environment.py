import os
import tomllib
from pathlib import Path

import pytest

from tests.helpers import python
from uec_rag.base.environment import FEATURES, missing_extra, require

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run_python(code, *import_folders):
    """Run code in a fresh interpreter, where nothing has been imported yet."""
    path = os.pathsep.join(map(str, [ROOT, *import_folders]))
    return python(code, env=os.environ | {"PYTHONPATH": path})


@pytest.mark.parametrize("extra", ["models", "fit"])
def test_a_torchvision_of_another_torch_is_an_error_that_says_how_to_remove_it(tmp_path, extra):
    (tmp_path / "torchvision.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    code = f"from uec_rag.base.environment import require; require({extra!r}, 'numpy')"
    message = run_python(code, tmp_path).stderr.splitlines()[-1]
    assert message.startswith("ImportError")
    assert "operator torchvision::nms does not exist" in message
    assert message.endswith("pip uninstall -y torchvision")


@pytest.mark.parametrize("source", ["", "raise ModuleNotFoundError('no torchvision')"])
def test_other_extras_and_a_torchvision_that_loads_are_left_alone(tmp_path, source):
    (tmp_path / "torchvision.py").write_text(source)
    extra = "documents" if source else "models"
    code = f"from uec_rag.base.environment import require; require({extra!r}, 'numpy')"
    assert run_python(code, tmp_path).stderr == ""


def test_every_extra_has_its_sentence():
    assert set(FEATURES) == set(PROJECT["optional-dependencies"]) - {"all", "dev", "mutation"}


@pytest.mark.parametrize("extra", FEATURES)
def test_a_missing_extra_is_told_with_the_command_that_brings_it(extra):
    text = missing_extra("some-package", extra)
    assert text.startswith(FEATURES[extra])
    assert text.endswith(f'needs some-package; install it with: pip install "uec-rag[{extra}]"')


def test_what_is_missing_is_named_at_once():
    require("models", "numpy")
    with pytest.raises(ImportError, match=r"needs no-such and nor-such; .*uec-rag\[models\]"):
        require("models", "no-such", "numpy", "nor-such")
