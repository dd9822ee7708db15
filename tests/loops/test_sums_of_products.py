"""Sums of products that broadcast: computed as matrix products, equal to the interpreter."""

import numpy as np
import pytest

import structir
from structir.loops.products.contraction import contraction_of
from structir.loops.program.stage import LoopProgram
from structir.loops.rewrite.view_inlining import with_inlined_views

# the parameters, the result, the shapes, and whether it is a matrix product
CASES = {
    "batch": (
        'x: R.Tensor(("b", "n", 1, "k"), "float32"), y: R.Tensor(("b", 1, "m", "k"), "float32")',
        "R.sum(R.multiply(x, y), axis=[-1])",
        [(2, 5, 1, 17), (2, 1, 6, 17)],
        True,
    ),
    "two axes": (
        'x: R.Tensor(("n", 1, "k", "l"), "float64"), y: R.Tensor((1, "m", "k", "l"), "float64")',
        "R.sum(R.multiply(x, y), axis=[2, 3])",
        [(5, 1, 3, 0), (1, 6, 3, 0)],
        True,
    ),
    "mean of a vmap": (
        'x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("m", "k"), "float32")',
        "R.vmap(lambda a, z: R.vmap(lambda b, c: R.mean(R.multiply(b, R.exp(c))), "
        "in_axes=(None, 0))(a, z), in_axes=(0, None))(x, y)",
        [(5, 7), (6, 7)],
        True,
    ),
    "rows": (
        'x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("n", "k"), "float32")',
        "R.sum(R.multiply(x, y), axis=[1])",
        [(5, 7), (5, 7)],
        False,
    ),
    "another use": (
        'x: R.Tensor(("n", 1, "k"), "float32"), y: R.Tensor((1, "m", "k"), "float32")',
        "(R.sum(p, axis=[2]), p)",
        [(5, 1, 7), (1, 6, 7)],
        False,
    ),
    "integers": (
        'x: R.Tensor(("n", 1, "k"), "int32"), y: R.Tensor((1, "m", "k"), "int32")',
        "R.sum(R.multiply(x, y), axis=[2])",
        [(5, 1, 7), (1, 6, 7)],
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_of_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    params, result, shapes, is_product = CASES[name]
    first = "    p = R.multiply(x, y)\n" if "p," in result else ""
    module = structir.parse(f"@R.function\ndef main({params}):\n{first}    return {result}\n")
    products: list[bool] = []

    def recorded(program: LoopProgram, *args: object) -> LoopProgram:
        done = with_inlined_views(program, *args)  # type: ignore[arg-type]
        products.extend(contraction_of(stage) is not None for stage in done.stages)
        return done

    monkeypatch.setattr("structir.loops.kernel.schedule.with_inlined_views", recorded)
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    rng = np.random.default_rng(0)
    dtypes = [param.struct_info.dtype for param in module["main"].params]
    arguments = [(rng.normal(size=s) * 3).astype(d) for s, d in zip(shapes, dtypes, strict=True)]
    compiled = structir.compile(module, num_threads=1)["main"](*arguments)
    expected = structir.interpret(module, "main", *arguments)
    compiled, expected = (v[0] if isinstance(v, tuple) else v for v in (compiled, expected))
    np.testing.assert_allclose(compiled, expected, rtol=1e-4, atol=1e-4)
    assert any(products) == is_product
