"""What all tests share: a cache of machine code that lives as long as the run."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_run(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    workers = "PYTEST_XDIST_WORKER" in os.environ  # which share the folder above their own
    place = (base.parent if workers else base) / "structir-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRUCTIR_CACHE", str(place))
        yield place
