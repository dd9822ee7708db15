"""What all tests share: which of them `make test` runs, a cache of machine code, and declarations
that do not outlive their test.

`make test-all` runs every test. `make test` leaves out those with the marker `exhaustive`, and most
cases of a parametrised test with the marker `sampled(count)`: a hash of the names of the cases
chooses `count` of them, the same ones in each run, and the others become exhaustive. pytest called
by hand runs every test of the files that it is given.

Machine code stays in `build/test-cache` from one run to the next. The keys of the cache cover the
text of a kernel and the sources that it is compiled with, and for plans all sources of the package:
what another compiler made is not used. Workers share the cache: each entry is written to a file of
its own, which then takes its place in one step. Where other users can write the checkout, a worker
has a temporary cache. `make clean` removes the cache.
"""

import collections
import contextlib
import gc
import hashlib
import importlib.util
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import hypothesis
import pytest

from structir.system.private_files import check_folder

# A time limit per example fails on a busy machine. Equal code gives equal examples: a failure comes
# from the change that is tested. `--hypothesis-profile=default` tries others, and more.
hypothesis.settings.register_profile("structir", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("structir")

# JAX is compared with in hundreds of small programs: compiling them takes longer than running them.
# XLA compiles them three times as fast by its older emitters, and without threads of its own.
XLA_FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
JAXLIB = "0.10.2"  # accepts these flags


def accepted_flags(flags):
    """Returns the flags that jaxlib accepts. An unknown one ends the process, so a child tries."""
    code = "from jaxlib import xla_client; xla_client.make_cpu_client()"
    while flags:
        environment = {**os.environ, "XLA_FLAGS": " ".join(flags)}
        command = [sys.executable, "-c", code]
        tried = subprocess.run(command, env=environment, capture_output=True, text=True)
        if tried.returncode == 0:
            break
        known = [flag for flag in flags if flag not in tried.stderr]
        flags = known if len(known) < len(flags) else []
    return flags


if "XLA_FLAGS" not in os.environ and importlib.util.find_spec("jaxlib"):  # workers inherit it
    flags = XLA_FLAGS if version("jaxlib") == JAXLIB else accepted_flags(XLA_FLAGS)
    os.environ["XLA_FLAGS"] = " ".join(flags)
# The tracebacks of all operations, for JAX's own messages, are a seventh of the time of a lowering.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
os.environ.setdefault("JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS", "0")

CACHE = Path(__file__).parent.parent / "build" / "test-cache"


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    families = collections.defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None:
            families[item.nodeid.partition("[")[0], *mark.args].append(item)
    for (_, count), cases in families.items():
        for item in sorted(cases, key=_order)[count:]:
            item.add_marker("exhaustive")


@pytest.hookimpl(tryfirst=True)
def pytest_collection():
    """Disables garbage collection while tests are collected: almost all objects stay."""
    gc.disable()


def pytest_collection_finish():
    """Leaves what the collection of tests made out of garbage collection, and collects less often.

    A tenth of the time of all tests was garbage collection: a worker keeps millions of objects. An
    eighth of them is garbage, which stays: to find it takes longer than a second.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(1_000_000, 20, 20)


def pytest_unconfigure():
    """Collects all garbage once: pytest does so five times, to find exceptions in finalizers."""
    gc.collect()
    gc.freeze()


def _order(item):
    return hashlib.sha256(item.nodeid.encode()).digest()


@pytest.fixture(scope="session", autouse=True)
def cache_of_tests(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRUCTIR_CACHE", str(cache_folder(CACHE, tmp_path_factory)))
        yield


def cache_folder(folder, tmp_path_factory):
    """Returns the folder, or a temporary one where other users can write it: no cache is there."""
    try:
        check_folder(folder)
    except OSError:
        return tmp_path_factory.mktemp("structir-cache")
    return folder


@pytest.fixture(autouse=True)
def declarations_of_a_test_end_with_it():
    with temporary_declarations():
        yield


@contextlib.contextmanager
def temporary_declarations():
    """Removes the rewrites, passes, recipes and primitives that are declared in this context: a
    wrong rewrite that one test loads must not be among those that another one tries."""
    before = set(_foreign_rewrites())
    added_before = [set(added) for added in _added_entries()]
    yield
    for name in set(_foreign_rewrites()) - before:
        del sys.modules["structir.rewriting.rule"].RULES[name]
    for added, names in zip(_added_entries(), added_before, strict=True):
        for name in set(added) - names:
            del added[name]


def _added_entries():
    """The passes, recipes and primitives that were declared, by name."""
    recipes = getattr(sys.modules.get("structir.loops.recipes"), "RECIPES", None)
    primitives = getattr(sys.modules.get("structir.loops.primitives"), "PRIMITIVES", None)
    passes = getattr(sys.modules.get("structir.passes"), "_ADDED", {})
    return [passes, getattr(recipes, "added", {}), getattr(primitives, "added", {})]


def _foreign_rewrites():
    rules = getattr(sys.modules.get("structir.rewriting.rule"), "RULES", {})
    own = "structir."
    return [name for name, rule in rules.items() if not rule.generator.__module__.startswith(own)]
