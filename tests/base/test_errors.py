import os
from pathlib import Path

import pytest

from tests.helpers import python
from uec_rag.base.errors import require

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("extra", ["models", "fit"])
def test_a_torchvision_of_another_torch_is_an_error_that_says_how_to_remove_it(tmp_path, extra):
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('no operator torchvision::nms')")
    code = f"from uec_rag.base.errors import require; require({extra!r}, 'numpy')"
    path = os.pathsep.join(map(str, [ROOT, tmp_path]))
    message = python(code, env=os.environ | {"PYTHONPATH": path}).stderr.splitlines()[-1]
    assert message.startswith("ImportError")
    assert "no operator torchvision::nms" in message
    assert message.endswith("pip uninstall -y torchvision")


def test_what_is_missing_is_named_at_once():
    require("models", "numpy")
    with pytest.raises(ImportError, match=r"needs no-such and nor-such; .*uec-rag\[models\]"):
        require("models", "no-such", "numpy", "nor-such")
