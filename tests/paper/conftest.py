import pytest

from benchmarks.paper import tiny
from tests.paper.bags import BAGS, Bag
from tests.paper.bert import bert  # noqa: F401


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    tiny.write_tiny(folder)
    return folder


@pytest.fixture
def bags():
    return [Bag(name, noise) for name, noise in BAGS.items()]
