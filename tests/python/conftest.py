"""Every rank runs the same tests in the same order: `tutti run -np 4 python -m pytest tests/python`."""

import pytest

import tutti


@pytest.fixture(scope="session")
def world():
    communicator = tutti.init(timeout=20)
    yield communicator
    communicator.barrier()


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.nodeid)  # alike on all ranks
