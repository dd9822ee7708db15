"""What all tests share: a cache of machine code that lives as long as the run, and passes that do
not outlive their test."""

import os
import sys

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_run(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    workers = "PYTEST_XDIST_WORKER" in os.environ  # which share the folder above their own
    place = (base.parent if workers else base) / "structir-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRUCTIR_CACHE", str(place))
        yield place


@pytest.fixture(autouse=True)
def rewrites_of_a_test_end_with_it():
    """A wrong rewrite that one test loads must not be among those that another one tries."""
    before = set(_foreign_rewrites())
    yield
    for name in set(_foreign_rewrites()) - before:
        del sys.modules["structir.rewriting.rule"].RULES[name]


def _foreign_rewrites():
    rules = getattr(sys.modules.get("structir.rewriting.rule"), "RULES", {})
    own = "structir."
    return [name for name, rule in rules.items() if not rule.generator.__module__.startswith(own)]
