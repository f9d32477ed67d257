import os
import tomllib
from pathlib import Path

import pytest

from tests.helpers import python
from uec_rag.base.errors import FEATURES, missing_extra, require

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("extra", ["models", "fit"])
def test_a_torchvision_of_another_torch_is_an_error_that_says_how_to_remove_it(tmp_path, extra):
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('no operator torchvision::nms')")
    code = f"from uec_rag.base.errors import require; require({extra!r}, 'numpy')"
    path = os.pathsep.join(map(str, [ROOT, tmp_path]))
    message = python(code, env=os.environ | {"PYTHONPATH": path}).stderr.splitlines()[-1]
    assert message.startswith("ImportError")
    assert "no operator torchvision::nms" in message
    assert message.endswith("pip uninstall -y torchvision")


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
