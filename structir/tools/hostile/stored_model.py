"""A small model with weights, whose stored plans are changed by several kinds."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from structir.errors import StructIRError
from structir.interpret.out_of_memory import within_memory
from structir.lazy import lazy_module
from structir.loops.program.kernel_text import MissingCodeError
from structir.runtime.executable import options_text
from structir.runtime.files.cached_plans import CachedPlans
from structir.system import cache as disk
from structir.tools.hostile.private_cache import private_folder

structir = lazy_module("structir")

TEXT = """
@R.function
def main(x: R.Tensor(("n", 6), "float32"), y: R.Tensor(("k", 6), "float32")):
    z = R.nn.softmax(R.matmul(x + y, metadata["w"]))
    return (z, R.strided_slice(z, axes=[0], begin=[0], end=[T.max(1, 3)]))
"""
WEIGHTS = np.random.default_rng(0).standard_normal((6, 4), np.float32)
X = np.random.default_rng(1).standard_normal((5, 6), np.float32)


def model() -> Any:
    """Returns the model."""
    return structir.parse(TEXT, "<text>", constants={"w": WEIGHTS})


@cache
def expected() -> list[Any]:
    """Returns the results of the interpreter."""
    return [structir.interpret(model(), "main", X, y) for y in (X, X[:1])]


def check_results(executable: Any) -> None:
    """Compares the results of an executable with those of the interpreter."""
    for y, results in zip((X, X[:1]), expected(), strict=True):
        for a, b in zip(executable["main"](X, y), results, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@cache
def stored_plans() -> tuple[Any, disk.CacheEntry]:
    """Compiles the model; returns the key and the cache entry of its plans."""
    private_folder()
    structir.compile(model())
    key, store = CachedPlans(model(), options_text(False, False))._key, disk.store()
    entry = store.read(key) if store is not None and key is not None else None
    if entry is None:
        raise StructIRError("the cache has no plans of the model")
    return key, entry


def use(functions: Any) -> bool:
    """Does everything with plans that precedes their kernels; returns whether there are any."""
    for function in functions:
        region = function.region
        shapes = [[d if isinstance(d, int) else 5 for d in b.shape] for b in region.inputs]
        arrays = [np.ones(shape, b.dtype) for shape, b in zip(shapes, region.inputs, strict=True)]
        try:
            with within_memory(function.name):
                region.prepare()
                region.bind(tuple(map(tuple, shapes)), arrays, {}).workspace()
        except (StructIRError, MissingCodeError):
            pass
    return bool(functions)
