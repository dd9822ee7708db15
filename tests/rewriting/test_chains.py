"""Chains of matrix products: the order found takes as few steps as the best of all orders."""

import itertools
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir import passes
from structir.ir import Call, IRModule
from structir.passes import PassContext, VerifyIR


def chain(sizes: list[int], order: tuple[int, ...]) -> IRModule:
    """A product of matrices; `order` tells which neighbours are multiplied next."""
    pairs = list(itertools.pairwise(sizes))
    params = ", ".join(f'm{k}: R.Tensor({pair}, "float32")' for k, pair in enumerate(pairs))
    parts, lines = [f"m{k}" for k in range(len(pairs))], []
    for step, place in enumerate(order):
        at = place % (len(parts) - 1)
        lines.append(f"    p{step} = R.matmul({parts[at]}, {parts[at + 1]})")
        parts[at : at + 2] = [f"p{step}"]
    return structir.parse(
        f"@R.function\ndef main({params}):\n" + "\n".join([*lines, f"    return {parts[0]}"])
    )


def steps(module: IRModule) -> int:
    calls = [b.value for b in module["main"].bindings() if isinstance(b.value, Call)]
    shapes = [[arg.struct_info.dims for arg in call.args] for call in calls]
    return sum(left[0] * left[1] * right[1] for left, right in shapes)


def least(sizes: list[int]) -> int:
    @cache
    def part(i: int, j: int) -> int:
        ways = (part(i, k) + part(k, j) + sizes[i] * sizes[k] * sizes[j] for k in range(i + 1, j))
        return min(ways, default=0)

    return part(0, len(sizes) - 1)


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=4, max_size=8),
    order=st.tuples(*[st.integers(0, 7)] * 7),
)
def test_no_order_takes_fewer_steps(sizes: list[int], order: tuple[int, ...]) -> None:
    module = chain(sizes, order[: len(sizes) - 2])
    with PassContext([VerifyIR()]):
        made = passes.ReorderMatmul()(module)
    assert steps(made) == least(sizes)
    values = [np.full(pair, 0.5, "float32") for pair in itertools.pairwise(sizes)]
    expected = structir.interpret(module, "main", *values)
    np.testing.assert_allclose(structir.interpret(made, "main", *values), expected, rtol=1e-4)
    assert passes.ReorderMatmul()(made) is made


def test_of_symbolic_sizes_only_what_is_sure_is_done() -> None:
    shapes = {"a": '("n", {k})', "b": "({k}, {m})", "c": "({m}, {j})"}
    params = ", ".join(f'{name}: R.Tensor({shape}, "float32")' for name, shape in shapes.items())
    text = f"@R.function\ndef main({params}):\n"
    text += "    return R.matmul(R.matmul(a, b), c)\n"
    unsure = structir.parse(text.format(k='"k"', m='"m"', j='"j"'))
    assert passes.ReorderMatmul()(unsure) is unsure
    sure = structir.parse(text.format(k=64, m=64, j=1))
    made = passes.ReorderMatmul()(sure)["main"].bindings()
    assert [str(b.var.struct_info) for b in made[:1]] == ['R.Tensor((64, 1), dtype="float32")']
