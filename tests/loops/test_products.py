"""A product tiled by primitives, with a tile in registers: no checks, and the right results."""

import numpy as np
import pytest

import structir
from structir.ir.module import IRModule
from structir.loops.emit.code import code_of
from tests.loops.running import parsed

SOURCE = """
@I.kernel
def product(
    a: R.Tensor((SIZE, SIZE), "float32"),
    b: R.Tensor((SIZE, SIZE), "float32"),
    c: R.Tensor((SIZE, SIZE), "float32"),
):
    for k in range(STOP):
        for j in range(STOP):
            for i in range(STOP):
                c[i, j] = T.add_to(c[i, j], a[i, k] * b[k, j])
"""


@pytest.mark.parametrize(("size", "tail"), [("24", "exact"), ('"n"', "peel"), ('"n"', "guard")])
def test_a_tiled_product_has_no_checks(size: str, tail: str) -> None:
    kernel = parsed(SOURCE.replace("SIZE", size).replace("STOP", size.strip('"')))
    y = structir.schedule(kernel).kernel().reorder("i", "j", "k").split("j", 8, tail)
    if tail == "peel":
        y.fission("i", 1)
    y.split("i", 4, tail).reorder("i_0", "j_0", "k", "i", "j")
    y.stage("c", "k", space="registers")
    code = code_of(y.node)
    assert not code.sites and "alloca [32 x float]" in code.assembled.text
    run = structir.compile(IRModule({"product": y.node}))["product"]
    for n in [24] if size == "24" else [1, 24, 27]:
        a, b = np.random.default_rng(n).normal(size=(2, n, n)).astype("float32")
        c = np.ones((n, n), "float32")
        run(a, b, c)
        np.testing.assert_allclose(c, a @ b, 1e-4, 1e-5)
