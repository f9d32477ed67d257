"""The ensemble as it comes, and what a shop tells its customers."""

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC


@pytest.fixture(scope="session")
def uec():
    return UEC()


@pytest.fixture(scope="session")
def shop(uec):
    """Not to be changed."""
    return index_of(uec, data_of("shop.json")["texts"])
