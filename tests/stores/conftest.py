import pytest

from tests.stores.kinds import KINDS, close


@pytest.fixture
def store(kind, tmp_path):
    """An empty store of a kind."""
    store = KINDS[kind](tmp_path)
    yield store
    close(store)
