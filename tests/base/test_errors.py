import pytest

from uec_rag.base.errors import require


def test_what_is_missing_is_named_at_once():
    require("models", "numpy")
    with pytest.raises(ImportError, match=r"needs no-such and nor-such; .*uec-rag\[models\]"):
        require("models", "no-such", "numpy", "nor-such")
