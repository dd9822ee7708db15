"""Handwritten nests keep every bit in whatever loop order and with whatever tiles, and products
among them become calls of the library."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.ir import dims
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.loops.handle import KernelHandle
from structir.loops.kernel.handwritten import scheduled_nests
from structir.loops.recipes.nests import nests as recipe
from tests.loops.nests import Nest, nests
from tests.loops.running import have_same_bits, parsed, run


def values(kernel: Kernel, sizes: dict[Any, int], seed: int) -> list[np.ndarray]:
    """Returns operands whose sums depend on the order of their terms, and results of zeros."""
    rng, arrays = np.random.default_rng(seed), []
    for param in kernel.params:
        info: Any = param.struct_info
        shape = [dims.evaluate(dim, sizes) for dim in info.dims]
        arrays.append(rng.standard_normal(shape).astype(info.dtype))
    arrays[-1][...] = 0
    return arrays


@given(nests(), st.lists(st.integers(0, 9), min_size=4, max_size=4), st.integers(0, 99))
def test_random_nests_keep_every_bit(nest: Nest, numbers: list[int], seed: int) -> None:
    kernel = parsed(nest.source)
    handle = KernelHandle(kernel, exact=True)
    recipe(handle, least=0)
    symbols = {s for p in kernel.params for d in p.struct_info.dims for s in dims.syms(d)}  # type: ignore[union-attr]
    sizes = dict(zip(sorted(symbols, key=lambda s: s.name), numbers, strict=False))
    arrays = values(kernel, sizes, seed)
    (expected,) = run(kernel, arrays, sizes)
    (result,) = run(handle.node, arrays, sizes)
    assert have_same_bits(result, expected), f"{kernel}\n{handle}"
    assert ("T.ordered_product" in str(handle)) == nest.is_product, f"{kernel}\n{handle}"
    assert structir.structural_equal(parsed(str(handle)), handle.node)
    if seed < 3:
        compiled = arrays[-1].copy()
        structir.compile(IRModule({"f": handle.node}))["f"](*arrays[:-1], compiled)
        assert have_same_bits(compiled, expected), f"{kernel}\n{handle}"
